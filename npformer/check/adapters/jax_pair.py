"""Gradient checks of JAX code: the gradients of ``jax.vjp`` are compared with differences of the code's own values.

    npf.gradcheck(npf.from_jax(f), x, w)                        f(x, w), for example a jax.custom_vjp: your own rule
    npf.gradcheck(npf.from_jax(f, parameters=tree), x)          f(tree, x), every leaf of the tree checked by its name

The check's numerical witnesses use the values of f itself; for a custom_vjp that is the primal function, so its rule
does not influence them. Everything is computed in float64, and in complex128 for the complex step where JAX can run f
on it, inside a 64-bit context: JAX's own setting does not change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from npformer.check.checkable import Checkable, Value, described, is_inexact, outputs_of
from npformer.check.inputs import as_tuple
from npformer.check.subject import Subject, Upstream
from npformer.errors import ConfigError
from npformer.typing import Function, HostArray, HostArrays, Values


def from_jax(function: Function, *, parameters: Any = None) -> Checkable:
    """Wrap a function of JAX arrays, also a jax.custom_vjp or a jitted function, for ``npf.gradcheck``.

    parameters: a tree of arrays (dicts, lists, tuples, a Flax or Equinox tree), which function takes before its inputs;
    its float leaves are checked under their paths in the tree, such as ``layer.0.w``. An output that is not of
    floating-point numbers is left out.
    Raises ConfigError if function cannot be called.
    """
    if not callable(function):
        raise ConfigError(f"from_jax: expected a function of JAX arrays, got {described(function)}")
    name = getattr(function, "__name__", type(function).__name__)
    import jax

    owner = _owner_of(function) if isinstance(function, jax.custom_vjp) else None
    run = JAXRun(function if owner is None else owner.call, parameters)
    skip = 0 if parameters is None else 1
    made = Checkable(name, run.forward, run.backward, run.values, like=function, skip=skip, owner=owner, library="jax")
    run.silent = made.silent
    return made


def _owner_of(function: Any) -> Any:
    """An object with a custom_vjp's backward rule as its method; ``call`` uses another method put in its place."""

    class Owner:
        forward, backward = function.fwd, function.bwd

        def call(self, *inputs: Any, **options: Any) -> Any:
            other = object.__new__(type(function))
            vars(other).update(vars(function) | {"bwd": vars(Owner)["backward"]})
            return other(*inputs, **options)

    return Owner()


@dataclass
class JAXCall:
    """What backward needs to call the function again."""

    arguments: list[Any]  # the leaves of the tree, then the inputs
    options: Values
    kept: list[int] = field(default_factory=list)  # the outputs that are floating-point numbers
    pulled: tuple[tuple[Any, ...], Function] | None = None  # those and their pullback, for another backward


