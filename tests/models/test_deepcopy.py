"""copy.deepcopy of a model: the same values in its own arena, trained and decoded independently of the original."""

import copy
import pickle

import numpy as np
import pytest

from npformer import greedy
from npformer.backend import get_backend
from npformer.models import Decoder, Encoder, Transformer
from npformer.optim import AdamW
from npformer.training import TrainStep

KINDS = [{}, {"tie_embeddings": True, "norm_order": "pre"}, {"positions": "learned"}]
EVERY_KIND = pytest.mark.parametrize("changes", KINDS, ids=["post-LN", "pre-LN, tied", "learned positions"])


@pytest.fixture(params=["plain", "numba"])
def backend(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    return get_backend("numpy", dtype="float64", kernels=request.param, threads=2)


def arrays(model):
    for _, parameter, _ in model.owned_parameters():
        yield from (parameter.data, parameter.grad)
    yield from (buffer.data for _, buffer in model.named_buffers())


def trained(model, batch):
    """Its values after three steps."""
    optimizer = AdamW(model.arena, lr=0.01, weight_decay=0.1)
    step = TrainStep(model, optimizer)
    for _ in range(3):
        step(*batch)
    return np.array(model.arena.values)


@pytest.mark.parametrize(
    ("of", "changes"),
    [*((Transformer, kind) for kind in KINDS), (Encoder, {}), (Encoder, {"norm": "batch"}), (Decoder, {})],
    ids=str,
)
def test_a_copy_is_equal_apart_and_packed(backend, small_model, batch, of, changes):
    model, inputs = small_model(backend, of, **changes), batch[: 2 if of is Transformer else 1]
    model.arena.grads[...] = np.arange(model.arena.size)
    model.arena.configure(model.arena.segments[0].name, lr_scale=0.5)
    twin = copy.deepcopy(model)
    assert type(twin) is type(model)
    assert twin.backend is model.backend
    assert twin.arena.segments == model.arena.segments
    expected = model(*inputs)
    assert np.array_equal(twin(*inputs), expected)
    for array, other in zip(arrays(twin), arrays(model), strict=True):
        assert np.array_equal(array, other)
        assert not np.shares_memory(array, other)
    for _, parameter, _ in twin.owned_parameters():
        for array, flat in ((parameter.data, twin.arena.values), (parameter.grad, twin.arena.grads)):
            assert np.shares_memory(array, flat)
            assert array.ctypes.data % 64 == 0
    twin.arena.values *= 2
    assert np.array_equal(model(*inputs), expected)
    assert not np.array_equal(twin(*inputs), expected)


@EVERY_KIND
def test_a_copy_trains_like_the_original_which_stays_unchanged(backend, small_model, batch, changes):
    model = small_model(backend, dropout=0.1, **changes)
    twin, before = copy.deepcopy(model), model.arena.values.copy()
    logits = model(*batch[:2])
    values = trained(twin, batch)
    assert np.array_equal(model.arena.values, before)
    assert np.array_equal(model(*batch[:2]), logits)
    assert not np.array_equal(twin(*batch[:2]), logits)
    assert np.array_equal(trained(model, batch), values)
    assert np.array_equal(model(*batch[:2]), twin(*batch[:2]))


def test_a_copy_decodes_with_its_own_numbers(backend, small_model, batch):
    """Kernels that decode in one call are prepared for a model and hold addresses of its numbers."""
    model, src = small_model(backend), batch[0]
    expected = greedy(model, src, 6)
    twin = copy.deepcopy(model)
    assert np.array_equal(greedy(twin, src, 6), expected)
    twin.generator.bias.data[...] = 100 * np.eye(9)[5]
    assert np.all(greedy(twin, src, 6) == 5)
    assert np.array_equal(greedy(model, src, 6), expected)


def test_a_copied_state_goes_on_apart(backend, small_model, batch):
    model, tokens = small_model(backend), np.array([1, 1, 1])
    states = [model.start(batch[0], 6) for _ in range(2)]
    for state in states:
        model.step(tokens, state)
    other = copy.deepcopy(states[0])
    model.step(tokens + 3, other)
    expected = model.step(tokens + 5, states[1])
    assert np.array_equal(model.step(tokens + 5, states[0]), expected)
    assert other.length == 2


def test_a_parameter_with_other_data_is_only_copied(numpy64, small_model):
    """It is not of the arena any more, and nobody trains it: so in the copy."""
    model = small_model(numpy64)
    bias = model.generator.bias
    bias.data = bias.data + 1
    twin = copy.deepcopy(model)
    assert np.array_equal(twin.generator.bias.data, bias.data)
    assert not np.shares_memory(twin.generator.bias.data, bias.data)
    assert not np.shares_memory(twin.generator.bias.data, twin.arena.values)
    assert np.shares_memory(twin.generator.weight.data, twin.arena.values)


def test_a_pickle_is_refused_with_a_reason(numpy64, small_model):
    for thing in (numpy64, small_model(numpy64)):
        with pytest.raises(TypeError, match=r"npf\.save\(model, path\)"):
            pickle.dumps(thing)
    assert copy.copy(numpy64) is numpy64
