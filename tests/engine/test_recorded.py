"""Recorded steps equal unrecorded ones to the bit, and models that cannot be recorded are computed as before."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
from npformer.backend import Arena, Pair, get_backend
from npformer.backend.workspace import kept_bytes
from npformer.engine.numba import replay
from npformer.errors import ShapeError
from npformer.layers import Layer
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from tests.engine.conftest import (
    CASES,
    CHANGES,
    NOT_RECORDED,
    SIZES,
    bits,
    build,
    new_step,
    trained,
    trained_through_changes,
)


def backend(threads=2, dtype="float64"):
    return get_backend("numpy", dtype, kernels="numba", threads=threads)


def batches(number, *shapes):
    """So many batches, of these shapes (B, S, T) in turn, pads among the ids."""
    rng = np.random.default_rng(0)
    turns = [shapes[i % len(shapes)] for i in range(number)]
    return [tuple(rng.integers(0, 9, (b, n)) for n in (s, t, t)) for b, s, t in turns]


def records(step):
    """How many records each thread has made."""
    return [part._records for part in step.runner.shards.computes]


def records_of(make, batches, on=None, train=trained):
    """How many records each thread makes of make(backend)'s steps, which equal unrecorded ones to the bit."""
    on = on or backend()
    step = make(on)
    assert bits(train(step, batches)) == bits(train(make(replace(on, engine=on.engine.eager())), batches))
    return records(step)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_are_the_steps(case, threads):
    changes, options = CASES[case]
    made = records_of(
        lambda on: new_step(build(on, **changes), **options), batches(10, (7, 5, 4), (4, 6, 3)), backend(threads)
    )
    assert all(number >= 2 for number in made[:2])  # four rows leave the third of three threads idle


def test_in_float32_a_replay_equals_the_first_run(monkeypatch):
    train_batches = batches(5, (7, 5, 4))
    step = new_step(build(backend(dtype="float32")))
    replayed = bits(trained(step, train_batches))
    monkeypatch.setattr(replay, "MOST_MEMORY", 0)
    other = new_step(build(backend(dtype="float32")))
    assert replayed == bits(trained(other, train_batches))
    assert (records(step), records(other)) == ([1, 1], [0, 0])


@pytest.mark.parametrize("case", NOT_RECORDED)
def test_a_case_without_a_kernel_runs_layer_by_layer(case):
    assert records_of(lambda on: new_step(build(on, **NOT_RECORDED[case])), batches(4, (6, 5, 4))) == [0, 0]


@pytest.mark.parametrize(
    ("kind", "config", "recorded"),
    [
        (Decoder, DecoderConfig(9, num_layers=1, **SIZES), True),
        (Encoder, EncoderConfig(9, head="tokens", num_layers=1, num_classes=9, **SIZES), True),
        (Encoder, EncoderConfig(9, head="sequence", num_layers=1, num_classes=9, **SIZES), False),
    ],
)
def test_the_other_models(kind, config, recorded):
    whole = getattr(config, "head", "") == "sequence"
    train_batches = [(ids, other[:, 0] if whole else other) for ids, other, _ in batches(5, (6, 5, 5))]
    assert records_of(lambda on: new_step(kind(config, backend=on)), train_batches) == [int(recorded)] * 2


def test_changes_between_steps_are_seen():
    train_batches = batches(4, (6, 5, 4))
    made = records_of(lambda on: new_step(build(on)), train_batches, train=trained_through_changes)
    assert made == [1 + len(CHANGES) - 1] * 2  # new values in the same memory need no new record


def test_more_shapes_than_records(monkeypatch):
    monkeypatch.setattr(replay, "MOST_SHAPES", 3)
    shapes = [(2, 3 + i, 3) for i in range(5)]
    train_batches = batches(3 * len(shapes), *shapes) + batches(4, shapes[0])
    assert records_of(lambda on: new_step(build(on)), train_batches) == [1, 1]


def test_a_record_takes_the_memory_of_the_run_before_it(monkeypatch):
    """If the thread's own buffers were freed after the recording, the process would grow by as many bytes again."""
    at_start, written_down = [], replay.HostDriver._written_down

    def counted(driver, work):
        at_start.append(kept_bytes())
        return written_down(driver, work)

    monkeypatch.setattr(replay.HostDriver, "_written_down", counted)
    step = new_step(build(backend(threads=1)))
    train_batches = batches(2, (64, 40, 40))
    trained(step, train_batches[:1])
    assert kept_bytes() > 0
    trained(step, train_batches[1:])
    assert (at_start, records(step)) == ([0, 0], [1])


class Mixed(Layer):
    """A layer that is declared static, and computes by other means than kernels."""

    static = True

    def __init__(self, linear, spelled):
        super().__init__(linear.backend)
        self.own, self.spelled = linear, spelled
        self.amount = np.array([0.5])

    def forward(self, x):
        if self.spelled == "weights":  # nothing of this depends on x, so nothing of it is an array being recorded
            weight = self.own.weight.data * self.amount[0]
            return self.ops.linear.forward(x, weight, self.own.bias.data)
        if self.spelled == "bare":
            return np.asarray(x) * self.amount[0] @ self.own.weight.data, None
        if self.spelled == "copied":
            x = np.array(x)
        elif self.spelled == "strict" and type(x) is not np.ndarray:
            raise ShapeError(f"x: expected an array, got {type(x)}")
        elif self.spelled == "picked":
            x = x[np.arange(len(x))]
        return self.ops.linear.forward(x, self.own.weight.data, self.own.bias.data)

    def backward(self, dy, cache):
        if cache is None:
            return dy @ self.own.weight.data.T
        return self.ops.linear.backward(dy, cache)[0]


@pytest.mark.parametrize("spelled", ["weights", "bare", "copied", "picked", "strict"])
def test_a_layer_that_computes_by_other_means_is_not_recorded(spelled):
    def make(on):
        model = Decoder(DecoderConfig(9, num_layers=1, **SIZES), backend=on)
        model.generator = Mixed(model.generator, spelled)
        model.arena = Arena(model.owned_parameters(), on)
        return new_step(model)

    assert records_of(make, [(ids, other) for ids, other, _ in batches(4, (6, 5, 5))]) == [0, 0]


def test_operations_of_another_table_are_called_at_every_step():
    """They may decide anew, as this one does: it doubles a map's output from the sixtieth time on."""

    def make(on):
        count = 0

        def forward(*inputs):
            nonlocal count
            count += 1
            y, cache = on.ops.linear.forward(*inputs)
            return (y + y if count > 60 else y), cache

        other = replace(on, ops=replace(on.ops, linear=Pair(forward, on.ops.linear.backward)))
        return new_step(build(other))

    assert records_of(make, batches(8, (6, 5, 4)), backend(1)) == [0]


def test_many_shapes_leave_no_more_records_than_are_kept(monkeypatch):
    """Those used last, each seen twice; and the memory that they share has what the largest of them needs."""
    monkeypatch.setattr(replay, "MOST_SHAPES", 5)
    step = new_step(build(backend(threads=1)))
    shapes = [(b, s, t) for b in (1, 2, 4) for s in (1, 3, 8) for t in (2, 5, 8)]
    kept = []
    for shape in shapes[::-1]:
        for batch in batches(2, shape):
            step(*batch)
        (compute,) = step.runner.shards.computes
        kept.append((len(compute._shapes), sum(compute._driver._pool.sizes)))
    assert max(count for count, _ in kept) == 5
    assert kept[-1][1] <= 2 * kept[0][1]