class JAXRun:
    """A function of JAX arrays as a forward and a backward of NumPy arrays."""

    def __init__(self, function: Function, tree: Any) -> None:
        import jax

        self._function, self._has_tree, self.silent = function, tree is not None, set[int]()
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(tree)
        self._leaves: list[Any] = [  # the check's own arrays where a gradient is wanted
            Value(np.array(leaf) * np.float64(1)) if is_inexact(leaf) else leaf for _, leaf in leaves
        ]
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
        self.values = {n: v for n, v in zip(names, self._leaves, strict=True) if isinstance(v, Value)}

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, JAXCall]:
        leaves = [leaf.data if isinstance(leaf, Value) else leaf for leaf in self._leaves]
        arrays = [*leaves, *map(_expect_array, inputs)]
        is_complex = any(np.iscomplexobj(x) for x in arrays if isinstance(x, np.ndarray))
        with _in_64_bits():
            cache = JAXCall([_on_device(x, is_complex) for x in arrays], options)
            try:
                parts, is_single = self._outputs(cache, cache.arguments)
            except Exception as error:  # JAX refuses in several ways; the same call with real numbers ran
                if not is_complex:
                    raise
                raise TypeError(f"forward: expected JAX to run it on complex numbers, got: {error}") from error
            return outputs_of([np.array(part) for part in parts], is_single, is_complex), cache

    def backward(self, dy: Any, cache: JAXCall) -> tuple[HostArray, ...]:
        """Gradients of the float inputs, in their order; gradients of parameters are added to their arrays."""
        import jax

        def of_floats(floats: Sequence[Any]) -> tuple[Any, ...]:
            rest = iter(floats)
            parts, _ = self._outputs(cache, [next(rest) if is_inexact(x) else x for x in cache.arguments])
            cache.kept = [i for i, part in enumerate(parts) if is_inexact(part)]
            return self._noting(cache.kept)(*(parts[i] for i in cache.kept))

        with _in_64_bits():
            if cache.pulled is None:
                cache.pulled = jax.vjp(of_floats, [x for x in cache.arguments if is_inexact(x)])
            y, pull = cache.pulled
            dys = as_tuple(dy)
            (pulled,) = pull(
                tuple(jax.numpy.asarray(dys[i], part.dtype) for i, part in zip(cache.kept, y, strict=True))
            )
            gradients = [np.array(gradient) for gradient in pulled]
        for value, gradient in zip(self.values.values(), gradients, strict=False):  # inputs come after the leaves
            value.add(gradient)
        return tuple(gradients[len(self.values) :])

    def _noting(self, kept: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
        """The identity of these outputs. Under JAX's derivative it notes those whose tangent is 0 before any rule runs.

        That is so after ``stop_gradient``; an output of a custom_vjp has a tangent, whatever its rule ignores.
        """
        import jax

        def rule(ys: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            zero = jax.custom_derivatives.SymbolicZero
            stopped = {i for i, t in zip(kept, tangents, strict=True) if isinstance(t, zero)}
            self.silent |= stopped if len(stopped) < len(kept) else set()
            return ys, tuple(jax.numpy.zeros(t.shape, t.dtype) if isinstance(t, zero) else t for t in tangents)

        identity: Any = jax.custom_jvp(lambda *ys: ys)
        identity.defjvp(rule, symbolic_zeros=True)
        return identity  # type: ignore[no-any-return]

    def _outputs(self, cache: JAXCall, arguments: Sequence[Any]) -> tuple[list[Any], bool]:
        """(the leaves of the function's result, whether the result is a single array)."""
        import jax

        count = len(self._leaves)
        tree = [jax.tree_util.tree_unflatten(self._structure, arguments[:count])] if self._has_tree else []
        returned = self._function(*tree, *arguments[count:], **cache.options)
        leaves = jax.tree_util.tree_leaves(returned)
        if not leaves:
            raise ConfigError(f"from_jax: expected a function that returns arrays, got {type(returned).__name__}")
        return [jax.numpy.asarray(leaf) for leaf in leaves], hasattr(returned, "dtype")


def in_numpy(
    checked: Subject, owner: Any, upstreams: Sequence[Upstream]
) -> tuple[Callable[[int], HostArrays], Values] | None:
    """Runs of a rule of JAX's in NumPy, which compiles nothing, with its names; None if it needs more than that."""
    import jax

    rule, given = owner.backward, list[Any]()

    def noting(*arguments: Any) -> Any:
        given.append(jax.tree_util.tree_map(np.asarray, arguments))
        return rule(*arguments)

    names = {name: np if x is jax.numpy else x for name, x in rule.__globals__.items()}

    def run(number: int) -> HostArrays:
        twin = FunctionType(rule.__code__, names, rule.__name__, rule.__defaults__, rule.__closure__)
        found = [np.asarray(g) for g in as_tuple(twin(*copy.deepcopy(given[number]))) if g is not None]
        return checked.inputs.named(tuple(found))

    try:
        owner.backward = noting
        first, *_ = [checked.gradients(upstream) for upstream in upstreams]
        again = run(0)
    except Exception:
        return None
    finally:
        owner.backward = rule
    return (run, names) if all(np.allclose(first[name], g, 1e-9, 1e-12) for name, g in again.items()) else None


def _in_64_bits() -> AbstractContextManager[Any]:
    """JAX computes in 64 bits within this context, in this thread."""
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64  # in an older JAX

    return enable_x64()  # type: ignore[no-any-return]


def _on_device(x: Any, is_complex: bool) -> Any:
    """x as a JAX array if it is a NumPy array; x itself if it is not."""
    import jax

    if isinstance(x, np.ndarray):
        return jax.numpy.asarray(x.astype(np.complex128) if is_complex and is_inexact(x) else x)
    return x


def _expect_array(x: Any) -> Any:
    """x itself. Raises ConfigError for a tree of float arrays, which would not be checked."""
    import jax

    if isinstance(x, dict | list | tuple) and any(map(is_inexact, jax.tree_util.tree_leaves(x))):
        raise ConfigError(
            f"from_jax: expected an array or something without a gradient, got a {type(x).__name__} of arrays, which "
            "would go unchecked; say from_jax(function, parameters=…) for a first argument that is a tree"
        )
    return x
