"""The engine of a backend: what a training step and a search ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from npformer.engine import compile_ahead, fused_decode, fused_encode, runner
from npformer.engine.capabilities import Capabilities, run_eagerly
from npformer.typing import Array, HostArray


@dataclass(frozen=True)
class FastEngine(Capabilities):
    """``backend.Engine``, which describes the methods."""

    def eager(self) -> FastEngine:
        return replace(self, capture=run_eagerly, capture_part=run_eagerly)

    def compile_ahead(self, model: Any, *purposes: str) -> None:
        compile_ahead.compile_ahead(model, *purposes)

    def runner_for(self, model: Any, backpropagate: Callable[..., Array]) -> runner.Runner | None:
        return runner.runner_for(model, backpropagate)

    def start(self, model: Any, src: Array, max_len: int) -> Any:
        return fused_encode.start(model, src, max_len)

    def step(self, model: Any, tokens: Array, state: Any) -> Array:
        return fused_decode.step(model, tokens, state)

    def likeliest(
        self, model: Any, tokens: Array, state: Any, going: HostArray, count: int, eos_id: int
    ) -> HostArray | None:
        return fused_decode.likeliest(model, tokens, state, going, count, eos_id)

    def search(
        self, model: Any, tokens: Array, state: Any, beams: tuple[HostArray, ...], count: int, eos_id: int
    ) -> tuple[HostArray, HostArray] | None:
        return fused_decode.search(model, tokens, state, beams, count, eos_id)
