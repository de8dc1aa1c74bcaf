"""Reads and writes folders of safetensors files."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any, Callable, Dict, Iterator, List, Tuple

import safetensors
import safetensors.torch
import torch

from .answers import Failure, progress


def files_of(model: pathlib.Path) -> List[pathlib.Path]:
    found = sorted(model.glob("*.safetensors"))
    if not found:
        raise Failure(f"{model} has no safetensors files")
    return found


def tensors_of(model: pathlib.Path) -> Iterator[Tuple[str, List[int], str]]:
    """Yields names, shapes and types, from the headers."""
    for path in files_of(model):
        with open(path, "rb") as file:
            for name, entry in json.loads(file.read(int.from_bytes(file.read(8), "little"))).items():
                if name != "__metadata__":
                    yield name, entry["shape"], entry["dtype"]


def stored_names(model: torch.nn.Module, modules: Dict[str, torch.nn.Module], folder: pathlib.Path) -> Dict[str, str]:
    """Returns the checkpoint's names of the weights of modules. Checkpoints of a model without head lack its prefix."""
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
    """Copies a checkpoint, with some of its tensors replaced. The copy appears in `out` once it is complete."""
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
