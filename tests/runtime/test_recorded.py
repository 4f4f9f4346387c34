"""Recorded steps equal unrecorded ones to the bit, and models that cannot be recorded are computed as before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
from npformer.backend import Arena, Backend, Pair, get_backend
from npformer.backend.backend import run_eagerly
from npformer.backend.numba import replay
from npformer.backend.roofline import Roofline
from npformer.errors import ShapeError
from npformer.layers import Layer, ScaledDotProduct
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.models.presets import Preset
from npformer.optim import Adam
from npformer.training import TrainStep, bench

Host = np.ndarray[Any, Any]
SIZES: dict[str, Any] = {"d_model": 12, "num_heads": 2, "d_ff": 13, "dropout": 0.3, "max_seq_len": 8}
#: Changes of the configuration, and options of the step.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "post-LN": ({}, {"label_smoothing": 0.1}),
    "pre-LN, GELU, learned positions": ({"norm_order": "pre", "activation": "gelu", "positions": "learned"}, {}),
    "tied, clipped, two micro-batches": ({"tie_embeddings": True}, {"accumulate": 2, "clip_norm": 0.05}),
    "recomputed, no dropout, no positions": ({"recompute": True, "dropout": 0.0, "positions": "none"}, {}),
}
#: What NumPy's kernels compute, or Python.
NOT_RECORDED: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "linear": {"attention": "linear"},
    "local": {"attention": "local", "window": 2},
    "BatchNorm": {"norm": "batch"},
}


def backend(threads: int = 2, dtype: str = "float64") -> Backend:
    return get_backend("numpy", dtype, kernels="numba", threads=threads)


def build(on: Backend, **changes) -> Transformer:
    options = SIZES | {"num_encoder_layers": 1, "num_decoder_layers": 2} | changes
    return Transformer(TransformerConfig(9, 9, **options), backend=on, seed=2)


def new_step(model, **options) -> TrainStep:
    return TrainStep(model, Adam(model.arena, lr=0.01), seed=7, **options)


def batches(number: int, *shapes: tuple[int, int, int]) -> list[tuple[Host, Host, Host]]:
    """So many batches, of these shapes (B, S, T) in turn, pads among the ids."""
    rng = np.random.default_rng(0)
    turns = [shapes[i % len(shapes)] for i in range(number)]
    return [tuple(rng.integers(0, 9, (b, n)) for n in (s, t, t)) for b, s, t in turns]  # type: ignore[misc]


def trained(step: TrainStep, given) -> list[bytes]:
    """Loss, gradient and parameters after each batch, as bytes."""
    arena = step.model.arena
    return [np.asarray(step(*batch)).tobytes() + arena.grads.tobytes() + arena.values.tobytes() for batch in given]


def records(step: TrainStep) -> list[int]:
    """How many records each thread has made."""
    return [part._records for part in step.runner.shards.computes]


def unrecorded(on: Backend) -> Backend:
    return replace(on, capture_part=run_eagerly)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_are_the_steps(case, threads):
    changes, options = CASES[case]
    given = batches(10, (7, 5, 4), (4, 6, 3))
    step = new_step(build(backend(threads), **changes), **options)
    found = trained(step, given)
    assert found == trained(new_step(build(unrecorded(backend(threads)), **changes), **options), given)
    assert all(number >= 2 for number in records(step)[:2])  # four rows leave the third of three threads idle


def test_in_float32_a_replay_equals_the_first_run(monkeypatch):
    given = batches(5, (7, 5, 4))
    step = new_step(build(backend(dtype="float32")))
    found = trained(step, given)
    monkeypatch.setattr(replay, "MOST_MEMORY", 0)
    other = new_step(build(backend(dtype="float32")))
    assert found == trained(other, given)
    assert (records(step), records(other)) == ([1, 1], [0, 0])


@pytest.mark.parametrize("case", NOT_RECORDED)
def test_a_case_without_a_kernel_runs_layer_by_layer(case):
    given = batches(4, (6, 5, 4))
    step = new_step(build(backend(), **NOT_RECORDED[case]))
    assert trained(step, given) == trained(new_step(build(unrecorded(backend()), **NOT_RECORDED[case])), given)
    assert records(step) == [0, 0]


@pytest.mark.parametrize(
    ("kind", "recorded"),
    [
        (lambda on: Decoder(DecoderConfig(9, num_layers=1, **SIZES), backend=on), True),
        (lambda on: Encoder(EncoderConfig(9, head="tokens", num_layers=1, num_classes=9, **SIZES), backend=on), True),
        (
            lambda on: Encoder(EncoderConfig(9, head="sequence", num_layers=1, num_classes=9, **SIZES), backend=on),
            False,
        ),
    ],
)
def test_the_other_models(kind, recorded):
    model = kind(backend())
    whole = getattr(model.config, "head", "") == "sequence"
    given = [(ids, other[:, 0] if whole else other) for ids, other, _ in batches(5, (6, 5, 5))]
    step = new_step(model)
    assert trained(step, given) == trained(new_step(kind(unrecorded(backend()))), given)
    assert records(step) == [int(recorded)] * 2


def test_changes_between_steps_are_seen():
    def run(on: Backend) -> tuple[list[bytes], TrainStep]:
        step = new_step(build(on))
        model, given = step.model, batches(4, (6, 5, 4))
        found = trained(step, given)
        model.dropout.rate = 0.6
        model.decoder.layers[1].feed_forward.dropout = 0.0
        found += trained(step, given)
        model.arena.configure("encoder", trainable=False)
        found += trained(step, given)
        model.encoder.recompute = True
        model.config = replace(model.config, pad_id=8)
        step.label_smoothing, step.seed = 0.2, 3
        found += trained(step, given)
        model.arena.values[...] *= 1.5
        found += trained(step, given)
        model.arena.configure("generator.bias", trainable=False)
        model.generator.bias.data = model.generator.bias.data + 1  # no part of the arena any more
        return found + trained(step, given), step

    (found, step), (true, _) = run(backend()), run(unrecorded(backend()))
    assert found == true
    assert records(step) == [5, 5]


def test_more_shapes_than_records(monkeypatch):
    monkeypatch.setattr(replay, "MOST_SHAPES", 3)
    shapes = [(2, 3 + i, 3) for i in range(5)]
    given = batches(3 * len(shapes), *shapes) + batches(4, shapes[0])
    step = new_step(build(backend()))
    assert trained(step, given) == trained(new_step(build(unrecorded(backend()))), given)
    assert records(step) == [1, 1]


def test_records_share_their_memory():
    """A step of another shape takes what the first one's left, as far as it goes."""
    step = new_step(build(backend()))
    pools = [part._driver._pool for part in step.runner.shards.computes]
    trained(step, batches(3, (8, 6, 6)))
    first = [sum(pool.sizes) for pool in pools]
    given = batches(12, (8, 6, 6), (8, 6, 5), (8, 5, 6), (8, 5, 5))
    trained(step, given)
    assert records(step) == [4, 4]
    assert all(sum(pool.sizes) < 2 * size for pool, size in zip(pools, first, strict=True))


