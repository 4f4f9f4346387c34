"""Recorded decoding: a token is one launch, and texts are those of NumPy, of every length, row by row."""

import dataclasses
import re

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.backend.select import cupy_backend
from npformer.check.cases.case import shaken
from npformer.decoding import beam_search, greedy, sample
from npformer.engine import recorded_decode
from npformer.engine.cupy import cupy_runtime
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.engine.recorded_decode import Newest
from npformer.errors import ShapeError, TokenError
from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig
from tests.engine.cupy import emulated

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 70, "dropout": 0.0, "init": "xavier"}
HOST = get_backend("numpy", "float64", kernels="plain")


@pytest.fixture
def cupy(runtimes, monkeypatch):
    monkeypatch.setattr(cupy_runtime, "announce", lambda: None)
    return emulated.installed(monkeypatch)


@pytest.fixture
def machine(cupy):
    return cupy.machine


@pytest.fixture
def gpu(cupy):
    return cupy_backend("float64")


def transformer(backend, seed=2, **changes):
    options = {"num_encoder_layers": 1, "num_decoder_layers": 2} | SIZES | changes
    return shaken(Transformer(TransformerConfig(9, 9, **options), backend=backend, seed=seed))


def decoder(backend, seed=2, **changes):
    return shaken(Decoder(DecoderConfig(9, **({"num_layers": 2} | SIZES | changes)), backend=backend, seed=seed))


def sources(rows, length=7):
    """Of unequal length."""
    rng = np.random.default_rng(0)
    src = rng.integers(3, 9, (rows, length))
    src[np.arange(length) >= rng.integers(1, length + 1, rows)[:, None]] = 0
    return src


KINDS = {
    "post-LN": {},
    "pre-LN, learned positions": {"norm_order": "pre", "positions": "learned", "final_norm": True},
    "no positions, tied": {"positions": "none", "tie_embeddings": True, "norm": "batch"},
}


