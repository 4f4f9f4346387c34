"""The encoder-only model: its three heads."""

import numpy as np
import pytest

from npformer.models import Encoder

TOKENS = np.array([[3, 5, 4, 6, 2], [6, 5, 2, 0, 0], [4, 2, 0, 0, 0]])


@pytest.mark.parametrize(
    ("head", "classes", "shape"), [("sequence", 4, (3, 4)), ("tokens", 4, (3, 5, 4)), ("masked", None, (3, 5, 9))]
)
def test_each_head_has_its_shape_and_inference_is_forward(head, classes, shape, numpy64, small_model):
    model = small_model(numpy64, Encoder, head=head, num_classes=classes)
    logits, _ = model.forward(TOKENS)
    assert logits.shape == shape
    assert np.array_equal(model(TOKENS), logits)
