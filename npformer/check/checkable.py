"""The interface of gradcheck's targets, to which adapters convert other code.

``npf.from_object`` (a class that keeps its cache in itself), ``npf.from_torch`` and ``npf.from_jax`` return a
Checkable: ``npf.gradcheck(npf.from_torch(module), x)``.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

import numpy as np

from npformer.check.adapters.triton_kernels import data_of
from npformer.errors import DTypeError
from npformer.functional import AttentionMask
from npformer.typing import HostArray, Named, Values

NO_LINE = "check a torch.autograd.Function or a jax.custom_vjp by itself, or as a NumPy pair, and a line may be named"
COMPLEX = "forward: expected real outputs, got complex ones; return their real and imaginary parts as two outputs"


class Value:
    """A parameter: its data and its gradient, NumPy arrays that a check replaces temporarily."""

    def __init__(self, data: HostArray) -> None:
        self.data, self.grad = data, np.zeros_like(data)

    def add(self, gradient: HostArray) -> None:
        """Add to the gradient; a gradient of another shape replaces it, so that the check notices the shape."""
        self.grad = self.grad + gradient if gradient.shape == self.grad.shape else gradient


class ConstantInput(np.ndarray[Any, Any]):
    """An input array that wants no gradient."""


class Checkable:
    """Something with ``forward(*inputs) -> (y, cache)``, ``backward(dy, cache)`` and ``named_parameters()``.

    no_line says what to do if no line of a wrong backward can be named.
    like: a function whose input names are used in reports; its first ``skip`` inputs do not count.
    owner: the object that was converted, whose methods may be at fault. notes: for every report. for_tensors:
    makes a Checkable for inputs with tensors of PyTorch's among them; a flag says whether they keep their precision.
    library: whose derivative is checked, "torch" or "jax"; "numpy" for a backward of the user's own.
    """

    no_line = NO_LINE

    def __init__(
        self,
        name: str,
        forward: Callable[..., tuple[Any, Any]],
        backward: Callable[[Any, Any], Any],
        parameters: Mapping[str, Value] | None = None,
        like: Any = None,
        skip: int = 0,
        owner: Any = None,
        notes: list[str] | None = None,
        for_tensors: Callable[[Any, bool], Checkable] | None = None,
        library: str = "numpy",
    ) -> None:
        self.name, self.backward, self._parameters, self.owner = name, backward, dict(parameters or {}), owner
        self.notes, self.for_tensors, self.library = notes or [], for_tensors, library
        self.silent = set[int]()  # outputs that want no gradient by the library's word, after the first backward

        def named_forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
            return forward(*inputs, **options)

        named_forward.__name__ = name
        signature = _signature(like, skip)
        if signature is not None:
            named_forward.__signature__ = signature  # type: ignore[attr-defined]
            # the function whose branches are examined
            named_forward.__wrapped__ = getattr(like, "__func__", like)  # type: ignore[attr-defined]
        self.forward = named_forward

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """(name, parameter) of each parameter."""
        yield from self._parameters.items()


def _signature(like: Any, skip: int) -> inspect.Signature | None:
    """The signature of a function, without its first inputs; None if unknown (a function in C)."""
    known = parameters_of(like)
    return None if known is None else inspect.Signature(list(known.values())[skip:])


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a function by name; None of a compiled one that does not say them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def outputs_of(arrays: list[HostArray], is_single: bool, is_complex: bool) -> Any:
    """A forward's outputs, complex if the inputs are complex; a single array, or a tuple.

    Raises DTypeError if one is complex for real inputs; TypeError if complex inputs give only real outputs, so that a
    complex step is not mistaken for a derivative of 0.
    """
    kinds = {x.dtype.kind for x in arrays}
    if is_complex and "c" not in kinds:
        raise TypeError("forward: expected complex outputs of complex inputs, got real ones: imaginary parts are lost")
    if not is_complex and "c" in kinds:
        raise DTypeError(COMPLEX)
    return arrays[0] if is_single else tuple(arrays)


def as_numpy(x: Any) -> Any:
    """An array of PyTorch's, JAX's or a Triton kernel's as one of NumPy's, bfloat16 as float32; else x unchanged."""
    if type(x).__module__.startswith("jax") and hasattr(x, "__array__"):
        return x if type(x).__name__.endswith("Tracer") else np.array(x)
    if type(x).__module__ == "triton.language.core":
        return data_of(x)
    if not hasattr(x, "requires_grad") or not hasattr(x, "resolve_conj"):
        return x
    if x._is_zerotensor():
        return np.zeros(x.shape)
    x = x.detach().resolve_conj().resolve_neg().cpu()
    return np.array((x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy())


def described(x: Any) -> str:
    """The words for something else than what was expected, after "got"."""
    return f"the class {x.__name__}" if isinstance(x, type) else f"an object of type {type(x).__name__}"


def is_cupys(x: Any) -> bool:
    """Whether x is an array of CuPy's."""
    return type(x).__module__.partition(".")[0] == "cupy"


def within(*given: Any) -> Iterator[Any]:
    """All that is in lists, tuples, dicts, contexts and masks, however deep."""
    for x in given:
        if isinstance(x, dict):
            yield from within(*x.values())
        elif isinstance(x, list | tuple):
            yield from within(*x)
        elif isinstance(x, AttentionMask) or is_of_layers(x, "Context"):
            yield from within(*vars(x).values())
        else:
            yield x


def unwrapped(function: Any) -> Any:
    """The function in a partial, a bound method or a decorator."""
    inner = getattr(function, "func" if isinstance(function, partial) else "__wrapped__", None)
    if isinstance(function, MethodType):
        inner = function.__func__
    return function if inner is None else unwrapped(inner)


def is_ours(function: Any) -> bool:
    """Whether a function is defined in npformer."""
    return str(getattr(function, "__module__", "")).startswith("npformer.")


def listed(text: str, name: str) -> str:
    """The name of a text that no file holds, under which ``inspect`` and tracebacks find it from here on."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    return name


def tree_of(function: Any) -> tuple[ast.Module, int]:
    """The tree of a function's source, and the first line of it in its file. Raises OSError if there is none."""
    lines, first = inspect.getsourcelines(function)
    return ast.parse(textwrap.dedent("".join(lines))), first


def is_of_layers(x: Any, kind: str) -> bool:
    """Whether x is an instance of this class of npformer.layers. Nothing is while nobody has imported them."""
    layers = sys.modules.get("npformer.layers")
    return layers is not None and isinstance(x, getattr(layers, kind))


def is_inexact(x: Any) -> bool:
    """Whether x is an array, of any library, of real or complex floating-point numbers."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return False
    return getattr(x.dtype, "kind", "") in ("f", "c") or any(kind in str(x.dtype) for kind in ("float", "complex"))


def unpacked(options: Named) -> Values:
    """Options by name; a context's fields, where they say something, each by its own name."""
    context = options.get("context")
    if not is_of_layers(context, "Context"):
        return dict(options)
    kind: Any = type(context)
    nothing = kind()
    fields = {name: x for name, x in vars(context).items() if x is not getattr(nothing, name)}
    return {name: x for name, x in options.items() if name != "context"} | fields


def exchanged(options: Named, others: Named) -> Values:
    """The options, those of others' names, or fields of a context of these names, exchanged."""
    context = options.get("context")
    fields = vars(context).keys() & others.keys() if is_of_layers(context, "Context") else ()
    same = {name: others.get(name, x) for name, x in options.items()}
    return same | ({"context": replace(context, **{name: others[name] for name in fields})} if fields else {})  # type: ignore[type-var]
