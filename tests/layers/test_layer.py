"""Parameters have stable names, each counted once."""

from functools import partial

import numpy as np
import pytest

from npformer.layers import Layer, Linear, Parameter
from tests.check.small_models import model

ATTENTION = [f"{part}.{kind}" for kind in ("weight", "bias") for part in ("query", "key", "value")]
ATTENTION += ["output.weight", "output.bias"]
FEED_FORWARD = ["feed_forward.up.weight", "feed_forward.up.bias", "feed_forward.down.weight", "feed_forward.down.bias"]


def norm(number):
    return [f"norm{number}.gamma", f"norm{number}.beta"]


ENCODER_LAYER = [*(f"self_attention.{name}" for name in ATTENTION), *norm("1"), *FEED_FORWARD, *norm("2")]
DECODER_LAYER = [
    *(f"self_attention.{name}" for name in ATTENTION),
    *norm("1"),
    *(f"cross_attention.{name}" for name in ATTENTION),
    *norm("2"),
    *FEED_FORWARD,
    *norm("3"),
]
BODY = [
    *(f"encoder.layers.0.{name}" for name in ENCODER_LAYER),
    *(f"decoder.layers.0.{name}" for name in DECODER_LAYER),
]


small = partial(model, num_decoder_layers=1)


def test_the_names_of_a_transformer_stay():
    """Checkpoints are keyed by these names: a change here loses users' models."""
    names = [name for name, _ in small().named_parameters()]
    embeddings = ["src_embedding.weight", "tgt_embedding.weight"]
    assert names == [*embeddings, *BODY, "generator.weight", "generator.bias"]


def test_a_tied_parameter_is_listed_once_under_its_first_name():
    names = [name for name, _ in small(tie_embeddings=True).named_parameters()]
    assert names == ["src_embedding.weight", *BODY, "generator.bias"]


def test_pre_ln_and_learned_positions_have_names_of_their_own():
    names = [name for name, _ in small(norm_order="pre", positions="learned").named_parameters()]
    extra = ["src_positions.weight", "tgt_positions.weight"]
    finals = ["encoder.norm.gamma", "encoder.norm.beta", "decoder.norm.gamma", "decoder.norm.beta"]
    assert set(extra + finals) < set(names)


def test_a_model_makes_no_gradients_but_its_arenas(monkeypatch):
    asked = []
    monkeypatch.setattr(Parameter, "grad", Parameter.grad.getter(lambda parameter: asked.append(parameter.name)))
    small()
    assert asked == []


def test_a_transposed_view_shares_numbers_and_gradient(numpy64):
    table = Parameter("weight", np.arange(12.0).reshape(4, 3))
    tied = Linear(3, 4, backend=numpy64, weight=table.transposed("weight"))
    tied.weight.data[0, 1] = 99
    assert table.data[1, 0] == 99
    _, cache = tied.forward(np.ones((1, 3)))
    tied.backward(np.array([[1.0, 2.0, 3.0, 4.0]]), cache)
    assert np.array_equal(table.grad, [[1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4]])


def test_a_layer_without_forward_says_so(numpy64):
    class Unfinished(Layer):
        pass

    with pytest.raises(NotImplementedError, match=r"^Unfinished must define forward$"):
        Unfinished(numpy64)(np.ones(3))
