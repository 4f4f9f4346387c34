"""Recorded decoding: a token is one launch, and texts are those of NumPy, of every length, row by row."""

import re

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.backend.select import cupy_backend
from npformer.check.cases.case import shaken
from npformer.decoding import beam_search, greedy, sample
from npformer.engine import recorded_decode
from npformer.errors import ShapeError, TokenError
from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 70, "dropout": 0.0, "init": "xavier"}
HOST = get_backend("numpy", "float64", kernels="plain")


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
def test_greedy_texts_are_those_of_numpy(kind, rows, build, a_gpu, machine):
    """Of ends early and late, and up to the last position there is, which is behind those that one graph reads."""
    src, (there, here) = sources(rows), (build(backend, **KINDS[kind]) for backend in (a_gpu, HOST))
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
def test_beams_are_those_of_numpy(rows, build, a_gpu, machine):
    src, (there, here) = sources(rows), (build(backend) for backend in (a_gpu, HOST))
    for most, beam in ((9, 3), (20, 4), (70, 2)):
        found, expected = (beam_search(model, src, most, beam=beam) for model in (there, here))
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.tokens.tolist() for one in ours] == [one.tokens.tolist() for one in theirs]
            np.testing.assert_allclose([one.score for one in ours], [one.score for one in theirs], rtol=1e-11)
    assert machine.launches > 20


@pytest.mark.parametrize("build", [transformer, decoder])
def test_samples_are_those_of_numpy(build, a_gpu, machine):
    found, expected = (sample(build(backend), sources(5), 12, seed=4).tolist() for backend in (a_gpu, HOST))
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
def test_a_greedy_token_is_one_launch_and_no_wait(rows, build, a_gpu, seen):
    """The host looks every eight tokens, and then writes three arrays."""
    model, src = build(a_gpu), sources(rows, 1)
    has_prompt = build is decoder  # whose first token is none of a graph, and is waited for
    most = 21 + 2 * has_prompt
    greedy(model, src, most, eos_id=None)
    seen.clear()
    greedy(model, src, most, eos_id=None)
    assert sequence(seen) == "llllllllw...llllllllw...lllllw"
    assert seen.count("wait") == 3 + has_prompt


@pytest.mark.parametrize("rows", [1, 32])
def test_a_token_of_beams_is_one_launch_and_one_wait(rows, a_gpu, seen):
    """And one more launch where hypotheses change their places."""
    model, src = transformer(a_gpu), sources(rows, 5)
    beam_search(model, src, 21, beam=4, eos_id=None)
    seen.clear()
    beam_search(model, src, 21, beam=4, eos_id=None)
    first, rest = sequence(seen).split("w", 1)
    assert first == "l."  # a hypothesis for each source; then the rows of all of them move to a room
    assert re.fullmatch(r"l\.w((\.l)?\.\.l\.w)+", rest.lstrip("."))
    assert rest.count("w") == 20


@pytest.mark.parametrize("search", [greedy, beam_search, sample])
@pytest.mark.parametrize("build", [transformer, decoder])
def test_a_text_that_is_too_long_is_refused_as_on_the_host(search, build, a_gpu):
    """Positions are learned, and end; tokens are checked."""
    for backend in (a_gpu, HOST):
        model = build(backend, positions="learned", max_seq_len=10)
        if build is transformer:
            with pytest.raises(ShapeError, match="tokens: expected at most 0 more of max_len=10, got 1"):
                search(model, sources(5), 20, eos_id=None)
            with pytest.raises(TokenError, match="expected a token id with 0 <= id < 9, got 11"):
                search(model, sources(5), 9, bos_id=11)
        assert len(search(model, sources(5, 3), 10, eos_id=None)) == 5


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
