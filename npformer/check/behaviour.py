"""Requirements on a backward beyond right numbers at one point; each violation is a *problem*.

    deterministic      the same inputs give the same outputs, and the same gradients (``repeats.py``)
    pure               inputs, upstream gradient and cache are unchanged afterwards
    linear             backward is a linear map of dy: B(p + q) = B(p) + B(q), also with rows of 0, B(c·p) = c·B(p)
    layout             a dy with gaps, in Fortran order or broadcast gives the same result as in C order

Branches that were never entered, and inputs that are passed on unchecked, are *notes*: the check does not cover them.
"""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from npformer.backend import Pair
from npformer.check.checkable import Checkable, tree_of
from npformer.check.measures import U, apart, max_abs, with_gaps
from npformer.check.repeats import MOST_RUNS, Repeats
from npformer.check.subject import BackwardFailed, Subject, Upstream
from npformer.typing import HostArray, HostArrays, Tensors

#: Of the largest entry: two backward passes that differ by more count as different.
ALIKE = 1e-9
#: Of the largest entry: what parts of a dy may differ by where their products and sums have few digits.
GROSS = 0.1
#: By which a dy is multiplied: powers of two, which round nothing; of smaller range in float16, known by its roundoff.
FACTORS, FACTORS_IN_FLOAT16, IN_FLOAT16 = (2.0**20, 2.0**-20), (2.0**4, 2.0**-4), (2.0**-12, 2.0**-10)
#: Roundings of a dy that is multiplied: a routine that has x and dy in one matrix, as the adjoint of a matrix
#: exponential, loses as many digits of x as a factor adds to dy.
MIXED = 4096
_NOT_THEIRS = (*(str(Path(at).parents[1]) for at in (__file__, np.__file__)), str(Path(os.__file__).parent), "<frozen")


def problems(
    checked: Subject, upstreams: Sequence[Upstream], gradients: Tensors, u: float, repeats: Repeats | None = None
) -> list[str]:
    """Problems other than the gradient; gradients, and repeats, to which runs are added: for upstreams[0]."""
    alike = max(ALIKE, 64 * u)
    repeats = repeats or Repeats(checked, upstreams[0], gradients, alike)
    faults = _not_deterministic(checked, gradients, repeats)
    if faults or not all(np.all(np.isfinite(gradient)) for gradient in gradients.values()):
        return faults  # nothing else can be checked
    faults = _not_pure(checked, upstreams[0], gradients, alike, repeats)
    if faults or repeats.faulty:
        return faults + repeats.problems  # the next checks would report the same again
    for _ in range(2):  # once more if runs turn out to differ
        alike = max(alike, 8 * repeats.noise)
        faults = _not_linear(checked, upstreams, gradients, alike, u)
        faults = faults or _by_layout(checked, upstreams[0], gradients, alike)
        repeats.run(MOST_RUNS if faults else 0)
        if 8 * repeats.noise <= alike:
            break
    return repeats.problems or faults


def _not_deterministic(checked: Subject, gradients: Tensors, repeats: Repeats) -> list[str]:
    first, second = checked.outputs({}), checked.outputs({})
    spread = max((apart(a, b) / (_size(a) or 1.0) for a, b in zip(first, second, strict=True)), default=0.0)
    if spread == 0:
        return []
    repeats.faulty |= gradients.keys() if spread > repeats.rounding else set()
    return [
        f"forward is not deterministic: two calls at the same inputs differ by {spread:.1e} of the largest "
        "output; fix its seed, or pass what it draws as an input"
    ]


def _not_pure(checked: Subject, upstream: Upstream, gradients: Tensors, alike: float, repeats: Repeats) -> list[str]:
    faults = []
    second: list[HostArrays] = []

    def watch(placed: Sequence[Any], dy: Upstream, again: Callable[[], HostArrays]) -> None:
        changed = checked.inputs.changed(placed, checked.tensors)
        if changed:
            faults.append(f"forward or backward changes its input {', '.join(changed)}; work on a copy")
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(dy, upstream, strict=True)):
            faults.append("backward changes dy, the upstream gradient, which other code still needs; work on a copy")
        target = checked.target
        if faults or not isinstance(target, Checkable | Pair):
            return
        try:
            second.append(again())
        except Exception as error:
            if isinstance(target, Checkable) and "inplace operation" not in str(error):
                return  # other code than pairs may free its cache
            faults.append(f"a second backward with the same cache fails: {type(error).__name__}: {error}")

    repeats.once(watch)
    worst, off = _worst(gradients, second[0], _sizes(gradients, alike)) if second else ("", 0.0)
    if off > alike:
        repeats.run()
        if not repeats.faulty and off > 8 * repeats.noise:
            is_other = isinstance(checked.target, Checkable)
            is_seen = not is_other and _changes_cache(checked, upstream)
            cause = ": backward changes its cache" + " or draws random numbers anew" * is_other
            cause *= is_other or is_seen
            faults.append(
                f"a second backward with the same cache gives another gradient of {worst} "
                f"({off:.1e} of its size away){cause}"
            )
    return faults


