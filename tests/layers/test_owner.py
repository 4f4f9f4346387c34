"""Setting an attribute of a layer makes a new version, and nothing else does; what cannot be seen is refused."""

import pickle
from abc import ABC
from collections import OrderedDict
from copy import deepcopy

import pytest

from npformer.errors import ConfigError
from npformer.layers import Dropout, Layer, Linear
from npformer.layers.owner import version_of


class Box(Layer, ABC):
    """A layer with containers, and a number and a list that are no structure."""

    state_names = ("calls", "seen")

    def __init__(self, on):
        super().__init__(on)
        self.items = [Linear(2, 2, backend=on), [Linear(2, 2, backend=on)]]
        self.table = {"a": Linear(2, 2, backend=on), "b": {}}
        self.pair = (Linear(2, 2, backend=on), [])
        self.calls, self.seen = 0, []


@pytest.fixture
def box(numpy64):
    return Box(numpy64)


@pytest.mark.parametrize("statement", [
    "box.items[0].weight.data = box.items[0].weight.data", "box.new = 1", "del box.pair", "box.backend = box.backend",
    "box.items = (*box.items, 1)", "box.table = box.table | {'c': 1}", "box.items[1][0].bias.grad = 0",
    "box.table['a'].__class__ = Layer", "box.forward = len",
])  # fmt: skip
def test_a_change_makes_a_new_version(statement, box, numpy64):
    both = Box(numpy64)
    both.shared = {"box": [box]}
    before = version_of(box), version_of(both)
    exec(statement)
    assert version_of(box) > before[0]
    assert version_of(both) > before[1]
    assert version_of(box) == version_of(box)


def test_state_makes_no_new_version(box, numpy64):
    version = version_of(box)
    box.calls += 1
    box.seen.append(1)
    box.items[0].weight.data[...] = 3
    Dropout(0.1, backend=numpy64).rate = 0.2
    assert (version_of(box), box.calls, box.seen) == (version, 1, [1])
    del box.calls
    assert version_of(box) == version


def test_a_replaced_part_no_longer_counts(box):
    before, box.items = box.items, ()
    version = version_of(box)
    before[0].new = 1
    assert version_of(box) == version


@pytest.mark.parametrize("statement", [
    "items.append(1)", "items.clear()", "items.extend([1])", "items.insert(0, 1)", "items.pop()", "items.sort(key=id)",
    "items.remove(items[0])", "items.reverse()", "del items[0]", "items += [1]", "items *= 2", "items[0] = 1",
    "table.clear()", "table.pop('a')", "table.popitem()", "table.setdefault('c', 1)", "table.update(c=1)",
    "del table['a']", "table |= {'c': 1}", "table['a'] = 1", "items[1].append(1)", "table['b']['c'] = 1",
    "box.pair[1].append(1)", "other.items.append(1)", "other.table['b']['c'] = 1",
])  # fmt: skip
@pytest.mark.parametrize("copied", [deepcopy, lambda box: pickle.loads(pickle.dumps(box))])
def test_an_edit_in_place_is_refused_with_the_remedy(statement, copied, box):
    other = copied(box)
    with pytest.raises(ConfigError, match=r"set anew, as in layer\.layers = \(\*layer\.layers, new\) or"):
        exec(statement, {"box": box, "items": box.items, "table": box.table, "other": other})
    assert [name for name, _ in box.named_parameters()] == [name for name, _ in other.named_parameters()]
    assert (len(box.items), [*box.table], box.table["b"], box.pair[1]) == (2, ["a", "b"], {}, ())


def test_a_copy_counts_its_own_changes(box):
    for other in (deepcopy(box), pickle.loads(pickle.dumps(box))):
        version, first = version_of(other), version_of(box)
        other.items[1][0].new = 1
        assert version_of(other) > version
        assert version_of(box) == first


def test_other_containers_of_layers_are_refused(box):
    box.words = OrderedDict(a=1)
    with pytest.raises(ConfigError, match=r"^layers: expected them in a tuple, a plain list .* type OrderedDict"):
        box.table = OrderedDict(a=box.items[0])
