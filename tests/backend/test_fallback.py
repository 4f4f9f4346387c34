"""The choice of kernels: fast ones for float32 or float64 throughout, the plain pair for everything else."""

import dataclasses

import numpy as np
import pytest

from npformer.backend import PLAIN, Ops, Pair, get_backend
from npformer.backend.fallback import with_fallback
from npformer.check.cases.catalogue import usual_inputs
from npformer.functional import OPERATIONS
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam
from npformer.training import TrainStep
from tests.backend.conftest import both_ways

NAMES = list(OPERATIONS)


def refuse(*args, **options):
    raise AssertionError("the other kernel was asked")


REFUSING = Ops(**dict.fromkeys(NAMES, Pair(refuse, refuse)))


def noting(names, name):
    """The plain pair, which notes that it was asked."""
    pair = getattr(PLAIN, name)

    def forward(*inputs, **options):
        names.append(name)
        return pair.forward(*inputs, **options)

    return Pair(forward, pair.backward)


@pytest.mark.parametrize("name", NAMES)
def test_fast_kernels_take_their_own(name, dtype):
    ops = with_fallback(PLAIN, REFUSING)
    assert len(both_ways(ops, name, usual_inputs(name, dtype))) >= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["complex128", "complex64", "int64", "int16", "float16", "longdouble", ">f4"])
def test_for_everything_else_the_plain_pair_computes(name, dtype):
    inputs = usual_inputs(name, dtype)
    true, actual = (both_ways(ops, name, inputs) for ops in (PLAIN, with_fallback(REFUSING, PLAIN)))
    for f, t in zip(actual, true, strict=True):
        assert f.dtype == t.dtype
        np.testing.assert_array_equal(f, t)


@pytest.mark.parametrize("name", NAMES)
def test_one_other_dtype_among_the_inputs_is_enough(name):
    narrow, wide = usual_inputs(name, "float32"), usual_inputs(name, "complex128")
    for i, x in enumerate(narrow):
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            mixed = (*narrow[:i], wide[i], *narrow[i + 1 :])
            both_ways(with_fallback(REFUSING, PLAIN), name, mixed)


def test_named_inputs_are_looked_at_too():
    refusing, taking = with_fallback(REFUSING, PLAIN), with_fallback(PLAIN, REFUSING)
    x, weight, bias = usual_inputs("linear", "float32")
    taking.linear.forward(x, weight=weight, bias=bias)
    refusing.linear.forward(x, weight=weight, bias=bias.astype("complex128"))
    ids, table, scale = usual_inputs("embedding", "float32")
    taking.embedding.forward(table=table, tokens=ids, scale=scale)
    refusing.embedding.forward(table=table.astype(int), tokens=ids, scale=scale)


def test_each_backward_gets_its_own_forwards_cache():
    """Calls of two dtypes in turn, as in a gradient check, and gradients added where they live."""
    marked = Pair(PLAIN.linear.forward, lambda dy, cache, into=(): "fast")
    ops = with_fallback(dataclasses.replace(PLAIN, linear=marked), PLAIN)
    real, complex_ = usual_inputs("linear", "float32"), usual_inputs("linear", "complex128")
    (y, cache), (z, other) = ops.linear.forward(*real), ops.linear.forward(*complex_)
    assert ops.linear.backward(y, cache) == "fast"
    total, expected = np.full((2, *real[1].shape), 2 + 1j)
    dx = ops.linear.backward(1j * z, other, into=(total, None))
    np.testing.assert_array_equal(
        dx, PLAIN.linear.backward(1j * z, PLAIN.linear.forward(*complex_)[1], (expected, None))
    )
    np.testing.assert_array_equal(total, expected)


def test_nothing_falls_back_while_training(kernels, dtype):
    asked = []
    backend = get_backend("numpy", dtype, kernels=kernels, threads=1)
    noticed = with_fallback(backend.ops, Ops(**{name: noting(asked, name) for name in NAMES}))
    for changes in (
        {"norm_order": "post", "positions": "rotary"},
        {"norm_order": "pre", "activation": "gelu", "positions": "learned", "attention": "local", "window": 2},
        {"norm": "batch", "positions": "relative"},
        {"attention": "linear"},
    ):
        config = TransformerConfig(
            9, 9, d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=12, **changes
        )
        model = Transformer(config, backend=dataclasses.replace(backend, ops=noticed))
        ids = np.array([[3, 4, 5], [1, 2, 0]])
        TrainStep(model, Adam(model.arena))(ids, ids, ids)
    assert asked == []
