"""Gradient checks of PyTorch code: autograd's gradients are compared with differences of the code's own values.

    npf.gradcheck(npf.from_torch(MyFunction), x, w)         a torch.autograd.Function: your own backward
    npf.gradcheck(npf.from_torch(module), x)                an nn.Module: inputs and parameters
    npf.gradcheck(npf.from_torch(lambda x: x.sin()), x)     a function of tensors

The check's numerical witnesses use values computed under ``torch.no_grad``, so no backward influences them; the
gradients to check come from ``torch.autograd.grad`` of the same call. Both start from the same random state, so dropout
in train mode drops the same elements every time. The complex step is used where PyTorch runs the code on complex128 and
the code draws no random numbers (for complex inputs PyTorch may draw others); elsewhere central differences decide.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError
from npformer.proof.checkable import Checkable, Value, is_float, outputs_of
from npformer.typing import HostArray

SEED = 0  # seed of PyTorch's generator before each call


def from_torch(target: Any, *, device: Any = None) -> Checkable:
    """Wrap a torch.autograd.Function (the class), an nn.Module or a function of tensors for ``npf.gradcheck``.

    A module is copied in its present state, train or eval mode included, and the copy is converted to float64. The
    module, its gradients, its buffers and PyTorch's random state do not change. All parameters that require a
    gradient are checked. Float inputs become tensors of their own precision (float64, in a check). An output that is
    not of floating-point numbers is left out, and an output that needs no gradient has the gradient 0. A function that
    calls a float32 module does not accept float64 inputs: pass the module itself.

    device: the tensors' device; by default that of the module's first parameter, else the CPU. Not yet run on a GPU.
    Raises ConfigError if target is anything else.
    """
    import torch

    if isinstance(target, torch.nn.Module):
        return _of_module(target, device)
    if isinstance(target, type) and issubclass(target, torch.autograd.Function):
        function: Any = target
        has_context = function.setup_context is torch.autograd.Function.setup_context
        return _of_function(function.apply, target.__name__, device, function.forward, int(has_context))
    if not callable(target) or isinstance(target, type):
        raise ConfigError(
            "from_torch: expected a subclass of torch.autograd.Function, an nn.Module or a function of tensors, "
            f"got {_kind(target)}"
        )
    return _of_function(target, getattr(target, "__name__", type(target).__name__), device, target, 0)


def _of_function(call: Callable[..., Any], name: str, device: Any, like: Any, skip: int) -> Checkable:
    run = _Run(lambda values, given, options: call(*given, **options), {}, device or "cpu")
    return Checkable(name, run.forward, run.backward, like=like, skip=skip)


def _of_module(module: Any, device: Any) -> Checkable:
    import torch

    first = next(module.parameters(), None)
    device = device or ("cpu" if first is None else first.device)
    twin = copy.deepcopy(module).to(device=device, dtype=torch.float64)
    learnt = {name: Value(_host(p)) for name, p in twin.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in twin.named_parameters() if not p.requires_grad}
    fixed |= {name: b.detach() for name, b in twin.named_buffers()}

    def call(values: Mapping[str, Any], given: Sequence[Any], options: Mapping[str, Any]) -> Any:
        dtype = next((x.dtype for x in (*values.values(), *given) if is_float(x)), torch.float64)
        fresh = {  # a call's writes into them do not reach the next call
            name: x.to(dtype, copy=True) if x.is_floating_point() else x.clone() for name, x in fixed.items()
        }
        return torch.func.functional_call(twin, {**values, **fresh}, tuple(given), dict(options))

    run = _Run(call, learnt, device)
    return Checkable(type(module).__name__, run.forward, run.backward, learnt, like=module.forward)


class _Call(NamedTuple):
    """What backward needs to call the target again, this time with gradients."""

    inputs: list[Any]  # tensors and all other arguments
    gaps: list[bool]  # whether an input lay in memory with gaps between its elements
    values: dict[str, Any]
    options: dict[str, Any]


class _Run:
    """A function of tensors as a forward and a backward of NumPy arrays."""

    def __init__(self, call: Callable[..., Any], parameters: Mapping[str, Value], device: Any) -> None:
        self._call, self._parameters, self._device = call, parameters, device

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, _Call]:
        import torch

        kinds = [np.iscomplexobj(x) for x in (*inputs, *(p.data for p in self._parameters.values()))]
        is_complex = any(kinds)
        given = [self._tensor(x, is_complex) for x in inputs]
        values = {name: self._tensor(p.data, is_complex) for name, p in self._parameters.items()}
        cache = _Call(given, [_has_gaps(x) for x in inputs], values, options)
        with torch.no_grad():
            found = self._complex(cache) if is_complex else self._evaluate(cache, given, values)[0]
        return outputs_of([_host(t) for t in _tensors(found)], torch.is_tensor(found), is_complex), cache

    def backward(self, dy: Any, cache: _Call) -> tuple[HostArray, ...]:
        """Gradients of the float inputs, in their order; gradients of parameters are added to their arrays."""
        import torch

        leaves = [x.clone().requires_grad_() for x in cache.inputs if is_float(x)]
        values = {name: x.clone().requires_grad_() for name, x in cache.values.items()}
        rest = iter(leaves)
        given = [next(rest) if is_float(x) else x for x in cache.inputs]
        with torch.enable_grad():
            y = _tensors(self._evaluate(cache, given, values)[0])
            kept = [part for part in y if part.is_floating_point()]
            upstream = zip(kept, dy if isinstance(dy, tuple) else (dy,), strict=True)
            pairs = [(part, self._upstream(d).to(part.dtype)) for part, d in upstream]
            wanted = [*leaves, *values.values()]
            found = self._pulled([pair for pair in pairs if pair[0].requires_grad], wanted)
        for parameter, gradient in zip(self._parameters.values(), found[len(leaves) :], strict=True):
            parameter.add(gradient)
        return tuple(found[: len(leaves)])

    def _pulled(self, pairs: list[tuple[Any, Any]], wanted: list[Any]) -> list[HostArray]:
        """The gradient of each wanted tensor; 0 where autograd finds no path to it."""
        import torch

        found: Sequence[Any] = [None] * len(wanted)
        if pairs and wanted:
            outputs, upstream = zip(*pairs, strict=True)
            with _same_draws(self._device):
                found = torch.autograd.grad(outputs, wanted, upstream, allow_unused=True)
        return [np.zeros(x.shape) if g is None else _host(g) for x, g in zip(wanted, found, strict=True)]

    def _evaluate(self, cache: _Call, given: Sequence[Any], values: Mapping[str, Any]) -> tuple[Any, bool]:
        """(the target's result, whether it drew random numbers), with the inputs' memory layouts kept."""
        laid_out = [_laid_out(x, gaps) for x, gaps in zip(given, cache.gaps, strict=True)]
        with _same_draws(self._device) as drew:
            return self._call(values, laid_out, cache.options), drew()

    def _complex(self, cache: _Call) -> Any:
        """The target's result for complex inputs. Raises TypeError if it refuses them or draws random numbers."""
        try:
            found, drew = self._evaluate(cache, cache.inputs, cache.values)
        except Exception as error:  # PyTorch refuses in several ways; the same call with real numbers ran
            raise TypeError(f"forward: expected PyTorch to run it on complex numbers, got: {error}") from error
        if drew:
            raise TypeError("forward: expected no random numbers, got some; for complex inputs PyTorch may draw others")
        return found

    def _upstream(self, dy: HostArray) -> Any:
        """dy as a tensor with dy's memory layout: with gaps, or broadcast (stride 0)."""
        dy = np.asarray(dy)
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in dy.strides)
        tensor = self._tensor(np.asarray(dy[once]), False)  # of shape (), an index gives a scalar
        return tensor.expand(dy.shape) if 0 in dy.strides else _laid_out(tensor, _has_gaps(dy))

    def _tensor(self, x: Any, is_complex: bool) -> Any:
        """x on the device as a tensor that shares no memory with it, if it is an array; x itself if it is not."""
        import torch

        if isinstance(x, np.ndarray):
            widened = x.astype(np.complex128) if is_complex and is_float(x) else np.array(x)
            return torch.from_numpy(widened).to(self._device)
        return x.detach().to(self._device) if torch.is_tensor(x) else x


