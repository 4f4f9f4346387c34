"""What every pair, layer and model promises, checked for each case of the catalogue."""

import dataclasses
import functools

import numpy as np
import pytest

from npformer import layers
from npformer.backend import PLAIN, Backend, Pair, get_backend
from npformer.check import catalogue
from npformer.check.invariants.invariant import claimed, opened
from npformer.check.properties import PROPERTIES, Asked, fitting
from npformer.check.report import RIGHT, WRONG
from npformer.check.subject import Subject
from npformer.errors import CacheUsedError, DTypeError
from npformer.functional import OPERATIONS, AttentionMask
from npformer.layers import CacheStack, Layer
from tests.backend.conftest import upstream_for
from tests.outputs import parts, used_cache_text

CASES = catalogue()
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
EVERY_PAIR = pytest.mark.parametrize("case", [c for c in CASES if c.group == "op"], ids=lambda case: case.name)
EVERY_LAYER = pytest.mark.parametrize("case", [c for c in CASES if c.group != "op"], ids=lambda case: case.name)

#: One key has weight 1 whatever its score: the gradients of the scores are 0, and 0.1 % of 0 is right.
ZERO_GRADIENTS = {("attention: length 1", 0), ("attention: length 1", 1)}


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def frozen(x, dtype):
    """Float arrays as read-only copies in dtype, gaps between their numbers kept; a mask's array read-only."""
    if isinstance(x, AttentionMask) and x.key_visible is not None:
        return dataclasses.replace(x, key_visible=frozen(x.key_visible, dtype))
    if not isinstance(x, np.ndarray):
        return x
    copy = np.repeat(x, 2, axis=-1)[..., ::2] if not x.flags.c_contiguous else x.copy()
    copy = copy.astype(dtype, order="K", copy=False) if is_float(x) else copy
    copy.flags.writeable = False
    return copy


def leaves(cache):
    """Everything that a cache holds, however deep."""
    if isinstance(cache, (tuple, list, CacheStack)):
        for item in cache:
            yield from leaves(item)
    else:
        yield cache


