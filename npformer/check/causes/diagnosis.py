"""The causes of the wrong gradients of a check: changes of the user's own source first, then patterns of the error."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from npformer.check import behaviour
from npformer.check.causes.elsewhere import Elsewhere
from npformer.check.causes.paths import left_out
from npformer.check.causes.patterns import NOT_ZERO, UNKNOWN, Clues, Diagnosis, diagnose, is_vague
from npformer.check.causes.search import SearchTarget, none_returned, repairs_of
from npformer.check.causes.signatures import other_form
from npformer.check.causes.source import literals_of, named_numbers, source_of
from npformer.check.causes.trial import plain, sources_run, trials_of
from npformer.check.checkable import Checkable, is_of_layers, unpacked
from npformer.check.look import MANY_ELEMENTS, CheckOptions, Look, look_at, random_upstreams, rows_of
from npformer.check.measures import NEGLIGIBLE, largest, max_abs
from npformer.check.oracles import Oracle
from npformer.check.report import RIGHT, WRONG, Report
from npformer.check.subject import Subject
from npformer.functional import AttentionMask, Draw
from npformer.functional.dropout import dropout_threshold
from npformer.typing import Named, Tensors


def diagnosed(checked: Subject, look: Look, how: CheckOptions) -> Report:
    """The report with an explanation in each wrong row. At a large point it is sought at a smaller one, and holds here.

    Patterns are read from small tensors alone.
    """
    wrong = {row.tensor for row in look.report.wrong}
    if checked.elements > LARGE:
        small, seen = Elsewhere(checked, how.seed).smaller(), None
        with suppress(Exception):  # a check may refuse what it cannot judge
            seen = small and look_at(small, replace(how, elementwise=None))
        if small and seen and {row.tensor for row in seen.report.wrong} == wrong:
            return look.report.explained(_diagnosed(small, seen, how, [checked]).causes)
    return _diagnosed(checked, look, how)


#: Elements of all tensors, beyond which each change takes long.
LARGE = 5000


def _diagnosed(checked: Subject, look: Look, how: CheckOptions, beyond: Sequence[Subject] = ()) -> Report:
    """The report with an explanation in each wrong row, which holds beyond its own point, too."""
    clues, report, checked = _clues_at(checked), look.report, plain(checked)
    oracle = Oracle(checked, look.upstreams, look.is_complex)
    wrong = [row.tensor for row in report.wrong]
    small = [row for row in report.rows if row.elements <= MANY_ELEMENTS]
    known = [row.tensor for row in small if not row.by_direction or not row.ok]
    truth = {t: (oracle.evidence(t) if look.directions else look.evidence[t]).truth[0] for t in known}
    if other := other_form(checked, look.upstreams[0], is_failing=False):
        return report.explained(dict.fromkeys(wrong, ("other arguments", other)))
    claimed = {tensor: look.claims[0][tensor] for tensor in known}
    diagnoses = diagnose(claimed, truth, clues, checked.tensors)
    if any(is_vague(d) and d.cause.startswith("scaled by") for d in diagnoses.values()):
        clues = replace(clues, sizes={**clues.sizes, **literals_of(sources_run(checked))})
        diagnoses = diagnose(claimed, truth, clues, checked.tensors)
    steps = {tensor: STEPS for tensor in wrong if _is_step(checked, tensor, diagnoses.get(tensor))}
    wrong = [tensor for tensor in wrong if tensor not in steps]

    def verdicts(point: Subject) -> dict[str, str]:
        """The verdicts with the backward as it is now, along directions at another point."""
        if point is not checked:
            return look_at(point, replace(how, elementwise=False)).verdicts
        claims = [checked.gradients(upstream) for upstream in look.upstreams]
        return {row.tensor: row.verdict for row in rows_of(oracle, look.evidence, claims, look.directions, how)}

    truths = [{t: evidence.truth[k] for t, evidence in look.evidence.items()} for k in range(len(look.upstreams))]
    others = cache(lambda: [*beyond, *_alike(checked, wrong, how.seed, verdicts)])
    exact = {t for t, evidence in look.evidence.items() if evidence.by_complex is not None}
    owed = {problem[:BEGINNING] for problem in report.problems}

    def is_whole() -> bool:
        """A change that heals the numbers may do so by sharing memory, or by another call."""
        problems = behaviour.problems(checked, look.upstreams, checked.gradients(look.upstreams[0]), oracle.rounding)
        return {problem[:BEGINNING] for problem in problems} <= owed

    point = SearchTarget(checked, look.upstreams, truths, look.directions, exact, others, verdicts, is_whole=is_whole)
    diagnoses = steps | _with_lines(diagnoses, point, wrong, look.claims[0], clues.sizes)
    is_unread = isinstance(checked.target, Checkable) and checked.target.owner is None
    no_line = f"; {checked.target.no_line}" if is_unread else ""
    texts = {t: d.text + (no_line if d.cause == UNKNOWN.cause else "") for t, d in diagnoses.items()}
    return report.explained({t: (d.cause, texts[t]) for t, d in diagnoses.items()})


def declared(checked: Subject, reference: Any, wrong: Sequence[str], seed: int) -> dict[str, Diagnosis]:
    """The causes beside the gradients that a reference declares, which may be other than its forward's derivatives."""

    def verdicts(point: Subject) -> dict[str, str]:
        pairs = [(point.gradients(r), point.of(reference).gradients(r)) for r in random_upstreams(point, seed)]
        return {name: RIGHT if all(_is_near(*pair, name) for pair in pairs) else WRONG for name in point.tensors}

    upstreams = random_upstreams(checked, seed)
    claimed, truths = checked.gradients(upstreams[0]), [checked.of(reference).gradients(r) for r in upstreams]
    clues = _clues_at(checked)
    others = cache(lambda: list(_alike(checked, wrong, seed, verdicts)))
    source = source_of(getattr(reference, "backward", None) or reference[1])
    nodes = ast.walk(source.definition) if source is not None else ()
    hints = tuple(dict.fromkeys(ast.unparse(n) for n in nodes if isinstance(n, ast.BinOp | ast.Call | ast.Compare)))
    point = SearchTarget(checked, upstreams, truths, {}, set(truths[0]), others, verdicts, hints=hints)
    return _with_lines(diagnose(claimed, truths[0], clues, checked.tensors), point, wrong, None, clues.sizes)


