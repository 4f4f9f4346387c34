"""Gradients of PyTorch code: right ones pass, wrong ones do not, and nothing of what is checked is changed."""

import copy

import numpy as np
import pytest

from npformer import from_torch, gradcheck
from npformer.errors import ConfigError
from tests.interop.conftest import expect_right

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'npformer[torch]'")

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))


def checked(target, *inputs, **options):
    return gradcheck(from_torch(target), *inputs, **options)


def function_of(name, **parts):
    """A torch.autograd.Function of these static methods."""
    return type(name, (torch.autograd.Function,), {part: staticmethod(call) for part, call in parts.items()})


def make_scaled_sine(factor):
    """A torch.autograd.Function, y = x sin(w), whose gradient of w is off by a factor."""

    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * torch.sin(w)

    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return dy * torch.sin(w), factor * dy * x * torch.cos(w)

    return function_of("ScaledSine", forward=forward, backward=backward)


def make_power(exponent):
    """A torch.autograd.Function in the newer form, y = xⁿ with n an integer; backward takes another exponent."""

    def forward(base, n):
        return base**n

    def setup_context(ctx, inputs, output):
        base, ctx.n = inputs
        ctx.save_for_backward(base)

    def backward(ctx, dy):
        (base,) = ctx.saved_tensors
        return dy * ctx.n * base**exponent, None

    return function_of("Power", forward=forward, setup_context=setup_context, backward=backward)


def test_a_loss_without_axes_is_checked():
    expect_right(checked(lambda x: x.tanh().sum(), X), "x")


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.001, False)])
def test_a_right_and_a_wrong_backward_are_told_apart_by_the_names_of_the_inputs(factor, ok):
    report = checked(make_scaled_sine(factor), X, X + 1)
    assert report.name == "ScaledSine"
    assert {row.tensor: row.ok for row in report.rows} == {"x": True, "w": ok}


def test_nothing_of_a_backward_is_in_the_witness():
    """What the witness says does not depend on the backward: as wrong as can be, numeric is what it was."""
    numeric = [checked(make_scaled_sine(factor), X, X + 1, explain=False).rows[1] for factor in (2, 3)]
    assert [row.ratio for row in numeric] == pytest.approx([2, 3])


def test_values_are_computed_without_gradients():
    seen = []

    def sine(x):
        seen.append((torch.is_grad_enabled(), x.requires_grad))
        return x.sin()

    pair = from_torch(sine)
    y, cache = pair.forward(X)
    pair.backward(y, cache)
    assert seen == [(False, False), (True, True)]


def test_a_function_in_the_newer_form_with_an_integer():
    expect_right(checked(make_power(2), X, 3), "base")
    assert not checked(make_power(1), X, 3).ok


def test_a_backward_that_returns_none_claims_0():
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    forgetful = function_of("Forgetful", forward=forward, backward=lambda ctx, dy: (dy * ctx.saved_tensors[0], None))
    report = checked(forgetful, X, X + 1)
    assert [row.ok for row in report.rows] == [True, False]
    assert report.rows[1].analytic == 0


def test_functions_of_tensors():
    def both(a, b):
        product = a @ b
        return product.tanh(), {"max": product.max(dim=-1), "nothing": None}  # values, and indices that are left out

    expect_right(checked(both, X, W, complex_step=False), "a", "b")  # max refuses complex numbers
    assert checked(torch.sin, X).ok
    detached = checked(lambda x: x.detach() * 2, X)
    assert not detached.ok
    assert detached.rows[0].analytic == 0


def test_inputs_written_to_and_with_gaps():
    seen = []

    def in_place(x):
        seen.append(x.stride())
        return x.mul_(2).sin_()

    for x, strides in ((X, (4, 1)), (np.asarray(RNG.normal(size=(3, 8)))[..., ::2], (8, 2))):
        before = x.copy()
        assert checked(in_place, x).ok
        assert strides in seen
        np.testing.assert_array_equal(x, before)
        seen.clear()


def test_numbers_that_need_a_check_without_the_complex_step():
    """Softmax, ReLU and max refuse complex numbers, and |x| loses an imaginary part: they are checked all the same."""
    for function in (lambda x: torch.relu(x) ** 2, lambda x: x.softmax(-1)):
        assert checked(function, X).ok
        pair = from_torch(function)
        with pytest.raises(TypeError, match="complex"):
            pair.forward(X + 1j)
    with pytest.raises(TypeError, match="imaginary parts are lost"):
        from_torch(lambda x: x.abs()).forward(X + 1j)


