"""The layers of a decoder: their places, their arguments, and the inputs of their matrices."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from .answers import Failure
from .texts import loss_of


class Call:
    """The arguments of a layer, except for the states that it takes from the layer before."""

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
    """Returns the name of the longest list of modules of one class, and the list. Lists within others, such as those of
    experts, do not count."""
    lists = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList)}
    lists = [(name, module) for name, module in lists.items() if len({type(member) for member in module}) == 1
             and not any(name.startswith(outer + ".") for outer in lists)]
    if not lists:
        raise Failure(f"{type(model).__name__} has no list of layers of one class")
    return max(lists, key=lambda named: len(named[1]))


def is_matrix(module: torch.nn.Module) -> bool:
    """Returns whether a module is a linear layer, or Conv1D, which GPT-2 has in its place, transposed."""
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"


def oriented(module: torch.nn.Module, weights: torch.Tensor) -> torch.Tensor:
    """Returns weights as outputs x inputs from the order that the module stores, or the reverse."""
    return weights if isinstance(module, torch.nn.Linear) else weights.t()


class Recording:
    """A forward pass of the whole model over all texts, and the arguments of its layers."""

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


def inputs_of(matrix: torch.nn.Module, call: Call, layer: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """Returns the inputs of a matrix of the layer, tokens x inputs."""
    caught = [torch.empty(0, oriented(matrix, matrix.weight).shape[1], device=states.device)]
    hook = matrix.register_forward_pre_hook(lambda _, args: caught.append(args[0].reshape(-1, args[0].shape[-1])))
    call.run(layer, states)
    hook.remove()
    return torch.cat(caught)


def groups_of(layer: torch.nn.Module, call: Call, states: torch.Tensor) -> List[List[str]]:
    """Returns groups of names of matrices that share an input, in the order of computation. Matrices that are not
    called are in none."""
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
