"""Decoding step by step against the whole prefix: the same logits, whatever was decoded before."""

import itertools
import re

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError, TokenError
from npformer.models import Decoder, Transformer
from tests.models.conftest import SRC

MAX_LEN = 8
TOLERANCE = 1e-12
MECHANISMS = [
    {},
    {"attention": "local", "window": 2},
    {"attention": "local", "stride": 3},
    {"attention": "local", "window": 2, "stride": 3},
    {"attention": "linear"},
]
KINDS = [
    {"positions": positions} | mechanism
    for positions in ("sinusoidal", "learned", "rotary", "relative", "none")
    for mechanism in MECHANISMS
    if positions != "relative" or not mechanism
] + [{"norm": "batch"}, {"norm": "batch", "attention": "linear", "norm_order": "pre"}, {"pad_id": 4}]
FORMS = [
    {"norm_order": norm_order, "activation": activation, "tie_embeddings": tied}
    for norm_order, activation, tied in itertools.product(("post", "pre"), ("relu", "gelu"), (False, True))
]
MODELS = pytest.mark.parametrize("of", [Transformer, Decoder])


def targets(seed=0, batch=3):
    """Tokens (B, max_len), padding among them, also in the middle and at the start of a row."""
    tokens = np.random.default_rng(seed).integers(0, 9, (batch, MAX_LEN))
    tokens[-1, :2] = 0
    return tokens


def start(model):
    return model.start(3, MAX_LEN) if isinstance(model, Decoder) else model.start(SRC, MAX_LEN)


def whole(model, src, tokens):
    """The logits (B, T, V) of all positions at once."""
    if isinstance(model, Decoder):
        return model.backend.host(model(tokens))
    return model.backend.host(model.decode(tokens, *model.encode(src)))


def close(actual, expected, scale=1.0):
    return actual.shape == expected.shape and bool(np.max(np.abs(actual - expected)) < TOLERANCE * scale)


@MODELS
@pytest.mark.parametrize("kind", KINDS + FORMS, ids=str)
def test_every_step_equals_the_whole_prefix(of, kind, small_model, any64):
    model, tokens = small_model(any64, of, **kind), targets()
    for cuts in (range(MAX_LEN + 1), (0, 3, 4, 6, 8)):
        state = start(model)
        for first, last in itertools.pairwise(cuts):
            actual = any64.host(model.step(tokens[:, first:last], state))
            expected = whole(model, SRC, tokens[:, :last])[:, first:]
            # statistics that nobody learned let logits grow to hundreds
            scale = max(1.0, np.max(np.abs(expected))) if "norm" in kind else 1.0
            assert close(actual, expected, scale), (first, last)
        assert state.length == MAX_LEN


@MODELS
@pytest.mark.parametrize("kind", KINDS[:6:5] + KINDS[4:5], ids=str)
@pytest.mark.parametrize("name", ["numpy64", "strict64"])
def test_rows_continue_from_their_parents(of, kind, name, small_model, request):
    """A beam: first each source twice, then rows that change places with their siblings."""
    backend = request.getfixturevalue(name)
    model, tokens = small_model(backend, of, **kind), targets()
    state = start(model)
    model.step(tokens[:, :2], state)
    rows = np.array([0, 0, 1, 1, 2, 2])
    state, prefix, rng = state.select(rows), tokens[rows, :2], np.random.default_rng(1)
    for places in ([0, 1, 2, 3, 4, 5], [1, 0, 2, 2, 5, 5], [1, 1, 3, 2, 4, 5], [0, 0, 2, 2, 5, 4]):
        state.reorder(places)
        new = rng.integers(1, 9, 6)
        prefix = np.hstack([prefix[places], new[:, None]])
        assert close(backend.host(model.step(new, state)), whole(model, SRC[rows], prefix)[:, -1])


