"""Quantises a model layer by layer, from its folder to others."""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from typing import Dict, List, Optional, Tuple

import torch
import transformers

from .answers import Failure, progress
from .checkpoint import files_of, quantization_config, stored_names, tensors_of, write_checkpoint
from .damping import damping_at
from .error_feedback import MOST, Factor, entropy_of, scales_for, step_factors
from .layers import Call, Recording, groups_of, inputs_of, is_matrix, layers_of, oriented
from .texts import BATCH, loss_of, own_texts


class Calibration:
    """Quantises the layers of a model in place, and keeps codes and scales by the names of modules."""

    def __init__(self, recording: Recording, scales: Dict[str, float], damping: float, types: Dict[str, torch.dtype],
                 given: argparse.Namespace):
        self.given, self.scales, self.types, self.recording = given, scales, types, recording
        self.damping = damping
        self.states = [(states, states) for states in recording.states]  # of the original and the quantised model
        self.codes: Dict[str, torch.Tensor] = {}

    def quantise_layer(self, number: int, path: str, layer: torch.nn.Module) -> None:
        """`path` is the name of the layer in the model."""
        device, calls, norm = self.given.device, self.recording.calls[number], self.recording.norms[number]
        layer.to(device)
        original = copy.deepcopy(layer)
        first = self.states[0][0].to(device)
        if abs(first.double().norm().item() - norm) > 1e-3 * norm:
            raise Failure(f"{path} takes other states than those that the layer before it returns")
        groups = groups_of(original, calls[0], first)
        called = {name for group in groups for name in group}
        for name, module in layer.named_modules():
            if is_matrix(module) and name not in called:
                print(f"warning: {path}.{name} is not called, and rounded to nearest", file=sys.stderr)
                self._replace(f"{path}.{name}", module, None)
        for at, group in enumerate(groups):
            progress(f"{path}: input {at + 1} of {len(groups)}")
            try:
                factor = self._factor_of(group[0], original, layer, calls)
            except Failure as failure:
                raise Failure(f"{path}.{group[0]}: {failure}") from failure
            for name in group:
                self._replace(f"{path}.{name}", layer.get_submodule(name), factor)
        self.states = [(call.run(original, states.to(device)).cpu(), call.run(layer, quantised.to(device)).cpu())
                       for call, (states, quantised) in zip(calls, self.states)]
        layer.to("cpu")

    def _factor_of(self, name: str, original: torch.nn.Module, layer: torch.nn.Module, calls: List[Call]) -> Factor:
        rows, second, cross = 0, 0, 0
        for call, states in zip(calls, self.states):
            plain, seen = (inputs_of(side.get_submodule(name), call, side, of_side.to(self.given.device))
                           for side, of_side in zip((original, layer), states))
            rows += len(seen)
            moments = (seen.t() @ seen).double()
            second = second + moments
            # Experts may get other tokens than in the original model, which then does not tell what to make up for.
            aligned = len(plain) == len(seen) == states[0].shape[:-1].numel()
            cross = cross + ((plain.t() @ seen).double() if aligned else moments)
        if rows == 0 or (rows < len(second) and not self.given.few_tokens):
            raise Failure(f"{rows} tokens for its {len(second)} columns, each of which needs 1 (--few-tokens)")
        return Factor(second / rows, cross / rows, self.given.correction, self.damping)

    def _replace(self, name: str, matrix: torch.nn.Module, factor: Optional[Factor]) -> None:
        weights, scale = oriented(matrix, matrix.weight.data), self.scales[name]
        if factor is None:
            codes = (weights / scale).round().clamp(-MOST, MOST).to(torch.int8)
        else:
            codes = factor.codes(weights, scale)
        codes = oriented(matrix, codes).contiguous()
        matrix.weight.data = (codes.float() * scale).to(self.types[name]).float()
        self.codes[name] = codes.cpu()


def quantised_layers(path: str, layers: torch.nn.ModuleList, recording: Recording, scales: Dict[str, float],
                     step: float, types: Dict[str, torch.dtype],
                     given: argparse.Namespace) -> Tuple[Dict[str, torch.Tensor], float]:
    """Quantises in place, with moments damped for `step`. Returns the codes, and their entropy in bits per weight."""
    work = Calibration(recording, scales, damping_at(step), types, given)
    for number, layer in enumerate(layers):
        work.quantise_layer(number, f"{path}.{number}", layer)
    progress()
    coded = sum(codes.numel() * entropy_of(codes) for codes in work.codes.values())
    return work.codes, coded / sum(map(torch.numel, work.codes.values()))


