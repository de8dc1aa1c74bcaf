#!/usr/bin/env python3
"""Quantises a causal language model with error feedback, by texts that the model writes itself.

    examples/python/calibrate.py MODEL -o OUT --bits 3
    ecq compress OUT -o CODED --lossless

MODEL is a folder with config.json and safetensors files of any decoder that transformers loads. OUT is the same
checkpoint with 8-bit codes and one scale a matrix (compressed-tensors, "int-quantized"), whose codes have about --bits
bits of entropy a weight: the second command stores them at about that size. Only matrices of the layers are quantised.

Needs PyTorch, transformers and safetensors, and nothing of this project. Tried with PyTorch 1.13.1 and transformers
4.40.2 on the CPU, Llama and GPT-2. Memory: the model in FP32, one layer twice, the states of all tokens twice. A device
other than the CPU holds the whole model while texts are written, and then one layer at a time.

Layers are taken in the order of computation, and in each the matrices that share an input. Let x be such an input in the
original model, x_q in the one quantised so far, H = E[x_q x_q^T], C = E[x x_q^T], and d 1 % of the mean of E[x_q^2].
A matrix W first makes up for a share a of what was quantised before it (--correction),

    W' = W + a (W (C + d) (H + d)^-1 - W),

and is then rounded column after column, where each column makes up for the errors of those before it (GPTQ, LDLQ). The
grid is evenly spaced, as entropy coding gives frequent codes few bits. Exit status: 1 for a failure, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import pathlib
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

if TYPE_CHECKING:
    import safetensors.torch
    import torch
    import transformers

BATCH = 16  # texts at a time
DAMPING = 0.01  # of the mean of E[x^2]
MOST = 127  # the largest code
COLUMNS = 64  # of a block within which errors are fed back one by one
SAMPLED = 1 << 20  # weights of a matrix, at most, by which steps are searched for


class Failure(Exception):
    """What a user is told in one line."""


def progress(text: str = "") -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


# Texts


def own_texts(model: torch.nn.Module, given: argparse.Namespace, config: Dict[str, Any]) -> torch.Tensor:
    """Tokens, texts x window, sampled at temperature 1. A text that ends gives way to another."""
    # Only what the file says: transformers has defaults that need not be tokens of this model.
    begin, ends = config.get("bos_token_id"), config.get("eos_token_id")
    ends = torch.tensor([] if ends is None else ends if isinstance(ends, list) else [ends], device=given.device)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    texts: List[torch.Tensor] = []
    count = -(-given.tokens // given.window)
    for first in range(0, count, BATCH):
        rows = min(BATCH, count - first)

        def beginning() -> torch.Tensor:
            at_random = torch.randint(vocabulary, (rows, 1), device=given.device)
            return at_random if begin is None else torch.full_like(at_random, begin)

        text, cache = beginning(), None
        for position in range(1, given.window):
            progress(f"writing texts: {first * given.window + rows * position} of {count * given.window} tokens")
            answer = model(input_ids=text if cache is None else text[:, -1:], past_key_values=cache, use_cache=True)
            cache = getattr(answer, "past_key_values", None)
            logits = answer.logits[:, -1].float()
            if not logits.isfinite().all():
                raise Failure(f"NaN or infinity in the logits of token {position} of a text")
            token = torch.multinomial(logits.softmax(-1), 1)
            over = (text[:, -1:, None] == ends).any(-1)
            text = torch.cat((text, torch.where(over, beginning(), token)), 1)
        texts.append(text)
    progress()
    return torch.cat(texts)


# Layers


class Call:
    """The arguments of a layer, but for the states that it takes from the layer before."""

    def __init__(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]):
        self.args, self.kwargs = args, kwargs
        self.by_name = None if args else "hidden_states" if "hidden_states" in kwargs else next(iter(kwargs))

    def take_states(self) -> torch.Tensor:
        if self.by_name is not None:
            return self.kwargs.pop(self.by_name)
        states, self.args = self.args[0], self.args[1:]
        return states

    def run(self, layer: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
        if self.by_name is not None:
            answer = layer(*self.args, **{**self.kwargs, self.by_name: states})
        else:
            answer = layer(states, *self.args, **self.kwargs)
        return answer[0] if isinstance(answer, (tuple, list)) else answer


def layers_of(model: torch.nn.Module) -> Tuple[str, torch.nn.ModuleList]:
    """The longest list of modules of one class, and its name."""
    lists = [(name, module) for name, module in model.named_modules()
             if isinstance(module, torch.nn.ModuleList) and len({type(member) for member in module}) == 1]
    if not lists:
        raise Failure(f"{type(model).__name__} has no list of layers of one class")
    return max(lists, key=lambda named: len(named[1]))


def is_matrix(module: torch.nn.Module) -> bool:
    """Conv1D is what GPT-2 has for linear layers, transposed."""
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"


def oriented(module: torch.nn.Module, weights: torch.Tensor) -> torch.Tensor:
    """Outputs x inputs from what the module stores, and back."""
    return weights if isinstance(module, torch.nn.Linear) else weights.t()


class Recording:
    """A forward pass of the whole model over all texts, and what its layers were called with."""

    def __init__(self, model: torch.nn.Module, layers: torch.nn.ModuleList, batches: List[torch.Tensor]):
        self.calls: List[List[Call]] = [[] for _ in layers]  # of layers, of batches
        self.states: List[torch.Tensor] = []  # the first layer's, of batches
        self.norms: List[float] = []  # of the states that the layers take, in the first batch
        for layer, calls in zip(layers, self.calls):
            layer.forward = self._noting(layer, layer.forward, calls)  # hooks see no named arguments in PyTorch 1
        try:
            self.loss = loss_of(model, batches)
        finally:
            for layer in layers:
                del layer.forward

    def _noting(self, layer: torch.nn.Module, forward: Callable[..., Any], calls: List[Call]) -> Callable[..., Any]:
        def note(*args: Any, **kwargs: Any) -> Any:
            call = Call(args, dict(kwargs))
            states = call.take_states()
            if calls is self.calls[0]:
                self.states.append(states.cpu())
            if not calls:
                self.norms.append(states.double().norm().item())
            calls.append(call)
            return forward(*args, **kwargs)
        return note


def loss_of(model: torch.nn.Module, batches: List[torch.Tensor]) -> float:
    """Nats a token."""
    total = 0.0
    for number, batch in enumerate(batches):
        progress(f"measuring: batch {number + 1} of {len(batches)}")
        logits = model(input_ids=batch, use_cache=False).logits[:, :-1].float()
        total += torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:]).item() * len(batch)
    progress()
    return total / sum(map(len, batches))


class Inputs:
    """Catches what a matrix is multiplied with, token after token."""

    def __init__(self, matrix: torch.nn.Module):
        self.caught: List[torch.Tensor] = []
        self.hook = matrix.register_forward_pre_hook(lambda _, args: self.caught.append(args[0].detach()))

    def take(self) -> Optional[torch.Tensor]:
        caught = [rows.reshape(-1, rows.shape[-1]).float() for rows in self.caught]
        self.caught.clear()
        return torch.cat(caught) if caught else None


def groups_of(layer: torch.nn.Module, call: Call, states: torch.Tensor) -> List[List[str]]:
    """The names of matrices that share an input, in the order of computation. Those not called are in none."""
    inputs: List[torch.Tensor] = []  # kept, so that no other takes its place in memory
    groups: List[List[str]] = []

    def note(name: str, rows: torch.Tensor) -> None:
        for known, group in zip(inputs, groups):
            if known is rows or (known.data_ptr(), known.shape) == (rows.data_ptr(), rows.shape):
                if name not in group:
                    group.append(name)
                return
        if not any(name in group for group in groups):
            inputs.append(rows)
            groups.append([name])

    hooks = [module.register_forward_pre_hook(lambda _, args, name=name: note(name, args[0]))
             for name, module in layer.named_modules() if is_matrix(module)]
    call.run(layer, states)
    for hook in hooks:
        hook.remove()
    return groups


# Quantisation


class Factor:
    """What the moments of an input say, for all matrices with this input. H + d = R R^T, R upper triangular."""

    def __init__(self, second: torch.Tensor, cross: torch.Tensor, correction: float):
        if not (second.isfinite().all() and cross.isfinite().all()):
            raise Failure("NaN or infinity in its inputs")
        damping = DAMPING * (second.diagonal().mean().item() or 1.0)
        damped = second + damping * torch.eye(len(second), dtype=second.dtype, device=second.device)
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
        """Int8, outputs x inputs. An error of one column is made up for by those behind it."""
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
    """Bits an element."""
    counts = torch.bincount(codes.flatten().long() + MOST).double()
    shares = counts[counts > 0] / codes.numel()
    return -(shares * shares.log2()).sum().item()


def scales_for(matrices: Dict[str, torch.Tensor], factors: Dict[str, float], bits: float) -> Dict[str, float]:
    """Steps of factor * rms * 2^x, with the x at which rounded weights have that entropy, as BF16 stores them."""
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
        raise Failure(f"no grid of 8 bits leads to {bits} bits a weight, but at most to {reached:.3f}")
    for _ in range(20):
        progress(f"searching for steps: {low:.4f} to {high:.4f}")
        middle = (low + high) / 2
        low, high = (middle, high) if rate(at(middle)) > bits else (low, middle)
    progress()
    return at(high)


def step_factors(names: List[str], path: Optional[pathlib.Path]) -> Dict[str, float]:
    """(sensitivity / geometric mean)^(-3/8) of the tensors named in the file, 1 for others."""
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


class Calibration:
    """Quantises the layers of a model in place, and keeps codes and scales by the names of modules."""

    def __init__(self, recording: Recording, scales: Dict[str, float], types: Dict[str, torch.dtype],
                 given: argparse.Namespace):
        self.given, self.scales, self.types, self.calls = given, scales, types, recording.calls
        self.norms = recording.norms
        self.states = [(states, states) for states in recording.states]  # of the original and the quantised model
        self.codes: Dict[str, torch.Tensor] = {}

    def quantise_layer(self, number: int, path: str, layer: torch.nn.Module) -> None:
        """`path` is the name of the layer in the model."""
        device, calls = self.given.device, self.calls[number]
        layer.to(device)
        original = copy.deepcopy(layer)
        first = self.states[0][0].to(device)
        if abs(first.double().norm().item() - self.norms[number]) > 1e-3 * self.norms[number]:
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
        calls.clear()

    def _factor_of(self, name: str, original: torch.nn.Module, layer: torch.nn.Module, calls: List[Call]) -> Factor:
        sides = [(model, Inputs(model.get_submodule(name))) for model in (original, layer)]
        rows, second, cross = 0, 0, 0
        for call, states in zip(calls, self.states):
            for (model, _), of_side in zip(sides, states):
                call.run(model, of_side.to(self.given.device))
            plain, seen = (inputs.take() for _, inputs in sides)
            if seen is None:
                continue
            rows += len(seen)
            moments = (seen.t() @ seen).double()
            second = second + moments
            # Experts may get other tokens than in the original model, which says nothing about what to make up for.
            cross = cross + ((plain.t() @ seen).double() if plain is not None and len(plain) == len(seen) else moments)
        for _, inputs in sides:
            inputs.hook.remove()
        if rows == 0 or (rows < second.shape[0] and not self.given.few_tokens):
            raise Failure(f"{rows} tokens for its {layer.get_submodule(name).weight.shape} weights (--few-tokens)")
        return Factor(second / rows, cross / rows, self.given.correction)

    def _replace(self, name: str, matrix: torch.nn.Module, factor: Optional[Factor]) -> None:
        weights, scale = oriented(matrix, matrix.weight.data), self.scales[name]
        if factor is None:
            codes = (weights / scale).round().clamp(-MOST, MOST).to(torch.int8)
        else:
            codes = factor.codes(weights, scale)
        codes = oriented(matrix, codes).contiguous()
        matrix.weight.data = (codes.float() * scale).to(self.types[name]).float()
        self.codes[name] = codes.cpu()


# Files


def files_of(model: pathlib.Path) -> List[pathlib.Path]:
    found = sorted(model.glob("*.safetensors"))
    if not found:
        raise Failure(f"{model} has no safetensors files")
    return found


def tensors_of(model: pathlib.Path) -> Iterator[Tuple[str, List[int], str]]:
    """Names, shapes and types, from the headers."""
    for path in files_of(model):
        with open(path, "rb") as file:
            for name, entry in json.loads(file.read(int.from_bytes(file.read(8), "little"))).items():
                if name != "__metadata__":
                    yield name, entry["shape"], entry["dtype"]


def stored_names(model: torch.nn.Module, modules: Dict[str, torch.nn.Module], folder: pathlib.Path) -> Dict[str, str]:
    """What the checkpoint calls the weights of modules: checkpoints of a model without head lack its prefix."""
    shapes = {name: shape for name, shape, _ in tensors_of(folder)}
    prefix, names = getattr(model, "base_model_prefix", "") + ".", {}
    for name, module in modules.items():
        candidates = [name + ".weight", prefix + name + ".weight", name[len(prefix):] + ".weight"]
        names[name] = next((it for it in candidates if shapes.get(it) == list(module.weight.shape)), "")
        if not names[name]:
            raise Failure(f"{folder}: no tensor of shape {list(module.weight.shape)} is called {candidates[0]}")
    return names


def write_checkpoint(source: pathlib.Path, out: pathlib.Path, config: Dict[str, Any],
                     replaced: Dict[str, Callable[[torch.Tensor], Dict[str, torch.Tensor]]]) -> None:
    """Copies a checkpoint, with other tensors in the place of some. Appears in `out` once it is complete."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.parent / f".{out.name}.{os.getpid()}"
    partial.mkdir()
    try:
        places, total = {}, 0
        for path in files_of(source):
            progress(f"writing {out / path.name}")
            tensors = {}
            with safetensors.safe_open(path, "pt") as file:
                metadata = file.metadata()
                for name in file.keys():
                    tensor = file.get_tensor(name)
                    tensors.update(replaced[name](tensor) if name in replaced else {name: tensor})
            safetensors.torch.save_file(tensors, partial / path.name, metadata)
            places.update(dict.fromkeys(tensors, path.name))
            total += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        for path in source.iterdir():
            if path.is_file() and path.suffix not in (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack"):
                shutil.copyfile(path, partial / path.name)
        for path in partial.glob("*.safetensors.index.json"):
            index = json.loads(path.read_text())
            index["weight_map"] = dict(sorted(places.items()))
            index.setdefault("metadata", {})["total_size"] = total
            path.write_text(json.dumps(index, indent=2) + "\n")
        (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        progress()


def quantization_config(ignored: List[str]) -> Dict[str, Any]:
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "tensor", "dynamic": False}
    return {"quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ignored}


# The whole


def calibrate(given: argparse.Namespace) -> None:
    start = time.monotonic()
    for folder in filter(None, (given.output, given.dequantized)):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Failure(f"{folder} exists and is not empty")
    files_of(given.model)
    config = json.loads((given.model / "config.json").read_text())
    if "quantization_config" in config:
        raise Failure(f"{given.model} is quantised already")
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
    names = stored_names(model, modules, given.model)
    factors = step_factors(list(names.values()), given.sensitivity)
    given.window = min(given.window, getattr(model.config, "max_position_embeddings", None) or given.window)
    widest = max(oriented(module, module.weight).shape[1] for module in modules.values())
    if given.tokens < widest and not given.few_tokens:
        raise Failure(f"{given.tokens} tokens for matrices of {widest} columns, each of which needs 1 (--few-tokens)")
    if given.tokens < 20 * widest:
        print(f"warning: {given.tokens / widest:.1f} tokens for each of {widest} columns, better 20", file=sys.stderr)
    scales = scales_for({name: module.weight.data for name, module in modules.items()},
                        {name: factors[names[name]] for name in modules}, given.bits)

    model.to(given.device)
    batches = list(own_texts(model, given, config).split(BATCH))
    recording = Recording(model, layers, batches)
    model.to("cpu")
    stored = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    types = {name: stored.get(dtype, torch.float32) for name, _, dtype in tensors_of(given.model)}
    work = Calibration(recording, scales, {name: types[names[name]] for name in modules}, given)
    for number, layer in enumerate(layers):
        work.quantise_layer(number, f"{prefix}.{number}", layer)
    progress()
    after = loss_of(model.to(given.device), batches)

    weights = sum(codes.numel() for codes in work.codes.values())
    entropy = sum(codes.numel() * entropy_of(codes) for codes in work.codes.values()) / weights
    ignored = [name for name, module in model.named_modules()
               if isinstance(module, torch.nn.Linear) and name not in modules]
    coded = {names[name]: (codes, scales[name]) for name, codes in work.codes.items()}
    write_checkpoint(given.model, given.output, {**config, "quantization_config": quantization_config(ignored)},
                     {name: lambda _, name=name, codes=codes, scale=scale: {
                         name: codes, name + "_scale": torch.tensor([scale]).bfloat16()}
                      for name, (codes, scale) in coded.items()})
    if given.dequantized is not None:
        write_checkpoint(given.model, given.dequantized, config,
                         {name: lambda tensor, name=name, codes=codes, scale=scale: {
                             name: (codes.float() * scale).to(tensor.dtype)} for name, (codes, scale) in coded.items()})
    print(f"{given.output}: {weights} weights at {entropy:.3f} bits of entropy; loss on {sum(map(torch.numel, batches))} "
          f"own tokens {recording.loss:.4f} nats, quantised {after:.4f}; {time.monotonic() - start:.0f} s")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL", type=pathlib.Path, help="a folder with config.json and safetensors")
    parser.add_argument("-o", "--output", metavar="OUT", type=pathlib.Path, required=True, help="the folder to write")
    parser.add_argument("--bits", type=float, default=3.0, help="entropy of plainly rounded weights (default: 3)")
    parser.add_argument("--tokens", type=int, default=16384, help="that the model writes (default: 16384)")
    parser.add_argument("--window", type=int, default=256, help="tokens of a text (default: 256)")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default: 0)")
    parser.add_argument("--correction", type=float, default=0.75, help="share of what lies upstream (default: 0.75)")
    parser.add_argument("--sensitivity", metavar="FILE", type=pathlib.Path, help="JSON of ecq-llama calibrate")
    parser.add_argument("--dequantized", metavar="FOLDER", type=pathlib.Path, help="also write code * scale")
    parser.add_argument("--few-tokens", action="store_true", help="allow fewer tokens than a matrix has columns")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    given = parser.parse_args()
    if not 0 < given.bits < 8 or given.tokens < 1 or given.window < 2 or not 0 <= given.correction <= 1:
        parser.error("--bits between 0 and 8, --tokens from 1, --window from 2, --correction from 0 to 1")
    return given


def main() -> int:
    given = parsed()
    global safetensors, torch, transformers  # after the arguments, as --help needs none of them
    try:
        import safetensors.torch
        import torch
        import transformers
        calibrate(given)
    except (Failure, ImportError, OSError) as failure:
        progress()
        print(f"calibrate.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
