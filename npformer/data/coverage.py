"""How much is covered: of a text by a vocabulary, or of a vocabulary by a file of vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from npformer.io.percent import percent

_SHOWN = 10


@dataclass(frozen=True)
class Coverage:
    """``missing`` ones among ``total`` things, with their counts. str() gives a line for a log."""

    total: int
    missing: Counter[str]

    @property
    def covered(self) -> int:
        """The number of things that are not missing."""
        return self.total - self.missing.total()

    def __str__(self) -> str:
        share = f" ({percent(self.covered / self.total)})" if self.total else ""
        line = f"{self.covered:,} of {self.total:,} covered{share}"
        if not self.missing:
            return line
        often = sorted(self.missing.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{what!r}" + (f" × {count:,}" if count > 1 else "") for what, count in often[:_SHOWN]]
        more = f" and {len(often) - _SHOWN:,} more" if len(often) > _SHOWN else ""
        return f"{line}; missing: {', '.join(named)}{more}"