def _changes_cache(pair: Any, upstream: Upstream) -> bool:
    """Whether one backward is seen to change a fresh cache; False if that cannot be pickled."""
    dy, cache = pair.call(upstream)
    with suppress(Exception):
        before = pickle.dumps(cache)
        pair.target.backward(dy, cache)
        return pickle.dumps(cache) != before
    return False


def _not_linear(
    checked: Subject, upstreams: Sequence[Upstream], gradients: Tensors, alike: float, u: float
) -> list[str]:
    """A sum of two dy, one with rows of 0 and the rest of it, a large one and a tiny one."""
    p, size = upstreams[0], _sizes(gradients, alike)
    limit = alike if u <= U else GROSS  # products and sums in few digits round each part by itself

    def apart(what: str, expected: Tensors, *parts: Upstream) -> list[str]:
        every = [checked.gradients(part) for part in parts]
        sizes = {name: max(size[name], *(_sizes(one, alike)[name] for one in every)) for name in size}
        worst, off = _worst(expected, {name: np.sum([one[name] for one in every], axis=0) for name in size}, sizes)
        text = f"backward is not linear in dy: its gradient of {worst} for {what} by {off:.1e} of its size"
        return [text] if off > limit else []

    if len(upstreams) > 1:
        q = upstreams[1]
        of_q = checked.gradients(q)
        both = {name: gradients[name] + of_q[name] for name in gradients}
        size |= {name: max(size[name], other) for name, other in _sizes(of_q, alike).items()}
        if faults := apart("p + q differs from those for p and q together", both, tuple(map(np.add, p, q))):
            return faults
    size = _sizes(gradients, alike)
    for what, axis in (("rows", 0), ("columns", -1)):
        halves = [tuple(_with_0(r, k, axis) for r in p) for k in (0, 1)]
        if faults := apart(f"their sum differs from those for two dy with {what} of 0", gradients, *halves):
            return faults
    for factor in FACTORS if not IN_FLOAT16[0] < u < IN_FLOAT16[1] else FACTORS_IN_FLOAT16:
        scaled = checked.gradients(tuple(factor * r for r in p))
        worst, off = _worst(gradients, {name: g / factor for name, g in scaled.items()}, size)
        if off > max(alike, MIXED * factor * u * (u <= U)):
            times = f"{factor:g}·dy differs from {factor:g} times that for dy by {off:.1e} of its size"
            return [f"backward is not linear in dy: its gradient of {worst} for {times}"]
    return []


def _with_0(r: HostArray, first: int, axis: int) -> HostArray:
    """A copy of r in which every second row or column is 0; of a single number, and of one row, all or nothing is."""
    there = np.array(r)
    if there.ndim:
        np.moveaxis(there, axis, 0)[first::2] = 0
    return there if there.ndim or first else 0 * there


def _by_layout(checked: Subject, upstream: Upstream, gradients: Tensors, alike: float) -> list[str]:
    spread, turned = tuple(map(with_gaps, upstream)), tuple(np.array(r, order="F") for r in upstream)
    faults = _differs(checked, spread, gradients, alike, "with gaps between its elements (not contiguous)")
    faults = faults or _differs(checked, turned, gradients, alike, "in Fortran order, as a transposed array is")
    if faults:
        return faults
    thin = tuple(np.asarray(r[:1]) if r.ndim else r for r in upstream)
    broadcast = tuple(np.broadcast_to(part, r.shape) for part, r in zip(thin, upstream, strict=True))
    expected = checked.gradients(tuple(np.array(part) for part in broadcast))
    floor = max(_sizes(gradients, alike).values(), default=0.0)  # equal rows may cancel to 0 except for rounding
    return _differs(checked, broadcast, expected, alike, "that is broadcast (stride 0, read-only)", floor)


