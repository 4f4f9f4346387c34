"""Gradient checks of PyTorch code: autograd's gradients are compared with differences of the code's own values.

    npf.gradcheck(npf.from_torch(MyFunction), x, w)         a torch.autograd.Function: your own backward
    npf.gradcheck(npf.from_torch(module), x)                an nn.Module: inputs and parameters
    npf.gradcheck(npf.from_torch(lambda x: x.sin()), x)     a function of tensors

The check's numerical witnesses use values computed under ``torch.no_grad``, so no backward influences them; the
gradients to check come from ``torch.autograd.grad`` of the same call. Every forward starts from the same random state,
so dropout in train mode drops the same elements every time; every backward from another one. What the code writes into
its inputs or dy unknown to autograd is copied to the arrays that came in. The complex step is used where PyTorch runs
the code on complex128 and the code draws no random numbers (for complex inputs PyTorch may draw others); elsewhere
central differences decide.

Code that asks for float32, as for buffers of statistics or by ``x.float()``, gets float64 in a check; Triton's, too.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from itertools import compress
from typing import Any

import numpy as np

from npformer.check.adapters.triton_kernels import interpreted
from npformer.check.checkable import Checkable, Value, as_numpy, described, is_inexact, outputs_of, within
from npformer.check.inputs import as_tuple
from npformer.errors import ConfigError
from npformer.typing import HostArray, Named, Values

SEED = 0  # seed of PyTorch's generator before each forward; its k-th backward begins at SEED + k


def from_torch(target: Any, *, device: Any = None) -> Checkable:
    """Wrap a torch.autograd.Function (the class), an nn.Module or a function of tensors for ``npf.gradcheck``.

    A module is copied in its present state, train or eval mode included, and the copy is converted to float64. The
    module, its gradients, its buffers and PyTorch's random state do not change. All parameters that require a
    gradient are checked. Float inputs become tensors of their own precision (float64, in a check). An output, also in a
    list, a dict or a dataclass, is left out if it is not of floating-point numbers, or if others need a gradient
    and it does not. A function that calls a float32 module does not accept float64 inputs: pass the module itself.

    device: by default that of the first input tensor, else of the module's first parameter. Not yet run on a GPU.
    Raises ConfigError if target is anything else.
    """
    return _converted(target, device)


def _converted(target: Any, device: Any, inputs: Sequence[Any] = (), is_low: bool = False) -> Checkable:
    """The target on the device of the first tensor among the inputs. is_low: bfloat16 ones stay so."""
    import torch

    on = device or next((x.device for x in inputs if torch.is_tensor(x)), None)
    learnt: dict[str, Value] = {}
    like, skip, owner, call = target, 0, None, lambda values, arguments, options: target(*arguments, **options)
    if isinstance(target, torch.nn.Module):
        on, like = on or next((p.device for p in target.parameters()), None), target.forward
        call, learnt = _of_module(target, on or "cpu")
    elif isinstance(target, type) and issubclass(target, torch.autograd.Function):
        function: Any = target
        owner, like = _owner_of(function), function.forward
        call = lambda values, arguments, options: owner.apply(*arguments, **options)  # noqa: E731
        skip = int(function.setup_context is torch.autograd.Function.setup_context)
    elif not callable(target) or isinstance(target, type):
        raise ConfigError(
            "from_torch: expected a subclass of torch.autograd.Function, an nn.Module or a function of tensors, "
            f"got {described(target)}"
        )
    run = TorchRun(
        call, learnt, on or "cpu", [is_low and getattr(x, "dtype", None) == torch.bfloat16 for x in within(inputs)]
    )
    name = getattr(target, "__name__", type(target).__name__)
    for_tensors = partial(_converted, target, device)
    made = Checkable(
        name, run.forward, run.backward, learnt, like, skip, owner, for_tensors=for_tensors, library="torch"
    )
    run.silent = made.silent
    return made


def _owner_of(function: Any) -> Any:
    """An object with a Function's backward as its method; ``apply`` uses another method that is put in its place."""
    rule = inspect.unwrap(function.backward)

    class Owner:
        forward, backward, copies = function.forward, rule, False

        def apply(self, *arguments: Any, **options: Any) -> Any:
            methods = {"backward": staticmethod(rule_in_float64(Owner.backward, self.copies))}
            kind: Any = type(function.__name__, (function,), methods)
            return kind.apply(*arguments, **options)

    return Owner()


def _of_module(module: Any, device: Any) -> tuple[Callable[..., Any], dict[str, Value]]:
    """A call of a copy of the module in float64, and the parameters that are checked."""
    import torch

    twin = copy.deepcopy(module).to(device=device).double()  # complex buffers stay complex
    learnt = {name: Value(as_numpy(p)) for name, p in twin.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in twin.named_parameters() if not p.requires_grad}
    fixed |= {name: b.detach() for name, b in twin.named_buffers()}

    def call(values: Named, inputs: Sequence[Any], options: Named) -> Any:
        dtype = next((x.dtype for x in (*values.values(), *inputs) if is_inexact(x)), torch.float64)
        fresh = {  # a call's writes into them do not reach the next call
            name: x.to(dtype, copy=True) if x.is_floating_point() else x.clone() for name, x in fixed.items()
        }
        return torch.func.functional_call(twin, {**values, **fresh}, tuple(inputs), dict(options))

    return call, learnt


