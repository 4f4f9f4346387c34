"""The example whose attention is drawn: chosen by length, fed with its own output."""

import numpy as np
import pytest

from npformer.data import Example, Vocabulary
from npformer.models import Transformer, TransformerConfig
from npformer.training.attention_example import attention_example

LETTERS = Vocabulary.from_characters("abcdefghij")


def model(backend, **changes):
    size = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "d_ff": 8, "max_seq_len": 5}
    return Transformer(TransformerConfig(len(LETTERS), len(LETTERS), **(size | changes)), backend=backend, seed=1)


def test_it_is_the_one_nearest_to_ten_characters_with_its_own_output(numpy64):
    texts = ["ab", "abcdefghi", "abcdefghijabcd", "abc"]
    found = attention_example(model(numpy64), LETTERS, [Example(text, "?") for text in texts], ["a", "fgh", "b", "c"])
    assert found.source == [*"abcdefghi", "[EOS]"]
    assert found.target == ["[BOS]", *"fgh"]
    assert found.title == "abcdefghi → fgh"
    shapes = {name: weights.shape for name, weights in found.weights.items()}
    assert sorted(shapes.values()) == [(2, 4, 4), (2, 4, 10), (2, 10, 10), (2, 10, 10)]
    for weights in found.weights.values():
        np.testing.assert_allclose(np.sum(weights, axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize(("positions", "read"), [("learned", "abcd"), ("sinusoidal", "abcdefgh")])
def test_an_output_that_never_ended_fits_learned_positions(numpy64, positions, read):
    """With five positions the decoder has read [BOS] and four characters; the fifth it only said."""
    found = attention_example(model(numpy64, positions=positions), LETTERS, [Example("abcd", "abcd")], ["abcdefgh"])
    assert found.target == ["[BOS]", *read]
    assert found.title == "abcd → abcdefgh"


def test_an_empty_output_is_an_output(numpy64):
    assert attention_example(model(numpy64), LETTERS, [Example("ab", "ba")], [""]).target == ["[BOS]"]