def _differs(
    checked: Subject, upstream: Upstream, expected: Tensors, alike: float, what: str, floor: float = 0.0
) -> list[str]:
    try:
        gradients = checked.gradients(upstream)
    except BackwardFailed as failed:
        return [f"backward fails for a dy {what}: {type(failed.error).__name__}: {failed.error}"]
    worst, off = _worst(expected, gradients, _sizes(expected, alike), floor)
    if off > alike:
        return [f"backward gives another gradient of {worst} for a dy {what}, {off:.1e} of its size away"]
    return []


def _worst(expected: Tensors, got: Tensors, size: Mapping[str, float], floor: float = 0.0) -> tuple[str, float]:
    """The tensor with the largest difference between two sets of gradients, relative to its size or the floor."""
    largest = max(floor, *size.values())
    worst, most = "", 0.0
    for name, gradient in expected.items():
        scale = max(size[name], 1e-3 * largest) or 1.0
        off = apart(gradient, got[name]) / scale
        if off > most:
            worst, most = name, off
    return worst, most


def _sizes(gradients: Tensors, alike: float) -> dict[str, float]:
    """The largest entry of each tensor; in low precision of all: one that cancels to 0 has the rounding of others."""
    sizes = {name: _size(gradient) for name, gradient in gradients.items()}
    return sizes if alike <= ALIKE else dict.fromkeys(sizes, max(sizes.values(), default=0.0))


def _size(x: HostArray) -> float:
    return max_abs(x) if np.all(np.isfinite(x)) else 0.0


def notes(checked: Subject) -> list[str]:
    """Notes on what the check does not cover."""
    passed_on = checked.inputs.unchecked
    lines = [f"passed on unchecked: {', '.join(passed_on)}"] if passed_on else []
    others = {i: f"is {kind}" for i, kind in enumerate(checked.kinds) if i not in checked.kept}
    others |= {i: f"wants no gradient, {why}" for i, why in checked.silent.items()}
    lines += [f"left out: output {i} {why}" for i, why in sorted(others.items())]
    lines += [f"{np.sum(where)} entries of {name} are not finite: not judged" for name, where in checked.fixed.items()]
    lines += getattr(checked.target, "notes", [])
    branches = _not_entered(checked)
    if branches:
        lines.append(f"not entered at this point, so not checked: {', '.join(branches)}")
    return lines


def _not_entered(checked: Subject) -> list[str]:
    """Branches of a user's forward in which no line ran: "forward, line 12"."""
    function = inspect.unwrap(checked.target.forward) if checked.is_pair else None
    if not isinstance(function, FunctionType) or (function.__module__ or "").partition(".")[0] == "npformer":
        return []
    try:
        tree, first = tree_of(function)
    except (OSError, SyntaxError, TypeError, tokenize.TokenError):
        return []  # no source, or part of a line
    blocks = [
        range(block[0].lineno + first - 1, (block[-1].end_lineno or block[-1].lineno) + first)
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.For | ast.While)
        for block in (node.body, node.orelse)
        if block
    ]
    if not blocks:
        return []
    ran = _lines_run(function.__code__, lambda: checked.outputs({}))
    file = Path(function.__code__.co_filename).name
    missed = sorted({lines.start for lines in blocks if ran.isdisjoint(lines)})
    return [f"{function.__name__} ({file}, line {line})" for line in missed]


def _lines_run(code: CodeType, call: Callable[[], Any]) -> set[int]:
    """The lines of the code's file that run during call, in inner functions too."""
    runs = Counter[tuple[CodeType, int]]()
    with counted_lines(runs):
        call()
    return {line for one, line in runs if one.co_filename == code.co_filename}


@contextmanager
def counted_lines(runs: Counter[tuple[CodeType, int]], most: int = sys.maxsize) -> Iterator[None]:
    """Within this context the lines of users' code that run are counted. An earlier tracer is restored.

    Raises TimeoutError inside that code when more than most have run.
    """
    left = most

    def of_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            runs[frame.f_code, frame.f_lineno] += 1
            left -= 1
            if left < 0:
                raise TimeoutError(f"expected at most {most} lines to run")
        return of_line

    def of_call(frame: FrameType, event: str, arg: Any) -> Any:
        return None if frame.f_code.co_filename.startswith(_NOT_THEIRS) else of_line

    before = sys.gettrace()
    sys.settrace(of_call)
    try:
        yield
    finally:
        sys.settrace(before)
