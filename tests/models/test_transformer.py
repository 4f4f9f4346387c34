"""Properties that a gradient check cannot see: which token may look at which, and that padding has no effect."""

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.models import Transformer, TransformerConfig
from tests.check.functions import normal

ORDERS = pytest.mark.parametrize(("norm_order", "activation"), [("post", "relu"), ("pre", "gelu")])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.fixture
def backends(numpy32, numpy64):
    return {"float32": numpy32, "float64": numpy64}


@DTYPES
@ORDERS
def test_what_stands_in_padding_reaches_no_logit_and_no_gradient(
    dtype, norm_order, activation, backends, small_model, batch, forward_backward
):
    """The pad rows are filled with numbers of size 1000: large and finite, since 0·NaN is NaN anyway."""
    model = small_model(backends[dtype], norm_order=norm_order, activation=activation)
    counted = batch[2] != 0
    logits, loss, gradients = forward_backward(model, *batch)
    for embedding in (model.src_embedding, model.tgt_embedding):
        embedding.weight.data[0] = 1e3 * normal(8, seed=4)
    poisoned, poisoned_loss, poisoned_gradients = forward_backward(model, *batch)
    assert not np.array_equal(logits[~counted], poisoned[~counted])  # the poison was there
    assert np.array_equal(logits[counted], poisoned[counted])
    assert loss == poisoned_loss
    for name, gradient in gradients.items():
        assert np.array_equal(gradient, poisoned_gradients[name]), name
    for name in ("src_embedding.weight", "tgt_embedding.weight"):
        assert not poisoned_gradients[name][0].any(), name
        assert poisoned_gradients[name][2 if name.startswith("src") else 1].all(), name


@pytest.mark.parametrize("scaled", [True, False])
def test_the_embedding_is_scaled_before_positions_are_added(scaled, numpy64, small_model, batch, monkeypatch):
    model = small_model(numpy64, scale_embedding=scaled)
    seen = []
    forward = model.encoder.forward

    def spy(x, **options):
        seen.append(x)
        return forward(x, **options)

    monkeypatch.setattr(model.encoder, "forward", spy)
    model.forward(batch[0], batch[1])
    columns = np.arange(8)
    positions = np.arange(5)[:, None] / 10000 ** (2 * (columns // 2) / 8)
    circle = np.where(columns % 2, np.cos(positions), np.sin(positions))
    expected = (8**0.5 if scaled else 1.0) * model.src_embedding.weight.data[batch[0]] + circle
    np.testing.assert_allclose(seen[0], expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": True, "positions": "learned", "norm_order": "pre"}])
def test_parameters_depend_on_configuration_and_seed_alone(changes, numpy32, numpy64, strict64):
    config = TransformerConfig(
        9, 9, d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=4, **changes
    )
    wide, narrow, device = (
        {name: model.backend.host(p.data) for name, p in model.named_parameters()}
        for model in (Transformer(config, backend=backend, seed=5) for backend in (numpy64, numpy32, strict64))
    )
    assert wide.keys() == narrow.keys() == device.keys()
    for name, value in wide.items():
        assert np.array_equal(value, device[name]), name
        assert np.array_equal(value.astype(np.float32), narrow[name]), name


def test_learned_positions_have_a_last_one(numpy64, small_model):
    model = small_model(numpy64, positions="learned")
    tokens = np.full((1, 9), 3)
    text = (
        r"^x: expected at most 8 positions \(max_seq_len\), got 9; raise max_seq_len, or use sinusoidal positions, "
        "which have no limit$"
    )
    for src, tgt_in in ((tokens, tokens[:, :8]), (tokens[:, :8], tokens)):
        with pytest.raises(ShapeError, match=text):
            model(src, tgt_in)
    assert model(tokens[:, :8], tokens[:, :8]).shape == (1, 8, 9)
    assert small_model(numpy64)(tokens, tokens).shape == (1, 9, 9)
