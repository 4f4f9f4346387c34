"""Threads share a batch; losses, gradients and parameters equal those of one thread, up to rounding."""

import gc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from npformer.backend import Pair, get_backend
from tests.engine.conftest import CASES, bits, build, new_step, trained, trained_through_changes
from tests.outputs import unchanged

PADDED = np.array([[3, 5, 4, 6, 8, 2], [8, 2, 0, 0, 0, 0], [4, 7, 2, 0, 0, 0], [0] * 6, [0] * 6])
#: Five rows; shared out to two threads the second part, to five the last two, are padding alone.
UNEQUAL = (PADDED, PADDED, PADDED)
EVEN = tuple(np.random.default_rng(0).integers(1, 9, size=(7, n)) for n in (5, 4, 4))
ONE = tuple(ids[:1] for ids in EVEN)
TWO = tuple(ids[1:3] for ids in EVEN)
BATCHES = [UNEQUAL, EVEN, ONE, TWO, UNEQUAL]


def same(actual, true):
    for step, (some, others) in enumerate(zip(actual, true, strict=True)):
        for name, a, b in zip(("loss", "gradient", "parameters"), some, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1, np.max(np.abs(b))), err_msg=f"{name}, {step}")


@pytest.fixture
def on_threads(kernels):
    """on_threads(n, dtype): NumPy with each table of kernels in turn, on so many threads."""
    return lambda threads, dtype="float64": get_backend("numpy", dtype, kernels=kernels, threads=threads)


@pytest.fixture
def numpy_on_threads():
    """numpy_on_threads(n): the plain pairs in float64 on so many threads."""
    return lambda threads: get_backend("numpy", "float64", kernels="plain", threads=threads)


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_threads_gives_the_result_of_one(case, on_threads):
    changes, options = CASES[case]
    alone = trained(new_step(build(on_threads(1), **changes), **options), BATCHES)
    for threads in (2, 3, 5):
        same(trained(new_step(build(on_threads(threads), **changes), **options), BATCHES), alone)


def test_changes_between_steps_reach_every_thread(numpy_on_threads):
    """Also when the threads have their replicas already."""
    runs = [
        trained_through_changes(new_step(build(numpy_on_threads(threads)), clip_norm=0.05), BATCHES[:2])
        for threads in (1, 3)
    ]
    same(*runs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_seed_and_one_thread_count_give_the_same_run_to_the_bit(dtype, on_threads):
    options = {"accumulate": 2, "clip_norm": 0.05}
    runs = [trained(new_step(build(on_threads(3, dtype)), **options), BATCHES) for _ in range(2)]
    assert bits(runs[0]) == bits(runs[1])


def failing_at(backend, token):
    """The backend, but the loss of a part with this target fails."""
    loss = backend.ops.cross_entropy

    def forward(logits, targets, *options):
        if np.any(targets == token):
            raise MemoryError(f"no room for {token}")
        return loss.forward(logits, targets, *options)

    return replace(backend, ops=replace(backend.ops, cross_entropy=Pair(forward, loss.backward)))


@pytest.mark.parametrize("token", [1, 2, 3], ids=["the caller's part", "a thread's", "the last thread's"])
def test_an_error_on_any_thread_leaves_everything_as_it_was(token, numpy_on_threads):
    target = np.array([[1, 4, 4], [2, 4, 4], [3, 4, 4]])
    step = new_step(build(failing_at(numpy_on_threads(3), token)))
    good = (target, target, np.full_like(target, 5))
    step(*good)
    state = unchanged(step.model.arena, step.optimizer.m, step.optimizer.v)
    with state, pytest.raises(MemoryError, match=f"no room for {token}"):
        step(target, target, target)
    assert step.step_number == 1
    calm = new_step(build(numpy_on_threads(1)))
    same(trained(step, [good]), trained(calm, [good, good])[1:])  # nothing is left over in a replica's gradients


@pytest.mark.parametrize(
    ("least", "accumulate", "parts"),
    [(1, 1, [3]), (117, 1, [2]), (176, 1, [1]), (100, 2, [2, 1])],  # of 7·5·10 numbers; of 4·5·10 and 3·5·10
)
def test_a_part_has_enough_numbers_to_pay(least, accumulate, parts):
    on = get_backend("numpy", "float64", kernels="numpy", threads=3)
    on = replace(on, engine=replace(on.engine, least_part=least))
    step = new_step(build(on, d_model=10), accumulate=accumulate)
    step_inputs = step._inputs_of(EVEN, 0)
    assert [len(some) for some in step_inputs.shares] == parts
    alone = new_step(
        build(get_backend("numpy", "float64", kernels="numpy", threads=1), d_model=10), accumulate=accumulate
    )
    same(trained(step, [EVEN]), trained(alone, [EVEN]))


def test_a_backend_of_more_threads_than_the_step_was_made_for(numpy_on_threads):
    step, true = (new_step(build(numpy_on_threads(2))) for _ in range(2))
    other = numpy_on_threads(5)
    for layer in step.model.all_layers():
        layer.backend = other
    same(trained(step, BATCHES), trained(true, BATCHES))


def test_the_replicas_go_with_the_step_at_once(numpy_on_threads):
    """Their gradients are as large as the model; waiting for the garbage collector would keep them for long."""
    gc.disable()
    try:
        step = new_step(build(numpy_on_threads(3)))
        step(*EVEN)
        alive = [ref(replica.arena.grads) for replica in step.runner.shards.replicas._made]
        assert len(alive) == 2
        assert all(grads() is not None for grads in alive)
        del step
        assert all(grads() is None for grads in alive)
    finally:
        gc.enable()
