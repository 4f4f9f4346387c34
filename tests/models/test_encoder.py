"""The encoder-only model: its three heads, and what it refuses."""

import numpy as np
import pytest

from npformer.models import Encoder
from tests.check.functions import normal

TOKENS = np.array([[3, 5, 4, 6, 2], [6, 5, 2, 0, 0], [4, 2, 0, 0, 0]])


@pytest.mark.parametrize(
    ("head", "classes", "shape"), [("sequence", 4, (3, 4)), ("tokens", 4, (3, 5, 4)), ("masked", None, (3, 5, 9))]
)
def test_each_head_has_its_shape_and_inference_is_forward(head, classes, shape, numpy64, small_model):
    model = small_model(numpy64, Encoder, head=head, num_classes=classes)
    logits, _ = model.forward(TOKENS)
    assert logits.shape == shape
    assert np.array_equal(model(TOKENS), logits)


def test_the_head_of_a_sequence_looks_at_its_first_token_alone(numpy64, small_model):
    """Compared to rounding: one head multiplies 3 rows and the other 15, and a row's last bits hang on that."""
    of_all, of_first = (small_model(numpy64, Encoder, head=head, num_classes=4) for head in ("tokens", "sequence"))
    expected, all_cache = of_all.forward(TOKENS)
    logits, cache = of_first.forward(TOKENS)
    np.testing.assert_allclose(logits, expected[:, 0], rtol=1e-12, atol=1e-13)
    dlogits = normal(*logits.shape)
    of_first.backward(dlogits, cache)
    everywhere = np.zeros_like(expected)
    everywhere[:, 0] = dlogits
    of_all.backward(everywhere, all_cache)
    for (name, one), (_, other) in zip(of_first.named_parameters(), of_all.named_parameters(), strict=True):
        np.testing.assert_allclose(one.grad, other.grad, rtol=1e-11, atol=1e-13, err_msg=name)
