"""Each row states the facts about its functions, as measured on the operation's own samples."""

import ast
from importlib import import_module
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from npformer import functional
from npformer.check import catalogue
from npformer.check.cases import op_samples
from npformer.check.cases.catalogue import random_op_case
from npformer.functional import OPERATIONS, Operation, relu_backward, relu_forward, softmax_backward

FILES = Path(functional.__file__).parent.glob("[a-z]*.py")
EVERY_ROW = pytest.mark.parametrize("row", OPERATIONS.values(), ids=list(OPERATIONS))
DRAWS = 6


def samples(row):
    """Some of the operation's sample inputs, random ones and the catalogue's."""
    yield from (list(random_op_case(row.name, 3, number).inputs) for number in range(DRAWS))
    yield from (list(each.inputs) for each in catalogue() if each.group == "op" and each.name.split(":")[0] == row.name)


def is_of(kinds, x):
    return isinstance(x, np.ndarray) and x.dtype.kind in kinds


@EVERY_ROW
def test_inputs_without_numbers_are_declared_as_ids(row):
    ids = {row.inputs[i] for inputs in samples(row) for i, x in enumerate(inputs) if is_of("biu", x)}
    assert ids == {row.ids} - {""}


def test_every_pair_of_every_file_has_its_row_and_its_samples():
    defined, rows = set(), []
    for path in FILES:
        module = import_module(f"npformer.functional.{path.stem}")
        rows += [x for x in vars(module).values() if isinstance(x, Operation)]
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        defined |= {name for name in names if name.endswith(("_forward", "_backward"))}
    assert defined == {f"{name}_{way}" for name in OPERATIONS for way in ("forward", "backward")}
    assert defined <= set(functional.__all__)
    assert sorted(row.name for row in rows) == sorted(OPERATIONS)
    made = {name for name, f in vars(op_samples).items() if isinstance(f, FunctionType) and "s" in f.__annotations__}
    assert made == set(OPERATIONS)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"backward": softmax_backward}, "softmax_backward: expected relu_backward, since pairs are found by"),
        ({"forward": relu_backward}, "relu_backward: expected relu_backward_forward"),
        ({"ids": "tokens"}, r"relu: expected one of its inputs \(x\), got ids=tokens"),
    ],
)
def test_a_row_that_cannot_be_is_refused(facts, message):
    with pytest.raises(TypeError, match=message):
        Operation(**{"forward": relu_forward, "backward": relu_backward, **facts})