class Mixed(Layer):
    """A layer that is declared static, and computes by other means than kernels."""

    static = True

    def __init__(self, own, spelled: str):
        super().__init__(own.backend)
        self.own, self.spelled = own, spelled
        self.amount = np.array([0.5])

    def forward(self, x):
        if self.spelled == "weights":  # nothing of this depends on x, so nothing of it is an array being recorded
            weight = self.own.weight.data * self.amount[0]
            return self.ops.linear.forward(x, weight, self.own.bias.data)
        if self.spelled == "bare":
            return np.asarray(x) * self.amount[0] @ self.own.weight.data, None
        if self.spelled == "copied":
            x = np.array(x)
        elif self.spelled == "converted":
            x = x.astype(np.float64)
        elif self.spelled == "strict" and type(x) is not np.ndarray:
            raise ShapeError(f"x: expected an array, got {type(x)}")
        elif self.spelled == "picked":
            x = x[np.arange(len(x))]
        return self.ops.linear.forward(x, self.own.weight.data, self.own.bias.data)

    def backward(self, dy, cache):
        if cache is None:
            return dy @ self.own.weight.data.T
        return self.ops.linear.backward(dy, cache)[0]


@pytest.mark.parametrize("spelled", ["weights", "bare", "copied", "converted", "picked", "strict"])
def test_a_layer_that_computes_by_other_means_is_not_recorded(spelled):
    def run(on: Backend) -> tuple[list[bytes], list[int]]:
        model = Decoder(DecoderConfig(9, num_layers=1, **SIZES), backend=on)
        model.generator = Mixed(model.generator, spelled)
        model.arena = Arena(model.owned_parameters(), on)
        step = new_step(model)
        given = [(ids, other) for ids, other, _ in batches(4, (6, 5, 5))]
        return trained(step, given), records(step) if on.capture_part is not run_eagerly else []

    found, made = run(backend())
    assert found == run(unrecorded(backend()))[0]
    assert made == [0, 0]


