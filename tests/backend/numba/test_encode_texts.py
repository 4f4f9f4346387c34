"""The compiled encoder of whole texts against the composition of the layers."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("numba")

from npformer.backend.numba import encode_texts
from npformer.errors import DTypeError
from npformer.layers import EncoderStack
from npformer.runtime.fused_encode import encode, fused_encode
from tests.backend.numba.small_models import small_model

SRC = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0], [7, 7, 0, 2, 2]])
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}
model = partial(small_model, encoders=3)


def error(src, dtype="float64", change=lambda of: None, **changes):
    """The largest difference between the layers and the kernel, over what is computed with and the tolerance."""
    plain, fast = (model(kernels, dtype, **changes) for kernels in ("plain", "numba"))
    assert fused_encode(fast, src) is not None
    change(plain)
    change(fast)
    expected, found = plain.encode(src)[0], fused_encode(fast, src)
    assert found.dtype == dtype
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)) / TOLERANCE[dtype])


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("texts", [1, 2, len(SRC)])
def test_it_is_the_composition(dtype, norm_order, activation, texts):
    assert error(SRC[:texts], dtype, norm_order=norm_order, activation=activation) < 1


@pytest.mark.parametrize(
    "changes",
    [{"final_norm": True}, {"norm_order": "pre", "final_norm": False}, {"scale_embedding": False},
     {"positions": "learned"}, {"num_heads": 1}, {"num_encoder_layers": 1}, {"dropout": 0.3}],
)  # fmt: skip
def test_it_is_the_composition_in_every_form(changes):
    assert error(SRC, **changes) < 1


@pytest.mark.parametrize("tokens", [1, 2, encode_texts.QUERIES - 1, encode_texts.QUERIES + 3])
def test_texts_of_any_length(tokens):
    src = np.random.default_rng(tokens).integers(0, 9, (3, tokens))
    src[-1] = 0  # whose tokens see nothing
    assert error(src) < 1


@pytest.mark.parametrize("change", ["in place", "array", "layer", "norm"])
def test_a_model_that_changes_is_computed_with_as_it_is_now(change, change_stack):
    def apply(of):
        if change == "in place":
            of.arena.values *= 0.9
        else:
            change_stack(change, of.encoder)

    assert error(SRC, change=apply) < 1
    changed = model("numba")
    before = encode(changed, SRC)[0]
    apply(changed)
    assert np.max(np.abs(encode(changed, SRC)[0] - before)) > 1e-9


def another_eps(of):
    of.encoder.layers[1].norm1.eps = 0.1


def another_precision(of):
    bias = of.encoder.layers[1].feed_forward.down.bias
    bias.data = bias.data.astype(np.float32)


def turned(of):
    weight = of.encoder.layers[0].self_attention.output.weight
    weight.data = np.asfortranarray(weight.data)


@pytest.mark.parametrize("change", [another_eps, turned, "kind"])
def test_unsupported_cases_are_left_to_the_layers(change, change_stack):
    plain, fast = model("plain"), model("numba")
    for of in (plain, fast):
        change_stack(change, of.encoder) if isinstance(change, str) else change(of)
    assert fused_encode(fast, SRC) is None
    np.testing.assert_allclose(encode(fast, SRC)[0], plain.encode(SRC)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernels", ["plain", "numba"])
def test_a_parameter_of_another_precision_is_refused(kernels):
    of = model(kernels)
    another_precision(of)
    with pytest.raises(DTypeError, match=r"expected numbers of one precision, .* float32"):
        encode(of, SRC)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "linear"},
        {"positions": "rotary", "num_heads": 1, "d_model": 16},
        {"positions": "relative"},
        {"norm": "batch"},
    ],
)
def test_other_mechanisms_are_left_to_the_layers(changes):
    fast = model("numba", **changes)
    assert fused_encode(fast, SRC) is None
    np.testing.assert_allclose(encode(fast, SRC)[0], model("plain", **changes).encode(SRC)[0], rtol=0, atol=1e-12)


def test_arrays_of_other_shapes_are_left_to_the_layers():
    """The kernel knows addresses alone, and would read on behind what is there."""
    for part, name in (("feed_forward", "up"), ("feed_forward", "down"), ("self_attention", "output")):
        fast = model("numba")
        parameter = getattr(getattr(fast.encoder.layers[1], part), name).bias
        parameter.data = parameter.data[:-1].copy()
        assert fused_encode(fast, SRC) is None


def test_it_is_prepared_once_and_taken(monkeypatch):
    fast, made = model("numba"), []
    prepare = fast.backend.encoder_of_texts
    monkeypatch.setattr(EncoderStack.__call__, "__code__", (lambda *given, **named: 1 / 0).__code__)
    object.__setattr__(fast.backend, "encoder_of_texts", lambda parts: made.append(parts) or prepare(parts))
    for texts in (1, 2, 4):
        assert encode(fast, SRC[:texts])[0].shape == (texts, 5, 15)
    assert len(made) == 1


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_nan_is_seen(activation):
    fast = model("numba", activation=activation)
    fast.encoder.layers[1].feed_forward.up.bias.data[3] = np.nan
    memory = fused_encode(fast, SRC)
    assert memory is not None
    assert np.isnan(memory).all()