@pytest.mark.parametrize("build", [transformer, decoder])
@pytest.mark.parametrize("rows", [1, 5, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_texts_are_those_of_numpy(kind, rows, build, gpu, machine):
    """Of ends early and late, and up to the last position there is, which is behind those that one graph reads."""
    src, (there, here) = sources(rows), (build(backend, **KINDS[kind]) for backend in (gpu, HOST))
    whole = greedy(here, sources(32), 70, eos_id=None)
    firsts = [np.where((whole == token).any(axis=1), np.argmax(whole == token, axis=1), 70) for token in range(9)]
    ends = sorted(range(3, 9), key=lambda token: len(set(firsts[token])))
    assert len(set(firsts[ends[-1]])) > 2
    for eos_id, most in ((ends[-1], 70), (ends[-2], 20), (None, 70)):
        expected = greedy(here, src, most, eos_id=eos_id)
        np.testing.assert_array_equal(greedy(there, src, most, eos_id=eos_id), expected)
    assert machine.launches > 70


@pytest.mark.parametrize("build", [transformer, decoder])
@pytest.mark.parametrize("rows", [1, 5, 32])
def test_beams_are_those_of_numpy(rows, build, gpu, machine):
    src, (there, here) = sources(rows), (build(backend) for backend in (gpu, HOST))
    for most, beam in ((9, 3), (20, 4), (70, 2)):
        found, expected = (beam_search(model, src, most, beam=beam) for model in (there, here))
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.tokens.tolist() for one in ours] == [one.tokens.tolist() for one in theirs]
            np.testing.assert_allclose([one.score for one in ours], [one.score for one in theirs], rtol=1e-11)
    assert machine.launches > 20


@pytest.mark.parametrize("build", [transformer, decoder])
def test_samples_are_those_of_numpy(build, gpu, machine):
    found, expected = (sample(build(backend), sources(5), 12, seed=4).tolist() for backend in (gpu, HOST))
    assert found == expected
    assert machine.launches > 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_recorded_step_is_the_step_to_the_bit(rows, dtype, cupy):
    """As long as attention takes the same way: zeros behind the newest position change no sum."""
    model, tokens = transformer(cupy_backend(dtype)), np.full(rows, 1)
    recorded, written = (model.start(sources(rows), 70) for _ in range(2))
    host, exact = model.backend.host, recorded_decode.READ
    for t in range(70):
        found, expected = (
            host(step(tokens, state))
            for step, state in (
                (lambda tokens, state: recorded_decode.step(model, tokens, state), recorded),
                (model.step, written),
            )
        )
        np.testing.assert_allclose(found, expected, rtol=0 if t < exact else 1e-5, atol=0 if t < exact else 1e-6)
        tokens = expected.argmax(axis=-1)
    assert recorded.length == written.length == 70
    assert cupy.machine.launches == 69


@pytest.fixture
def seen(cupy, monkeypatch):
    """What the host asks of the device: launches, other work, and waits; not for inputs of four steps before."""
    events, machine, inside = [], cupy.machine, []

    def noted(kind, name, event):
        real = getattr(kind, name)

        def called(*inputs, **options):
            if not inside and machine.recorded is None:
                events.append(event)
            inside.append(event)
            try:
                return real(*inputs, **options)
            finally:
                inside.pop()

        monkeypatch.setattr(kind, name, called)

    noted(cupy.classes.Graph, "launch", "launch")
    noted(machine, "do", "work")
    noted(machine, "read", "wait")
    for kind in (cupy.classes.Stream, cupy.classes.Device):
        noted(kind, "synchronize", "wait")
    return events


def sequence(events):
    """From the first launch on, in letters: launches, waits, and a dot for other work."""
    return "".join({"work": "."}.get(event, event[0]) for event in events[events.index("launch") :])


@pytest.mark.parametrize("build", [transformer, decoder])
@pytest.mark.parametrize("rows", [1, 32])
def test_a_greedy_token_is_one_launch_and_no_wait(rows, build, gpu, seen):
    """The host looks every eight tokens, and then writes three arrays."""
    model, src = build(gpu), sources(rows, 1)
    most = 21 + 2 * (build is decoder)  # which has a prompt, and whose first token is none of a graph
    greedy(model, src, most, eos_id=None)
    seen.clear()
    greedy(model, src, most, eos_id=None)
    assert sequence(seen) == "llllllllw...llllllllw...lllllw"


@pytest.mark.parametrize("rows", [1, 32])
def test_a_token_of_beams_is_one_launch_and_one_wait(rows, gpu, seen):
    """And one more launch where hypotheses change their places."""
    model, src = transformer(gpu), sources(rows, 5)
    beam_search(model, src, 21, beam=4, eos_id=None)
    seen.clear()
    beam_search(model, src, 21, beam=4, eos_id=None)
    first, rest = sequence(seen).split("w", 1)
    assert first == "l.."  # a hypothesis for each source; then the rows of all of them move to a room
    assert re.fullmatch(r"l\.\.w((\.l)?\.l\.\.w)+", rest.lstrip("."))
    assert rest.count("w") == 20


def test_rooms_are_used_again_and_kept_apart(gpu, machine, monkeypatch):
    """Equal shapes record nothing anew, fewer rows stay where they are, and two states do not meet."""
    model, src = transformer(gpu), sources(32)
    expected = [greedy(transformer(HOST), src[rows], 20) for rows in (slice(32), slice(5), slice(3, 17))]
    for _ in range(2):
        for rows, texts in zip((slice(32), slice(5), slice(3, 17)), expected, strict=True):
            np.testing.assert_array_equal(greedy(model, src[rows], 20), texts)
    assert machine.records == 1
    states, alone = [model.start(src[:5], 20) for _ in range(2)], model.start(src[:5], 20)
    tokens = np.random.default_rng(1).integers(0, 9, (2, 12, 5))
    for t in range(12):
        for state, row in zip(states, tokens[:, t], strict=True):
            logits = gpu.engine.step(model, row, state)
        np.testing.assert_allclose(gpu.host(logits), gpu.host(model.step(tokens[1, t], alone)), rtol=0, atol=1e-13)
        if t == 6:
            alone.reorder(np.array([4, 1, 1, 2]))
            for state in states:
                state.reorder(np.array([4, 1, 1, 2]))
            tokens = tokens[:, :, :4]
    rooms = states[0].fused[0][0]
    assert len({state.fused[1].number for state in states}) == 2
    assert len(rooms.rooms) == 2
    monkeypatch.setattr(recorded_decode, "ROOMS", 3)
    for length in range(2, 6):
        greedy(model, src[:1, : 16 * length], 5)
        greedy(model, src[:1], 64 * length, stop=lambda text: True)
    assert len(rooms.rooms) == 3


def test_what_an_earlier_state_left_is_not_seen(gpu):
    """NaN, from weights that were none."""
    model, src = transformer(gpu), sources(5)
    expected = greedy(model, src, 20)
    values = gpu.host(model.arena.values).copy()
    model.arena.values[...] = float("nan")
    greedy(model, np.full((5, 16), 3), 64)
    model.arena.values[...] = gpu.array(values)
    np.testing.assert_array_equal(greedy(model, src, 20), expected)


def test_weights_that_training_changes_are_those_of_the_next_text(gpu, machine):
    model, src = transformer(gpu), sources(5)
    first = greedy(model, src, 20)
    records = machine.records
    model.arena.values[...] = gpu.array(transformer(HOST, 4).arena.values)
    found = greedy(model, src, 20)
    np.testing.assert_array_equal(found, greedy(transformer(HOST, 4), src, 20))
    assert found.tolist() != first.tolist()
    assert machine.records == records


@pytest.mark.parametrize("search", [greedy, beam_search, sample])
@pytest.mark.parametrize("build", [transformer, decoder])
def test_a_text_that_is_too_long_is_refused_as_on_the_host(search, build, gpu):
    """Positions are learned, and end; tokens are checked."""
    for backend in (gpu, HOST):
        model = build(backend, positions="learned", max_seq_len=10)
        if build is transformer:
            with pytest.raises(ShapeError, match="tokens: expected at most 0 more of max_len=10, got 1"):
                search(model, sources(5), 20, eos_id=None)
            with pytest.raises(TokenError, match="expected a token id with 0 <= id < 9, got 11"):
                search(model, sources(5), 9, bos_id=11)
        assert len(search(model, sources(5, 3), 10, eos_id=None)) == 5


def of_first_layer(write):
    """write, which fails in the second layer."""
    calls = []

    def called(past, *inputs):
        calls.append(past)
        return write(past, *inputs) if len(calls) == 1 else 1 / 0

    return called


def test_a_step_that_breaks_off_can_be_made_again(gpu, machine, monkeypatch):
    model, src = transformer(gpu), sources(5)
    state, alone, tokens = model.start(src, 20), model.start(src, 20), np.full(5, 3)
    for t in range(6):
        if t in (0, 4):  # run, launched
            with monkeypatch.context() as patch:
                if t == 0:
                    patch.setattr(Newest, "write", of_first_layer(Newest.write))
                else:
                    patch.setattr(CupyDriver, "launch", lambda *inputs: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    gpu.engine.step(model, tokens, state)
        logits = gpu.host(gpu.engine.step(model, tokens, state))
        np.testing.assert_allclose(logits, gpu.host(model.step(tokens, alone)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 300])
def test_the_likeliest_token_is_numpys(width, dtype, runtime):
    """The first of equals; a NaN is the largest. A row that has ended is fed pads."""
    rng = np.random.default_rng(width)
    logits = rng.integers(0, 4, (6, 1, width)).astype(dtype)
    logits[1], logits[2, 0, width // 2 :] = -np.inf, np.nan
    now, chosen = np.array([[8] * 6, [1, 1, 1, 1, 0, 1], [3] * 6, [2] * 6]), np.full((5, 6), -1)
    expected = np.where(now[1], logits[:, 0].argmax(axis=1), 7)
    end = expected[0]
    recorded_decode.choose(runtime, logits, now, chosen, end, 7)
    np.testing.assert_array_equal(chosen, [*[[-1] * 6] * 3, expected, [-1] * 6])
    np.testing.assert_array_equal(now, [expected, now[1] & (expected != end), [4] * 6, [3] * 6])


def test_rows_that_have_ended_choose_pads(gpu):
    model = transformer(gpu)
    state, going = model.start(sources(3), 20), np.array([True, False, True])
    chosen = gpu.engine.likeliest(model, np.array([1, 0, 1]), state, going, 64, -1)
    assert (chosen != 0).any(axis=0).tolist() == going.tolist()
    assert state.length == len(chosen) == recorded_decode.LOOK


def test_an_engine_that_records_nothing_decodes_as_it_is_written(gpu, machine):
    model = transformer(gpu)
    expected = greedy(model, sources(5), 20)
    launches = machine.launches
    eager = transformer(dataclasses.replace(gpu, engine=gpu.engine.eager()))
    np.testing.assert_array_equal(greedy(eager, sources(5), 20), expected)
    assert machine.launches == launches
