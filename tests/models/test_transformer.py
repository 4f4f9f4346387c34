"""Properties that a gradient check cannot see: which token may look at which, and that padding has no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig

Host = np.ndarray[Any, Any]
ORDERS = pytest.mark.parametrize(("norm_order", "activation"), [("post", "relu"), ("pre", "gelu")])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.fixture
def backends(numpy32, numpy64):
    return {"float32": numpy32, "float64": numpy64}


@DTYPES
@ORDERS
def test_a_later_target_changes_no_earlier_logit(dtype, norm_order, activation, backends, small_model, batch):
    model = small_model(backends[dtype], norm_order=norm_order, activation=activation)
    src, tgt_in, _ = batch
    logits = model(src, tgt_in)
    for position in range(1, 4):
        changed = tgt_in.copy()
        changed[:, position] = 3
        moved = model(src, changed)
        assert np.array_equal(moved[:, :position], logits[:, :position])
        assert np.all(moved[0, position:] != logits[0, position:])  # and every later one does


@ORDERS
def test_every_source_token_is_seen_from_every_target(norm_order, activation, numpy64, small_model, batch):
    model = small_model(numpy64, norm_order=norm_order, activation=activation)
    src, tgt_in, _ = batch
    logits = model(src, tgt_in)
    for position in range(5):
        changed = src.copy()
        changed[0, position] = 7
        moved = model(changed, tgt_in)
        assert np.all(moved[0] != logits[0])
        assert np.array_equal(moved[1:], logits[1:])  # sequences of a batch do not see each other


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
        embedding.weight.data[0] = 1e3 * np.random.default_rng(4).normal(size=8)
    poisoned, poisoned_loss, poisoned_gradients = forward_backward(model, *batch)
    assert not np.array_equal(logits[~counted], poisoned[~counted])  # the poison was there
    assert np.array_equal(logits[counted], poisoned[counted])
    assert loss == poisoned_loss
    for name, gradient in gradients.items():
        assert np.array_equal(gradient, poisoned_gradients[name]), name
    for name in ("src_embedding.weight", "tgt_embedding.weight"):
        assert not poisoned_gradients[name][0].any(), name
        assert poisoned_gradients[name][2 if name.startswith("src") else 1].all(), name


@ORDERS
def test_more_padding_changes_nothing(norm_order, activation, numpy64, small_model, batch, forward_backward):
    model = small_model(numpy64, norm_order=norm_order, activation=activation)
    wider = [np.pad(ids, ((0, 0), (0, extra))) for ids, extra in zip(batch, (3, 2, 2), strict=True)]
    logits, loss, gradients = forward_backward(model, *batch)
    wide_logits, wide_loss, wide_gradients = forward_backward(model, *wider)
    np.testing.assert_allclose(wide_logits[:, :4], logits, rtol=1e-11, atol=1e-13)
    assert wide_loss == pytest.approx(loss, rel=1e-13)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(wide_gradients[name], gradient, rtol=1e-9, atol=1e-13, err_msg=name)


def test_a_batch_is_its_rows_in_any_order(numpy64, small_model, batch, forward_backward):
    model = small_model(numpy64)
    order = [2, 0, 1]
    logits, loss, gradients = forward_backward(model, *batch)
    turned, turned_loss, turned_gradients = forward_backward(model, *(ids[order] for ids in batch))
    np.testing.assert_allclose(turned, logits[order], rtol=1e-12, atol=1e-14)
    assert turned_loss == pytest.approx(loss, rel=1e-14)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(turned_gradients[name], gradient, rtol=1e-10, atol=1e-14, err_msg=name)
    alone = model(batch[0][1:2, :3], batch[1][1:2, :3])
    np.testing.assert_allclose(alone, logits[1:2, :3], rtol=1e-12, atol=1e-14)


@DTYPES
@ORDERS
def test_a_batch_of_padding_alone_has_loss_0_and_gradient_0(
    dtype, norm_order, activation, backends, small_model, forward_backward
):
    model = small_model(backends[dtype], norm_order=norm_order, activation=activation)
    nothing = np.zeros((2, 3), dtype=int)
    logits, loss, gradients = forward_backward(model, nothing, nothing, nothing)
    assert np.all(np.isfinite(logits))
    assert loss == 0
    assert not any(gradient.any() for gradient in gradients.values())


def test_one_row_of_padding_alone_does_no_harm_to_the_others(numpy64, small_model, batch, forward_backward):
    model = small_model(numpy64)
    with_empty = [np.concatenate([ids, np.zeros_like(ids[:1])]) for ids in batch]
    logits, loss, gradients = forward_backward(model, *batch)
    more_logits, more_loss, more_gradients = forward_backward(model, *with_empty)
    np.testing.assert_allclose(more_logits[:3], logits, rtol=1e-12, atol=1e-14)
    assert more_loss == pytest.approx(loss, rel=1e-14)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(more_gradients[name], gradient, rtol=1e-10, atol=1e-14, err_msg=name)


def test_another_pad_id_is_hidden_as_well(numpy64, small_model, batch):
    model = small_model(numpy64, pad_id=8)
    src, tgt_in = (np.where(ids == 0, 8, np.where(ids == 8, 3, ids)) for ids in batch[:2])
    logits = model(src, tgt_in)
    for embedding in (model.src_embedding, model.tgt_embedding):
        embedding.weight.data[8] = 1e3
    counted = tgt_in != 8
    assert np.array_equal(model(src, tgt_in)[counted], logits[counted])


@ORDERS
def test_a_tied_table_gets_the_gradients_of_all_its_uses(
    norm_order, activation, numpy64, small_model, batch, forward_backward
):
    options = {"norm_order": norm_order, "activation": activation}
    tied = small_model(numpy64, tie_embeddings=True, **options)
    untied = small_model(numpy64, **options)
    values = dict(tied.named_parameters())
    table = values["src_embedding.weight"].data
    copies = {"src_embedding.weight": table, "tgt_embedding.weight": table, "generator.weight": table.T}
    for name, p in untied.named_parameters():
        p.data[...] = copies[name] if name in copies else values[name].data
    logits, _, gradients = forward_backward(tied, *batch)
    apart_logits, _, apart = forward_backward(untied, *batch)
    np.testing.assert_allclose(logits, apart_logits, rtol=1e-13)
    parts = [apart["src_embedding.weight"], apart["tgt_embedding.weight"], apart["generator.weight"].T]
    assert all(part.any() for part in parts)
    np.testing.assert_allclose(gradients["src_embedding.weight"], sum(parts), rtol=1e-11, atol=1e-14)
    for name in gradients.keys() - copies.keys():
        np.testing.assert_allclose(gradients[name], apart[name], rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_embedding_is_scaled_before_positions_are_added(scaled, numpy64, batch, monkeypatch):
    config = TransformerConfig(9, 9, d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=4,
                               scale_embedding=scaled)  # fmt: skip
    model = Transformer(config, backend=numpy64)
    seen: list[Host] = []
    forward = model.encoder.forward

    def spy(x: Host, **options):
        seen.append(x)
        return forward(x, **options)

    monkeypatch.setattr(model.encoder, "forward", spy)
    model.forward(batch[0], batch[1])
    positions = np.arange(5)[:, None] / 10000 ** (np.array([0, 0, 2, 2]) / 4)
    circle = np.where([True, False, True, False], np.sin(positions), np.cos(positions))
    expected = (2.0 if scaled else 1.0) * model.src_embedding.weight.data[batch[0]] + circle
    np.testing.assert_allclose(seen[0], expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": True, "positions": "learned", "norm_order": "pre"}])
def test_parameters_depend_on_configuration_and_seed_alone(changes, numpy32, numpy64, strict64):
    config = TransformerConfig(9, 9, d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=4,
                               **changes)  # fmt: skip
    wide, narrow, device = (
        {name: model.backend.host(p.data) for name, p in model.named_parameters()}
        for model in (Transformer(config, backend=backend, seed=5) for backend in (numpy64, numpy32, strict64))
    )
    assert wide.keys() == narrow.keys() == device.keys()
    for name, value in wide.items():
        assert np.array_equal(value, device[name]), name
        assert np.array_equal(value.astype(np.float32), narrow[name]), name
    other = dict(Transformer(config, backend=numpy64, seed=6).named_parameters())
    assert not np.array_equal(other["src_embedding.weight"].data, wide["src_embedding.weight"])
    weights = [value for name, value in wide.items() if name.endswith("weight")]
    assert len({value.tobytes() for value in weights}) == len(weights)  # no two start equal


def test_a_device_that_is_not_the_cpu_gives_the_same_logits_and_gradients(numpy64, strict64, small_model, batch):
    found = []
    for backend in (numpy64, strict64):
        model = small_model(backend, num_encoder_layers=1, num_decoder_layers=1, dropout=0.3)
        logits, cache = model.forward(batch[0], batch[1], key=RandomKey(seed=1, step=2))
        loss, loss_cache = cross_entropy_forward(logits, backend.integers(batch[2]))
        model.backward(cross_entropy_backward(1.0, loss_cache)[0], cache)
        gradients = {name: backend.host(p.grad) for name, p in model.named_parameters()}
        found.append((backend.host(logits), float(loss), gradients))
    (logits, loss, gradients), (device_logits, device_loss, device_gradients) = found
    np.testing.assert_allclose(device_logits, logits, rtol=1e-12, atol=1e-14)
    assert device_loss == pytest.approx(loss, rel=1e-13)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(device_gradients[name], gradient, rtol=1e-10, atol=1e-13, err_msg=name)


def test_dropout_is_drawn_with_a_key_and_not_without(numpy64, small_model, batch):
    model = small_model(numpy64, dropout=0.3)
    src, tgt_in, _ = batch
    without, _ = model.forward(src, tgt_in)
    first, again, other = (model.forward(src, tgt_in, key=RandomKey(step=step))[0] for step in (0, 0, 1))
    assert np.array_equal(without, model(src, tgt_in))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, without)


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
