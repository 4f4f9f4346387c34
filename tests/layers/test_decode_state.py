"""The decode state: rows that are chosen, memory that is used again, states that share none that is written."""

import gc
import re

import numpy as np
import pytest

from npformer.backend import workspace
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import AttentionMask
from npformer.layers import DecodeState, KeyValues, LayerState
from npformer.layers.mechanisms import AttentionSums


def filled(backend, *shape):
    """Keys and values (B, H, S, D) that are all different."""
    rng = np.random.default_rng(sum(shape))
    room = KeyValues.empty(backend, *shape)
    room.write(0, backend.array(rng.normal(size=shape)), backend.array(rng.normal(size=shape)))
    return room


def state_of(backend, length=3):
    """Three rows with room for five positions, two layers, of which the second has no memory."""
    visible = backend.device.array(np.arange(15).reshape(3, 5) % 4 != 1, "bool")
    memory = AttentionMask(backend.device.array(np.arange(6).reshape(3, 2) % 3 != 1, "bool"))
    layers = (
        LayerState(filled(backend, 3, 2, 5, 4), filled(backend, 3, 2, 2, 4)),
        LayerState(filled(backend, 3, 2, 5, 6), None),
    )
    return DecodeState(backend, layers, backend.zeros((5, 8)), visible, np.arange(3), memory, length)


@pytest.fixture(params=["numpy64", "strict64"])
def backend(request):
    """NumPy, and a device that is not the host."""
    backend = request.getfixturevalue(request.param)
    return backend


def test_the_memory_of_a_run_serves_the_next_one(numpy32):
    gc.collect()  # so that nothing an earlier test left is freed meanwhile
    workspace.forget_unused()
    before = workspace.kept_bytes()
    room = KeyValues.empty(numpy32, 2, 4, 64, 64)
    kept = workspace.kept_bytes()
    assert kept - before >= room.keys.nbytes + room.values.nbytes
    del room
    KeyValues.empty(numpy32, 2, 4, 64, 64)
    assert workspace.kept_bytes() == kept


def contents(state):
    """Of every array what each row reads, on the host, positions not reached apart."""
    own = [part for layer in state.layers for part in layer.past.first(state.length)]
    shared = [part for layer in state.layers for part in layer.memory or ()]
    own, shared = [*own, state.visible[:, : state.length]], [*shared, state.memory_mask.key_visible]
    host, group = state.backend.host, np.arange(state.batch) // state.together
    return [*(np.array(host(each)) for each in own), *(host(each)[group] for each in shared), np.array(state.sources)]


def expect_rows(state, before, rows):
    """The state has these rows of the contents before."""
    for now, then in zip(contents(state), before, strict=True):
        assert np.array_equal(now, then[rows])


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1, 1, 0, 2], np.array([2], dtype=np.int32)])
def test_a_selection_holds_the_rows_asked_for(backend, rows):
    state = state_of(backend)
    chosen = state.select(rows)
    assert (chosen.batch, chosen.max_len, chosen.length) == (len(rows), 5, 3)
    expect_rows(chosen, contents(state), rows)
    assert chosen.layers[1].memory is None


def test_rows_of_the_same_sources_read_the_same_memory(numpy64):
    twice = state_of(numpy64).select([0, 0, 2])
    swapped = twice.select([1, 0, 2])
    assert swapped.layers[0].memory is twice.layers[0].memory
    assert swapped.layers[0].past is not twice.layers[0].past


def test_a_selection_shares_nothing_that_is_written(numpy64):
    state = state_of(numpy64)
    copy, before = state.select([0, 1, 2]), contents(state)
    for layer in copy.layers:
        for part in layer.past:
            part[...] = 1
    copy.visible[...] = False
    copy.length = 5
    expect_rows(state, before, slice(None))


def test_positions_not_reached_yet_are_not_copied(numpy64):
    state = state_of(numpy64, length=2)
    for part in state.layers[0].past:
        part[:, :, 2:] = -12345.678
    chosen = state.select([0, 1])
    assert not any((part[:, :, 2:] == -12345.678).any() for part in chosen.layers[0].past)


@pytest.mark.parametrize(
    ("change", "rows", "error", "text"),
    [
        ("reorder", [0, 1, 1, 2], ShapeError, "rows: expected no more than the B=3 rows there are, got 4; use select"),
        ("reorder", [0, 1, 3], ConfigError, "rows: expected row numbers with 0 <= row < B=3, got [0, 1, 3]"),
        ("select", [3], ConfigError, "rows: expected row numbers with 0 <= row < B=3, got [3]"),
        ("select", [0, -1], ConfigError, "rows: expected row numbers with 0 <= row < B=3, got [0, -1]"),
        ("select", [], ShapeError, "rows: expected row numbers (n,), at least one, got (0,)"),
        ("select", [[0, 1]], ShapeError, "rows: expected row numbers (n,), at least one, got (1, 2)"),
        ("select", [True, False, True], DTypeError, "rows: expected row numbers, got bool; np.flatnonzero makes them"),
        ("select", [0.0], DTypeError, "rows: expected row numbers, got float64"),
    ],
)
def test_rows_that_are_not_there_are_refused(change, rows, error, text, numpy64):
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        getattr(state_of(numpy64), change)(rows)


@pytest.mark.parametrize(
    ("start", "rows"),
    [([0, 0, 2, 2], [1, 0, 3, 3]), *(([0, 1, 2], rows) for rows in ([2, 0], [1, 1, 0], [2, 2], [1]))],
)
def test_rows_change_places_and_leave_in_place(backend, start, rows):
    """What others may be reading, the memory, is not written to."""
    state = state_of(backend).select(start)
    state.begins = 5 + np.arange(len(start))
    before, together = contents(state), state.select(rows).together
    pasts, memory = [layer.past for layer in state.layers], state.layers[0].memory
    untouched = [np.array(backend.host(part)) for part in memory]
    state.reorder(rows)
    expect_rows(state, before, rows)
    assert (state.batch, state.together) == (len(rows), together)
    assert state.begins.tolist() == [5 + row for row in rows]
    for layer, past in zip(state.layers, pasts, strict=True):
        assert len(start) != len(rows) or layer.past is past
        assert backend.name != "numpy" or all(map(np.shares_memory, layer.past, past))
    assert all(map(np.array_equal, map(backend.host, memory), untouched))


class Anew(AttentionSums):
    """A past that moves its rows into a new object, as the protocol allows."""

    def reorder(self, moves, length):
        return self.select(moves.rows, length)


@pytest.mark.parametrize("rows", [[1, 0, 2], [1, 0]])
def test_what_reorder_returns_is_the_new_past(numpy64, rows):
    """Also where all rows stay with their sources, as in a beam."""
    state = state_of(numpy64)
    sums = numpy64.array(np.arange(3 * 2.0).reshape(3, 1, 1, 2))
    state.layers = (LayerState(Anew(sums, sums, 3), None), state.layers[1])
    state.sources = np.array([0, 0, 2])
    state.reorder(rows)
    assert np.array_equal(state.layers[0].past.state, sums[rows])


def test_each_row_has_the_positions_of_its_own_text(backend):
    state = state_of(backend)
    table = np.arange(40.0).reshape(5, 8)
    state.positions = backend.array(table)
    assert np.array_equal(backend.host(state.position_encodings(2)), table[3:5])
    state.begins = np.array([0, 3, 4])
    assert np.array_equal(backend.host(state.position_encodings(2)), table[[[3, 4], [0, 1], [0, 0]]])
