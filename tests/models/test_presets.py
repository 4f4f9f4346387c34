"""The benchmark sizes: models that can be built, and batches that fit them."""

import numpy as np
import pytest

from npformer.models.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_model_and_its_batch(name):
    preset = PRESETS[name]
    config = preset.config(dropout=0.25)
    assert (config.src_vocab_size, config.d_model, config.dropout) == (preset.vocab_size, preset.d_model, 0.25)
    assert config.num_encoder_layers == config.num_decoder_layers == preset.num_layers
    src, tgt_in, tgt_out = preset.example_batch()
    assert src.shape == tgt_in.shape == tgt_out.shape == (preset.batch, preset.length)
    assert 1 <= min(src.min(), tgt_in.min()) <= max(src.max(), tgt_out.max()) < preset.vocab_size  # no padding
    np.testing.assert_array_equal(tgt_in[:, 1:], tgt_out[:, :-1])
    np.testing.assert_array_equal(src, preset.example_batch()[0])
    assert not np.array_equal(src, preset.example_batch(seed=1)[0])