def test_an_upstream_gradient_lies_as_it_is_given():
    seen = []

    def backward(ctx, dy):
        seen.append(dy.stride())
        return dy.clone()

    pair = from_torch(function_of("Identity", forward=lambda ctx, x: x.clone(), backward=backward))
    y, cache = pair.forward(X)
    for dy in (y, np.broadcast_to(y[:1], y.shape), np.repeat(y, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(pair.backward(dy, cache)[0], dy)
    assert seen == [(4, 1), (0, 1), (8, 2)]


def test_inputs_keep_their_precision_outside_of_a_check():
    pair = from_torch(lambda x: x * 2)
    for dtype in ("float32", "float64"):
        y, cache = pair.forward(X.astype(dtype))
        assert y.dtype == dtype
        assert pair.backward(y, cache)[0].dtype == dtype


def a_module():
    """float32, in train mode, with statistics and with dropout."""
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Dropout(0.4), torch.nn.Linear(5, 2)
    )


@pytest.mark.parametrize("training", [True, False])
def test_a_module_is_checked_and_unchanged(training):
    module = a_module().train(training)
    module[0].weight.grad = torch.ones(5, 4)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    drawn = torch.get_rng_state()
    report = checked(module, X, complex_step=False)
    expect_right(report, "input", "0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias")
    assert torch.equal(torch.get_rng_state(), drawn)
    assert module.training is training
    assert all(torch.equal(x, before[name]) for name, x in module.state_dict().items())
    assert module[0].weight.dtype == torch.float32
    assert torch.equal(module[0].weight.grad, torch.ones(5, 4))
    assert module[0].bias.grad is None


def test_a_wrong_function_inside_a_module_is_found():
    class Layer(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.gain, self.function = torch.nn.Parameter(torch.rand(4) + 0.5), make_scaled_sine(factor)

        def forward(self, x):
            return self.function.apply(x, self.gain.expand_as(x))

    assert checked(Layer(1.0), X).ok
    report = checked(Layer(0.99), X)
    assert {row.tensor: row.ok for row in report.rows} == {"x": True, "gain": False}


def test_statistics_follow_the_precision_of_the_rest():
    pair = from_torch(a_module().eval())
    for _, parameter in pair.named_parameters():
        parameter.data = parameter.data.astype(np.float32)
    assert pair.forward(X.astype(np.float32))[0].dtype == np.float32


def test_complex_numbers_reach_a_module_where_it_takes_them():
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    pair = from_torch(module)
    y, _ = pair.forward(X + 1e-30j)
    assert y.dtype == np.complex128
    report = gradcheck(pair, X)
    report.raise_if_failed()
    assert all(row.scaled_error <= 1e-10 for row in report.rows)


def test_dropout_drops_the_same_each_time_and_takes_no_complex_step():
    pair = from_torch(torch.nn.Dropout(0.5))
    first, second = ((torch.manual_seed(seed), pair.forward(X + 3)[0])[1] for seed in (1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first == 0).any()
    for drawing in (pair, from_torch(lambda x: x * torch.rand(x.shape))):
        with pytest.raises(TypeError, match=r"no random numbers|not implemented for 'ComplexDouble'"):
            drawing.forward(X + 1e-30j)
    dy, cache = np.ones_like(X), pair.forward(X + 3)[1]
    np.testing.assert_array_equal(pair.backward(dy, cache)[0] == 0, first == 0)


def test_tied_frozen_and_integer():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7)
            self.out.weight = self.table.weight
            self.out.bias.requires_grad_(False)

        def forward(self, tokens):
            return self.out(self.table(tokens))

    expect_right(checked(Tied(), np.array([[1, 2, 2], [3, 0, 6]])), "table.weight")


def test_several_outputs_and_a_state_that_a_call_changes():
    class Counting(torch.nn.LSTM):
        def __init__(self):
            super().__init__(4, 3, batch_first=True)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            y, (h, c) = super().forward(x)
            return y * self.calls, h, c

    module = Counting()
    checked(module, RNG.normal(size=(2, 3, 4)), complex_step=False).raise_if_failed()
    assert float(module.calls) == 0


def test_what_is_refused():
    for target in (3, torch.nn.Linear):
        with pytest.raises(ConfigError, match=r"expected a subclass of torch.autograd.Function, an nn.Module or"):
            from_torch(target)
    with pytest.raises(ConfigError, match="expected a forward that returns tensors, got an object of type int"):
        checked(lambda x: 3, X)
    with pytest.raises(ValueError, match="expected an output of floating-point numbers"):
        checked(lambda x: x > 0, X)
    with pytest.raises(ValueError, match="expected real outputs"):
        checked(lambda x: x * 1j, X)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):  # PyTorch's own words, of real numbers
        checked(lambda x: x @ x, X)


def test_copies_are_independent_of_the_module_they_are_of():
    module = a_module().eval()
    pair, x = from_torch(module), copy.deepcopy(X)
    before, _ = pair.forward(x)
    with torch.no_grad():
        module[0].weight.zero_()
    np.testing.assert_array_equal(pair.forward(x)[0], before)