def calibrate(given: argparse.Namespace) -> None:
    start = time.monotonic()
    for folder in filter(None, (given.output, given.dequantized)):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Failure(f"{folder} exists and is not empty")
    files_of(given.model)
    config = json.loads((given.model / "config.json").read_text())
    if "quantization_config" in config:
        raise Failure(f"{given.model} is quantised already")
    try:
        torch.zeros(1, device=given.device)
    except (RuntimeError, AssertionError) as error:
        raise Failure(f"device '{given.device}': {str(error).splitlines()[0]}") from error
    torch.manual_seed(given.seed)
    torch.set_grad_enabled(False)
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(given.model).float().eval()
    except Exception as error:  # of many kinds, and not documented
        raise Failure(f"{given.model}: transformers cannot load it: {str(error).strip().splitlines()[0]}") from error

    prefix, layers = layers_of(model)
    modules = {f"{prefix}.{name}": module for name, module in layers.named_modules() if is_matrix(module)}
    if not modules:
        raise Failure(f"the layers of {type(model).__name__} have no linear modules")
    stacks = {f"{prefix}.{name}": stack.numel() for name, stack in layers.named_parameters()
              if stack.dim() > 2 and stack.shape[-2] > 1}
    if stacks:
        print(f"warning: {sum(stacks.values())} weights in stacks of matrices stay as they are, such as "
              f"{next(iter(stacks))}", file=sys.stderr)
    names = stored_names(model, modules, given.model)
    factors = step_factors(list(names.values()), given.sensitivity)
    given.window = min(given.window, getattr(model.config, "max_position_embeddings", None) or given.window)
    widest = max(oriented(module, module.weight).shape[1] for module in modules.values())
    if given.tokens < widest and not given.few_tokens:
        raise Failure(f"{given.tokens} tokens for matrices of {widest} columns, each of which needs 1 (--few-tokens)")
    if given.tokens < 20 * widest:
        print(f"warning: {given.tokens / widest:.1f} tokens for each of {widest} columns, better 20", file=sys.stderr)
    original = {name: module.weight.data for name, module in modules.items()}
    factors = {name: factors[names[name]] for name in modules}
    scales, step = scales_for(original, factors, given.bits)

    model.to(given.device)
    batches = list(own_texts(model, given, config).split(BATCH))
    tokens = sum(map(torch.numel, batches))
    recording = Recording(model, layers, batches)
    model.to("cpu")
    stored = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    types = {name: stored.get(dtype, torch.float32) for name, _, dtype in tensors_of(given.model)}
    types = {name: types[names[name]] for name in modules}
    codes, entropy = quantised_layers(prefix, layers, recording, scales, step, types, given)
    if abs(entropy - given.bits) > 0.02:  # feedback changes the rate
        for name, module in modules.items():
            module.weight.data = original[name]
        scales, step = scales_for(original, factors, 2 * given.bits - entropy)
        codes, entropy = quantised_layers(prefix, layers, recording, scales, step, types, given)
    after = loss_of(model.to(given.device), batches)

    ignored = [name for name, module in model.named_modules()
               if isinstance(module, torch.nn.Linear) and name not in modules]
    coded = {names[name]: (of_matrix, scales[name]) for name, of_matrix in codes.items()}
    write_checkpoint(given.model, given.output, {**config, "quantization_config": quantization_config(ignored)},
                     {name: lambda _, name=name, codes=codes, scale=scale: {
                         name: codes, name + "_scale": torch.tensor([scale]).bfloat16()}
                      for name, (codes, scale) in coded.items()})
    if given.dequantized is not None:
        write_checkpoint(given.model, given.dequantized, config,
                         {name: lambda tensor, name=name, codes=codes, scale=scale: {
                             name: (codes.float() * scale).to(tensor.dtype)} for name, (codes, scale) in coded.items()})
    weights, seconds = sum(map(torch.numel, codes.values())), time.monotonic() - start
    print(f"{given.output}: {weights} weights at {entropy:.3f} bits of entropy; loss on {tokens} own tokens "
          f"{recording.loss:.4f} nats, quantised {after:.4f}; {seconds:.0f} s")
