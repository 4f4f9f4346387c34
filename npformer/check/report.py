"""The result of a check: its verdicts, its rows, and the report that shows them as text, as JSON and in a notebook.

A row is a gradient's, of ``gradcheck``; an input in a regime, or a size; or a claim: of ``certify``, of a line of a
derivation, of the tolerance of a test, or of a learner's exercise.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from npformer.errors import GradientError
from npformer.io.notebook import Displayed
from npformer.io.percent import finite
from npformer.typing import Named, Shape

#: All verdicts. Where one is a word of a longer text, or of JSON that says so, it is in small letters.
RIGHT, WRONG, KINK, UNCLEAR, NOTHING = "right", "WRONG", "KINK HERE", "CANNOT TELL", "PROVES NOTHING"
PROBLEM = "PROBLEM"  # in a regime or at a size: backward fails where forward answers, or owes something else
NOT_TRIED = "not tried"  # a regime or a size at which there is nothing to check
HOLDS, FAILS, NOT_APPLICABLE = "holds", "DOES NOT HOLD", "does not apply"  # of claims
NOT_YET, OWN = "not yet", "your own"  # of a derivation's lines: to be written; of a name that nothing is compared with
NOT_BEGUN = "not begun"  # an exercise whose backward is still empty
REFUSED = "REFUSED"  # a kernel in which there is nothing to judge


class Judged:
    """What has a verdict."""

    verdict: str

    @property
    def ok(self) -> bool:
        return self.verdict in (RIGHT, HOLDS)

    @property
    def fails(self) -> bool:
        """Whether it is accused: what is in doubt neither fails nor is ok."""
        return self.verdict in (WRONG, PROBLEM, FAILS)

    @property
    def applies(self) -> bool:
        """Whether there was something to judge."""
        return self.verdict not in (NOT_APPLICABLE, NOT_TRIED, OWN)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; numbers that JSON cannot hold become None."""
        return {key: finite(value) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Row(Judged):
    """One tensor. Its errors are divided by scale, from one of the two rules of ``verdict.py``.

    The tensor's rule: max(max|n|, 1e-3·the largest gradient of the whole check), n being the witness. The entry's
    rule, if a small entry is wrong beside a large one: the sum of its own terms' sizes.
    """

    tensor: str
    shape: Shape
    elements: int
    scaled_error: float  # against the complex step, or the central difference where that cannot be used
    central_error: float  # against the central difference
    worst_index: tuple[int, ...]  # where the error is largest; for directions, the direction's number
    analytic: float  # there
    numeric: float  # there
    scale: float  # the divisor of errors
    verdict: str
    note: str = ""
    by_direction: bool = False  # random directions were checked, not elements
    cause: str = ""  # for a wrong gradient: a label, such as "missing term"
    diagnosis: str = ""  # and a sentence
    unjudged: int = 0  # entries too small beside the largest to be judged by themselves
    upstream: int = 0  # index of that upstream gradient
    region: str = ""  # the wrong region of a large tensor

    @property
    def ratio(self) -> float:
        """analytic / numeric at the worst index, which reveals a constant factor. NaN if both are almost 0."""
        if max(abs(self.analytic), abs(self.numeric)) <= 1e-10 * self.scale:
            return math.nan
        return self.analytic / self.numeric if self.numeric else math.copysign(math.inf, self.analytic)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON, with the ratio."""
        return super().to_dict() | {"ratio": finite(self.ratio)}

    def _limits(self) -> str:
        """Notes on the row: the extent of an error, and what the verdict does not cover."""
        if self.region:
            return "wrong everywhere" if self.region == "everywhere" else f"wrong in {self.region}"
        if self.unjudged:
            return f"{self.unjudged} of {self.elements} entries too small beside the largest to be judged"
        return ""

    def cells(self) -> tuple[str, ...]:
        """What stands below HEADER, but for the verdict."""
        index = ("dir " if self.by_direction else "") + ",".join(map(str, self.worst_index))
        shape = "×".join(map(str, self.shape)) or "scalar"
        ratio = f"{self.ratio:.3g}" if math.isfinite(self.ratio) else "–"
        numbers = (f"{self.scaled_error:.1e}", index, f"{self.analytic:.2e}", f"{self.numeric:.2e}", ratio)
        if math.isnan(self.analytic) and math.isnan(self.numeric):
            numbers = ("–",) * 5  # nothing was compared
        return self.tensor, shape, str(self.elements), *numbers

    @property
    def notes(self) -> str:
        """The note, the extent of an error, and what the verdict does not cover."""
        return "; ".join(filter(None, (self.note, self._limits())))

    def lines(self, indent: int = 0, columns: int = 80) -> list[str]:
        """The row of the table in so many columns, 60 or more; a long name and a note have lines of their own."""
        is_short, notes = len(self.verdict) <= 7, self.notes
        cells = (*self.cells(), self.verdict if is_short else "note:")
        verdict = "" if is_short else self.verdict
        text = f"{verdict} ({notes})".strip() if notes else verdict
        margin = " " * (indent + 4)
        note = textwrap.wrap(text, columns, initial_indent=margin, subsequent_indent=margin)
        if len(self.tensor) > WIDTHS[0] - indent:
            return [" " * indent + self.tensor, table_line(("", *cells[1:]), indent, columns), *note]
        return [table_line(cells, indent, columns), *note]


#: The verdicts in a regime, the gravest first.
_TOLD = (WRONG, PROBLEM, UNCLEAR, KINK)
_IN_ORDER = (*_TOLD, NOTHING, RIGHT, NOT_TRIED)
HEADER = ("tensor", "shape", "elem", "error", "worst", "analytic", "numeric", "ratio", "verdict")
WIDTHS = (17, 7, 4, 7, 7, 9, 9, 5)  # width of all columns but the last, which has 7


NARROW = (0, 3, 5, 6, 7, 8)  # the columns of a table narrower than 80: no shape, no elem, no worst


def table_line(cells: tuple[str, ...], indent: int = 0, columns: int = 80) -> str:
    """Cells in their columns: the name to the left, behind a margin, numbers to the right."""
    name = " " * indent + cells[0]
    aligned = [
        name.ljust(WIDTHS[0]),
        *(cell.rjust(w) for cell, w in zip(cells[1:-1], WIDTHS[1:], strict=True)),
        cells[-1],
    ]
    return " ".join(aligned if columns >= 80 else [aligned[i] for i in NARROW])


@dataclass(frozen=True)
class Tried(Judged):
    """One input in one regime, or one size, and the verdict there."""

    regime: str
    where: str  # the input that was changed, or the size
    verdict: str
    tensor: str = ""  # the gradient with the largest error
    scaled_error: float = math.nan
    note: str = ""

    def __str__(self) -> str:
        return f"{self.regime}, {self.where}" if self.where else self.regime


@dataclass(frozen=True)
class Claim(Judged):
    """A thing with a name, what it is said to be, and the verdict on that."""

    name: str
    meaning: str  # in one line
    verdict: str
    reason: str = ""  # where it fails, and the numbers there, or an error; why it does not apply
    details: Sequence[str] = ()  # lines below
    line: int = 0  # of a file; 0 if it is of none

    @property
    def holds(self) -> bool:
        return self.ok

    @property
    def notes(self) -> str:
        """The reason, and what was claimed where that fails."""
        return f"{self.reason} (claimed: {self.meaning})".lstrip() if self.fails else self.reason

    def __str__(self) -> str:
        return f"{self.verdict}: {self.notes}" if self.notes else self.verdict


@dataclass(frozen=True, repr=False)
class Report(Displayed):
    """What ``gradcheck``, ``certify``, ``tolerance`` and the judge of derivations return.

    ``ok``, ``str(report)``, ``to_dict()``, ``raise_if_failed()``.
    """

    name: str
    rows: tuple[Row, ...] = field(default_factory=tuple)
    problems: tuple[str, ...] = ()  # problems of forward or backward other than gradients (``behaviour.py``)
    notes: tuple[str, ...] = ()  # parts that the check does not cover, and a witness that was left out
    regimes: tuple[Tried, ...] = ()  # with ``regimes=``: each regime and size
    smallest: tuple[Any, ...] = ()  # the smallest inputs that were found at which the first of them fails
    claims: tuple[Claim, ...] = ()  # of ``certify``, of a derivation's lines, of tolerances

    @property
    def ok(self) -> bool:
        """Whether every gradient is right, in every regime too, all claims that apply hold, and there is no problem."""
        judged = [one.ok for one in (*self.rows, *self.claims) if one.applies]
        return bool(judged) and all(judged) and not self.problems and not any(tried.fails for tried in self.regimes)

    def __getitem__(self, name: str) -> Claim:
        """The claim of this name. Raises KeyError."""
        return {claim.name: claim for claim in self.claims}[name]

    @property
    def wrong(self) -> list[Row]:
        """The rows that are accused."""
        return [row for row in self.rows if row.fails]

    @property
    def worst(self) -> Row:
        """The row with the largest error, one that is not right before all others."""
        return max(self.rows, key=lambda row: (not row.ok, row.scaled_error))

    def changed(self, changes: Mapping[str, Named]) -> Self:
        """The report with other attributes of rows, by their tensors' names."""
        return replace(self, rows=tuple(replace(row, **changes.get(row.tensor, {})) for row in self.rows))

    @property
    def causes(self) -> dict[str, tuple[str, str]]:
        """(cause, diagnosis) of each row, by its tensor's name."""
        return {row.tensor: (row.cause, row.diagnosis) for row in self.rows}

    def explained(self, causes: Mapping[str, tuple[str, str]]) -> Self:
        """The report with these causes and diagnoses."""
        return self.changed({t: {"cause": cause, "diagnosis": text} for t, (cause, text) in causes.items()})

    def raise_if_failed(self) -> None:
        """Raise GradientError, with the table, unless ok."""
        if not self.ok:
            what = "a claim does not hold" if self.claims else "a gradient is not right"
            raise GradientError(f"{self.name}: {what}\n{self}")

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; numbers that JSON cannot hold become None."""
        rows = {"tensors": self.rows, "regimes": self.regimes, "claims": self.claims}
        told = {key: [one.to_dict() for one in judged] for key, judged in rows.items() if judged or key == "tensors"}
        return {"name": self.name, "ok": self.ok, "problems": self.problems, "notes": self.notes} | told

    def to_json(self) -> str:
        """``to_dict`` as JSON."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, columns: int = 80) -> list[str]:
        """The table in so many columns, 60 or more, and its explanations."""
        if self.claims:
            return [*textwrap.wrap(self.name, columns), *self.body(2, columns)]
        return [table_line(HEADER, 0, columns), *self.body(0, columns)]

    def body(self, indent: int, columns: int) -> list[str]:
        """What stands below the name or the head of the table: rows, regimes, claims, and the remarks."""
        lines = [line for row in self.rows for line in row.lines(indent, columns)] + self._regimes(indent, columns)
        margin, width = " " * indent, max((len(claim.name) for claim in self.claims), default=0)
        texts = [(f"{claim.name:<{width}}  {claim}", " " * (width + 2)) for claim in self.claims]
        for text, hanging in [*texts, *((text, " " * 4) for text in self.remarks())]:
            lines += textwrap.wrap(text, columns, initial_indent=margin, subsequent_indent=margin + hanging)
        return lines

    def _regimes(self, indent: int, columns: int) -> list[str]:
        """A row for each regime: how often each verdict, and the first that is not right, with its reason."""
        margin = " " * indent
        lines = [f"{margin}{'regime':<16} verdicts"] if self.regimes else []
        for regime in dict.fromkeys(tried.regime for tried in self.regimes):
            found = [tried for tried in self.regimes if tried.regime == regime]
            counts = [(sum(t.verdict == verdict for t in found), verdict) for verdict in _IN_ORDER]
            worst = min(found, key=lambda tried: _IN_ORDER.index(tried.verdict))
            text = f"{regime:<16} {', '.join(f'{n} {verdict}' for n, verdict in counts if n)}"
            if worst.verdict in _TOLD or len(found) == counts[-1][0]:
                text += f": {', '.join(filter(None, (worst.where, worst.tensor, worst.note)))}"
            lines += textwrap.wrap(text, columns, initial_indent=margin, subsequent_indent=margin + " " * 17)
        return lines

    def remarks(self) -> list[str]:
        """Each diagnosis, once for all its tensors; then how many claims hold, problems and notes."""
        by_text: dict[str, list[str]] = {}
        for row in self.rows:
            if row.diagnosis:
                by_text.setdefault(row.diagnosis, []).append(row.tensor)
        texts = [f"{', '.join(tensors)}: {text}" for text, tensors in by_text.items()]
        if self.claims:
            hold, fail = (sum(claim.verdict == verdict for claim in self.claims) for verdict in (HOLDS, FAILS))
            texts.append(f"{hold} hold, {fail} do not hold, {len(self.claims) - hold - fail} do not apply")
        texts += [f"PROBLEM: {problem}" for problem in self.problems]
        return texts + [f"note: {note}" for note in self.notes]
