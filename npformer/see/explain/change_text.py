"""The change of a batch's loss by a step, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npformer.io.percent import percent
from npformer.see.explain.causes import LOOKS, causes
from npformer.see.explain.change import REMAINDER, Change
from npformer.see.explain.text import number
from npformer.see.explain.update import row

#: Rows of one list before the rest is summed.
MOST = 6


def change_lines(change: Change, name: str, pieces: Sequence[str], width: int) -> Iterator[str]:
    """The loss, its split in three ways, and the causes."""
    update, (share, loss) = change.made.update, change.lowest
    by_token = {
        f"b{b.row} t{b.place} {pieces[b.target]!r} {b.loss:.3g} → {a.loss:.3g}": part
        for b, a, part in zip(change.before.tokens, change.after.tokens, change.by_token, strict=True)
    }
    rose, fell = ([part for part in change.by_token if (part > 0) == up] for up in (True, False))
    clipped = "" if update.factor == 1 else f", clipped to {update.norm * update.factor:.4g}"
    named = [f"{cause.name}: {cause.evidence}" for cause in causes(change)]
    chance = "; a single batch may rise by chance" * (change.change > 0)
    nothing = f"nothing: no sign of any known cause ({', '.join(LOOKS)}){chance}"
    yield f"step {change.made.number} of {name}"
    for title, text, parts in (
        ("loss", f"{change.before.loss:.6g} before, {change.after.loss:.6g} after: {number(change.change)} (this "
                 "step's batch, the same dropout, float64)", {}),
        ("line", f"gradient·step promised {number(change.predicted)}; on the straight line the loss is lowest, "
                 f"{loss:.6g}, after {percent(share, 0)} of the step", {}),
        ("tokens", f"{len(rose)} of {len(by_token)} targets rose, together {number(math.fsum(rose))}; the others "
                   f"{number(math.fsum(fell))}", by_token),
        ("weights", "the integral of gradient·step over each", change.by_parameter),
        ("step", "the same, by what made the step", change.by_part),
        ("update", f"gradient of norm {update.norm:.4g}{clipped}; rate {float(update.rate.max()):.4g}; step of norm "
                   f"{math.sqrt(math.fsum(update.change**2)):.4g}", {}),
        *(("look at", text, {}) for text in named or [nothing]),
    ):  # fmt: skip
        yield row(title, text, width)
        yield from _rows(parts)


def _rows(parts: Mapping[str, float]) -> Iterator[str]:
    """Names, values and bars, the largest first; a bar of what lowers the loss is lighter."""
    order = sorted((name for name in parts if name != REMAINDER), key=lambda name: -abs(parts[name]))
    shown = {name: parts[name] for name in order[:MOST]}
    if len(order) > MOST:
        shown[f"{len(order) - MOST} more"] = math.fsum(parts[name] for name in order[MOST:])
    shown |= {name: parts[name] for name in parts if name == REMAINDER}
    largest, longest = max(map(abs, shown.values()), default=0.0) or 1.0, max(map(len, shown), default=0)
    for name, part in shown.items():
        bar = "▒█"[part > 0] * round(16 * abs(part) / largest)
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
