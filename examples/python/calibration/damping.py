"""The damping of moments. Needs no PyTorch."""

from __future__ import annotations

LEAST = 0.01


def damping_at(step: float) -> float:
    """Returns the share of the mean of E[x^2], by the step in roots of the mean square of a matrix's weights.

    A weight that makes up for others grows, by s, and then takes about s^2 / (2 ln 2 variance) bits more. At the rate
    at which steps trade bits for error, these are worth the error that s^2 (step^2 / 12) / variance of E[x^2] would
    be. Like ecq::step_by_rms::damping, this returns twice that, which was better for moments of few tokens.
    """
    return max(LEAST, min(step * step / 6, 1.0))
