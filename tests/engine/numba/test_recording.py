"""While a thread records nothing is computed, and whatever would look at a number is refused."""

import numpy as np
import pytest

from npformer.backend.workspace import Pool, empty, from_pool
from npformer.engine.numba import add_and_compare, recording
from npformer.layers.layer import concat_last

#: Methods and attributes that say nothing of the numbers, or show the same memory in another way.
HARMLESS = {
    "T", "mT", "base", "ctypes", "data", "device", "diagonal", "dtype", "flags", "flat", "getfield", "imag", "itemsize",
    "nbytes", "ndim", "ravel", "flatten", "real", "reshape", "resize", "setfield", "setflags", "shape", "size",
    "squeeze", "strides", "swapaxes", "to_device", "transpose", "view", "astype",
}  # fmt: skip
#: Methods that ask one of NumPy's functions, which an array of this class refuses.
ASK = {"all", "any", "clip", "conj", "conjugate", "cumprod", "cumsum", "max", "mean", "min", "prod", "round", "std",
       "sum", "trace", "var"}  # fmt: skip


@pytest.fixture
def tape():
    """A tape, on which this thread records."""
    tape = recording.Tape("float64", Pool(limit=1 << 20), None)
    recording.here.tape = tape
    with from_pool(tape.pool, recording.Traced):
        yield tape
    recording.here.tape = None


def test_every_method_of_an_array_is_known():
    """One that a later NumPy brings has to be looked at."""
    methods = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert methods - HARMLESS - ASK - set(recording.LOOKS) == set()


@pytest.mark.parametrize("name", sorted(ASK | set(recording.LOOKS)))
def test_a_method_that_looks_at_numbers_is_refused(tape, name):
    x = empty((3,), np.float64)
    arguments = {"__contains__": (1,), "__setitem__": (0, 1), "clip": (0, 1), "trace": ()}.get(name, ())
    x = empty((3, 3), np.float64) if name in ("trace", "round", "conj", "conjugate") else x
    x = empty((3, 3), np.complex128) if name.startswith("conj") else x
    if not hasattr(x, name):
        pytest.skip(f"this NumPy's arrays have no {name}")
    with pytest.raises(recording.NotRecordable):
        getattr(x, name)(*arguments)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x + 1.0,
        lambda x: x * x,
        lambda x: x @ x,
        lambda x: np.exp(x),
        lambda x: np.concatenate([x, x]),
        lambda x: np.where(x, 1, 2),
        lambda x: np.zeros_like(x),
        lambda x: np.add(x, x, where=False),
        lambda x: np.add.at(x, [0], 1),
        lambda x: x + np.zeros(2),
        lambda x: x + x.astype(np.float32),
        lambda x: x.T + x,
        lambda x: x != 3,
        lambda x: x.astype(np.int64) != 3.0,
        lambda x: [1, 2, 3][x[0, 0].view(np.int64)],
        lambda x: "yes" if x[0, 0] else "no",
        lambda x: list(x[0]),
        lambda x: x == x,
    ],
)
def test_other_sums_and_looks_are_refused(tape, look):
    x = empty((3, 3), np.float64)
    np.asarray(x)[...] = 1
    with pytest.raises(recording.NotRecordable):
        look(x)
    assert tape.calls == []


def test_views_are_views_and_sums_are_calls(tape):
    x, table = empty((2, 3, 4), np.float64), np.ones((3, 4))
    for view in (
        x.reshape(6, 4),
        np.reshape(x, (24,)),
        x.transpose(2, 0, 1),
        np.swapaxes(x, 0, 1),
        x[0, 1:],
        x[..., 0],
    ):
        assert type(view) is recording.Traced
        assert recording.root_of(view) is recording.root_of(x)
    y = x + table
    assert (type(y), y.shape, y.dtype) == (recording.Traced, (2, 3, 4), np.float64)
    assert np.add(x, y, out=y) is y
    ids = empty((2, 3), np.int64)
    mask = ids != 0
    assert (type(mask), mask.shape, mask.dtype) == (recording.Traced, (2, 3), np.bool_)
    assert [kernel for kernel, _ in tape.calls] == [add_and_compare.add, add_and_compare.add, add_and_compare.compare]
    assert [root is table for root, _ in tape.lasting] == [True]
    whole = empty((2, 3, 8), np.float64)
    assert recording.root_of(concat_last(whole[..., :4], whole[..., 4:])) is recording.root_of(whole)


def test_memory_is_used_again_as_it_will_be(tape):
    """Only what is alive at the same time needs memory of its own."""
    x = empty((64,), np.float64)
    for _ in range(50):
        x = x + x
    assert len(tape.calls) == 50
    assert len(tape.pool.sizes) <= 3


def test_a_number_that_was_computed_is_refused(tape):
    total = empty((1,), np.float64)
    with pytest.raises(recording.NotRecordable, match="number that was computed"):
        add_and_compare.compare(empty((3,), np.int64), total.reshape(()), empty((3,), np.bool_))


def test_an_array_that_others_take_the_place_of_is_given_as_a_whole(tape):
    kept = np.ones((2, 6)).view(recording.Kept)
    kept.number = 7
    assert kept[:, :6] is kept
    for part in (lambda: kept[:, :5], lambda: kept.reshape(12)):
        with pytest.raises(recording.NotRecordable, match="a part of an array"):
            add_and_compare.add(part(), np.ones(6), empty((12,), np.float64))
    whole = kept.reshape(12)
    whole.number = 7
    add_and_compare.add(whole, np.ones(6), empty((12,), np.float64))
    assert [(call, word, number) for call, word, number in tape.kept if number == 7] == [(0, 0, 7)]
