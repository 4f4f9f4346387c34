"""What holds for every search: a device finds the same, and what cannot be decoded is refused in words."""

import re
from functools import partial

import numpy as np
import pytest

import npformer as npf
from npformer.backend import get_backend
from npformer.decoding import beam_search, greedy, sample
from npformer.errors import ConfigError, ShapeError, TokenError
from npformer.layers import decode_state

SRC = np.array([[3, 5, 4, 6, 2, 7], [8, 6, 2, 0, 0, 0]])
OF_COUNTS = "max_len: expected an integer >= 1, got 0"


EVERY_SEARCH = pytest.mark.parametrize("search", [greedy, partial(sample, top_k=5), partial(beam_search, beam=3)])


@EVERY_SEARCH
def test_a_device_finds_the_same(search, transformer, numpy64, strict64):
    here, there = (search(transformer(backend, 2), SRC, 5) for backend in (numpy64, strict64))
    assert as_lists(here) == as_lists(there)


@EVERY_SEARCH
@pytest.mark.parametrize("options", [{}, {"attention": "local", "window": 2}, {"attention": "local", "stride": 2}])
@pytest.mark.parametrize("model", ["transformer", "decoder"])
def test_no_position_is_read_before_it_is_written(search, options, model, kernels, request, monkeypatch):
    made = request.getfixturevalue(model)(get_backend("numpy", dtype="float64", kernels=kernels), **options)
    expected = search(made, SRC, 7)
    buffers = []

    def not_a_number(shape, like):
        buffers.append(np.full(shape, np.nan if like.dtype.kind == "f" else True, like.dtype))
        return buffers[-1]

    monkeypatch.setattr(decode_state, "_empty", not_a_number)
    assert as_lists(search(made, SRC, 7)) == as_lists(expected)
    assert buffers


@EVERY_SEARCH
@pytest.mark.parametrize("model", ["transformer", "decoder"])
def test_a_stop_that_always_says_no_changes_nothing(search, model, kernels, request):
    """Some texts end with the end token, the others where they are as long as may be, as without it."""
    made = request.getfixturevalue(model)(get_backend("numpy", dtype="float64", kernels=kernels))
    src, most = np.random.default_rng(0).integers(3, 9, (12, 3)), 9
    chosen = [text[3:-1] for text in texts_of(search(made, src, most, eos_id=None))]
    end = next(token for token in range(3, 9) if {token in text for text in chosen} == {True, False})
    expected = search(made, src, most, eos_id=end)
    ended = {text[-1] == end and len(text) < most for text in texts_of(expected)}
    assert ended == {True, False}
    assert as_lists(search(made, src, most, eos_id=end, stop=lambda text: False)) == as_lists(expected)


def texts_of(texts):
    """The texts of all rows, without padding."""
    rows = (
        texts
        if isinstance(texts, np.ndarray)
        else [hypothesis.tokens for hypotheses in texts for hypothesis in hypotheses]
    )
    return [np.trim_zeros(row, "b").tolist() for row in rows]


def as_lists(texts):
    if isinstance(texts, np.ndarray):
        return texts.tolist()
    return [[hypothesis.tokens.tolist() for hypothesis in hypotheses] for hypotheses in texts]


@pytest.mark.parametrize(
    ("search", "options", "error", "text"),
    [
        (greedy, {"max_len": 0}, ConfigError, OF_COUNTS),
        (greedy, {"src": [[9]]}, TokenError, "src[0, 0]: expected a token id with 0 <= id < 9, got 9"),
        (greedy, {"bos_id": 9}, TokenError, "tokens[0, 0]: expected a token id with 0 <= id < 9, got 9"),
        (beam_search, {"beam": 0}, ConfigError, "beam: expected an integer >= 1, got 0"),
        (beam_search, {"length_penalty": -0.1}, ConfigError, "length_penalty: expected a number >= 0, got -0.1"),
        (beam_search, {"max_len": 0}, ConfigError, OF_COUNTS),
        (beam_search, {"src": np.zeros((2, 0), dtype=int)}, ShapeError,
         "src: expected at least one sequence of at least one token"),
        (beam_search, {"src": [[3, 2], [0, 0]]}, ShapeError,
         "src: expected at least one token in each row, got padding alone in"),
        (sample, {"temperature": 0}, ConfigError,
         "temperature: expected a number > 0, got 0; greedy is the limit at 0"),
        (sample, {"temperature": float("nan")}, ConfigError, "temperature: expected a number > 0, got nan"),
        (sample, {"top_k": 0}, ConfigError, "top_k: expected an integer >= 1, got 0"),
        (sample, {"top_p": 0.0}, ConfigError, "top_p: expected 0 < top_p <= 1, got 0.0"),
        (sample, {"top_p": 1.5}, ConfigError, "top_p: expected 0 < top_p <= 1, got 1.5"),
        (sample, {"seed": -1}, ConfigError, "seed: expected an integer >= 0, got -1"),
        (sample, {"max_len": 0}, ConfigError, OF_COUNTS),
    ],
)  # fmt: skip
def test_what_makes_no_sense_for_a_transformer(search, options, error, text, transformer, numpy64):
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        search(transformer(numpy64), **({"src": SRC} | options))


@pytest.mark.parametrize(
    ("prompts", "max_len", "kind", "error", "text"),
    [
        (SRC, 5, {}, ConfigError, "max_len: expected at least 6, the length of prompt 0, got 5"),
        (
            [[3, 0, 0], [4, 5, 6]],
            2,
            {"positions": "rotary", "attention": "linear"},
            ConfigError,
            "max_len: expected at least 3, the length of prompt 1, got 2",
        ),
        (SRC, 17, {"positions": "learned"}, ConfigError, "max_len: expected at most max_seq_len=16"),
    ],
)
def test_prompts_that_cannot_be_continued(prompts, max_len, kind, error, text, decoder, numpy64):
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        greedy(decoder(numpy64, **kind), prompts, max_len)


@pytest.mark.parametrize(
    ("begins", "kind", "error", "text"),
    [
        ([1], {}, ShapeError, "begins: expected (B,) with B=2, one for each row, got (1,)"),
        ([1, -1], {}, ConfigError, "begins: expected integers >= 0, the pads before each prompt, got [1, -1]"),
        ([1, 0], {"positions": "rotary", "attention": "linear"}, ConfigError, "begins: expected 0 with linear"),
    ],
)
def test_impossible_begins(begins, kind, error, text, decoder, numpy64):
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        decoder(numpy64, **kind).start(2, 8, np.array(begins))


@pytest.mark.parametrize("kernels", ["plain", "numpy"])
def test_a_vocabulary_without_padding_has_all_its_tokens(kernels):
    """As a model whose pad is an id that no text has; token 0 is one as any other."""
    backend = npf.get_backend("numpy", dtype="float64", kernels=kernels)
    size, ids = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8}, np.array([[0, 3, 0], [5, 0, 4]])
    without, other, hiding = (
        npf.Decoder(npf.DecoderConfig(9, pad_id=pad, **size), backend=backend, seed=1) for pad in (None, 8, 0)
    )
    assert np.array_equal(without(ids), other(ids))
    assert not np.allclose(without(ids), hiding(ids))
    found = [npf.greedy(model, ids, max_len=9, eos_id=None) for model in (without, other)]
    assert np.array_equal(*found)
    losses = [npf.TrainStep(model, npf.Adam(model.arena))(ids[:, :-1], ids[:, 1:]) for model in (without, other)]
    assert float(losses[0]) == float(losses[1])
