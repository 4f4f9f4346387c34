"""Pairs: gradients added in place, and kernels that can be replaced without a change elsewhere."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812 - as the package itself calls it
from npformer.backend import PLAIN, Ops, Pair, get_backend, with_bits
from npformer.backend.ops import DRAWING, with_kernels
from npformer.check import catalogue
from npformer.check.cases.catalogue import usual_inputs
from npformer.functional import Draw
from npformer.lab.museum.patch import noted
from npformer.layers import EncoderLayer, LayerNorm
from tests.outputs import parts

DRAW = Draw(seed=1, step=2, micro=3, site=4, rate=0.5)
WAYS = ("forward", "backward")
NAMES = list(F.OPERATIONS)


def test_gradients_that_are_not_added_are_returned():
    y, cache = PLAIN.linear.forward(*usual_inputs("linear"))
    gradients = PLAIN.linear.backward(y, cache)
    for first, kind in enumerate((type(None), np.ndarray, tuple, tuple)):
        assert type(PLAIN.linear.backward(y, cache, into=[np.zeros_like(g) for g in gradients[first:]])) is kind
    assert type(PLAIN.relu.backward(y, PLAIN.relu.forward(y)[1])) is np.ndarray


def test_every_operation_of_functional_is_in_the_table_in_teaching_order():
    assert [field.name for field in dataclasses.fields(Ops)] == list(vars(PLAIN)) == NAMES
    assert {f"{name}_forward" for name in NAMES} == {name for name in F.__all__ if name.endswith("_forward")}
    listed = [word for word in (F.__doc__ or "").split("``")[1::2] if word in NAMES]
    assert listed == [name for name in NAMES if name in listed]


def test_a_misspelt_operation_is_an_error_that_names_the_nearest():
    with pytest.raises(AttributeError, match="liner: expected the name of an operation, such as linear"):
        _ = PLAIN.liner
    with pytest.raises(TypeError, match="liner"):
        dataclasses.replace(PLAIN, liner=PLAIN.linear)
    assert not hasattr(PLAIN, "xyz")
    assert copy.deepcopy(PLAIN) == PLAIN


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def linear_forward(): ...\ndef linear_backward(): ...", None),
        ("def liner_forward(): ...\ndef liner_backward(): ...", r"a\.liner_forward: expected the name of one op"),
        ("def linear_forward(): ...", "expected linear_forward and linear_backward, got linear_forward alone"),
        ("def linear_backward(): ...", "expected linear_forward and linear_backward, got linear_backward alone"),
        ("from npformer.functional import linear_forward\ndef linear_backward(): ...", "linear_backward alone"),
        ("def linear_forward(): ...\ndef linear_backward(): ...\n# twice", r"b\.linear_forward: .*one .*, once"),
        ("def _feed_forward(): ...\ndef move_forwards(): ...\nx_forward = 3", None),
    ],
)
def test_kernels_are_found_by_their_names_or_refused(source, message, tmp_path, monkeypatch):
    folder = f"folder_of_kernels_{abs(hash(source))}"
    (tmp_path / folder).mkdir()
    for name in ("__init__", "a", *(["b"] if "twice" in source else [])):
        (tmp_path / folder / f"{name}.py").write_text(source if name != "__init__" else "")
    monkeypatch.syspath_prepend(tmp_path)
    if message is not None:
        with pytest.raises(TypeError, match=message):
            with_kernels(PLAIN, folder)
        return
    table, plain = vars(with_kernels(PLAIN, folder, "GPU")), vars(PLAIN)
    assert [op for op in NAMES if table[op] is not plain[op]] == (["linear"] if "linear" in source else [])
    assert "linear" not in source or table["linear"].forward.args == ("GPU",)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_plain_kernels_are_the_functions_of_functional_themselves(name, dtype, request):
    """Nothing stands for one of them, be it as right: what checks plain kernels is to check every line of functional.

    A forward whose bits somebody else draws is a partial, which does not unwrap.
    """
    if name == "cupy":
        request.getfixturevalue("gpu")
    ops = get_backend(name, dtype=dtype, kernels="plain").ops
    for name in NAMES:
        for direction, function in zip(WAYS, getattr(ops, name), strict=True):
            assert inspect.unwrap(function) is getattr(F, f"{name}_{direction}"), f"{name} {direction}"


def op_cases(op):
    """The catalogue's cases of this operation itself."""
    return [case for case in catalogue(op) if case.group == "op" and case.name.partition(":")[0] == op]


@pytest.mark.parametrize("op", NAMES)
def test_plain_kernels_run_the_text_of_functional(op, numpy64):
    targets = {f"{f.__module__}:{f.__name__}" for f in (getattr(F, f"{op}_{way}") for way in WAYS)}
    bits = "npformer.functional.philox:philox_bits"
    with noted([*targets, bits]) as ran:
        for case in op_cases(op):
            ran.clear()
            pair = case.build(numpy64)
            y, cache = pair.forward(*case.inputs, **case.options)
            pair.backward(y, cache)
            assert targets <= ran
            assert (bits in ran) == any(isinstance(x, Draw) for x in case.inputs)


def test_a_kernel_replaced_is_seen_by_every_layer_and_touches_nothing_else(numpy64):
    seen = []

    def forward(x, gamma, beta, eps):
        seen.append(x.shape)
        return F.layer_norm_forward(2 * x, gamma, beta, eps)

    def backward(dy, cache, into=()):
        return 2 * numpy64.ops.layer_norm.backward(dy, cache, into)

    swapped = dataclasses.replace(numpy64, ops=dataclasses.replace(numpy64.ops, layer_norm=Pair(forward, backward)))
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    before, _ = LayerNorm(4, backend=numpy64).forward(x)
    EncoderLayer(4, 2, 6, norm_order="pre", backend=swapped).forward(x)
    LayerNorm(4, backend=swapped).forward(x)
    assert seen == [(2, 3, 4)] * 2
    np.testing.assert_array_equal(LayerNorm(4, backend=numpy64).forward(x)[0], before)
    others = [name for name in NAMES if name != "layer_norm"]
    assert all(getattr(swapped.ops, name) is getattr(numpy64.ops, name) for name in others)


def test_every_operation_that_draws_takes_other_bits(numpy64):
    calls = []

    def bits(draw, size, like):
        calls.append(size)
        return np.zeros(size, dtype=np.uint16)  # everything is dropped

    ops = with_bits(PLAIN, bits)
    assert tuple(name for name in NAMES if getattr(ops, name) is not getattr(PLAIN, name)) == DRAWING
    for op in DRAWING:
        inputs = usual_inputs(op)
        actual, usual = (parts(getattr(table, op).forward(*inputs)[0]) for table in (ops, PLAIN))
        assert len(calls) == 1, op
        assert not np.array_equal(actual[0], usual[0]), op
        calls.clear()
    assert not ops.dropout.forward(np.ones((2, 3)), DRAW)[0].any()