#: A call with gradients, kept for a second backward: float inputs and parameters; outputs; and of each input its array,
#: the tensor that the code got, and what this should hold.
_Graph = tuple[list[Any], list[Any], list[tuple[HostArray, Any, Any]]]


@dataclass
class TorchCall:
    """What backward needs to call the target again, this time with gradients."""

    arrays: list[Any]  # the inputs as they came, and what is in lists and dicts among them
    inputs: list[Any]  # as tensors, and all other arguments
    structure: Any  # of the inputs
    values: Values
    options: Values
    graph: _Graph | None = None
    passes: int = 0


@dataclass
class TorchRun:
    """A function of tensors as a forward and a backward of NumPy arrays."""

    _call: Callable[..., Any]
    _parameters: Mapping[str, Value]
    _device: Any
    _low: list[bool]  # of each input, whether it is bfloat16
    silent: set[int] = field(default_factory=set)

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, TorchCall]:
        import torch
        from torch.utils._pytree import tree_flatten

        leaves, structure = tree_flatten(inputs)
        is_complex = any(map(np.iscomplexobj, (*leaves, *(p.data for p in self._parameters.values()))))
        tensors = [self._tensor(x, is_complex, i < len(self._low) and self._low[i]) for i, x in enumerate(leaves)]
        values = {name: self._tensor(p.data, is_complex) for name, p in self._parameters.items()}
        cache = TorchCall(leaves, tensors, structure, values, options)
        with torch.no_grad():
            returned = self._complex(cache) if is_complex else self._evaluate(cache, cache.inputs, values)[0]
        return outputs_of([as_numpy(t) for t in _tensors(returned)], torch.is_tensor(returned), is_complex), cache

    def backward(self, dy: Any, cache: TorchCall) -> tuple[HostArray | None, ...]:
        """Gradients of the float inputs, in their order, or None; gradients of parameters are added to their arrays."""
        import torch
        from torch.utils._pytree import tree_unflatten

        leaves, outputs, watched = cache.graph = cache.graph or self._graph(cache)
        cache.passes += 1
        dys = as_tuple(dy)
        sent = [self._upstream(d).to(part.dtype) for d, part in zip(dys, outputs, strict=True)]
        watched = [*watched, *((d, r, r.clone()) for d, r in zip(dys, sent, strict=True))]
        if any(y.requires_grad for y in outputs):
            self.silent |= {i for i, y in enumerate(outputs) if y.is_floating_point() and not y.requires_grad}
        pairs = [(y, r) for y, r in zip(outputs, sent, strict=True) if y.requires_grad]
        gradients: Sequence[Any] = [None] * len(leaves)
        if pairs and leaves:
            with _draws_from(SEED + cache.passes, self._device):
                ys, rs = zip(*pairs, strict=True)
                gradients = torch.autograd.grad(ys, leaves, rs, retain_graph=True, allow_unused=True)
        for array, tensor, before in watched:
            if not torch.equal(tensor, before) and array.flags.writeable:
                np.copyto(array, as_numpy(tensor))
        count = len(leaves) - len(cache.values)
        for parameter, gradient in zip(self._parameters.values(), gradients[count:], strict=True):
            parameter.add(np.zeros(parameter.data.shape) if gradient is None else as_numpy(gradient))
        rest = map(as_numpy, gradients[:count])
        every = [next(rest) if is_inexact(x) else None for x in cache.inputs]
        wanted = [any(map(is_inexact, within(x))) for x in tree_unflatten(cache.inputs, cache.structure)]
        return tuple(compress(tree_unflatten(every, cache.structure), wanted))

    def _graph(self, cache: TorchCall) -> _Graph:
        """The call with gradients. An input that is written to in place as autograd knows is what it then is."""
        import torch

        inputs = [x.clone().requires_grad_() if is_inexact(x) else x for x in cache.inputs]
        values = {name: x.clone().requires_grad_() for name, x in cache.values.items()}
        with torch.enable_grad():
            laid_out = list(map(_laid_out, inputs, cache.arrays))
            nodes = [_root(x).grad_fn if is_inexact(x) else None for x in laid_out]
            y = _tensors(self._evaluate(cache, laid_out, values)[0])
        watched = [
            (array, x.detach(), before if _root(x).grad_fn is node else x.detach().clone())
            for array, x, before, node in zip(cache.arrays, laid_out, cache.inputs, nodes, strict=True)
            if isinstance(array, np.ndarray) and node is not None
        ]
        leaves = [*filter(is_inexact, inputs), *values.values()]
        return leaves, y, watched

    def _evaluate(self, cache: TorchCall, inputs: Sequence[Any], values: Named) -> tuple[Any, bool]:
        """(the target's result, whether it drew random numbers). It may write into inputs, not into the cache."""
        from torch.utils._pytree import tree_unflatten

        inputs = list(map(_laid_out, inputs, cache.arrays)) if inputs is cache.inputs else inputs
        with _draws_from(SEED, self._device) as drew, in_float64((*inputs, *values.values())):
            return self._call(values, tree_unflatten(inputs, cache.structure), cache.options), drew()

    def _complex(self, cache: TorchCall) -> Any:
        """The target's result for complex inputs. Raises TypeError if it refuses them or draws random numbers."""
        try:
            returned, drew = self._evaluate(cache, cache.inputs, cache.values)
        except Exception as error:  # PyTorch refuses in several ways; the same call with real numbers ran
            raise TypeError(f"forward: expected PyTorch to run it on complex numbers, got: {error}") from error
        if drew:
            raise TypeError("forward: expected no random numbers, got some; for complex inputs PyTorch may draw others")
        return returned

    def _upstream(self, dy: HostArray) -> Any:
        """dy as a tensor with dy's memory layout: with gaps, or broadcast (stride 0)."""
        dy = np.asarray(dy)
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in dy.strides)
        tensor = self._tensor(np.asarray(dy[once]), False)  # of shape (), an index gives a scalar
        return tensor.expand(dy.shape) if 0 in dy.strides else _laid_out(tensor, dy)

    def _tensor(self, x: Any, is_complex: bool, is_bfloat16: bool = False) -> Any:
        """x on the device as a tensor that shares no memory with it, if it is an array; x itself if it is not."""
        import torch

        if isinstance(x, np.ndarray | np.inexact):
            widened = np.array(x, np.complex128 if is_complex and is_inexact(x) else None)
            dtype = torch.bfloat16 if is_bfloat16 and x.dtype == np.float32 else None
            return torch.from_numpy(widened).to(self._device, dtype)
        return x.detach().to(self._device) if torch.is_tensor(x) else x


