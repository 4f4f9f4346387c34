"""Which token may look at which, in every model: no later one, and no padding."""

import numpy as np
import pytest

from npformer.models import Decoder, Encoder, Transformer

TRANSFORMERS = [(Transformer, {}), (Transformer, {"norm_order": "pre", "activation": "gelu"})]
OF_BOTH = [{}, {"positions": "rotary"}, {"attention": "local", "window": 2}, {"attention": "linear"}, {"norm": "batch"}]
OF_DECODER = [{"positions": "relative", "norm_order": "pre"}, {"attention": "local", "stride": 2},
              {"positions": "none"}, {"tie_embeddings": True}]  # fmt: skip
OF_ENCODER = [{"positions": "relative"}, {"positions": "none", "norm_order": "pre"}]
DECODERS = [(Decoder, changes) for changes in OF_BOTH + OF_DECODER]
ENCODERS = [(Encoder, changes) for changes in OF_BOTH + OF_ENCODER]


@pytest.mark.parametrize(("of", "changes"), TRANSFORMERS + DECODERS)
def test_a_later_token_changes_no_earlier_logit(of, changes, numpy32, small_model, batch):
    model = small_model(numpy32, of, **changes)
    *source, tokens = batch[:2] if of is Transformer else batch[:1]
    logits = model(*source, tokens)
    for position in range(1, tokens.shape[1]):
        changed = tokens.copy()
        changed[:, position] = 1 + changed[:, position] % 8
        moved = model(*source, changed)
        assert np.array_equal(moved[:, :position], logits[:, :position])
        later = moved[0, position:] != logits[0, position:]
        assert later[0].any() if "attention" in changes else later.all()


@pytest.mark.parametrize(("of", "changes"), TRANSFORMERS + DECODERS + ENCODERS)
def test_more_padding_changes_nothing(of, changes, numpy64, small_model, batch, forward_backward):
    model = small_model(numpy64, of, **changes)
    narrow = batch if of is Transformer else (batch[0], batch[0])
    extra = (3, 2, 2) if of is Transformer else (3, 3)
    wider = [np.pad(ids, ((0, 0), (0, more))) for ids, more in zip(narrow, extra, strict=True)]
    (logits, loss, gradients), (wide, wide_loss, wide_gradients) = (
        forward_backward(model, *padded_batch) for padded_batch in (narrow, wider)
    )
    assert wide_loss == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(wide[:, : logits.shape[1]], logits, rtol=1e-12, atol=1e-13)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(wide_gradients[name], gradient, rtol=1e-9, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("of", [Transformer, Decoder, Encoder])
def test_padding_is_the_token_that_the_configuration_names(of, numpy64, small_model, batch):
    exchanged = [8, *range(1, 8), 0]
    padded_ids = batch[:2] if of is Transformer else batch[:1]
    usual, model = small_model(numpy64, of), small_model(numpy64, of, pad_id=8)
    for (name, parameter), (_, other) in zip(model.named_parameters(), usual.named_parameters(), strict=True):
        parameter.data[...] = other.data[exchanged] if "embedding" in name else other.data
    assert np.array_equal(model(*(np.choose(ids, exchanged) for ids in padded_ids)), usual(*padded_ids))
