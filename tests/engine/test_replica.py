"""A replica has the model's values, whatever happens to them, its own gradients, and shares the rest."""

import numpy as np

from npformer.engine.replica import Replicas, gradient_replica
from npformer.layers import RandomKey
from npformer.layers.owner import version_of
from tests.models.test_deepcopy import EVERY_KIND

KEY = RandomKey(3, 1)


def backpropagate(model, batch, key=KEY):
    """The logits; adds to the gradients."""
    logits, cache = model.forward(batch[0], batch[1], key=key)
    model.backward(np.cos(logits), cache)
    return np.asarray(logits)


@EVERY_KIND
def test_it_computes_the_same_and_its_gradients_are_its_own(numpy64, small_model, batch, changes):
    model = small_model(numpy64, dropout=0.3, **changes)
    replica = gradient_replica(model)
    assert [name for name, _ in replica.named_parameters()] == [name for name, _ in model.named_parameters()]
    logits = backpropagate(model, batch)
    assert not replica.arena.grads.any()
    true = model.arena.grads.copy()
    assert true.any()
    assert np.array_equal(backpropagate(replica, batch), logits)
    assert np.array_equal(model.arena.grads, true)
    assert np.array_equal(replica.arena.grads, true)
    for (name, parameter), (_, other) in zip(replica.named_parameters(), model.named_parameters(), strict=True):
        assert np.shares_memory(parameter.data, other.data), name
        assert np.shares_memory(parameter.grad, replica.arena.grads), name
        assert not np.shares_memory(parameter.grad, model.arena.grads), name
        assert np.array_equal(parameter.grad, other.grad), name


def test_a_model_with_things_that_cannot_be_copied_has_a_replica(numpy64, small_model, batch):
    model = small_model(numpy64)
    model.notes = open(__file__, encoding="utf-8")  # noqa: SIM115 - a user may hang anything on a model
    with model.notes:
        replica = gradient_replica(model)
    assert replica.notes is model.notes
    assert np.array_equal(replica(*batch[:2]), model(*batch[:2]))


def test_replicas_are_made_once_for_a_version(numpy64, small_model, batch):
    model = small_model(numpy64, dropout=0.3)
    replicas, version = Replicas(model), version_of(model)
    assert replicas.first(0, version) == []
    (one,) = replicas.first(1, version)
    three = replicas.first(3, version)
    assert three[0] is one
    assert len({id(replica.arena) for replica in (model, *three)}) == 4
    assert replicas.first(2, version) == three[:2]
    backpropagate(model, batch)
    model.arena.values += 1
    model.arena.configure("encoder", trainable=False)
    model.zero_grad()
    assert replicas.first(3, version_of(model)) == three
    model.encoder.layers[1].dropout = 0.4
    model.decoder.layers = model.decoder.layers[::-1]
    new = replicas.first(2, version_of(model))
    assert not set(map(id, new)) & set(map(id, three))
    assert np.array_equal(backpropagate(new[1], batch), backpropagate(model, batch))
