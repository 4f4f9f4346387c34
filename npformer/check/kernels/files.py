"""The files of a judgement: kernels, and the references that say what is right."""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npformer.check.adapters.user_file import running
from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple, is_float, like, parameter_names
from npformer.check.rounding.formats import FORMATS
from npformer.errors import ConfigError, DataError, NpformerError
from npformer.typing import HostArray, Shape


class KernelError(NpformerError):
    """The kernel raised an exception, or returned something else than arrays; or its reference takes no such inputs."""


class KernelReference(NamedTuple):
    """A REFERENCE.py: what it defines, and its text."""

    path: Path
    text: bytes
    draw: Callable[[np.random.Generator], tuple[HostArray, ...]]
    target: Any  # a pair, or a forward alone
    names: tuple[str, ...]  # of the inputs
    constant: tuple[str, ...]
    regimes: Any
    sizes: Sequence[int] | None

    def shapes(self, inputs: Sequence[HostArray]) -> list[Shape]:
        """Those of the outputs. Raises KernelError where forward and backward do not fit together: at such a size."""
        exact = [x.astype(np.float64) if is_float(x) else x for x in inputs]
        if not isinstance(self.target, tuple):
            y = self.target(*exact)
            return [np.shape(part) for part in as_tuple(y[0] if isinstance(y, tuple) and len(y) == 2 else y)]
        y, cache = self.target[0](*exact)
        gradients = as_tuple(self.target[1](like(y, [np.ones(np.shape(part)) for part in as_tuple(y)]), cache))
        shapes = [x.shape for n, x in zip(self.names, exact, strict=True) if n in self.wanted(exact)]
        if [np.shape(g) for g in gradients if g is not None] != shapes:
            raise KernelError("the reference does not take inputs of these sizes")
        return [np.shape(part) for part in as_tuple(y)]

    def wanted(self, inputs: Sequence[HostArray]) -> list[str]:
        """The names of the inputs that want a gradient."""
        return [n for n, x in zip(self.names, inputs, strict=True) if is_float(x) and n not in self.constant]


class KernelTask(NamedTuple):
    """A kernel, its reference, and the precision in which it is judged."""

    path: Path
    reference: KernelReference
    precision: str

    @property
    def key(self) -> str:
        """Equal for tasks with the same texts in the same precision."""
        parts = (self.path.read_bytes(), self.reference.text, self.precision.encode())
        return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def tasks_of(kernels: Sequence[str], against: str, precision: str) -> list[KernelTask]:
    """A task for each kernel, those of a folder in the order of their names. Raises ConfigError and DataError.

    A file or a folder whose name begins with an underscore or a dot is no kernel.
    """
    paths: list[Path] = []
    for name in kernels:
        path = Path(name)
        paths += sorted(one for one in path.glob("*.py") if one.name[0] not in "_.") if path.is_dir() else [path]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path}: expected a kernel's Python file, or a folder of them; there is none")
    if not paths:
        raise ConfigError(f"judge: expected Python files in {', '.join(kernels)}, got none")
    known: dict[Path, KernelReference] = {}
    tasks = []
    for path in paths:
        operation, *words = path.stem.split("--")
        of = Path(against) / f"{operation}.py" if Path(against).is_dir() else Path(against)
        if of not in known:
            known[of] = reference_of(of, path)
        tasks.append(KernelTask(path, known[of], words[-1] if words and words[-1] in FORMATS else precision))
    return tasks


def reference_of(path: Path, kernel: Path) -> KernelReference:
    """The reference in this file, for this kernel. Raises DataError if it cannot be used: if its gradient is wrong."""
    if not path.is_file():
        raise DataError(f"--against: expected a reference of {kernel.name}, got {path}; there is no such file")
    with running(str(path)):
        found = runpy.run_path(str(path))
        for name in ("inputs", "forward"):
            if not callable(found.get(name)):
                raise DataError(f"{path}: expected a function {name} in a reference, got none")
        drawn = found["inputs"](np.random.default_rng(0))
        if not isinstance(drawn, tuple) or not all(isinstance(x, np.ndarray) for x in drawn):
            raise DataError(
                f"{path}: expected inputs(rng) to return a tuple of NumPy arrays, got {type(drawn).__name__}"
            )
        target = (found["forward"], found["backward"]) if "backward" in found else found["forward"]
        names = tuple(parameter_names(found["forward"], len(drawn)))
        constant = tuple(found.get("CONSTANT", ()))
        reference = KernelReference(
            path, path.read_bytes(), found["inputs"], target, names, constant,
            found.get("REGIMES", "all"), found.get("SIZES"),
        )  # fmt: skip
        if isinstance(target, tuple):
            report = gradcheck(target, *drawn, names=names, constant=constant, explain=False)
            wrong = [row.tensor for row in report.wrong]
            if wrong or report.problems:
                why = f"its own gradient of {', '.join(wrong)} is not right" if wrong else report.problems[0]
                raise DataError(f"{path}: expected a reference that is right, but {why}; check it: npf.gradcheck")
    return reference