def _is_near(claims: Tensors, truths: Tensors, name: str) -> bool:
    """Whether a gradient is the declared one to rounding."""
    size = max(max_abs(truths[name]), NEGLIGIBLE * largest(truths.values()))
    return max_abs(claims[name] - truths[name]) <= DECLARED * size


def _clues_at(checked: Subject) -> Clues:
    return clues_of(checked.target, checked.inputs.mapped(lambda leaf: leaf.value), checked.options)


#: The most other points for code of a library, which may be compiled for each.
FEWER = 4
#: Of a problem, so many letters say of which kind it is.
BEGINNING = 24
#: Relative: two backwards in float64 compute the same in two orders.
DECLARED = 1e-9


def _is_step(checked: Subject, tensor: str, diagnosis: Diagnosis | None) -> bool:
    """Whether the forward answers in steps of a tensor: the same here, another far away, and there the same nearby."""
    x = checked.tensors[tensor]
    if diagnosis is not None and diagnosis.cause == NOT_ZERO:
        with suppress(Exception):  # far away may be out of the forward's domain
            far = 1.7 * x + 0.37 * np.max(np.abs(x), initial=1.0)
            here, there, beside = (checked.outputs({tensor: at}) for at in (x, far, far * (1 + 1e-9)))
            return all(map(np.array_equal, there, beside)) and not all(map(np.array_equal, here, there))
    return False


#: A gradient where the derivative is 0 on both sides of every step.
STEPS = Diagnosis(
    "undeclared estimator",
    "forward answers in steps, so its derivative is 0; if this gradient is meant, as a straight-through estimator's "
    "is, declare it: npf.gradcheck(pair, x, reference=(forward, the backward that is meant))",
)


def _with_lines(
    diagnoses: Mapping[str, Diagnosis],
    point: SearchTarget,
    wrong: Sequence[str],
    claimed: Tensors | None,
    sizes: Mapping[str, float],
) -> dict[str, Diagnosis]:
    """The diagnoses of the wrong tensors, with the change that makes them right, or what else is known."""
    vague = [tensor for tensor in wrong if is_vague(diagnoses.get(tensor))]
    trials = trials_of(point.subject, point.upstreams)
    repairs, remarks = repairs_of(point, wrong, trials, is_brief=not vague)
    mended, without = {tensor for one in repairs for tensor in one.fixes}, point.subject.inputs.none & set(wrong)
    known = {tensor: diagnoses.get(tensor, UNKNOWN) for tensor in wrong}
    zero = {tensor for tensor in wrong if known[tensor].cause == "zero"}
    for tensor in () if repairs else zero | without:
        known[tensor] = known[tensor]._replace(text=next(none_returned(trials), known[tensor].text))
    rest = [tensor for tensor in vague if tensor not in mended | without]
    if claimed is not None and rest:
        known |= left_out(point, rest, claimed, sizes)
    is_whole = mended.issuperset(wrong)
    for tensor in wrong:
        repair = next((one for one in repairs if tensor in one.fixes), None)
        if repair is None and known[tensor] == UNKNOWN:
            known[tensor] = known[tensor]._replace(text="; ".join([UNKNOWN.text, *remarks]))
        elif repair is not None and not (" = " in known[tensor].cause and LITERAL.search(repair.place)):
            cause, text = known[tensor]
            if tensor in vague or cause == repair.cause:
                cause, text = repair.cause if is_whole else cause, repair.cause
            known[tensor] = Diagnosis(cause, f"{text}: {repair.place if is_whole else _perhaps(repair.place)}")
    return known


