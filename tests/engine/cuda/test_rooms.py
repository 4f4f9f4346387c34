"""The rooms of recorded decoding: states move in and out, and do not meet."""

import numpy as np
import pytest

from npformer.decoding import greedy
from npformer.engine import recorded_decode
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.engine.recorded_decode import Newest
from tests.engine.cuda.test_recorded_decode import HOST, sources, transformer


def test_rooms_are_used_again_and_kept_apart(a_gpu, machine, monkeypatch):
    """Equal shapes record nothing anew, fewer rows stay where they are, and two states do not meet."""
    model, src = transformer(a_gpu), sources(32)
    expected = [greedy(transformer(HOST), src[rows], 20) for rows in (slice(32), slice(5), slice(3, 17))]
    for _ in range(2):
        for rows, texts in zip((slice(32), slice(5), slice(3, 17)), expected, strict=True):
            np.testing.assert_array_equal(greedy(model, src[rows], 20), texts)
    assert machine.records == 1
    states, alone = [model.start(src[:5], 20) for _ in range(2)], model.start(src[:5], 20)
    tokens = np.random.default_rng(1).integers(0, 9, (2, 12, 5))
    for t in range(12):
        for state, row in zip(states, tokens[:, t], strict=True):
            logits = a_gpu.engine.step(model, row, state)
        np.testing.assert_allclose(a_gpu.host(logits), a_gpu.host(model.step(tokens[1, t], alone)), rtol=0, atol=1e-13)
        if t == 6:
            alone.reorder(np.array([4, 1, 1, 2]))
            for state in states:
                state.reorder(np.array([4, 1, 1, 2]))
            tokens = tokens[:, :, :4]
    rooms = states[0].recorded[0][0]
    assert len({state.recorded[1].number for state in states}) == 2
    assert len(rooms.rooms) == 2
    monkeypatch.setattr(recorded_decode, "ROOMS", 3)
    for length in range(2, 6):
        greedy(model, src[:1, : 16 * length], 5)
        greedy(model, src[:1], 64 * length, stop=lambda text: True)
    assert len(rooms.rooms) == 3


def test_rooms_have_a_part_of_the_device_s_memory_and_idle_ones_go_when_it_is_full(a_gpu, machine, monkeypatch):
    model, src = transformer(a_gpu), sources(8)
    expected = greedy(transformer(HOST), src, 5)
    np.testing.assert_array_equal(greedy(model, src, 5), expected)
    state = model.start(src, 5)
    a_gpu.engine.step(model, np.full(8, 1), state)
    (rooms, *_), room = state.recorded
    monkeypatch.setattr(a_gpu.device, "memory", int(6.5 * room.bytes / recorded_decode.SHARE))
    for length in (64, 256, 64, 512):
        greedy(model, src, length, stop=lambda text: True)
        assert len(rooms.rooms) == 1 or sum(room.bytes for room in rooms.rooms) <= 6.5 * room.bytes
    assert rooms.rooms[-1].shape[3] == 512
    machine.pools[0].free_all_blocks()
    machine.room = machine.used + room.bytes // 2  # too little, but for the room of 512 positions
    np.testing.assert_array_equal(greedy(model, src, 60, stop=lambda text: len(text) == expected.shape[1]), expected)


def test_rows_that_were_selected_move_apart_from_those_they_come_from(a_gpu):
    """As a beam's do, before another step and after it."""
    model, src = transformer(a_gpu), sources(3)
    tokens = np.random.default_rng(2).integers(3, 9, (4, 6))

    def decoded(step):
        first = model.start(src, 20)
        step(np.full(3, 1), first)
        state = first.select(np.array([0, 0, 1, 1, 2, 2]))
        step(tokens[0], state)
        other = state.select(np.arange(6))
        other.reorder(np.array([1, 0, 2, 2, 5, 4]))
        found = [step(tokens[1], other), step(tokens[2], state)]
        state.reorder(np.array([1, 1, 3, 2, 4, 4]))
        return [a_gpu.host(logits) for logits in (*found, step(tokens[3], state), step(tokens[3], other))]

    recorded = decoded(lambda tokens, state: a_gpu.engine.step(model, tokens, state))
    for found, expected in zip(recorded, decoded(model.step), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_an_earlier_state_left_is_not_seen(a_gpu):
    """NaN, from weights that were none."""
    model, src = transformer(a_gpu), sources(5)
    expected = greedy(model, src, 20)
    values = a_gpu.host(model.arena.values).copy()
    model.arena.values[...] = float("nan")
    greedy(model, np.full((5, 16), 3), 64)
    model.arena.values[...] = a_gpu.array(values)
    np.testing.assert_array_equal(greedy(model, src, 20), expected)


def test_weights_that_training_changes_are_those_of_the_next_text(a_gpu, machine):
    model, src = transformer(a_gpu), sources(5)
    first = greedy(model, src, 20)
    records = machine.records
    model.arena.values[...] = a_gpu.array(transformer(HOST, 4).arena.values)
    found = greedy(model, src, 20)
    np.testing.assert_array_equal(found, greedy(transformer(HOST, 4), src, 20))
    assert found.tolist() != first.tolist()
    assert machine.records == records


def of_first_layer(write):
    """write, which fails in the second layer."""
    calls = []

    def called(past, *inputs):
        calls.append(past)
        return write(past, *inputs) if len(calls) == 1 else 1 / 0

    return called


def test_a_step_that_breaks_off_can_be_made_again(a_gpu, machine, monkeypatch):
    model, src = transformer(a_gpu), sources(5)
    state, alone, tokens = model.start(src, 20), model.start(src, 20), np.full(5, 3)
    for t in range(6):
        if t in (0, 4):  # run, launched
            with monkeypatch.context() as patch:
                if t == 0:
                    patch.setattr(Newest, "write", of_first_layer(Newest.write))
                else:
                    patch.setattr(CupyDriver, "launch", lambda *inputs: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    a_gpu.engine.step(model, tokens, state)
        logits = a_gpu.host(a_gpu.engine.step(model, tokens, state))
        np.testing.assert_allclose(logits, a_gpu.host(model.step(tokens, alone)), rtol=0, atol=1e-13)


def test_rows_that_have_ended_choose_pads(a_gpu):
    model = transformer(a_gpu)
    state, going = model.start(sources(3), 20), np.array([True, False, True])
    chosen = a_gpu.engine.likeliest(model, np.array([1, 0, 1]), state, going, 64, -1)
    assert (chosen != 0).any(axis=0).tolist() == going.tolist()
    assert state.length == len(chosen) == recorded_decode.LOOK


def test_layers_that_differ_in_heads_are_decoded_as_they_are_written(machine, a_gpu):
    models = [transformer(backend) for backend in (a_gpu, HOST)]
    for model in models:
        model.decoder.layers[1].self_attention.num_heads = 4
    found, expected = (greedy(model, sources(5), 20) for model in models)
    np.testing.assert_array_equal(found, expected)
    assert machine.launches == 0
