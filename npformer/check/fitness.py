"""Decides whether the complex step is valid for a forward; if not, it is dropped.

The complex step needs a forward that is analytic as written. Some NumPy calls lose the imaginary part (abs,
real, var, std, linalg.norm), some flip its sign (conj, and so cholesky, eigvalsh, vdot), some refuse it. The
result is a wrong derivative that looks exact; an invalid witness must never contradict a right gradient.

It is valid (fit) if, along a random direction in each tensor, it agrees with extrapolated differences, within
their error. Where differences cannot decide (a kink nearby), it counts as valid if the forward makes none of the calls
above, which is observed by arrays that record calls, or if it agrees along single entries, where differences settle.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import direction_in, rms, terms
from npformer.check.oracles import CENTRAL_H, COMPLEX_H, SAME, Oracle, unit
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArray

#: Relative to the reach: a less precise difference cannot decide whether the complex step is valid.
SETTLED = 1e-6
#: Where differences do not settle along all entries at once, so many single ones are looked at.
SINGLE = 12
#: Calls that return complex numbers for complex ones, but conjugate or take an absolute value inside.
CONJUGATING = frozenset({
    "conjugate", "conj", "cholesky", "eigvalsh", "eigh", "svd", "svdvals", "qr", "pinv", "lstsq", "slogdet", "vdot",
    "sign", "vecdot", "matvec", "vecmat",
})  # fmt: skip
_NUMPY = str(Path(np.__file__).parent)
_PACKAGE = str(Path(__file__).parents[1])


class Fitness(NamedTuple):
    """Whether the complex step is valid, and if not, why."""

    is_fit: bool
    why: str  # one sentence with the call that breaks it; "" if it is valid


def fitness(checked: Subject, upstreams: Sequence[Upstream], seed: int) -> Fitness:
    """Whether the complex step is valid for this subject's forward, at its point."""
    rng, oracle, outputs = np.random.default_rng([seed, 2]), Oracle(checked, upstreams[:1]), checked.outputs({})
    culprit = cache(lambda: culprit_of(checked))  # a forward for each tensor: only if it is asked for
    for tensor, x in checked.tensors.items():
        direction = direction_in(x, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                by_complex = oracle.complex_step(tensor, direction)
        except Exception as error:
            place = culprit_of(checked) or place_of(error)
            message = str(error).splitlines()[0] if str(error) else "no message"
            return Fitness(False, _sentence(place, f"cannot be asked: {type(error).__name__}: {message}"))
        near, _ = oracle.difference(tensor, direction, CENTRAL_H, {}, noise_too=False)
        if np.all(np.abs(by_complex.value - near) <= SAME * np.abs(by_complex.value)):
            continue
        central = oracle.extrapolated(tensor, direction)
        apart = np.abs(by_complex.value - central.value)
        is_settled = np.all(central.error <= SETTLED * central.reach)
        # with a slope of 0 there is only the rounding of L's terms, which error estimates do not capture well
        rounding = 1e-10 * terms(upstreams[0], outputs) / (rms(x) or 1.0)
        if is_settled and not np.all(apart <= 8 * central.error + 1e-9 * central.reach + rounding):
            return Fitness(False, _sentence(culprit(), "contradicts differences, which agree with each other"))
        if not is_settled and culprit() and not _is_proved(oracle, tensor, rng):
            return Fitness(False, _sentence(culprit(), "may be wrong here"))
    return Fitness(True, "")


def _is_proved(oracle: Oracle, tensor: str, rng: np.random.Generator) -> bool:
    """Whether the complex step agrees with differences along single entries where these settle, and there are some."""
    shape, proofs = oracle.subject.tensors[tensor].shape, 0
    for index in rng.permutation(np.array(list(np.ndindex(shape))))[:SINGLE]:
        direction = unit(shape, tuple(index))
        central = oracle.extrapolated(tensor, direction)
        if np.all(central.error <= SETTLED * central.reach):
            apart = np.abs(oracle.complex_step(tensor, direction).value - central.value)
            if not np.all(apart <= 8 * central.error + 1e-9 * central.reach):
                return False
            proofs += bool(np.any(central.reach))
    return proofs > 0


def _sentence(culprit: str, problem: str) -> str:
    by = f" at {culprit}" if culprit else ""
    return f"the complex step was dropped: it {problem}{by}; differences alone decide"


def culprit_of(checked: Subject) -> str:
    """The first call that loses or flips an imaginary part, with its line; "" if there is none, or it is unknown."""
    for tensor, x in checked.tensors.items():
        noted: list[str] = []
        moved = CastNoting.of(x + 1j * COMPLEX_H * np.ones(x.shape), noted)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                checked.outputs({tensor: moved})
        except Exception:
            if not noted:
                continue  # a call that refuses complex numbers raises its own error
        if noted:
            return noted[0]
    return ""


def _noting(name: str) -> Any:
    """A method of that name which records its call."""

    def method(self: CastNoting, *args: Any, **options: Any) -> Any:
        self._note(f"{name}()")
        return self._kept(getattr(self.view(np.ndarray), name)(*args, **options))

    return method


class CastNoting(np.ndarray[Any, Any]):
    """A complex array that records each call that loses or flips its imaginary part, or a result's."""

    noted: list[str]

    @classmethod
    def of(cls, x: HostArray, noted: list[str]) -> CastNoting:
        array = np.asarray(x).view(cls)
        array.noted = noted
        return array

    def __array_finalize__(self, parent: Any) -> None:
        self.noted = getattr(parent, "noted", [])

    def _note(self, call: str) -> None:
        if np.iscomplexobj(self):
            self.noted.append(f"{call}{_where()}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, CastNoting) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) if isinstance(x, CastNoting) else x for x in out)
        result = getattr(ufunc, method)(*plain, **options)
        takes_complex = any(np.iscomplexobj(x) for x in plain)
        if takes_complex and (ufunc.__name__ in CONJUGATING or _lost(result)):
            self._note(f"np.{ufunc.__name__}")
        if out is not None:
            return out[0] if len(out) == 1 else out
        return self._kept(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = function.__module__.removeprefix("numpy")
        name = f"np{module}.{function.__name__}"
        if function.__name__ in CONJUGATING:
            self.noted.append(f"{name}{_where()}")
        result = super().__array_function__(function, types, args, kwargs)
        if function.__name__ in _LOSING:
            self.noted.insert(0, f"{name}{_where()}")
        return result

    def _kept(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(self._kept(part) for part in result)
        is_array = isinstance(result, np.ndarray | np.complexfloating)
        return CastNoting.of(np.asarray(result), self.noted) if is_array else result

    conj, conjugate, var, std = map(_noting, ("conj", "conjugate", "var", "std"))

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        if np.dtype(dtype).kind != "c":
            self._note(f"astype({np.dtype(dtype).name})")
        return super().astype(dtype, *args, **options)


_LOSING = frozenset({"var", "std", "nanvar", "nanstd", "norm", "cond", "cov", "corrcoef", "angle", "matrix_norm",
                     "vector_norm", "real_if_close", "histogram", "interp"})  # fmt: skip


def _lost(result: Any) -> bool:
    """Whether the result is real floating-point numbers."""
    parts = result if isinstance(result, tuple) else (result,)
    return any(getattr(part, "dtype", np.dtype(bool)).kind == "f" for part in parts)


def _where() -> str:
    """The innermost line of the user's code, not of NumPy or the check."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_NUMPY) and file != __file__ and not file.startswith("<__array_function__"):
            return f" ({Path(file).name}, line {frame.f_lineno})"
        frame = frame.f_back
    return ""


def place_of(error: Exception) -> str:
    """The line at which an exception left the user's code, with its function."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_PACKAGE, _NUMPY)):
            place = f"{trace.tb_frame.f_code.co_name} ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
