"""The verdict on one kernel.

right        its gradients are right, here and in every regime, and it does nothing that a backward pass does not
wrong        a gradient is wrong, here or in a regime; or it cheats; or it hangs or crashes in a regime
cannot tell  the check does not settle it, or the time was up before all was tried
refused      nothing to judge: it does not load, raises an exception, hangs, crashes, or returns other shapes

Numbers that no backward pass made show if calls come in another order, and memory holds other numbers.

    another each time    the same call gives another result
    dy ignored           another dy gives the same gradient
    earlier results      a new process, or another order of calls, gives other results
    unwritten memory     what the memory held before shows in a result

The kernel's process sees two more: measured slopes, and what is written where it should not be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple, is_float, like
from npformer.check.kernels.files import KernelError, KernelTask
from npformer.check.kernels.process import KernelEnded, KernelProcess
from npformer.check.measures import apart, max_abs
from npformer.check.report import REFUSED, RIGHT, UNCLEAR, WRONG, Report
from npformer.check.rounding.formats import FORMATS, rounded
from npformer.errors import NpformerError
from npformer.io.child.memory import FILLS
from npformer.io.child_process import Limits
from npformer.io.seconds import now, since
from npformer.typing import HostArray, HostArrays, Values

#: In the words of the judge, which are in small letters.
VERDICTS = tuple(map(str.lower, (RIGHT, WRONG, UNCLEAR, REFUSED)))
SEEDS = (1, 2)  # of two draws of inputs
#: Of a tensor's largest entry: in a regime, a smaller error is some roundings in float32, as of 1 + tanh near 0.
LEAST = 30 * 2.0**-24


def judged(task: KernelTask, limits: Limits) -> Values:
    """The verdict on a kernel, for JSON, at most limits.seconds after this call and a moment."""
    began, reports = now(), list[Report]()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            verdict, *causes = _judged(task, partial(KernelProcess, task, limits, began + limits.seconds), reports)
    except KernelEnded as ended:
        came = WRONG if reports else REFUSED
        verdict, causes = came if ended.is_its_own else UNCLEAR, [str(ended)]
    except NpformerError as error:  # KernelError, and shapes that do not fit
        verdict, causes = REFUSED, [str(error)]
    except Exception as error:  # one kernel's odd results end no run of many
        verdict, causes = UNCLEAR, [f"the check itself failed, {type(error).__name__}: {error}"]
    row = {"kernel": task.path.name, "key": task.key, "precision": task.precision, "verdict": verdict.lower()}
    found = reports[-1].to_dict() if reports else {}
    parts = {name: found.get(name, []) for name in ("tensors", "regimes", "problems", "notes")}
    return row | {"causes": causes, "seconds": round(since(began), 3)} | parts


def _judged(task: KernelTask, start: partial[KernelProcess], reports: list[Report]) -> list[str]:
    """The verdict, then its causes; reports: of the point, then with regimes."""
    of, precision = task.reference, FORMATS[task.precision]
    kind = task.precision if task.precision in ("float64", "float16") else "float32"

    def drawn(seed: int) -> list[HostArray]:
        inputs = of.draw(np.random.default_rng(seed))
        return [rounded(x, precision).astype(kind) if is_float(x) else x for x in inputs]

    one, other = map(drawn, SEEDS)
    with start() as kernel:
        causes = list(cheats(kernel, start, one, other, of.wanted(one), precision.u))
        check = partial(
            gradcheck, (kernel.forward, kernel.backward), *one, reference=of.target, names=of.names,
            constant=of.constant, precision=task.precision, explain=False,
        )  # fmt: skip
        report = check()
        if report.problems and all(row.verdict == UNCLEAR and np.isnan(row.analytic) for row in report.rows):
            raise KernelError(report.problems[0])  # there are no gradients to judge
        reports.append(report)
        g = run(kernel, one, of.wanted(one))
        causes += [f"{OF}{row.tensor} {_what(g[OF + row.tensor], row.note)}" for row in report.wrong]
        causes += report.problems
        if not causes and not kernel.faults and report.ok and (of.regimes or of.sizes != ()):
            walked = check(regimes=of.regimes, sizes=of.sizes)
            tried = [
                replace(t, verdict=UNCLEAR) if t.verdict == WRONG and t.scaled_error < LEAST else t
                for t in walked.regimes
            ]
            reports.append(replace(walked, regimes=tuple(tried)))
            wrongs = [t for t in tried if t.fails]
            causes += [f"{t.verdict} in {t}: " + f"{OF}{t.tensor}: " * bool(t.tensor) + t.note for t in wrongs[:1]]
            causes += [note for note in walked.notes if wrongs and note.startswith("the smallest input")]
        causes += kernel.faults
    if causes:
        return [WRONG, *causes]
    unsure = [f"{row.tensor}: {row.verdict}, {row.note}" for row in report.rows if not row.ok]
    return [UNCLEAR, *unsure] if unsure else [RIGHT]


def _what(g: HostArray, note: str) -> str:
    """What is wrong with a gradient."""
    if not np.any(g):
        return "is zero everywhere"
    return "is a constant" if g.size > 1 and np.all(g == g.flat[0]) else f"is wrong: {note}"


#: In units of u and of a result's largest entry: runs of the same code differ by less.
ALIKE = 64.0
OF = "the gradient of "


def run(kernel: KernelProcess, inputs: Sequence[HostArray], wanted: Sequence[str], seed: int = 0) -> HostArrays:
    """The outputs and gradients of a forward and its backward at the dy of this seed, in float64."""
    return _pulled(kernel, wanted, seed, *kernel.forward(*inputs))


def _pulled(kernel: KernelProcess, wanted: Sequence[str], seed: int, y: Any, cache: Any) -> HostArrays:
    rng = np.random.default_rng([seed, 13])
    dy = like(y, [np.asarray(rng.normal(size=part.shape), dtype=part.dtype) for part in as_tuple(y)])
    gradients = zip(wanted, kernel.backward(dy, cache), strict=True)
    found = {f"output {i}": part for i, part in enumerate(as_tuple(y))}
    found |= {OF + name: np.zeros(1) if g is None else g for name, g in gradients}
    return {name: np.asarray(x, dtype=np.float64) for name, x in found.items()}


def cheats(
    kernel: KernelProcess, start: Callable[[], KernelProcess], one: Sequence[HostArray], other: Sequence[HostArray],
    wanted: Sequence[str], u: float,
) -> Iterator[str]:  # fmt: skip
    """What the kernel does that no backward pass does, at two draws of inputs of the same shapes."""
    first, again = run(kernel, one, wanted), run(kernel, one, wanted)
    if changed := _apart(first, again, u):
        yield f"is another at each call: {changed}"
        return
    second, another_dy = run(kernel, other, wanted), run(kernel, one, wanted, 1)
    for name, x in first.items():
        if name.startswith(OF) and np.any(x) and np.array_equal(x, another_dy[name]):
            yield f"ignores dy: {name} is the same for another dy"
    with start() as new:
        alone = run(new, other, wanted)
    if early := _apart(alone, second, u):
        yield f"depends on earlier calls: {early} differs from that of a new process"
    else:
        caches = [kernel.forward(*inputs) for inputs in (one, other)]
        crossed = [_pulled(kernel, wanted, 0, *cache) for cache in caches]
        if late := _apart(first, crossed[0], u) or _apart(second, crossed[1], u):
            yield f"keeps what belongs into the cache elsewhere: {late} is another if a second forward comes between"
    kernel.fill = 1
    for name, x in run(kernel, one, wanted).items():
        empty = np.isnan(first[name]) & (x == FILLS[1]) if x.shape == first[name].shape else np.zeros(1, bool)
        if np.any(empty):
            yield f"does not write {int(np.sum(empty))} of {x.size} entries of {name}"
        elif _apart({name: first[name]}, {name: x}, u):
            yield f"reads memory before it is written: {name} depends on what that held"
    kernel.fill, kernel.watch = 0, True
    run(kernel, one, wanted)
    kernel.watch = False


def _apart(expected: HostArrays, got: HostArrays, u: float) -> str:
    """The name of a result that differs by more than rounding, or ""."""
    for name, x in expected.items():
        if name not in got or apart(x, got[name]) > ALIKE * u * max_abs(x[np.isfinite(x)]):
            return name
    return ""
