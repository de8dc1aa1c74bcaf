"""Codes of a matrix by the moments of its inputs, and their steps."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Dict, List, Optional, Tuple

import torch

from .answers import Failure, progress

MOST = 127  # the largest code
COLUMNS = 64  # of a block within which errors are fed back one by one
SAMPLED = 1 << 20  # most weights of a matrix by which steps are searched for


class Factor:
    """The factored moments of an input, for all matrices with this input. H + d = R R^T, R upper triangular.

    d is the share `damping` of the mean of H's diagonal.
    """

    def __init__(self, second: torch.Tensor, cross: torch.Tensor, correction: float, damping: float):
        if not (second.isfinite().all() and cross.isfinite().all()):
            raise Failure("NaN or infinity in its inputs")
        added = damping * (second.diagonal().mean().item() or 1.0)
        damped = second + added * torch.eye(len(second), dtype=second.dtype, device=second.device)
        reversed_factor, column = torch.linalg.cholesky_ex(damped.flip(0, 1))
        if column.item() != 0:
            raise Failure(f"the moments of its inputs are indefinite, at column {len(second) - column.item()}")
        upper = reversed_factor.flip(0, 1)
        self.feedback = (upper / upper.diagonal()).float()  # R_jk / R_kk
        self.correction = None
        if correction != 0:
            solved = torch.cholesky_solve((cross - second).t().flip(0), reversed_factor).flip(0)
            self.correction = correction * solved.t().float()  # a (C - H) (H + d)^-1

    def codes(self, weights: torch.Tensor, scale: float) -> torch.Tensor:
        """Returns Int8 codes, outputs x inputs. The columns behind a column make up for its error."""
        errors = weights if self.correction is None else weights + weights @ self.correction
        errors = errors.clone()  # weights, until their column is rounded
        codes = torch.empty_like(errors, dtype=torch.int8)
        for first in range(0, errors.shape[1], COLUMNS):
            last = min(first + COLUMNS, errors.shape[1])
            target = errors[:, first:last] + errors[:, :first] @ self.feedback[:first, first:last]
            for at in range(last - first):
                column = first + at
                code = (target[:, at] / scale).round().clamp(-MOST, MOST)
                codes[:, column] = code.to(torch.int8)
                errors[:, column] -= code * scale
                target[:, at + 1:] += errors[:, column, None] * self.feedback[column, column + 1:last]
        return codes


def entropy_of(codes: torch.Tensor) -> float:
    """Returns bits per element."""
    counts = torch.bincount(codes.flatten().long() + MOST).double()
    shares = counts[counts > 0] / codes.numel()
    return -(shares * shares.log2()).sum().item()


def scales_for(matrices: Dict[str, torch.Tensor], factors: Dict[str, float],
               bits: float) -> Tuple[Dict[str, float], float]:
    """Returns steps of factor * rms * 2^x, rounded to BF16, and 2^x, with the x at which rounded weights have `bits`
    bits of entropy."""
    samples, extents = {}, {}
    for name, weights in matrices.items():
        progress(f"reading {name}")
        if not weights.isfinite().all():
            raise Failure(f"NaN or infinity in {name}")
        flat = weights.flatten()
        samples[name] = flat[::-(-flat.numel() // SAMPLED)].float()
        extents[name] = (flat.double().square().mean().sqrt().item(), flat.abs().max().item())

    def at(x: float) -> Dict[str, float]:
        found = {}
        for name, (rms, most) in extents.items():
            scale = max(factors[name] * rms * 2.0 ** x, most / MOST, 2.0 ** -100)
            found[name] = torch.tensor(scale).bfloat16().item()
        return found

    def rate(scales: Dict[str, float]) -> float:
        coded = sum(weights.numel() * entropy_of((samples[name] / scales[name]).round().clamp(-MOST, MOST))
                    for name, weights in matrices.items())
        return coded / sum(weights.numel() for weights in matrices.values())

    low, high = -12.0, 6.0
    reached = rate(at(low))
    if bits > reached:
        raise Failure(f"no grid of 8 bits leads to {bits} bits per weight, but at most to {reached:.3f}")
    for _ in range(20):
        progress(f"searching for steps: {low:.4f} to {high:.4f}")
        middle = (low + high) / 2
        low, high = (middle, high) if rate(at(middle)) > bits else (low, middle)
    progress()
    return at(high), 2.0 ** high


def step_factors(names: List[str], path: Optional[pathlib.Path]) -> Dict[str, float]:
    """Returns (sensitivity / geometric mean)^(-3/8) of the tensors named in the file, 1 for others."""
    if path is None:
        return dict.fromkeys(names, 1.0)
    try:
        given = json.loads(path.read_text())
        logs = {name: math.log(number) for name, number in given.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise Failure(f"{path}: no positive sensitivities of tensors ({error})") from error
    if unknown := sorted(set(logs) - set(names)):
        raise Failure(f"{path}: the model has no matrix called {unknown[0]} ({len(unknown)} of {len(logs)} unknown)")
    mean = sum(logs.values()) / max(1, len(logs))
    return {name: math.exp(-3 / 8 * (logs.get(name, mean) - mean)) for name in names}
