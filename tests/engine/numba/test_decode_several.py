"""Several decoding steps in one call against as many calls, alone and with a helper."""

from dataclasses import replace

import numpy as np
import pytest

from npformer import greedy
from npformer.backend import Pair
from npformer.decoding import writing
from npformer.engine import fused_decode
from npformer.engine.numba.decode_kernel import likeliest
from npformer.errors import ConfigError, TokenError
from npformer.models import Transformer
from tests.engine.numba.small_models import SOURCES as SRC
from tests.engine.numba.small_models import part_of, small_model

PADS = 1.5  # added to their logit, so that some are chosen
MAX_LEN = 37


def model(kernels, dtype="float64", **changes):
    """The same numbers for all kernels: positions so loud, and biases so low, that texts are not one token for ever."""
    made = small_model(kernels, dtype, decoders=2, **({"positions": "learned", "max_seq_len": 64} | changes))
    for name, parameter in made.named_parameters():
        if name.startswith("tgt_positions"):
            parameter.data[...] = 4 * np.random.default_rng(0).normal(size=parameter.data.shape)
        elif name == "generator.bias" or (name.startswith("decoder") and ".norm" in name):
            parameter.data[...] = "gamma" in name
    made.generator.bias.data[0] = PADS
    return made


def one_by_one(of, batch, eos_id):
    return greedy(of, SRC[:batch], MAX_LEN, eos_id=eos_id, stop=lambda text: False)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """A text takes several calls."""
    monkeypatch.setattr(writing, "AT_ONCE", 16)


@pytest.mark.parametrize("eos_id", [*range(9), 99])
@pytest.mark.parametrize("batch", [1, 3, len(SRC)])
@pytest.mark.usefixtures("threads")
def test_the_tokens_are_those_of_step_by_step(batch, eos_id):
    """Rows end at different steps, or never, and pads, 0, are tokens that a model may choose."""
    fast = model("numba")
    expected = one_by_one(model("plain"), batch, eos_id)
    assert np.array_equal(one_by_one(fast, batch, eos_id), expected)
    assert np.array_equal(greedy(fast, SRC[:batch], MAX_LEN, eos_id=eos_id), expected)


@pytest.mark.parametrize("changes", [{"norm_order": "pre"}, {"positions": "sinusoidal"}, {"tie_embeddings": True}])
def test_in_other_forms_and_in_float32(changes):
    """Of one kernel, since in float32 rounding may decide which token is the likeliest."""
    fast = model("numba", "float32", **changes)
    assert np.array_equal(greedy(fast, SRC, MAX_LEN), one_by_one(fast, len(SRC), 2))


def test_it_is_taken(monkeypatch):
    fast = model("numba")
    expected = greedy(fast, SRC, MAX_LEN, eos_id=99)
    monkeypatch.setattr(Transformer.step, "__code__", (lambda *args, **named: 1 / 0).__code__)
    assert np.array_equal(greedy(fast, SRC, MAX_LEN, eos_id=99), expected)


def test_the_state_goes_on_from_there():
    fast, plain = model("numba"), model("plain")
    states, going = [of.start(SRC, MAX_LEN) for of in (fast, plain)], np.ones(len(SRC), dtype=bool)
    first = np.ones(len(SRC), dtype=np.int64)
    chosen = fused_decode.likeliest(fast, first, states[0], going, 7, 99)
    for tokens in (first, *chosen[:-1]):
        plain.step(tokens, states[1])
    assert states[0].length == states[1].length == len(chosen) == 7
    assert np.array_equal(states[0].visible, states[1].visible)
    actual, expected = (
        fused_decode.step(of, chosen[-1], state) for of, state in zip((fast, plain), states, strict=True)
    )
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_not_more_than_there_is_room_for():
    fast = model("numba")
    state, going = fast.start(SRC[:2], 5), np.ones(2, dtype=bool)
    chosen = fused_decode.likeliest(fast, np.ones(2, dtype=np.int64), state, going, 50, 99)
    assert (chosen.shape, state.length) == ((5, 2), 5)
    steps, token = state.fused[1], np.ones((2, 1), dtype=np.int64)
    assert steps.write(token, 4, going, (99, 0), 2) is None
    assert steps.write(token[:1], 0, going, (99, 0), 1) is None


def test_a_token_that_has_no_vector_is_refused_as_ever():
    for kernels in ("plain", "numba"):
        larger = model(kernels)
        weight, bias = larger.generator.weight, larger.generator.bias
        weight.data, bias.data = np.ones((15, 11)), np.where(np.arange(11) == 10, 1e6, 0.0)
        with pytest.raises(TokenError, match="0 <= id < 9, got 10"):
            greedy(larger, SRC, MAX_LEN)


def test_the_likeliest_is_numpys():
    nan, inf = np.nan, np.inf
    for row in ([1.0], [1, 3, 3, 2], [-inf, -inf], [-2, nan, 5, nan], [nan, 1], [inf, 1, inf], [-nan, 3], [0.0, -0.0]):
        assert likeliest(np.array(row, dtype=np.float64)) == np.argmax(row)


def test_without_an_end_token_texts_reach_max_len():
    for kernels in ("plain", "numba"):
        rows = greedy(model(kernels), SRC, MAX_LEN, eos_id=None)
        assert np.array_equal(rows, one_by_one(model("plain"), len(SRC), 99))
        assert np.array_equal(rows, greedy(model(kernels), SRC, MAX_LEN, eos_id=2**70))
        with pytest.raises(ConfigError, match="eos_id: expected a token id, or None"):
            greedy(model(kernels), SRC, MAX_LEN, eos_id=2.0)


@pytest.mark.parametrize("where", ["encoder.layers.0.norm1", "decoder.layers.1.cross_attention"])
def test_a_layer_computes_on_its_own_backend(where):
    made, calls = model("numba"), []
    greedy(made, SRC, MAX_LEN)
    layer = part_of(made, where)
    name = "post_norm" if "norm" in where else "linear"
    pair = getattr(made.backend.ops, name)

    def forward(*inputs):
        calls.append(1)
        return pair.forward(*inputs)

    layer.backend = replace(made.backend, ops=replace(made.backend.ops, **{name: Pair(forward, pair.backward)}))
    greedy(made, SRC, MAX_LEN)
    assert calls
