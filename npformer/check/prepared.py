"""Prepares what gradcheck is given: PyTorch's tensors become NumPy's arrays, what wants no gradient a ConstantInput."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npformer.check.adapters.jax_pair import from_jax
from npformer.check.adapters.torch_pair import from_torch
from npformer.check.checkable import ConstantInput, as_numpy, is_cupys, is_inexact, parameters_of, within
from npformer.check.inputs import leaves_of, parameter_names, rebuilt
from npformer.errors import ConfigError

#: Names or positions of inputs that want no gradient, and outputs that do not: "output 1".
Constants = str | int | Iterable[str | int]


def adapted(target: Any, inputs: Sequence[Any]) -> Any:
    """The target; PyTorch's and JAX's functions and modules by their adapters. Neither package is imported for it."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    has_backward = hasattr(target, "forward") and hasattr(target, "backward")
    if torch is not None and isinstance(target, type) and issubclass(target, torch.autograd.Function):
        return from_torch(target)
    if isinstance(target, tuple | type) or has_backward or not callable(target):
        return target
    if torch is not None and (isinstance(target, torch.nn.Module) or any(map(torch.is_tensor, within(inputs)))):
        return from_torch(target)
    if jax is None:
        return target
    code = getattr(getattr(target, "__code__", None), "co_filename", "")
    is_compiled = type(target).__module__.partition(".")[0] in ("jax", "jaxlib")
    is_jaxs = is_compiled or Path(str(jax.__file__)).parent in Path(code).parents
    return from_jax(target) if is_jaxs or any(isinstance(x, jax.Array) for x in within(inputs)) else target


def forward_of(target: Any) -> Any:
    """The forward of a pair or an object, or a function itself."""
    return target[0] if isinstance(target, tuple) and target else getattr(target, "forward", target)


def expect_known(options: Iterable[str], target: Any, keywords: Sequence[str]) -> None:
    """Raise ConfigError for an option that neither gradcheck nor the target's forward declares.

    A forward that takes any options gets those that are no misspelt keywords of gradcheck.
    """
    forward = forward_of(target)
    declared = parameters_of(forward)
    if declared is None:
        return
    names = [name for name, p in declared.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in declared.values())
    for option in options:
        meant = difflib.get_close_matches(option, keywords, 1, 0.8)
        if option not in names and (meant or not takes_any):
            way = f"; did you mean {meant[0]}?" if meant else f"; forward takes {', '.join(names) or 'none'}"
            raise ConfigError(f"{option}: expected an option of gradcheck, or one that forward declares{way}")


def is_output(word: str | int) -> bool:
    """Whether a constant's name is an output's: "output 0"."""
    return isinstance(word, str) and word.startswith("output ") and word[7:].isdecimal()


def prepared(target: Any, inputs: Sequence[Any], names: Sequence[str] | None, constant: Constants) -> list[Any]:
    """The inputs as arrays, with constants marked: named ones and, if some tensors require a gradient, all others.

    Raises ConfigError for a name or position that no input has.
    """
    forward = forward_of(target)
    known = [*(names or ()), *parameter_names(forward, len(inputs))][: max(len(inputs), len(names or ()))]
    leaves = [(i, name, *leaf) for i, (name, x) in enumerate(zip(known, inputs, strict=False))
              for leaf in leaves_of(name, x)]  # fmt: skip
    wanted = {constant} if isinstance(constant, str | int) else set(constant)
    outputs = {word for word in wanted if is_output(word)}
    unknown = sorted(map(str, wanted - outputs - {*known, *range(len(inputs)), *(leaf for _, _, leaf, _ in leaves)}))
    if unknown:
        raise ConfigError(
            f"constant: expected names or positions of inputs, among {', '.join(known)}, or outputs as 'output 1', "
            f"got {', '.join(unknown)}"
        )
    is_partial = any(getattr(x, "requires_grad", False) for *_, x in leaves)
    ready = [as_numpy(x) if is_inexact(x) else x for *_, x in leaves]
    for k, x in enumerate(ready):
        if isinstance(x, np.ndarray) and not x.dtype.isnative:  # its bytes are in another order than the machine's
            ready[k] = x.astype(x.dtype.newbyteorder("="))
    for k, (i, name, leaf, x) in enumerate(leaves):
        if wanted & {i, name, leaf} or (is_partial and not getattr(x, "requires_grad", True)):
            ready[k] = np.asarray(x.get() if is_cupys(x) else ready[k]).view(ConstantInput) if is_inexact(x) else x
    rest = iter(ready)
    return [rebuilt(x, rest) for x in inputs]
