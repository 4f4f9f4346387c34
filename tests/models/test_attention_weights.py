"""The attention weights that a model returns for inspection."""

import numpy as np
import pytest

from npformer.models import Decoder, Encoder


@pytest.mark.parametrize(("norm_order", "pad_id"), [("post", 0), ("pre", 0), ("post", 8)])
def test_weights_of_every_attention_come_by_name(norm_order, pad_id, numpy64, small_model, batch):
    exchanged = np.arange(9)
    exchanged[[0, pad_id]] = [pad_id, 0]
    src, tgt_in = (exchanged[ids] for ids in batch[:2])
    weights = small_model(numpy64, norm_order=norm_order, pad_id=pad_id, dropout=0.3).attention_weights(src, tgt_in)
    assert {name: value.shape for name, value in weights.items()} == {
        "encoder.layers.0.self_attention": (3, 2, 5, 5),
        "encoder.layers.1.self_attention": (3, 2, 5, 5),
        "decoder.layers.0.self_attention": (3, 2, 4, 4),
        "decoder.layers.0.cross_attention": (3, 2, 4, 5),
        "decoder.layers.1.self_attention": (3, 2, 4, 4),
        "decoder.layers.1.cross_attention": (3, 2, 4, 5),
    }
    assert next(iter(weights)).startswith("encoder.layers.0")  # in the order in which they are computed
    for name, value in weights.items():
        np.testing.assert_allclose(value.sum(axis=-1), 1, rtol=1e-14)
        keys = tgt_in if name.startswith("decoder") and name.endswith("self_attention") else src
        visible = np.broadcast_to((keys != pad_id)[:, None, None, :], value.shape)
        if keys is tgt_in:
            visible = visible & np.tril(np.ones((4, 4), dtype=bool))
        assert np.array_equal(value > 0, visible), name


@pytest.mark.parametrize(("of", "name"), [(Encoder, "encoder"), (Decoder, "decoder")])
def test_a_model_of_one_sequence_names_its_stack(of, name, numpy64, small_model, batch):
    weights = small_model(numpy64, of).attention_weights(batch[0])
    assert list(weights) == [f"{name}.layers.{i}.self_attention" for i in range(2)]
