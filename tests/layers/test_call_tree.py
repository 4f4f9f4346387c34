"""Random numbers depend on the path in the call tree, the step, the micro-batch and the seed, and on nothing else."""

import re

import pytest

from npformer.errors import ConfigError
from npformer.layers import INFERENCE, Context, RandomKey
from tests.check.small_models import SRC, TGT, model

KEY = RandomKey(seed=3, step=5, micro=1)


def test_a_site_is_the_same_in_every_process():
    """A resumed run draws the masks that the interrupted one would have drawn."""
    assert KEY.child("encoder").child("layers.0").site == 12365371864655558970


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_outside_64_bits_is_refused(seed):
    text = f"seed: expected an integer with 0 <= seed < 2**64, got {seed}"
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        RandomKey(seed=seed)
    assert RandomKey(seed=2**64 - 1).seed == 2**64 - 1


def test_no_key_and_no_rate_draw_nothing():
    assert INFERENCE.child("encoder") == INFERENCE
    assert INFERENCE.draw("dropout", 0.5) is None
    assert Context(key=KEY).draw("dropout", 0.0) is None
    drawn = Context(key=KEY).draw("dropout", 0.5)
    assert drawn == (3, 5, 1, KEY.child("dropout").site, 0.5, 0)


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_no_two_dropouts_of_a_transformer_draw_the_same_numbers(norm_order, monkeypatch):
    sites = []
    real = RandomKey.draw

    def spy(self, rate):
        sites.append(self.site)
        return real(self, rate)

    monkeypatch.setattr(RandomKey, "draw", spy)
    model(num_encoder_layers=2, dropout=0.1, norm_order=norm_order).forward(SRC, TGT, key=KEY)
    in_encoder_layer = 4  # attention weights, after attention, inside and after the feed-forward
    in_decoder_layer = 6
    assert len(sites) == 2 + 2 * in_encoder_layer + 2 * in_decoder_layer
    assert len(set(sites)) == len(sites)
