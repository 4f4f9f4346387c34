"""The verdict on one kernel.

right        its gradients are right, here and in every regime, and it does nothing that a backward pass does not
wrong        a gradient is wrong, here or in a regime; or it cheats; or it hangs or crashes in a regime
cannot tell  the check does not settle it, or the time was up before all was tried
refused      nothing to judge: it does not load, raises an exception, hangs, crashes, or returns other shapes
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from npformer.check.check import gradcheck
from npformer.check.inputs import is_float
from npformer.check.kernels.cheats import Trial, cheats
from npformer.check.kernels.files import Task
from npformer.check.kernels.process import Ended, KernelProcess
from npformer.check.precision.formats import FORMATS, Format, rounded
from npformer.check.report import WRONG, Report
from npformer.errors import NpformerError
from npformer.io.child_process import Limits
from npformer.io.seconds import now, since
from npformer.typing import HostArray

RIGHT_KERNEL, WRONG_KERNEL, CANNOT_TELL, REFUSED = "right", "wrong", "cannot tell", "refused"
SEEDS = (1, 2)  # of two draws of inputs


@dataclass(frozen=True)
class Verdict:
    """What is said of a kernel; report: of its gradients and regimes, if it came so far."""

    kernel: str
    precision: str
    verdict: str
    causes: tuple[str, ...]
    seconds: float
    report: Report | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        found = self.report.to_dict() if self.report is not None else {}
        parts = {name: found.get(name, []) for name in ("tensors", "regimes", "problems", "notes")}
        known = {"kernel": self.kernel, "precision": self.precision, "verdict": self.verdict}
        return known | {"causes": list(self.causes), "seconds": round(self.seconds, 3)} | parts


class _Judgement:
    """One kernel while it is judged."""

    def __init__(self, task: Task, limits: Limits) -> None:
        self._task, self._limits, self._began = task, limits, now()
        self._deadline = self._began + limits.seconds
        self.report: Report | None = None
        known = FORMATS[task.precision]
        one, other = (_placed(task.reference.draw(np.random.default_rng(seed)), known) for seed in SEEDS)
        self._draws = one, other

    def verdict(self) -> Verdict:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                verdict, *causes = self._found()
        except Ended as ended:
            came = WRONG_KERNEL if self.report is not None else REFUSED
            verdict, causes = came if ended.is_kernels else CANNOT_TELL, [str(ended)]
        except NpformerError as error:  # KernelError, and shapes that do not fit
            verdict, causes = REFUSED, [str(error)]
        path, spent = self._task.path, since(self._began)
        return Verdict(path.name, self._task.precision, verdict, tuple(causes), spent, self.report)

    def _start(self) -> KernelProcess:
        return KernelProcess(self._task.path, self._task.reference, self._limits, self._deadline)

    def _found(self) -> list[str]:
        """The verdict, then its causes."""
        task, u = self._task, FORMATS[self._task.precision].u
        with self._start() as kernel:
            causes = list(cheats(kernel, self._start, *self._draws, task.reference.wanted(self._draws[0]), u))
            check = partial(
                gradcheck, (kernel.forward, kernel.backward), *self._draws[0], reference=task.reference.target,
                names=task.reference.names, constant=task.reference.constant, precision=task.precision, explain=False,
            )  # fmt: skip
            causes = [*kernel.faults, *causes]
            report = check()
            causes += _wrong(report, kernel, self._draws[0])
            self.report = report
            if not causes and report.ok and (task.reference.regimes or task.reference.sizes != ()):
                self.report = check(regimes=task.reference.regimes, sizes=task.reference.sizes)
                causes += [note for note in self.report.notes if note.startswith("first WRONG in")]
            causes += [fault for fault in kernel.faults if fault not in causes]
        if causes:
            return [WRONG_KERNEL, *causes]
        unsure = [f"{row.tensor}: {row.verdict}, {row.note}" for row in report.rows if not row.ok]
        return [CANNOT_TELL, *unsure] if unsure else [RIGHT_KERNEL]


def _placed(inputs: Sequence[HostArray], precision: Format) -> list[HostArray]:
    """The inputs as the kernel takes them."""
    kind = precision.name if precision.name in ("float64", "float16") else "float32"
    return [rounded(x, precision).astype(kind) if is_float(x) else x for x in inputs]


def _wrong(report: Report, kernel: KernelProcess, inputs: Sequence[HostArray]) -> list[str]:
    """What is wrong at this point, by gradient."""
    rows = [row for row in report.rows if row.verdict == WRONG]
    if not rows:
        return list(report.problems)
    found = Trial(kernel, [row.tensor for row in report.rows])(inputs, 0).gradients
    told = []
    for row in rows:
        g = found.get(row.tensor, np.zeros(1))
        is_constant = g.size > 1 and bool(np.all(g == g.flat[0]))
        what = "zeros" if not np.any(g) else "a constant" if is_constant else f"wrong: {row.note}"
        told.append(f"the gradient of {row.tensor} is {what}")
    return told + list(report.problems)


def judged(task: Task, limits: Limits) -> Verdict:
    """The verdict on a kernel, at most limits.seconds after this call and a second more."""
    return _Judgement(task, limits).verdict()
