"""Messages to the user."""

from __future__ import annotations

import sys


class Failure(Exception):
    """A failure that is reported in one line."""


def progress(text: str = "") -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
