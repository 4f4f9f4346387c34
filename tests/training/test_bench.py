"""Timing steps, and the profile of one: parts add up, and a slow part is seen where it is."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from npformer.backend import Backend, Pair, get_backend
from npformer.backend.numpy.blas_threads import blas_threads
from npformer.backend.roofline import Ceilings
from npformer.errors import ConfigError
from npformer.models.presets import PRESETS, Preset
from npformer.training import bench
from npformer.training.bench import BETWEEN, Budget, Profile, Row, profile_step, time_steps

PRESET = Preset(vocab_size=7, d_model=16, num_heads=2, num_layers=2, d_ff=32, length=5, batch=4)
CEILINGS = Ceilings(flops=1e9, bytes=1e9, shape=(1, 1, 1))


@pytest.fixture(autouse=True)
def known_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measure_ceilings", lambda backend, shapes: CEILINGS)


@pytest.fixture
def alone() -> Backend:
    """The plain kernels in float32 on one thread."""
    return get_backend("numpy", kernels="plain", threads=1)


def by_part(profile: Profile) -> dict[tuple[str, str], Row]:
    return {(row.op, row.direction): row for row in profile.rows}


def step_flops(preset: Preset) -> int:
    """Counted from the model: three products for each linear map, six for each attention."""
    tokens, c = preset.batch * preset.length, preset.d_model
    blocks = {"encoder": 4 * c * c + 2 * c * preset.d_ff, "decoder": 8 * c * c + 2 * c * preset.d_ff}
    weights = preset.num_layers * sum(blocks.values()) + c * preset.vocab_size
    attentions = 3 * preset.num_layers
    return 6 * tokens * weights + attentions * 12 * tokens * preset.length * c


def test_the_parts_add_up_to_a_step(alone: Backend) -> None:
    profile = profile_step(PRESETS["tiny"], alone, 0.1, Budget(steps=4))
    assert sum(row.seconds for row in profile.rows) == pytest.approx(profile.seconds)
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert 0.5 < profile.seconds / profile.unclocked < 2  # some percent; wide, for others may use the machine
    assert by_part(profile)[BETWEEN].share < 0.5
    assert profile.steps == 2  # the quicker half
    assert [row.seconds for row in profile.rows] == sorted((row.seconds for row in profile.rows), reverse=True)


def test_calls_and_work_of_a_step(alone: Backend) -> None:
    profile = profile_step(PRESET, alone, 0.1, Budget(steps=1))
    rows = by_part(profile)
    calls = {"feed_forward": 4, "attention": 6, "post_norm": 10, "linear": 15, "embedding": 2, "cross_entropy": 1}
    for op, number in calls.items():
        assert (rows[op, "forward"].calls, rows[op, "backward"].calls) == (number, number)
    assert rows["adam", "update"].calls == 1
    assert sum(row.flops for row in profile.rows) == step_flops(PRESET)
    hidden = rows["feed_forward", "forward"]
    assert (hidden.bound_by, hidden.bound_seconds) == ("products", hidden.flops / CEILINGS.flops)
    assert hidden.of_ceiling == hidden.bound_seconds / hidden.seconds
    norm = rows["post_norm", "backward"]
    assert (norm.bound_by, norm.bound_seconds, norm.flops) == ("memory", norm.bytes / CEILINGS.bytes, 0)
    assert norm.bytes == 4 * 10 * (5 * 4 * 5 * 16 + 5 * 16)  # of float32
    assert (rows[BETWEEN].bound_by, rows[BETWEEN].of_ceiling) == (None, None)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_slow_operation_is_found(alone: Backend, direction: str) -> None:
    pair = alone.ops.attention

    def slow(*inputs: Any) -> Any:
        time.sleep(0.01)
        return getattr(pair, direction)(*inputs)

    slowed = replace(alone, ops=replace(alone.ops, attention=pair._replace(**{direction: slow})))
    profile = profile_step(PRESET, slowed, 0.1, Budget(steps=6))  # one alone may lose its processor to others
    first = profile.rows[0]
    assert (first.op, first.direction) == ("attention", direction)
    assert first.seconds > 6 * 0.01


def test_a_slow_optimiser_and_slow_layers_are_told_apart(alone: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    update, zero = bench.Adam.step, bench.Arena.zero_grad

    def slow_update(*inputs: Any) -> None:
        time.sleep(0.02)
        update(*inputs)

    def slow_zero(arena: Any) -> None:
        time.sleep(0.04)
        zero(arena)

    monkeypatch.setattr(bench.Adam, "step", slow_update)
    monkeypatch.setattr(bench.Arena, "zero_grad", slow_zero)
    rows = profile_step(PRESET, alone, 0.1, Budget(steps=6)).rows
    assert [(row.op, row.direction) for row in rows[:2]] == [BETWEEN, ("adam", "update")]
    assert rows[1].seconds > 0.02


def test_a_profile_has_one_blas_thread_and_gives_the_others_back(alone: Backend) -> None:
    seen, before = [], blas_threads()
    pair = alone.ops.linear

    def looking(*inputs: Any) -> Any:
        seen.append(blas_threads())
        return pair.forward(*inputs)

    watched = replace(alone, ops=replace(alone.ops, linear=Pair(looking, pair.backward)))
    profile_step(PRESET, watched, 0.1, Budget(steps=1))
    assert set(seen) <= {1, None}
    assert blas_threads() == before


def test_threads_whose_times_overlap_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^backend: expected one of a single thread, .* got 2; get_backend\("):
        profile_step(PRESET, get_backend("numpy", kernels="plain", threads=2), 0.1, Budget(steps=1))


def test_timing_steps(alone: Backend) -> None:
    found = time_steps(PRESET, alone, 0.0, Budget(steps=30))
    assert len(found.seconds) == 30
    assert min(found.seconds) > 0
    assert found.last_loss < found.first_loss  # the steps do train


def test_how_long_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.time, "perf_counter", lambda: 100.0)
    assert [Budget(steps=2).left(done, began=0.0) for done in (1, 2)] == [True, False]
    timed = Budget(seconds=5.0)
    assert [timed.left(done, began) for done, began in ((2, 0.0), (3, 0.0), (3, 96.0))] == [True, False, True]
