"""Anything can be checked, a stranger's code too, and nothing of it is changed by the check."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.layers import Linear, MultiHeadAttention, RandomKey
from tests.check.own_code import Gate, Scaled, expect_right
from tests.check.small_models import SRC, TGT, X
from tests.check.small_models import model as small_model


def test_a_strangers_layer_is_checked_input_and_parameters():
    assert expect_right(Gate(), X, rows=["x", "w", "inner.c"]).name == "my gate"


class Doubling(Scaled):
    def backward(self, dy, cache):
        return 2 * super().backward(dy, cache)


def test_a_users_layer_of_layers_is_checked(numpy64):
    expect_right(Scaled(numpy64), X[0, :, :3], rows=["x", "inner.weight", "inner.bias", "scale"])
    wrong = gradcheck(Doubling(numpy64), X[0, :, :3])
    assert [row.tensor for row in wrong.rows if not row.ok] == ["x"]


def test_a_forward_may_write_its_output_into_the_same_memory_each_time():
    memory = {dtype: np.zeros(3, dtype=dtype) for dtype in ("float64", "complex128")}

    def forward(x):
        y = memory[str(x.dtype)]
        np.multiply(x, x, out=y)
        return y, x

    assert gradcheck((forward, lambda dy, x: 2 * x * dy), np.array([0.1, 0.2, 0.3])).ok


def test_an_input_called_like_a_parameter_keeps_a_row_of_its_own():
    class Named(Gate):
        def named_parameters(self):
            yield from (("x", self.w), ("c", self.c))

    expect_right(Named(), X, rows=["input x", "x", "c"])


def test_float32_is_checked_in_float64(numpy32):
    report = gradcheck(MultiHeadAttention(4, 2, backend=numpy32), X.astype(np.float32))
    assert report.ok
    assert report.worst.scaled_error < 1e-12
    assert gradcheck(Gate(dtype="float32"), X.astype(np.float32)).ok


def unchanged(target, check):
    """Run check; every parameter must then hold the same arrays with the same bits as before."""
    boxes = [getattr(p, "owner", p) for _, p in target.named_parameters()]
    for box in boxes:
        box.grad[...] = 0.5
    before = [(box.data, box.grad, box.data.tobytes(), box.grad.tobytes()) for box in boxes]
    check()
    for box, (data, grad, data_bits, grad_bits) in zip(boxes, before, strict=True):
        assert box.data is data
        assert box.grad is grad
        assert (box.data.tobytes(), box.grad.tobytes()) == (data_bits, grad_bits)


def test_nothing_is_changed_by_a_check(numpy32):
    x = X.astype(np.float32)
    bits = x.tobytes()
    for gate in (Gate(), Gate(factor=3.0), Gate(dtype="float32")):
        unchanged(gate, lambda gate=gate: gradcheck(gate, x))
    model = small_model(backend=numpy32, num_decoder_layers=1, tie_embeddings=True)
    flat = model.arena.values.tobytes()
    unchanged(model, lambda: gradcheck(model, SRC, TGT, key=RandomKey(), elementwise=False).raise_if_failed())
    assert model.arena.values.tobytes() == flat
    assert np.shares_memory(model.generator.weight.data, model.arena.values)
    assert x.tobytes() == bits
    assert x.flags.writeable


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_nothing_is_changed_when_forward_or_backward_raises(way, monkeypatch):
    gate = Gate(dtype="float32")

    def failing(*_):
        assert gate.w.data.dtype == np.float64
        if way == "backward":
            gate.w.grad += 1
        raise ZeroDivisionError(f"{way} gave up")

    monkeypatch.setattr(gate, way, failing)

    def check():
        if way == "backward":
            assert "ZeroDivisionError" in gradcheck(gate, X).problems[0]
        else:
            with pytest.raises(ZeroDivisionError, match="forward gave up"):
                gradcheck(gate, X)

    unchanged(gate, check)


def test_a_layer_on_another_device_is_checked_there(strict64):
    """array-api-strict takes no complex numbers here, so central differences decide alone."""
    layer = Linear(4, 3, backend=strict64)
    before = layer.weight.data
    assert gradcheck(layer, X, complex_step=False).ok
    assert layer.weight.data is before