def _tensors(found: Any) -> list[Any]:
    """The tensors in a target's result, also within tuples, lists and dicts. Raises ConfigError if there is none."""
    import torch

    def parts(x: Any) -> Iterator[Any]:
        if torch.is_tensor(x):
            yield x
        elif isinstance(x, Mapping | tuple | list):
            for part in x.values() if isinstance(x, Mapping) else x:
                yield from parts(part)

    tensors = list(parts(found))
    if not tensors:
        raise ConfigError(f"from_torch: expected a forward that returns tensors, got {_kind(found)}")
    return tensors


@contextmanager
def _same_draws(device: Any) -> Iterator[Callable[[], bool]]:
    """Within this context PyTorch's generator starts at SEED; its state is restored. Yields whether it was used."""
    import torch

    device = torch.device(device)
    on_gpu = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=on_gpu):
        generators = [torch.random.default_generator, *(torch.cuda.default_generators[i] for i in on_gpu)]
        for generator in generators:
            generator.manual_seed(SEED)
        before = [generator.get_state() for generator in generators]
        yield lambda: any(
            not torch.equal(generator.get_state(), state) for generator, state in zip(generators, before, strict=True)
        )


def _has_gaps(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim > 0 and not x.flags.c_contiguous


def _laid_out(x: Any, gaps: bool) -> Any:
    """A writable copy of a float tensor, with gaps between its elements if requested; anything else unchanged."""
    if not is_float(x):
        return x
    return x.repeat_interleave(2, dim=-1)[..., ::2] if gaps else x.clone()


def _host(x: Any) -> HostArray:
    return np.array(x.detach().resolve_conj().resolve_neg().cpu().numpy())


def _kind(x: Any) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else f"an object of type {type(x).__name__}"
