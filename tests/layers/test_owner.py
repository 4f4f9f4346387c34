"""Setting an attribute of a layer or class, or editing a container, makes a new version; nothing else does."""

from abc import ABC
from collections import OrderedDict
from copy import deepcopy

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.layers import Dropout, FeedForward, Layer, LayerDict, LayerList, Linear
from npformer.layers.owner import attributes_set_later, version_of


class Box(Layer, ABC):
    """A layer with containers, and a number that is no structure."""

    state_names = ("calls",)

    def __init__(self, on):
        super().__init__(on)
        self.items = [Linear(2, 2, backend=on), [Linear(2, 2, backend=on)]]
        self.table = {"a": Linear(2, 2, backend=on), "b": {}}
        self.pair = (Linear(2, 2, backend=on), [])
        self.calls = 0


@pytest.fixture
def box(numpy64):
    return Box(numpy64)


CHANGES = [
    "box.items[0].weight.data = box.items[0].weight.data", "box.new = 1", "del box.calls", "box.backend = box.backend",
    "box.items.append(1)", "box.items.clear()", "box.items.extend([1])", "box.items.insert(0, 1)", "box.items.pop()",
    "box.items.remove(box.items[0])", "box.items.reverse()", "box.items.sort(key=id)", "del box.items[0]",
    "box.items += [1]", "box.items *= 2", "box.items[0] = 1", "box.items[:] = []",
    "box.table.clear()", "box.table.pop('a')", "box.table.popitem()", "box.table.setdefault('c', 1)",
    "box.table.update(c=1)", "del box.table['a']", "box.table |= {'c': 1}", "box.table['a'] = 1",
    "box.items[1].append(1)", "box.table['b']['c'] = 1", "box.pair[1].append(1)", "box.items[1][0].bias.grad = 0",
    "box.items.append([]); version_of(box); box.items[-1].append(1)",
    "box.table.update(c=[]); version_of(box); box.table['c'].append(1)",
    "Linear.note = 1; del Linear.note", "FeedForward.forward = FeedForward.forward",
]  # fmt: skip


@pytest.mark.parametrize("statement", CHANGES)
def test_a_change_makes_a_new_version(statement, box):
    *before, last = statement.split("; version_of(box); ")
    names = globals() | {"box": box}
    for one in before:
        exec(one, names)
    version = version_of(box)
    exec(last, names)
    assert version_of(box) > version
    assert version_of(box) == version_of(box)


def test_state_makes_no_new_version(box, numpy64):
    version = version_of(box)
    box.calls += 1
    box.items[0].weight.data[...] = 3
    Dropout(0.1, backend=numpy64).rate = 0.2
    assert (version_of(box), box.calls) == (version, 1)


def test_a_replaced_part_no_longer_counts(box, numpy64):
    before, box.items = box.items, ()
    version = version_of(box)
    before.append(Linear(2, 2, backend=numpy64))
    assert version_of(box) == version


def test_lists_and_dicts_that_are_set_count_their_edits(box):
    kinds = [type(x) for x in (box.items, box.items[1], box.table, box.table["b"], box.pair, box.pair[1])]
    assert kinds == [LayerList, LayerList, LayerDict, LayerDict, tuple, LayerList]
    box.around = LayerDict(one=[box], two=LayerList([[]]))
    box.around["me"] = box.around
    circle = {}
    circle["me"] = circle
    box.circle = circle
    other = deepcopy(box)
    version, first = version_of(other), version_of(box)
    assert type(other.around["two"][0]) is LayerList
    other.around["two"][0].append(1)
    assert version_of(other) > version
    assert version_of(box) == first


def test_other_containers_of_layers_are_refused(box):
    box.words = OrderedDict(a=1)
    with pytest.raises(ConfigError, match=r"^layers: expected them in a tuple, a plain list .* type OrderedDict"):
        box.table = OrderedDict(a=box.items[0])


def test_a_class_is_as_written_until_a_method_is_replaced_and_again_when_it_is_back():
    class Own(FeedForward):
        static = True

    forward = FeedForward.forward
    assert not attributes_set_later(Own)
    try:
        FeedForward.forward = np.copy
        assert attributes_set_later(Own)
        assert not attributes_set_later(Linear)
    finally:
        FeedForward.forward = forward
    assert not attributes_set_later(Own)
    Own.__call__ = np.copy
    assert attributes_set_later(Own)
    del Own.__call__
    assert not attributes_set_later(Own)
    assert not attributes_set_later(FeedForward)
