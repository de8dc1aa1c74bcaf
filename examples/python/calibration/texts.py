"""Texts that a model writes itself, and its loss on them."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

import torch

from .answers import Failure, progress

BATCH = 16  # texts at a time


def sampled(logits: torch.Tensor) -> torch.Tensor:
    """Samples a token for each row, from rows x tokens x vocabulary, at temperature 1."""
    last = logits[:, -1].float()
    if not last.isfinite().all():
        raise Failure("NaN or infinity in the logits of a text")
    return torch.multinomial(last.softmax(-1), 1)


def own_texts(model: torch.nn.Module, given: argparse.Namespace, config: Dict[str, Any]) -> torch.Tensor:
    """Returns tokens, texts x window, sampled at temperature 1. A text that ends gives way to another."""
    # Only from the file: transformers has defaults that need not be tokens of this model.
    begin, ends = config.get("bos_token_id"), config.get("eos_token_id")
    ends = torch.tensor([] if ends is None else ends if isinstance(ends, list) else [ends], device=given.device)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    texts: List[torch.Tensor] = []
    count = -(-given.tokens // given.window)
    for first in range(0, count, BATCH):
        rows = min(BATCH, count - first)

        def beginning() -> torch.Tensor:
            if begin is not None:
                return torch.full((rows, 1), begin, device=given.device)
            token = torch.randint(vocabulary, (rows, 1), device=given.device)
            for _ in range(4):  # away from tokens that hardly any text has
                token = sampled(model(input_ids=token, use_cache=False).logits)
            return token

        text, cache = beginning(), None
        for position in range(1, given.window):
            progress(f"writing texts: {first * given.window + rows * position} of {count * given.window} tokens")
            answer = model(input_ids=text if cache is None else text[:, -1:], past_key_values=cache, use_cache=True)
            cache = getattr(answer, "past_key_values", None)
            token = sampled(answer.logits)
            over = (text[:, -1:, None] == ends).any(-1)
            text = torch.cat((text, torch.where(over, beginning(), token) if over.any() else token), 1)
        texts.append(text)
    progress()
    return torch.cat(texts)


def loss_of(model: torch.nn.Module, batches: List[torch.Tensor]) -> float:
    """Returns nats per token."""
    total = 0.0
    for number, batch in enumerate(batches):
        progress(f"measuring: batch {number + 1} of {len(batches)}")
        logits = model(input_ids=batch, use_cache=False).logits[:, :-1].float()
        total += torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:]).item() * len(batch)
    progress()
    return total / sum(map(len, batches))
