"""The change of a batch's loss by a step, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npformer.explain.causes import LOOKS, causes
from npformer.explain.change import REMAINDER, Change
from npformer.explain.text import number
from npformer.explain.update_text import row

#: Rows of one list before the rest is summed.
MOST = 6


def change_lines(change: Change, name: str, pieces: Sequence[str], width: int, letter: str = "█") -> Iterator[str]:
    """The loss, its split in three ways, and the causes."""
    made = change.made
    yield f"step {made.number} of {name}"
    loss = f"{change.before.loss:.6g} before, {change.after.loss:.6g} after: {number(change.change)}"
    yield from row("loss", f"{loss} (this step's batch, the same dropout, float64)", width)
    lowest = min(change.line, key=lambda point: point[1])
    yield from row(
        "line",
        f"gradient·step promised {number(change.predicted)}; on the straight line the loss is lowest, {lowest[1]:.6g}, "
        f"after {lowest[0]:.0%} of the step",
        width,
    )
    yield from _tokens(change, pieces, width, letter)
    yield from _parts("weights", change.by_parameter, "the integral of gradient·step over each", width, letter)
    yield from _parts("step", change.by_part, "the same, by what made the step", width, letter)
    update = made.update
    clipped = "" if update.factor == 1 else f", clipped to {update.norm * update.factor:.4g}"
    size = math.sqrt(math.fsum(update.change**2))
    text = f"gradient of norm {update.norm:.4g}{clipped}; rate {float(update.rate.max()):.4g}; step of norm {size:.4g}"
    yield from row("update", text, width)
    named = causes(change)
    for i, cause in enumerate(named):
        yield from row("" if i else "look at", f"{cause.name}: {cause.evidence}", width)
    if not named:
        known = ", ".join(LOOKS)
        text = f"nothing: no sign of any known cause ({known}); a single batch may rise by chance"
        yield from row("look at", text, width)


def _tokens(change: Change, pieces: Sequence[str], width: int, letter: str) -> Iterator[str]:
    """The targets whose loss changed most."""
    before, parts = change.before.tokens, change.by_token
    rose, fell = [p for p in parts if p > 0], [p for p in parts if p <= 0]
    sums = f"together {number(math.fsum(rose))}; the others {number(math.fsum(fell))}"
    text = f"{len(rose)} of {len(parts)} targets rose, {sums}"
    yield from row("tokens", text, width)
    order = sorted(range(len(parts)), key=lambda i: -abs(parts[i]))
    names = {
        f"b{t.row} t{t.place} {pieces[t.target]!r} {t.loss:.3g} → {change.after.tokens[i].loss:.3g}": parts[i]
        for i in order[:MOST] for t in [before[i]]
    }  # fmt: skip
    rest = {} if len(parts) <= MOST else {f"{len(parts) - MOST} more": math.fsum(parts[i] for i in order[MOST:])}
    yield from _rows(names | rest, letter)


def _parts(title: str, parts: Mapping[str, float], about: str, width: int, letter: str) -> Iterator[str]:
    yield from row(title, f"{about}; sum {number(math.fsum(parts.values()))}", width)
    names = sorted((name for name in parts if name != REMAINDER), key=lambda name: -abs(parts[name]))
    shown = {name: parts[name] for name in names[:MOST]}
    if len(names) > MOST:
        shown[f"{len(names) - MOST} more"] = math.fsum(parts[name] for name in names[MOST:])
    yield from _rows(shown | {REMAINDER: parts[REMAINDER]}, letter)


def _rows(parts: Mapping[str, float], letter: str) -> Iterator[str]:
    """Names, values and bars; a bar of what lowers the loss is lighter."""
    largest, longest = max(map(abs, parts.values()), default=0.0) or 1.0, max(map(len, parts), default=0)
    for name, part in parts.items():
        bar = (letter if part > 0 else "▒" if letter == "█" else "=") * round(16 * abs(part) / largest)
        yield f"{'':12}{name:{longest}}  {number(part)}  {bar}".rstrip()


def change_document(change: Change, pieces: Sequence[str]) -> dict[str, Any]:
    """All of it, for JSON."""
    update, looks = change.made.update, zip(change.before.tokens, change.after.tokens, change.by_token, strict=True)
    return {
        "format": "npformer-step", "step": change.made.number, "loss_before": change.before.loss,
        "loss_after": change.after.loss, "change": change.change, "predicted": change.predicted, "line": change.line,
        "tokens": [b._asdict() | {"piece": pieces[b.target], "after": a.loss, "part": part} for b, a, part in looks],
        "parameters": change.by_parameter, "parts": change.by_part, "norm": update.norm, "factor": update.factor,
        "rate": float(update.rate.max()), "causes": [cause._asdict() for cause in causes(change)],
    }  # fmt: skip
