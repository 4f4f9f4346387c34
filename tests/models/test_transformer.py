"""Models start from their configuration and seed alone, and take for padding the token that it names."""

import numpy as np
import pytest

from npformer.models import Decoder, Encoder, Transformer, TransformerConfig


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


@pytest.mark.parametrize("of", [Transformer, Decoder, Encoder])
def test_padding_is_the_token_that_the_configuration_names(of, numpy64, small_model, batch):
    exchanged = [8, *range(1, 8), 0]
    padded_ids = batch[:2] if of is Transformer else batch[:1]
    usual, model = small_model(numpy64, of), small_model(numpy64, of, pad_id=8)
    for (name, parameter), (_, other) in zip(model.named_parameters(), usual.named_parameters(), strict=True):
        parameter.data[...] = other.data[exchanged] if "embedding" in name else other.data
    assert np.array_equal(model(*(np.choose(ids, exchanged) for ids in padded_ids)), usual(*padded_ids))