def same_bits(one, other):
    return all(np.array_equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


def in_fast_kernels(case):
    """Whether its gradients are checked there: of layers and models they equal the plain ones', see below."""
    return case.group == "op"


@pytest.mark.parametrize(
    ("kernels", "case"),
    [(b, c) for c in CASES for b in ("plain", "numpy", "numba") if b == "plain" or in_fast_kernels(c)],
    ids=lambda x: getattr(x, "name", x),
    indirect=["kernels"],
)
def test_gradients_are_right(case, any64):
    report = case.check(any64)
    assert report.ok, f"\n{report}"
    for row in report.rows:
        assert row.verdict == RIGHT
        assert row.scaled_error <= 1e-10
        assert row.central_error <= 1e-7


def test_the_catalogue_holds_every_operation_and_every_layer():
    tried = {case.name.partition(":")[0] for case in CASES}
    assert tried >= set(OPERATIONS)
    kinds = [kind for name in layers.__all__ if isinstance(kind := getattr(layers, name), type)]
    assert tried >= {kind.__name__ for kind in kinds if issubclass(kind, Layer) and kind is not Layer}
    assert tried >= {"Encoder", "Decoder", "Transformer"}
    assert len({case.name for case in CASES}) == len(CASES)


@EVERY_CASE
def test_its_backward_has_every_property(case, any64):
    with opened(case.build(any64), case.inputs, case.options, any64.device, seed=0) as probe:
        found = [claimed(one).judged(probe) for one in PROPERTIES.values()]
    assert [f"{claim.name}: {claim}" for claim in found if claim.fails] == []


@EVERY_LAYER
def test_a_layers_gradients_are_added_kept_and_emptied(case, any64):
    layer = case.build(any64)
    parameters = dict(layer.named_parameters())
    y, cache = layer.forward(*case.inputs, **case.options)
    layer.backward(upstream_for(y), cache)
    once = {name: p.grad.copy() for name, p in parameters.items()}
    with pytest.raises(CacheUsedError, match=f"^{used_cache_text(type(layer).__name__)}$"):
        layer.backward(upstream_for(y), cache)
    assert all(np.array_equal(p.grad, once[name]) for name, p in parameters.items())
    if case.group == "layer":  # of a model, a call has no key
        assert all(once[name].any() or name.endswith("key.bias") for name in parameters)
        assert same_bits(layer(*case.inputs, **case.options), y)
    layer.zero_grad()
    assert not any(p.grad.any() for p in parameters.values())
    assert case.name in ("SinusoidalPositions", "Dropout") or parameters


def expect_one_precision(case, backend):
    """Fail unless gradients have the shape and dtype of what they are of, and nothing between is in another dtype."""
    target = Subject(case.build(backend), case.inputs, case.options, backend.device, dtype=backend.dtype)
    with target.at():
        call = target.forward(frozen=True)
        dy = upstream_for(call.y)
        kept = {leaf.dtype for leaf in leaves(call.cache) if hasattr(leaf, "dtype") and leaf.dtype.kind == "f"}
        assert kept | {part.dtype for part in parts(call.y)} == {np.dtype(backend.dtype)}
        gradients = target.backward(dy, call.cache)
    assert list(fitting.asked(Asked(target, [dy], gradients))) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_CASE
def test_gradients_have_the_shape_and_dtype_of_the_inputs(case, dtype, kernels):
    expect_one_precision(case, get_backend("numpy", dtype=dtype, kernels=kernels))


@EVERY_LAYER
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_numbers_of_another_precision_are_refused_with_the_reason(case, dtype, any32):
    """A layer with parameters; one without computes in the precision of what it is given. Models are given ids."""
    layer = case.build(any32)
    inputs = [frozen(x, dtype) for x in case.inputs]
    if not any(is_float(x) for x in inputs):
        assert layer.forward(*inputs, **case.options)[0].dtype == np.float32
    elif dtype == "float64" and not dict(layer.named_parameters()):
        assert layer(*inputs, **case.options).dtype == layer.forward(*inputs, **case.options)[0].dtype == dtype
    else:
        got, advice = (
            rf"^\w+: expected numbers of one precision, .* got .*{dtype}",
            r"convert \w+.* with astype\(.float32.\)",
        )
        for call in (layer, layer.forward):
            with pytest.raises(DTypeError, match=f"{got}.*; {advice}"):
                call(*inputs, **case.options)


@EVERY_LAYER
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_gradients_of_another_precision_are_converted(case, dtype, any32):
    """To the bit as if they had come in float32: dx, and what parameters receive."""
    results = []
    for converted in (False, True):
        layer = case.build(any32)
        y, cache = layer.forward(*[frozen(x, "float32") for x in case.inputs], **case.options)
        dy = [np.round(part, 1).astype(dtype) for part in parts(upstream_for(y))]
        upstream = [part.astype(np.float32) for part in dy] if converted else dy
        returned = parts(layer.backward(tuple(upstream) if isinstance(y, tuple) else upstream[0], cache))
        assert {part.dtype for part in returned} <= {np.dtype("float32")}
        results.append((*returned, *(p.grad.copy() for _, p in layer.named_parameters())))
    assert same_bits(*results)


@EVERY_PAIR
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_an_operation_refuses_two_precisions_and_computes_in_one(case, dtype, any32):
    pair = case.build(any32)
    narrow, other = ([frozen(x, each) for x in case.inputs] for each in ("float32", dtype))
    floats = [i for i, x in enumerate(narrow) if is_float(x)]
    for i in floats:
        if len(floats) > 1:
            with pytest.raises(DTypeError, match=rf"^{case.name.partition(':')[0]}: expected numbers of one precision"):
                pair.forward(*narrow[:i], other[i], *narrow[i + 1 :], **case.options)
    if floats and dtype == "float16":
        with pytest.raises(DTypeError, match=r"one precision, float32 or float64, got .*float16"):
            pair.forward(*other, **case.options)
    elif floats:
        assert {part.dtype for part in parts(pair.forward(*other, **case.options)[0])} == {np.dtype(dtype)}


def computed(case, backend):
    """Outputs and gradients of a case on a backend, on the host."""
    target = Subject(case.build(backend), case.inputs, case.options, backend.device)
    outputs = target.outputs({})
    upstream = upstream_for(outputs)
    return {f"output {i}": y for i, y in enumerate(outputs)} | target.gradients(upstream)


@functools.cache
def expected_of(name):
    """Outputs and gradients of a case by the plain pairs, on NumPy in float64; computed once for many tests."""
    (case,) = (case for case in CASES if case.name == name)
    return computed(case, Backend(name="numpy", ops=PLAIN, device=get_backend("numpy").device, dtype="float64"))


def expect_plain(case, backend, rtol=1e-12):
    """Fail unless outputs and gradients equal the plain pairs' to rtol."""
    expected = expected_of(case.name)
    actual = computed(case, backend)
    assert actual.keys() == expected.keys()
    largest = max(float(np.max(np.abs(x))) for x in expected.values())
    for name, x in expected.items():
        where = f"{case.name}: {name}"
        np.testing.assert_allclose(actual[name], x, rtol=rtol, atol=1e-12 * max(1, largest), err_msg=where)


@EVERY_CASE
def test_every_table_of_kernels_equals_the_plain_pairs(case, any64):
    expect_plain(case, any64)


@EVERY_CASE
def test_the_strict_device_equals_the_plain_pairs(case, strict64):
    expect_plain(case, strict64)


def spoiled(case, backend, spoil):
    """The check of a pair whose gradients, numbered, were tampered with."""
    pair = case.build(backend)

    def backward(dy, cache):
        return tuple(spoil(i, np.array(g)) for i, g in enumerate(parts(pair.backward(dy, cache))))

    options = case.options | {"explain": False}  # wrong is enough here; why takes longer to find
    return dataclasses.replace(case, build=lambda _: Pair(pair.forward, backward), options=options).check(backend)


def one_element(number, gradient):
    """0.1 % of the largest entry, added to one element in the middle."""
    gradient.flat[gradient.size // 2] += 1e-3 * np.max(np.abs(gradient))
    return gradient


@EVERY_PAIR
def test_gradients_that_are_one_in_a_thousand_off_in_one_element_are_wrong(case, numpy64):
    report = spoiled(case, numpy64, one_element)
    wanted = [RIGHT if (case.name, k) in ZERO_GRADIENTS else WRONG for k in range(sum(map(is_float, case.inputs)))]
    assert [row.verdict for row in report.rows] == wanted, f"\n{report}"
    assert not report.ok


@pytest.mark.gpu
def test_cupy_equals_the_plain_pairs(cupy64):
    for case in CASES:
        expect_plain(case, cupy64, rtol=1e-11)
