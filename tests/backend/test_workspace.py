"""The workspace never hands out memory that is still referenced, and frees memory that is not used."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import numpy as np
import pytest

from npformer.backend import workspace
from npformer.backend.workspace import (
    ALIGNMENT,
    SMALL,
    Pool,
    PoolFull,
    address,
    empty,
    empty_like,
    from_pool,
    side_by_side,
)

SHAPE = (64, 2 + SMALL // 64)  # bytes of uint8: just large enough to be kept
PATIENCE = 600  # seconds until a test gives up on what would never happen


def on_a_new_thread(function):
    """The function, run on a thread of its own, whose pool is empty; it raises what it raised there."""

    @wraps(function)
    def run(*args, **named):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(function, *args, **named).result()

    return run


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[3:5][:, ::2][1],
        lambda x: x.view(np.int16).swapaxes(0, 1),
        lambda x: np.broadcast_to(x, (3, *x.shape)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x.reshape(-1), 7),
        lambda x: memoryview(x)[2:],
        lambda x: np.frombuffer(x, np.float32),
        lambda x: np.ndarray((4,), np.uint8, x, 8),
        lambda x: x.flat,
        lambda x: np.nditer(x),
        lambda x: x.ctypes,
        lambda x: [x[1, 1:], {"deep": (x[2],)}],
        lambda x: x.view(np.recarray),
        lambda x: np.ma.masked_array(x),
    ],
)
@on_a_new_thread
def test_whatever_still_sees_the_memory_keeps_it(view):
    x = empty(SHAPE, np.uint8)
    span = range(address(x), address(x) + x.nbytes)
    seen = view(x)
    del x
    gc.collect()
    others = [empty(SHAPE, np.uint8) for _ in range(3)]
    assert not any(address(other) in span for other in others)
    del seen, others
    gc.collect()
    assert any(address(other) in span for other in [empty(SHAPE, np.uint8) for _ in range(4)])


@on_a_new_thread
def test_a_function_that_fails_does_not_keep_its_memory_for_ever():
    where = []

    def fail():
        where.append(address(empty(SHAPE, np.uint8)))
        x = empty(SHAPE, np.uint8)
        where.append(address(x))
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
    gc.collect()
    assert address(empty(SHAPE, np.uint8)) in where


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (5, 0, 7), (1,), (3, 5), (100, 1001), (7, 11, 1013)])
def test_arrays_have_the_requested_shape_and_dtype(dtype, shape):
    for made in (empty(shape, dtype), empty(shape, np.dtype(dtype)), empty_like(np.empty(shape, dtype).T).T):
        assert made.shape == shape
        assert made.dtype == dtype
        assert made.flags.writeable
        assert made.nbytes < SMALL or address(made) % ALIGNMENT == 0
        made[...] = 1
        assert made.all()
    assert empty(shape, dtype).flags.c_contiguous


def test_every_thread_has_its_own_memory():
    """What one thread no longer needs, another does not get: no lock is needed between looking and taking."""
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        dropped = one.submit(lambda: address(empty(SHAPE, np.uint8))).result()
        taken = other.submit(lambda: [empty(SHAPE, np.uint8) for _ in range(3)]).result()
        assert dropped not in {address(x) for x in taken}
        assert dropped == one.submit(lambda: address(empty(SHAPE, np.uint8))).result()


def test_an_array_handed_to_another_thread_is_kept_there():
    made, checked = threading.Event(), threading.Event()
    box = []

    def make():
        box.append(empty(SHAPE, np.uint8)[1:])
        box[0][...] = 7
        made.set()
        for _ in range(50):
            empty(SHAPE, np.uint8)[...] = 0
        assert checked.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(make)
        assert made.wait(PATIENCE)
        assert (box[0] == 7).all()
        checked.set()
        done.result()
    assert (box[0] == 7).all()  # also after its thread has ended
    span = range(address(box[0]) - SHAPE[1], address(box[0]) + box[0].nbytes)
    assert not any(address(empty(SHAPE, np.uint8)) in span for _ in range(5))


@on_a_new_thread
def test_two_thousand_random_shapes_leave_what_the_first_hundred_did():
    """Steps of thirty arrays, kept and then dropped, those of the first step the largest of all."""

    rng = np.random.default_rng(0)
    pool, kept, peak = workspace._here.pool, [], 0
    for step in range(2000):
        sizes = (10 * SMALL * (rng.random() * rng.random(30) if step else np.ones(30))).astype(int)
        held = [empty((size,), np.uint8) for size in sizes.tolist()]
        peak = max(peak, int(sizes.sum()))
        del held
        kept.append(sum(pool.sizes))
    assert max(kept[100:]) <= max(kept[:100])
    assert max(kept) <= max(workspace.KEEP, workspace.ROOM * peak)


@on_a_new_thread
def test_what_is_needed_in_each_step_is_kept():
    """Steps of one shape, far beyond KEEP: no buffer is made after the first, none is given up."""

    sizes = [*range(SMALL, 40 * SMALL, SMALL // 2), *range(80 * SMALL, SMALL, -SMALL)]

    def step():
        held = []
        for i, size in enumerate(sizes):
            held.append(empty((size,), np.uint8))
            if i >= len(sizes) // 2:
                held.pop(0)
        return [id(buffer) for buffer in workspace._here.pool.buffers]

    step()
    assert sum(workspace._here.pool.sizes) > 2 * workspace.KEEP
    assert step() == step() == step()


@on_a_new_thread
def test_memory_of_a_single_peak_is_not_kept_for_ever():
    held = [empty((1 << 24,), np.uint8) for _ in range(8)]
    del held
    for i in range(400):
        empty((SMALL + 64 * i,), np.uint8)
        empty((3 * SMALL + 64 * i,), np.uint8)
        workspace._here.pool.shrink(sum(workspace._here.pool.sizes) - SMALL)  # so that some are always made anew
    assert sum(workspace._here.pool.sizes) <= workspace.KEEP


def test_a_pool_with_a_limit_gives_nothing_up_and_ends_there(monkeypatch):
    monkeypatch.setattr(workspace, "KEEP", 0)
    monkeypatch.setattr(workspace, "ROOM", 0.0)
    pool = Pool(limit=1000)
    with from_pool(pool, Traced):
        places = set()
        for size in (300, 100, 500):
            x = empty((size,), np.uint8)
            assert type(x) is Traced
            assert pool.owns(x.base)
            places.add(address(x))
            del x
        assert places == {address(empty((size,), np.uint8)) for size in (300, 100, 500)}
        with pytest.raises(PoolFull, match="at most 1000 bytes, got 900 and 1001"):
            empty((1001,), np.uint8)
    assert type(empty((300,), np.uint8)) is np.ndarray
    assert not pool.owns(empty(SHAPE, np.uint8).base)


def test_memory_of_another_thread_is_its_own():
    pool = Pool(limit=1000)
    with from_pool(pool, Traced):
        on_a_new_thread(expect_plain)()
    assert pool.sizes == []


def expect_plain():
    assert type(empty((300,), np.uint8)) is np.ndarray


class Traced(np.ndarray[Any, Any]):
    """A class of arrays."""


def columns(shape, *widths, dtype="float32"):
    """An array (*shape, Σ widths) of different numbers, and views of so many of its columns each."""
    whole = np.arange(np.prod(shape) * sum(widths), dtype=dtype).reshape(*shape, sum(widths))
    whole = whole.copy()  # whose memory is its own
    return whole, np.split(whole, np.cumsum(widths)[:-1], axis=-1)


@pytest.mark.parametrize("widths", [(4,), (4, 4, 4), (1, 5, 2)])
@pytest.mark.parametrize("shape", [(2, 3), (5,), (1, 1)])
def test_columns_of_one_array_are_joined_without_a_copy(shape, widths):
    whole, parts = columns(shape, *widths)
    for first in range(len(widths)):
        joined = side_by_side(parts[first:])
        assert joined is not None
        assert np.array_equal(joined, whole[..., sum(widths[:first]) :])
        assert address(joined) == address(whole) + sum(widths[:first]) * whole.itemsize


def test_arrays_that_are_not_adjacent_are_not_joined():
    whole, (a, b, c) = columns((4, 2), 3, 3, 3)
    other, (d, *_) = columns((4, 2), 3, 3, 3)
    assert address(d) != address(a)
    for parts in ((b, a), (a, c), (a, d), (a, b.copy()), (a, b[:2]), (a, a), (a[..., ::2], b[..., ::2]), ([1], [2])):
        assert side_by_side(parts) is None
    assert side_by_side((a, b.view("int32"))) is None
    rows = whole.reshape(8, 9)
    assert side_by_side((rows[:-1], rows[1:])) is None  # one after the other in memory, and overlapping
    assert side_by_side((other, other)) is None
