"""The engine of a backend: what a training step and a search ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npformer.engine import compile_ahead, fused_decode
from npformer.engine.capabilities import Capabilities, run_eagerly


@dataclass(frozen=True)
class FastEngine(Capabilities):
    """``backend.Engine``, which describes the methods."""

    compile_ahead = staticmethod(compile_ahead.compile_ahead)
    start = staticmethod(fused_decode.start)
    step = staticmethod(fused_decode.step)
    likeliest = staticmethod(fused_decode.likeliest)
    search = staticmethod(fused_decode.search)

    def eager(self) -> FastEngine:
        return replace(self, capture=run_eagerly, capture_part=run_eagerly, rooms=None)