def _tensors(returned: Any) -> list[Any]:
    """The tensors in a target's result, also within tuples, dicts and dataclasses. Raises ConfigError if none."""
    import torch

    def parts(x: Any) -> Iterator[Any]:
        if torch.is_tensor(x):
            yield x
        elif isinstance(x, Mapping | tuple | list):
            for part in x.values() if isinstance(x, Mapping) else x:
                yield from parts(part)
        elif is_dataclass(x):
            yield from parts(vars(x))

    tensors = list(parts(returned))
    if not tensors:
        raise ConfigError(f"from_torch: expected a forward that returns tensors, got {described(returned)}")
    return tensors


@contextmanager
def _draws_from(seed: int, device: Any) -> Iterator[Callable[[], bool]]:
    """Within this context PyTorch's generator starts at seed; its state is restored. Yields whether it was used."""
    import torch

    device = torch.device(device)
    on_gpu = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=on_gpu):
        generators = [torch.random.default_generator, *(torch.cuda.default_generators[i] for i in on_gpu)]
        for generator in generators:
            generator.manual_seed(seed)
        before = [generator.get_state() for generator in generators]
        yield lambda: any(
            not torch.equal(generator.get_state(), state) for generator, state in zip(generators, before, strict=True)
        )


def _laid_out(x: Any, like: Any) -> Any:
    """A writable copy of a float tensor, with gaps between its elements if an array has them; else x itself."""
    if not is_inexact(x):
        return x
    has_gaps = isinstance(like, np.ndarray) and like.ndim > 0 and not like.flags.c_contiguous
    return x.repeat_interleave(2, dim=-1)[..., ::2] if has_gaps else x.clone()


def _root(x: Any) -> Any:
    """The tensor that owns x's memory: a write in place that autograd knows of changes this one's grad_fn."""
    return x if x._base is None else x._base


@contextmanager
def in_float64(numbers: Any) -> Iterator[None]:
    """Within this context what asks for float32 gets float64, if one of these tensors has it.

    Triton's kernels keep to their arrays in any case.
    """
    is_asked = any(str(getattr(x, "dtype", "")) == "torch.float64" for x in numbers)
    with interpreted(is_asked):
        if is_asked:
            with _mode()():
                yield
        else:
            yield


def rule_in_float64(backward: Callable[..., Any], with_copies: bool) -> Callable[..., Any]:
    """A Function's backward, for gradients in float64: autograd's engine calls it outside of such a context.

    with_copies: it gets copies of what the forward saved, for it may be changed and run often.
    """

    def rule(ctx: Any, *gradients: Any) -> Any:
        with in_float64(gradients):
            return backward(_Copies(ctx) if with_copies else ctx, *gradients)

    return rule


@dataclass
class _Copies:
    _ctx: Any

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ctx, name)
        return tuple(map(_copied, value)) if isinstance(value, tuple) else _copied(value)


def _copied(x: Any) -> Any:
    return x.clone() if hasattr(x, "requires_grad") else x


@cache
def _mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    class Float64(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args = tuple(torch.float64 if x is torch.float32 else x for x in args)
            kwargs = {key: torch.float64 if x is torch.float32 else x for key, x in (kwargs or {}).items()}
            return (torch.Tensor.double if func is torch.Tensor.float else func)(*args, **kwargs)

    return Float64