#: A number in the place of one that a name of the problem explains: it is this input's own.
LITERAL = re.compile(r"should be `[-+\d.e]+`")


def _perhaps(place: str) -> str:
    """A change after which other gradients are as wrong as before: it may fit by chance."""
    could = place.replace("` should not be there", "` could be left out").replace("` should be `", "` could be `")
    return f"{could}, for this gradient alone"


def _alike(
    checked: Subject, wrong: Sequence[str], seed: int, verdicts: Callable[[Subject], dict[str, str]]
) -> Iterator[Subject]:
    """Other points where what is right is right, too: elsewhere the backward may not be meant to be."""
    is_slow = getattr(checked.target, "library", "numpy") != "numpy"
    for other in islice(Elsewhere(checked, seed).subjects(), FEWER if is_slow else None):
        with suppress(Exception):  # a step out of the forward's domain
            if all(verdict != WRONG or tensor in wrong for tensor, verdict in verdicts(other).items()):
                yield other


def clues_of(target: Any, inputs: Sequence[Any], options: Named) -> Clues:
    """Sizes, tokens, masks and heads, as far as they appear in inputs, options and the target's attributes."""
    values = [*inputs, *unpacked(options).values()]
    tokens = next((np.asarray(x) for x in values if isinstance(x, np.ndarray) and x.dtype.kind in "iu"), None)
    masks = (x.key_visible for x in values if isinstance(x, AttentionMask) and x.key_visible is not None)
    return Clues(
        sizes=_sizes(values, target) | named_numbers(getattr(target, "forward", None)),
        tokens=tokens,
        key_visible=next((np.asarray(mask) for mask in masks if isinstance(mask, np.ndarray)), None),
        num_heads=getattr(target, "num_heads", None),
    )


_LETTERS = {"H": "num_heads", "C": "d_model", "F": "d_ff"}


def _sizes(values: Sequence[Any], target: Any) -> dict[str, float]:
    """Named numbers that a wrong factor may equal, from the first float array, tokens and the target's attributes."""
    arrays = [x for x in values if getattr(x, "ndim", 0) in (2, 3, 4)]
    floats = [x.shape for x in arrays if "float" in str(x.dtype)]
    tokens = [x.shape for x in arrays if x.ndim == 2 and str(x.dtype).startswith("int")]
    named = [pair for shape in floats[:1] for pair in zip(("NC", "BTC", "BHTD")[len(shape) - 2], shape, strict=True)]
    named += [pair for shape in tokens[:1] for pair in zip("BT", shape, strict=True)]
    named += [("S", shape[-2]) for shape in floats[1:2] if len(shape) > 2]  # keys, or a memory
    named += [(letter, getattr(target, name, None)) for letter, name in _LETTERS.items()]
    sizes: dict[str, float] = {}
    for letter, length in named:
        if isinstance(length, int):
            sizes.setdefault(letter, float(length))
    if "H" in sizes and "C" in sizes:
        sizes.setdefault("D", sizes["C"] / sizes["H"])
    sizes = {letter: size for letter, size in sizes.items() if size > 1}
    sizes |= {f"√{letter}": math.sqrt(sizes[letter]) for letter in "CD" if letter in sizes}
    return sizes | _dropout_scale(values, target)


def _dropout_scale(values: Sequence[Any], target: Any) -> dict[str, float]:
    """1/(1−p) of active dropout: from an operation's draw, or from a layer's rate if there is a key."""
    rates = [x.rate for x in values if isinstance(x, Draw)]
    if any(is_of_layers(x, "RandomKey") for x in values):
        rates += [rate for name in ("dropout", "rate") if isinstance(rate := getattr(target, name, None), float)]
    return {"1/(1−p)": dropout_threshold(rates[0])[1]} if rates and rates[0] > 0 else {}
