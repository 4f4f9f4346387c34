"""The causes of the wrong gradients of a check: changes of the user's own source first, then patterns of the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from npformer.check.causes.elsewhere import Elsewhere
from npformer.check.causes.patterns import UNKNOWN, Clues, Diagnosis, diagnose, is_vague
from npformer.check.causes.search import SearchTarget, repairs_of
from npformer.check.causes.trial import plain
from npformer.check.checkable import Checkable, is_of_layers, unpacked
from npformer.check.look import MANY_ELEMENTS, CheckOptions, Look, look_at, rows_of
from npformer.check.oracles import Oracle
from npformer.check.report import WRONG, Report
from npformer.check.subject import Subject
from npformer.functional import AttentionMask, Draw
from npformer.functional.dropout import dropout_threshold


def diagnosed(checked: Subject, look: Look, how: CheckOptions) -> Report:
    """The report with an explanation in each wrong row; patterns are read from small tensors alone."""
    clues = clues_of(checked.target, checked.inputs.mapped(lambda leaf: leaf.value), checked.options)
    report, checked = look.report, plain(checked)
    oracle = Oracle(checked, look.upstreams, look.is_complex)
    wrong = [row.tensor for row in report.wrong]
    small = [row for row in report.rows if row.elements <= MANY_ELEMENTS]
    known = [row.tensor for row in small if not row.by_direction or not row.ok]
    truth = {t: (oracle.every_element(t) if look.directions else look.evidence[t]).truth[0] for t in known}
    diagnoses = diagnose({tensor: look.claims[0][tensor] for tensor in known}, truth, clues)

    def verdicts(point: Subject) -> dict[str, str]:
        """The verdicts with the backward as it is now, along directions at another point."""
        if point is not checked:
            return look_at(point, replace(how, elementwise=False)).verdicts
        claims = [checked.gradients(upstream) for upstream in look.upstreams]
        return {row.tensor: row.verdict for row in rows_of(oracle, look.evidence, claims, look.directions, how)}

    truths = [{t: evidence.truth[k] for t, evidence in look.evidence.items()} for k in range(len(look.upstreams))]
    others = cache(lambda: list(_alike(checked, wrong, how.seed, verdicts)))
    exact = {t for t, evidence in look.evidence.items() if evidence.by_complex is not None}
    point = SearchTarget(checked, look.upstreams, truths, look.directions, exact, others, verdicts)
    diagnoses = _with_lines(diagnoses, point, wrong)
    if isinstance(checked.target, Checkable) and checked.target.owner is None:
        diagnoses |= {
            t: d._replace(text=f"{d.text}; {checked.target.no_line}")
            for t, d in diagnoses.items()
            if d.cause == UNKNOWN.cause
        }
    return report.changed({t: {"cause": d.cause, "diagnosis": d.text} for t, d in diagnoses.items()})


def _with_lines(diagnoses: Mapping[str, Diagnosis], point: SearchTarget, wrong: Sequence[str]) -> dict[str, Diagnosis]:
    """The diagnoses of the wrong tensors, with the change that makes them right, or what else is known."""
    vague = [tensor for tensor in wrong if is_vague(diagnoses.get(tensor))]
    repairs, remarks = repairs_of(point, wrong, is_brief=not vague)
    known = {tensor: diagnoses.get(tensor, UNKNOWN) for tensor in wrong}
    for tensor in wrong:
        repair = next((one for one in repairs if tensor in one.fixes), None)
        if repair is None and tensor in vague:
            known[tensor] = known[tensor]._replace(text="; ".join([known[tensor].text, *remarks]))
        elif repair is not None:
            cause, text = known[tensor]
            if tensor in vague or cause == repair.cause:
                cause = text = repair.cause
            known[tensor] = Diagnosis(cause, f"{text}: {repair.place}")
    return known


def _alike(
    checked: Subject, wrong: Sequence[str], seed: int, verdicts: Callable[[Subject], dict[str, str]]
) -> Iterator[Subject]:
    """Other points where what is right is right, too: elsewhere the backward may not be meant to be."""
    for other in Elsewhere(checked, seed).subjects():
        with suppress(Exception):  # a step out of the forward's domain
            if all(verdict != WRONG or tensor in wrong for tensor, verdict in verdicts(other).items()):
                yield other


def clues_of(target: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Clues:
    """Sizes, tokens, masks and heads, as far as they appear in inputs, options and the target's attributes."""
    values = [*inputs, *unpacked(options).values()]
    tokens = next((np.asarray(x) for x in values if isinstance(x, np.ndarray) and x.dtype.kind in "iu"), None)
    masks = (x.key_visible for x in values if isinstance(x, AttentionMask) and x.key_visible is not None)
    return Clues(
        sizes=_sizes(values, target),
        tokens=tokens,
        key_visible=next((np.asarray(mask) for mask in masks if isinstance(mask, np.ndarray)), None),
        num_heads=getattr(target, "num_heads", None),
    )


def _sizes(values: Sequence[Any], target: Any) -> dict[str, float]:
    """Named numbers that a wrong factor may equal, from the first float array, tokens and the target's attributes."""
    sizes: dict[str, float] = {}
    arrays = [x for x in values if getattr(x, "ndim", 0) in (2, 3, 4)]
    tokens = [("BT", x.shape) for x in arrays if x.ndim == 2 and str(x.dtype).startswith("int")]
    floats = [({2: "NC", 3: "BTC", 4: "BHTD"}[x.ndim], x.shape) for x in arrays if "float" in str(x.dtype)]
    for letters, shape in [*floats[:1], *tokens[:1]]:
        for letter, length in zip(letters, shape, strict=True):
            sizes.setdefault(letter, float(length))
    if len(floats) > 1 and len(floats[1][1]) > 2:  # keys, or a memory
        sizes.setdefault("S", float(floats[1][1][-2]))
    for letter, name in (("H", "num_heads"), ("C", "d_model"), ("F", "d_ff")):
        length = getattr(target, name, None)
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
