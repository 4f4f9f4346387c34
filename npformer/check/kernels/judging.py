"""The verdict on one kernel.

right        its gradients are right, here and in every regime, and it does nothing that a backward pass does not
wrong        a gradient is wrong, here or in a regime; or it cheats; or it hangs or crashes in a regime
cannot tell  the check does not settle it, or the time was up before all was tried
refused      nothing to judge: it does not load, raises an exception, hangs, crashes, or returns other shapes
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from npformer.check.check import gradcheck
from npformer.check.inputs import is_float
from npformer.check.kernels.cheats import OF, cheats, run
from npformer.check.kernels.files import KernelError, Task
from npformer.check.kernels.process import Ended, KernelProcess
from npformer.check.precision.formats import FORMATS, rounded
from npformer.check.report import UNCLEAR, WRONG, Report, Tried
from npformer.errors import NpformerError
from npformer.io.child_process import Limits
from npformer.io.seconds import now, since
from npformer.typing import HostArray

VERDICTS = ("right", "wrong", "cannot tell", "refused")
SEEDS = (1, 2)  # of two draws of inputs
#: Of a tensor's largest entry: in a regime, a smaller error is some roundings in float32, as of 1 + tanh near 0.
LEAST = 30 * 2.0**-24


def judged(task: Task, limits: Limits) -> dict[str, Any]:
    """The verdict on a kernel, for JSON, at most limits.seconds after this call and a moment."""
    began, reports = now(), list[Report]()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            verdict, *causes = _judged(task, partial(KernelProcess, task, limits, began + limits.seconds), reports)
    except Ended as ended:
        came = "wrong" if reports else "refused"
        verdict, causes = came if ended.is_its_own else "cannot tell", [str(ended)]
    except NpformerError as error:  # KernelError, and shapes that do not fit
        verdict, causes = "refused", [str(error)]
    except Exception as error:  # one kernel's odd results end no run of many
        verdict, causes = "cannot tell", [f"the check itself failed, {type(error).__name__}: {error}"]
    row = {"kernel": task.path.name, "key": task.key, "precision": task.precision, "verdict": verdict}
    found = reports[-1].to_dict() if reports else {}
    parts = {name: found.get(name, []) for name in ("tensors", "regimes", "problems", "notes")}
    return row | {"causes": causes, "seconds": round(since(began), 3)} | parts


def _judged(task: Task, start: partial[KernelProcess], reports: list[Report]) -> list[str]:
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
        g, wrong = run(kernel, one, of.wanted(one)), [row for row in report.rows if row.verdict == WRONG]
        causes += [f"{OF}{row.tensor} {_what(g[OF + row.tensor], row.note)}" for row in wrong]
        causes += report.problems
        if not causes and not kernel.faults and report.ok and (of.regimes or of.sizes != ()):
            walked = check(regimes=of.regimes, sizes=of.sizes)
            tried = [_seen(t) for t in walked.regimes]
            reports.append(replace(walked, regimes=tuple(tried)))
            wrongs = [t for t in tried if t.failed]
            causes += [f"{t.verdict} in {t}: {OF}{t.tensor}: {t.note}" for t in wrongs[:1] if t.tensor]
            causes += [f"{t.verdict} in {t}: {t.note}" for t in wrongs[:1] if not t.tensor]
            causes += [note for note in walked.notes if wrongs and note.startswith("the smallest input")]
        causes += kernel.faults
    if causes:
        return ["wrong", *causes]
    unsure = [f"{row.tensor}: {row.verdict}, {row.note}" for row in report.rows if not row.ok]
    return ["cannot tell", *unsure] if unsure else ["right"]


def _seen(tried: Tried) -> Tried:
    """What was tried; a smaller error than shows accuses nobody."""
    return replace(tried, verdict=UNCLEAR) if tried.verdict == WRONG and tried.scaled_error < LEAST else tried


def _what(g: HostArray, note: str) -> str:
    """What is wrong with a gradient."""
    if not np.any(g):
        return "is zero everywhere"
    return "is a constant" if g.size > 1 and np.all(g == g.flat[0]) else f"is wrong: {note}"
