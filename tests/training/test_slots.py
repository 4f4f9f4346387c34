"""Losses and weights depend on the number of slots, and not on how many threads or ranks make them."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend import Pair, get_backend
from npformer.backend.numpy.blas import blas_threads
from npformer.errors import ConfigError
from npformer.optim.blocks import BLOCK, block_squares, parts_of
from tests.engine.conftest import CASES, build, new_step, trained
from tests.engine.thread_ranks import in_threads

SLOTS = 8


def uneven(rows, seed, longest=8):
    """A batch whose rows have very different lengths, some of them nothing but padding."""
    rng = np.random.default_rng(seed)
    batch = [rng.integers(1, 9, size=(rows, n)) for n in (longest, longest - 1, longest - 1)]
    for row, length in enumerate(rng.integers(0, longest, size=rows)):
        for ids in batch:
            ids[row, max(length, 1) if ids is not batch[2] else length :] = 0
    return tuple(batch)


#: Also fewer rows than slots, a single one, and a number that no part divides.
BATCHES = [uneven(rows, seed) for seed, rows in enumerate((16, 19, 5, 1, 9))]


def weights(step):
    return step.model.arena.values.tobytes(), step.optimizer.moments()["second.generator.weight"].tobytes()


def run(backend, ranks=None, batches=BATCHES, shard_optimizer=False, **options):
    """(losses, norms, weights) of a run on one rank; wider than a block of the arena is long."""
    model = build(backend, d_model=24, d_ff=40, num_decoder_layers=1)
    step = new_step(model, slots=SLOTS, ranks=ranks, shard_optimizer=shard_optimizer, **options)
    seen = [(float(step(*batch)), None if step.grad_norm is None else float(step.grad_norm)) for batch in batches]
    return seen, *weights(step)


@pytest.fixture
def on(kernels):
    """on(threads, dtype): a backend with each table of kernels in turn; plain ones have an engine for two and more."""
    least = 2 if kernels == "plain" else 1
    return lambda threads=2, dtype="float32": get_backend("numpy", dtype, kernels=kernels, threads=max(least, threads))


@pytest.mark.parametrize("sharded", [False, True], ids=["", "sharded"])
@pytest.mark.parametrize("options", [{"clip_norm": 0.05}, {"accumulate": 3}], ids=["clipped", "accumulated"])
def test_any_number_of_threads_and_ranks_gives_the_same_bits(options, sharded, on):
    alone = run(on(2), **options)
    assert len({loss for loss, _ in alone[0]}) == len(BATCHES)
    for ranks, threads in ((2, 2), (8, 1)):
        backend = on(threads)
        every = in_threads(ranks, lambda rank, to=backend: run(to, rank, shard_optimizer=sharded, **options))
        assert every == [alone] * ranks
    if not sharded:
        assert run(on(8), **options) == alone


@pytest.mark.parametrize("case", CASES)
def test_slots_give_the_gradient_of_the_whole_batch_to_rounding(case, on):
    changes, options = CASES[case]
    whole = trained(new_step(build(on(2, "float64"), **changes), **options), BATCHES)
    slots = trained(new_step(build(on(2, "float64"), **changes), slots=SLOTS, **options), BATCHES)
    for some, others in zip(slots, whole, strict=True):
        for a, b in zip(some, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * max(1, np.max(np.abs(b))))


def test_products_take_one_thread_of_blas():
    """With two their last bits are others, where they are large enough for both."""
    backend, seen = get_backend("numpy", kernels="numpy", threads=1), []
    loss = backend.ops.cross_entropy

    def forward(*inputs):
        seen.append(blas_threads())
        return loss.forward(*inputs)

    noting = replace(backend, ops=replace(backend.ops, cross_entropy=Pair(forward, loss.backward)))
    step = new_step(build(noting), slots=2)
    step(*BATCHES[0])
    list(step.scatter(lambda item: seen.append(blas_threads()), [0]))
    assert seen in ([1, 1, 1], [None, None, None])


def test_flags_travel_with_a_step(on):
    def work(ranks):
        step = new_step(build(on()), slots=4, ranks=ranks)
        told = []
        for number in (0, 15 * ranks.rank, 0):
            step.stop_signal = number
            step(*BATCHES[0])
            told.append(step.latest_stop_signal)
        return told

    assert in_threads(2, work) == [[0, 15, 0]] * 2
    assert in_threads(1, work) == [[0, 0, 0]]


def test_a_sharded_optimiser_has_a_part_of_the_moments(on):
    def work(ranks):
        step = new_step(build(on(), d_model=64), slots=4, ranks=ranks, shard_optimizer=True)
        step(*BATCHES[0])
        return step.optimizer.m.shape[0], step.model.arena.size

    held = in_threads(4, work)
    size = held[0][1]
    assert sum(part for part, _ in held) == size
    assert max(part for part, _ in held) <= size // 4 + BLOCK


def test_a_part_that_is_the_whole_arena_begins_once(on):
    """Of an arena of one block the last rank keeps all moments; they stay where they are."""

    def work(ranks):
        model, kept = build(on(), d_model=8, d_ff=8, num_decoder_layers=1), []
        step = new_step(model, slots=4, ranks=ranks, shard_optimizer=True)
        for batch in BATCHES[:2]:
            step(*batch)
            kept.append(step.optimizer.m)
        return kept[0] is kept[1], step.optimizer.m.shape[0] == model.arena.size

    assert in_threads(2, work) == [(True, False), (True, True)]


def test_dealt_work_comes_back_in_order_on_every_rank(on):
    def work(ranks):
        step, made = new_step(build(on()), slots=4, ranks=ranks), []

        def square(number):
            made.append(number)
            return [number * number, 0.1 * number, f"é{number}"]

        return list(step.scatter(square, range(5))), made

    for rank, (results, made) in enumerate(in_threads(2, work)):
        assert results == [[i * i, 0.1 * i, f"é{i}"] for i in range(5)]
        assert made == list(range(rank, 5, 2))


@pytest.mark.parametrize(
    ("ranks", "slots", "message"),
    [(2, 1, "at most the number of slots, 1, got 2"), (4, 2, "slots, 2, got 4"), (3, 8, "a power of two .* got 3")],
)
def test_ranks_that_do_not_divide_the_slots_are_refused(ranks, slots, message, on):
    with pytest.raises(ConfigError, match=message):
        in_threads(ranks, lambda each: new_step(build(on()), slots=slots, ranks=each))


def test_what_slots_cannot_be_is_refused_with_the_reason(on):
    with pytest.raises(ConfigError, match="slots: expected a power of two, got 6"):
        new_step(build(on()), slots=6)
    with pytest.raises(ConfigError, match="slots: expected an integer >= 1, got 0"):
        new_step(build(on()), slots=0)
    plain = build(get_backend("numpy", kernels="plain"))
    for more in ({"slots": 2}, {"ranks": SimpleNamespace(rank=0, size=2)}):
        with pytest.raises(ConfigError, match=r"kernels: expected numpy, numba or cuda .* got plain on one thread"):
            new_step(plain, **more)
    with pytest.raises(ConfigError, match="slots: expected 1 for a model with BatchNorm, got 2: its rows depend"):
        new_step(build(on(), norm="batch"), slots=2)


def test_squares_of_blocks_leave_out_what_is_frozen(numpy64):
    arena = build(numpy64, d_model=64).arena
    for segment in arena.segments:  # what lies between them is 0
        arena.view(arena.grads, segment)[...] = np.random.default_rng(0).normal(size=segment.shape)
    arena.configure("encoder", trainable=False)
    trained_part = np.zeros(arena.size)
    for each in arena.runs():
        trained_part[each.where] = arena.grads[each.where]
    sums = np.concatenate([block_squares(arena, part) for part in parts_of(arena.size, 8)])
    expected = [np.sum(trained_part[i : i + BLOCK] ** 2) for i in range(0, arena.size, BLOCK)]
    np.testing.assert_allclose(sums, expected, rtol=1e-14)


def test_a_copied_step_goes_on_alone_from_where_it_is(on):
    step = new_step(build(on()), slots=4)
    step(*BATCHES[0])
    other = deepcopy(step)
    assert other.slots == 4
    assert float(step(*BATCHES[1])) == float(other(*BATCHES[1]))
    assert weights(step) == weights(other)