@MODELS
@pytest.mark.parametrize("kind", [{}, {"attention": "linear"}], ids=str)
def test_a_step_that_breaks_off_half_way_can_be_taken_again(of, kind, small_model, any64, monkeypatch):
    model, tokens = small_model(any64, of, **kind), targets()
    state = start(model)
    model.step(tokens[:, 0], state)
    with monkeypatch.context() as patch:
        patch.setattr(model.decoder.layers[1], "step", lambda *args, **masks: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.step(np.full((3, 2), 8), state)
    assert close(any64.host(model.step(tokens[:, 1], state)), whole(model, SRC, tokens[:, :2])[:, -1])


@pytest.mark.gpu
def test_cupy_decodes_the_same(small_model, numpy64, cupy64):
    tokens = targets()
    logits = []
    for backend in (numpy64, cupy64):
        model = small_model(backend)
        state = model.start(SRC, MAX_LEN)
        logits.append([backend.host(model.step(tokens[:, t], state)) for t in range(MAX_LEN)])
    assert np.allclose(*logits, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2])
def test_rows_of_a_source_in_turn_read_one_memory(n, small_model, any64):
    """As the hypotheses of a beam: n tokens of each at once against their whole prefixes, then each alone again."""
    model, rng = small_model(any64), np.random.default_rng(4)
    rows, prefix = np.arange(3), np.zeros((3, 0), dtype=np.int64)
    state = start = model.start(SRC, MAX_LEN)
    for chosen, together in (([0, 0, 1, 1, 2, 2], 2), ([1, 1, 0, 1, 4, 5, 5, 5], 4), ([4, 0], 1), ([1, 1, 1], 3)):
        rows, prefix, state = rows[chosen], prefix[chosen], state.select(chosen)
        tokens = rng.integers(0, 9, (len(chosen), n))
        prefix = np.hstack([prefix, tokens])
        assert close(model.step(tokens, state), whole(model, SRC[rows], prefix)[:, -n:, :])
        memories = [layer.memory for layer in state.layers]
        assert state.together == together
        assert all(memory is not None and memory.keys.shape[0] == len(chosen) // together for memory in memories)
    again = start.select([0, 0, 0, 1, 1, 1, 2, 2, 2])
    for before, after in zip(start.layers, again.layers, strict=True):
        assert before.memory is after.memory, "copied for nothing"


@pytest.mark.parametrize(
    ("tokens", "error", "text"),
    [
        ([1, 9, 1], TokenError, "tokens[1, 0]: expected a token id with 0 <= id < 9, got 9"),
        ([1, 1], ShapeError, "tokens: expected one row for each of the state's B=3, got 2"),
        (np.ones((3, 7), dtype=int), ShapeError, "tokens: expected at most 6 more of max_len=8, got 7; start with"),
    ],
)
def test_a_failed_step_leaves_the_state_as_it_was(tokens, error, text, small_model, numpy64):
    model, good = small_model(numpy64), targets()
    state = model.start(SRC, MAX_LEN)
    model.step(good[:, :2], state)
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        model.step(tokens, state)
    assert state.length == 2
    assert close(model.step(good[:, 2], state), whole(model, SRC, good[:, :3])[:, -1])


@pytest.mark.parametrize(
    ("max_len", "changes", "text"),
    [
        (0, {}, "max_len: expected an integer >= 1, got 0"),
        (9, {"positions": "learned"}, "max_len: expected at most max_seq_len=8, got 9"),
    ],
)
def test_room_that_cannot_be_made_is_refused(max_len, changes, text, small_model, numpy64):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        small_model(numpy64, **changes).start(SRC, max_len)


def test_the_source_is_read_once(small_model, numpy64, monkeypatch):
    model = small_model(numpy64)
    state = model.start(SRC, MAX_LEN)
    monkeypatch.setattr(model, "encoder", None)
    for layer in model.decoder.layers:
        monkeypatch.setattr(layer.cross_attention, "project_memory", None)
    assert model.step([1, 1, 1], state).shape == (3, 9)
