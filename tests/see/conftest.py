"""Shared by the tests of explanations: a session of a small model, opened once."""

import pytest

from npformer.see.explain import explanation, session
from npformer.see.record.models import model_setting


@pytest.fixture(scope="module")
def opened():
    """The showcase's Transformer, recorded and ready to run."""
    with session(model_setting("transformer")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pre():
    """The same in pre-LN."""
    with session(model_setting("transformer-pre")) as opened:
        yield opened


@pytest.fixture(scope="module")
def explained(opened):
    """An explanation of a number of a query's weight, with the nine steps up to the loss."""
    return explanation(opened, "decoder.layers.0.self_attention.query.weight[3,1]", ["9"])
