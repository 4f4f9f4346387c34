"""Two losses as a small drawing within a page: that of a run's report, in the colours of the site."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npformer.pages.report_drawings import HEIGHT, WIDTH, Chart, Line, chart_figure, short

#: Where one loss falls this much below the other, both are drawn on a logarithmic scale.
_SPREAD = 30.0


def curves(right: Sequence[float], wrong: Sequence[float], span: int, title: str) -> str:
    """A <figure> of both losses; each value stands for ``span`` steps. One that is no number is a cross."""
    steps = [(i + 1) * span for i in range(len(right))]
    seen = [x for x in (*right, *wrong) if math.isfinite(x)]
    lines = [Line("right", 0, steps, right), Line("wrong", 1, steps, wrong)]
    return chart_figure(Chart(title, lines, short, log=min(seen) > 0 and max(seen) / min(seen) > _SPREAD))


def thumbnail(right: Sequence[float], wrong: Sequence[float], span: int) -> str:
    """The same without numbers, for the gallery, where the text beside it says what it is."""
    whole, lines = f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'viewBox="44 6 {WIDTH - 50} {HEIGHT - 30}"'
    return curves(right, wrong, span, "Loss").replace(whole, f'{lines} preserveAspectRatio="none"')
