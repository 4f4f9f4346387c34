"""Prepares what gradcheck is given: PyTorch's tensors become NumPy's arrays, what wants no gradient a Constant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npformer.check.checkable import Constant, as_numpy, is_cupys, is_inexact
from npformer.check.inputs import leaves_of, parameter_names, rebuilt
from npformer.errors import ConfigError

#: Names or positions of inputs that want no gradient.
Constants = str | int | Iterable[str | int]


def prepared(target: Any, inputs: Sequence[Any], names: Sequence[str] | None, constant: Constants) -> list[Any]:
    """The inputs as arrays, with constants marked: named ones and, if some tensors require a gradient, all others.

    Raises ConfigError for a name or position that no input has.
    """
    forward = target[0] if isinstance(target, tuple) and target else getattr(target, "forward", target)
    known = [*(names or ()), *parameter_names(forward, len(inputs))][: max(len(inputs), len(names or ()))]
    leaves = [(i, name, *leaf) for i, (name, x) in enumerate(zip(known, inputs, strict=False))
              for leaf in leaves_of(name, x)]  # fmt: skip
    wanted = {constant} if isinstance(constant, str | int) else set(constant)
    unknown = sorted(map(str, wanted - {*known, *range(len(inputs)), *(leaf for _, _, leaf, _ in leaves)}))
    if unknown:
        raise ConfigError(
            f"constant: expected names or positions of inputs, among {', '.join(known)}, got {', '.join(unknown)}"
        )
    is_partial = any(getattr(x, "requires_grad", False) for *_, x in leaves)
    ready = [as_numpy(x) if is_inexact(x) else x for *_, x in leaves]
    for k, (i, name, leaf, x) in enumerate(leaves):
        if wanted & {i, name, leaf} or (is_partial and not getattr(x, "requires_grad", True)):
            ready[k] = np.asarray(x.get() if is_cupys(x) else ready[k]).view(Constant) if is_inexact(x) else x
    rest = iter(ready)
    return [rebuilt(x, rest) for x in inputs]