def test_operations_of_another_table_are_called_at_every_step():
    """They may decide anew, as this one does: it doubles a map's output from the sixtieth time on."""

    def run(on: Backend) -> tuple[list[bytes], TrainStep]:
        count = 0

        def forward(*inputs):
            nonlocal count
            count += 1
            y, cache = on.ops.linear.forward(*inputs)
            return (y + y if count > 60 else y), cache

        other = replace(on, ops=replace(on.ops, linear=Pair(forward, on.ops.linear.backward)))
        step = new_step(build(other))
        return trained(step, batches(8, (6, 5, 4))), step

    (found, step), (true, _) = run(backend(1)), run(unrecorded(backend(1)))
    assert found == true
    assert records(step) == [0]


def test_a_user_defined_mechanism_is_called_at_every_step():
    class Mine(ScaledDotProduct):
        state_names = ("calls",)
        calls = 0

        def forward(self, *inputs, **options):
            Mine.calls += 1
            return super().forward(*inputs, **options)

    model = build(backend())
    model.encoder.layers[0].self_attention.mechanism = Mine()
    trained(new_step(model), batches(5, (6, 5, 4)))
    assert Mine.calls == 2 * 5  # two threads


def test_a_subclass_is_recorded_if_it_says_so_itself():
    class Silent(Transformer):
        """Somebody's own name for it."""

    class Declared(Transformer):
        """Somebody's own, and static."""

        static = True

    config, given = build(backend()).config, batches(4, (6, 5, 4))
    silent, declared, own = (new_step(kind(config, backend=backend(), seed=2))
                             for kind in (Silent, Declared, Transformer))  # fmt: skip
    assert trained(silent, given) == trained(declared, given) == trained(own, given)
    assert [records(step) for step in (silent, declared, own)] == [[0, 0], [1, 1], [1, 1]]


def test_a_profile_sees_every_operation_of_every_step(monkeypatch):
    """A step that is recorded has none to be seen."""
    monkeypatch.setattr(bench, "measure_roofline", lambda backend, shapes: Roofline(1e9, 1e9, (1, 1, 1)))
    preset = Preset(vocab_size=7, d_model=16, num_heads=2, num_layers=1, d_ff=32, length=5, batch=4)
    profile = bench.profile_step(preset, backend(1, "float32"), 0.1, bench.Budget(steps=6))
    assert all(row.seconds > 0 for row in profile.rows)
    assert [row.calls for row in profile.rows if row.op == "attention"] == [3, 3]


def test_a_hundred_shapes_leave_no_more_records_than_are_kept(monkeypatch):
    """Those used last, each seen twice; and the memory that they share has what the largest of them needs."""
    monkeypatch.setattr(replay, "MOST_SHAPES", 5)
    step = new_step(build(backend(threads=1)))
    shapes = [(b, s, t) for b in (1, 2, 3, 4) for s in (1, 3, 5, 7, 8) for t in (2, 3, 5, 6, 8)]
    kept = []
    for shape in shapes[::-1]:
        for batch in batches(2, shape):
            step(*batch)
        (compute,) = step.runner.shards.computes
        kept.append((len(compute._shapes), sum(compute._driver._pool.sizes)))
    assert max(count for count, _ in kept) == 5
    assert kept[-1][1] <= 2 * kept[0][1]
