"""A twin has the model's numbers, whatever happens to them, gradients of its own, and shares the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.layers import Layer, Linear, RandomKey
from npformer.layers.parameter import Parameter, ParameterView
from npformer.models import Transformer, gradient_twin
from npformer.models.twin import Twins

Host = np.ndarray[Any, Any]
KEY = RandomKey(3, 1)
KINDS: list[dict[str, Any]] = [{}, {"tie_embeddings": True, "norm_order": "pre"}, {"positions": "learned"}]
EVERY_KIND = pytest.mark.parametrize("changes", KINDS, ids=["post-LN", "pre-LN, tied", "learned positions"])


def backpropagate(model: Transformer, batch: Any, key: RandomKey | None = KEY) -> Host:
    """The logits; adds to the gradients."""
    logits, cache = model.forward(batch[0], batch[1], key=key)
    model.backward(np.cos(logits), cache)
    return np.asarray(logits)


def parts(thing: Any) -> list[tuple[str, Any]]:
    """(attribute, value) of a layer or parameter and of all those in it."""
    found: list[tuple[str, Any]] = []
    for name, value in vars(thing).items():
        for part in value if isinstance(value, list) else (value,):
            found.append((name, part))
            if isinstance(part, Layer | Parameter | ParameterView):
                found += parts(part)
    return found


@EVERY_KIND
def test_it_computes_the_same_and_its_gradients_are_its_own(
    numpy64: Backend, small_model: Any, batch: Any, changes: Any
) -> None:
    model = small_model(numpy64, dropout=0.3, **changes)
    twin = gradient_twin(model)
    assert [name for name, _ in twin.named_parameters()] == [name for name, _ in model.named_parameters()]
    logits = backpropagate(model, batch)
    assert not twin.arena.grads.any()
    true = model.arena.grads.copy()
    assert true.any()
    assert np.array_equal(backpropagate(twin, batch), logits)
    assert np.array_equal(model.arena.grads, true)
    assert np.array_equal(twin.arena.grads, true)
    for (name, own), (_, other) in zip(twin.named_parameters(), model.named_parameters(), strict=True):
        assert np.shares_memory(own.data, other.data), name
        assert np.shares_memory(own.grad, twin.arena.grads), name
        assert not np.shares_memory(own.grad, model.arena.grads), name
        assert np.array_equal(own.grad, other.grad), name


@EVERY_KIND
def test_it_shares_all_but_layers_and_gradients(numpy64: Backend, small_model: Any, changes: Any) -> None:
    model = small_model(numpy64, **changes)
    theirs, own = parts(model), parts(gradient_twin(model))
    assert [name for name, _ in own] == [name for name, _ in theirs]
    for (name, mine), (_, other) in zip(own, theirs, strict=True):
        if name in ("grad", "arena") or isinstance(other, Layer | Parameter | ParameterView):
            assert mine is not other, name
        else:
            assert mine is other, name


def test_what_is_tied_in_the_model_is_tied_in_the_twin(numpy64: Backend, small_model: Any) -> None:
    twin = gradient_twin(small_model(numpy64, tie_embeddings=True))
    assert twin.src_embedding is twin.tgt_embedding
    assert np.shares_memory(twin.generator.weight.grad, twin.src_embedding.weight.grad)
    assert np.shares_memory(twin.generator.weight.grad, twin.arena.grads)


def test_a_model_with_things_that_cannot_be_copied_has_a_twin(numpy64: Backend, small_model: Any, batch: Any) -> None:
    model = small_model(numpy64)
    model.notes = open(__file__, encoding="utf-8")  # noqa: SIM115 - a user may hang anything on a model
    with model.notes:
        twin = gradient_twin(model)
    assert twin.notes is model.notes
    assert np.array_equal(twin(*batch[:2]), model(*batch[:2]))


def test_layers_in_containers_have_twins_too(numpy64: Backend, small_model: Any) -> None:
    """Each once: what two layers share, their twins share."""
    model = small_model(numpy64)
    first, second = model.encoder.layers
    first.pair = second.pair = pair = (Linear(2, 2, backend=numpy64), "a word")
    first.by_name = defaultdict(list, {"one": pair[0]})
    first.words = ("a", "b")
    twins = gradient_twin(model).encoder.layers
    assert twins[0].pair is twins[1].pair
    assert twins[0].pair[0] is twins[0].by_name["one"] is not pair[0]
    assert twins[0].pair[0].weight.data is pair[0].weight.data
    assert twins[0].pair[0].weight.grad is not pair[0].weight.grad
    assert twins[0].by_name["other"] == []
    assert twins[0].words is first.words


def test_new_values_are_seen_by_both(numpy64: Backend, small_model: Any, batch: Any) -> None:
    model = small_model(numpy64)
    twin, before = gradient_twin(model), model(*batch[:2])
    model.arena.values *= 1.5
    assert np.array_equal(twin(*batch[:2]), model(*batch[:2]))
    assert not np.array_equal(twin(*batch[:2]), before)


def test_twins_are_made_once(numpy64: Backend, small_model: Any, batch: Any) -> None:
    model = small_model(numpy64)
    twins = Twins(model)
    assert twins.first(0) == []
    (one,) = twins.first(1)
    three = twins.first(3)
    assert three[0] is one
    assert len({id(twin.arena) for twin in (model, *three)}) == 4
    assert twins.first(2) == three[:2]
    backpropagate(model, batch)
    model.arena.values += 1
    model.arena.configure("encoder", trainable=False)
    model.zero_grad()
    assert twins.first(3) == three


def with_another_rate(model: Transformer) -> None:
    model.encoder.layers[1].dropout = 0.4


def with_another_layer(model: Transformer) -> None:
    model.decoder.layers[0] = model.decoder.layers[1]


def with_layers_that_changed_places(model: Transformer) -> None:
    model.decoder.layers.reverse()


def with_fewer_layers(model: Transformer) -> None:
    del model.decoder.layers[1]


def with_another_config(model: Transformer) -> None:
    model.config = replace(model.config, pad_id=1)


def with_more(model: Transformer) -> None:
    model.generator.note = "new"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [
        with_another_rate,
        with_another_layer,
        with_layers_that_changed_places,
        with_fewer_layers,
        with_another_config,
        with_more,
    ],
)
def test_twins_are_made_anew_when_a_layer_has_changed(
    numpy64: Backend, small_model: Any, batch: Any, change: Any
) -> None:
    model = small_model(numpy64, dropout=0.3)
    twins = Twins(model)
    old = twins.first(2)
    change(model)
    new = twins.first(2)
    assert not set(map(id, new)) & set(map(id, old))
    assert np.array_equal(backpropagate(new[1], batch), backpropagate(model, batch))
    assert np.array_equal(new[1].arena.grads, model.arena.grads)
    assert twins.first(2) == new
