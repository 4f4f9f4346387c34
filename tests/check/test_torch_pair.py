"""Gradients of PyTorch code: right ones pass, wrong ones do not, and nothing of what is checked is changed."""

from dataclasses import dataclass

import numpy as np
import pytest

from npformer import from_torch, gradcheck
from npformer.check.causes import search
from npformer.errors import ConfigError, DTypeError
from tests.check.own_code import line_of
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


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.001, False)])
def test_a_right_and_a_wrong_backward_are_told_apart_by_the_names_of_the_inputs(factor, ok):
    report = checked(make_scaled_sine(factor), X, X + 1, explain=False)
    assert report.name == "ScaledSine"
    assert {row.tensor: row.ok for row in report.rows} == {"x": True, "w": ok}


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
    assert not checked(make_power(1), X, 3, explain=False).ok


def product_without_second(share=1.0):
    """x·w with a share, whose backward has nothing for w."""

    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * ((1 - share) * w.detach().mean() + share * w) if share else x.clone()

    def backward(ctx, dy):
        return dy * (ctx.saved_tensors[0] if share else 1), None

    return function_of("Forgetful", forward=forward, backward=backward)


def test_a_backward_that_returns_none_claims_0():
    report = checked(product_without_second(), X, X + 1)
    assert [row.ok for row in report.rows] == [True, False]
    assert report.rows[1].analytic == 0
    assert checked(product_without_second(share=0), X, X + 1).ok


def test_none_for_what_wants_no_gradient():
    target = product_without_second()
    x = torch.tensor(X, requires_grad=True)
    for report in (
        checked(target, X, X + 1, constant=[1]),
        checked(target, x, torch.tensor(X + 1)),  # as torch.autograd.gradcheck takes it
    ):
        expect_right(report, "x")
        assert report.notes == ("passed on unchecked: w (constant)",)
    assert not checked(target, torch.tensor(X), torch.tensor(X + 1), explain=False).ok  # neither is said to be constant
    assert not checked(target, x, X + 1, explain=False).ok, "NumPy's arrays cannot say that they want none"
    assert x.grad is None


def test_functions_of_tensors():
    def both(a, b):
        product = a @ b
        return product.tanh(), {"max": product.max(dim=-1), "nothing": None}  # values, and indices that are left out

    expect_right(checked(both, X, W, complex_step=False), "a", "b")  # max refuses complex numbers
    assert checked(torch.sin, X).ok
    detached = checked(lambda x: x.detach() * 2, X, explain=False)
    assert not detached.ok
    assert detached.rows[0].analytic == 0


def test_numbers_without_axes():
    expect_right(checked(lambda x, s: (x * s).square().mean(), X, np.array(0.5)), "x", "s")
    assert checked(squaring(lambda ctx, dy: dy.zero_()), np.array(0.5)).problems[0].startswith("backward changes dy")


def test_numbers_that_need_a_check_without_the_complex_step():
    """Softmax, ReLU and max refuse complex numbers, and |x| loses an imaginary part: they are checked all the same."""
    assert checked(lambda x: torch.relu(x) ** 2, X).ok
    with pytest.raises(TypeError, match="complex"):
        from_torch(lambda x: x.softmax(-1)).forward(X + 1j)
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


def test_a_backward_that_draws_its_own_numbers_is_wrong():
    draw = lambda x: torch.nn.functional.dropout(x, 0.5, training=True)  # noqa: E731
    anew = function_of("Anew", forward=lambda ctx, x: draw(x), backward=lambda ctx, dy: draw(dy))
    report = checked(anew, X + 3, explain=False)
    assert [row.verdict for row in report.rows] == ["WRONG"]
    (problem,) = report.problems
    assert problem.endswith(": backward changes its cache or draws random numbers anew")


def test_a_backward_that_uses_what_forward_drew_is_right():
    def forward(ctx, x):
        ctx.mask = torch.rand(x.shape) > 0.4
        return x * ctx.mask

    expect_right(checked(function_of("Saved", forward=forward, backward=lambda ctx, dy: dy * ctx.mask), X + 3), "x")
    drops = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.4), torch.nn.Tanh())
    again = lambda x: torch.utils.checkpoint.checkpoint(drops.double(), x, use_reentrant=False)  # noqa: E731
    expect_right(checked(again, X), "x")  # draws again in backward, from forward's state


def squaring(end):
    """x², whose backward ends with a deed."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.kept = x.clone()
        return x**2

    def backward(ctx, dy):
        dx = 2 * ctx.kept * dy
        end(ctx, dy)
        return dx

    return function_of("Squaring", forward=forward, backward=backward)


CHANGES_INPUT = "forward or backward changes its input x; work on a copy"
AGAIN = "a second backward with the same cache "
WITH_GAPS = np.asarray(RNG.normal(size=(3, 8)))[..., ::2]


@pytest.mark.parametrize("x", [X, WITH_GAPS], ids=["plain", "with gaps"])
@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (lambda ctx, dy: ctx.saved_tensors[0].data.add_(1), CHANGES_INPUT),
        (lambda ctx, dy: ctx.kept.zero_(), AGAIN + "gives another gradient of x (1.0e+00 of its size away): "
         "backward changes its cache or draws random numbers anew"),
        (lambda ctx, dy: dy.zero_(), "backward changes dy, the upstream gradient, which other code still needs; work "
         "on a copy"),
        (lambda ctx, dy: delattr(ctx, "kept"), ""),  # a graph need not serve twice
    ],
    ids=["input", "kept", "dy", "freed"],
)  # fmt: skip
def test_what_a_backward_writes_to(end, problem, x):
    report = checked(squaring(end), x)
    assert [row.verdict for row in report.rows] == ["right"]
    assert report.problems == ((problem,) if problem else ())


def test_a_saved_tensor_that_is_no_input_is_written_to():
    spoiling = squaring(lambda ctx, dy: ctx.saved_tensors[0].detach().mul_(2))
    (problem,) = checked(lambda x: spoiling.apply(x.sin()), X).problems
    assert problem.startswith(f"{AGAIN}fails: RuntimeError: one of the variables needed for gradient computation")


@pytest.mark.parametrize("x", [X, WITH_GAPS], ids=["plain", "with gaps"])
def test_a_forward_may_write_to_its_input_if_autograd_knows_of_it(x):
    def forward(ctx, x):
        return x.mul_(3)

    def marked(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    def aside(ctx, x):
        y = x**2
        ctx.save_for_backward(x.clone())
        x.mul_(3)
        return y

    tripled = lambda ctx, dy: 3 * dy  # noqa: E731
    assert checked(function_of("Silent", forward=forward, backward=tripled), x).problems == (CHANGES_INPUT,)
    squared = lambda ctx, dy: 2 * dy * ctx.saved_tensors[0]  # noqa: E731
    assert checked(function_of("Aside", forward=aside, backward=squared), x).problems == (CHANGES_INPUT,)
    expect_right(checked(function_of("Marked", forward=marked, backward=tripled), x), "x")
    expect_right(checked(torch.nn.LeakyReLU(0.1, inplace=True), x), "input")


def test_tensors_of_any_precision_come_in():
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    expect_right(checked(lambda x, w: x @ w, x, w), "x", "w")
    expect_right(checked(lambda x, w: x @ w, torch.tensor(X).bfloat16(), torch.tensor(W).half()), "x", "w")
    module = torch.nn.Linear(4, 2).bfloat16()
    expect_right(checked(module, torch.tensor(X).bfloat16()), "input", "weight", "bias")


def test_bfloat16_tensors_stay_so_beside_a_reference():
    seen = set()

    def double(x, w):
        seen.add((x.dtype, w.dtype))
        return x.float() * w

    report = checked(double, torch.tensor(X).bfloat16(), torch.tensor(X, dtype=torch.float32),
                     reference=lambda x, w: x * w)  # fmt: skip
    assert seen == {(torch.bfloat16, torch.float32)}
    assert all("bfloat16" in row.note for row in report.rows)
    seen.clear()
    checked(double, torch.tensor(X).bfloat16(), X, complex_step=False)
    assert seen == {(torch.float64, torch.float64)}


class OnGPU(torch.Tensor):
    """As a tensor on a GPU: NumPy cannot read it."""

    def numpy(self):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_the_device_is_that_of_the_first_tensor():
    seen = []

    def look(x):
        seen.append(str(x.device))
        raise ZeroDivisionError

    module = type("Looking", (torch.nn.Module,), {"forward": lambda self, x: look(x)})()
    with pytest.raises(ZeroDivisionError):
        from_torch(module).for_tensors([3, torch.empty(2, device="meta")], False).forward(X)
    with pytest.raises(ZeroDivisionError):
        gradcheck(from_torch(lambda x, weights: look(x)), X, weights=[torch.empty(2, device="meta")])
    assert seen == ["meta"] * 2, "that of an option, too, also in a list"
    assert checked(lambda x: x.sin(), torch.tensor(X).as_subclass(OnGPU)).ok


def test_complex_numbers_are_refused_with_the_way():
    with pytest.raises(DTypeError, match=r"^x: expected real numbers, got complex128; make its real and imaginary"):
        checked(lambda x: x * 2, torch.tensor(X) + 1j)
    module = torch.nn.Linear(4, 2)
    module.gain = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(DTypeError, match=r"^gain: expected real numbers, got complex64; make its real and imaginary"):
        checked(module, X)

    class Turned(torch.nn.Module):
        """By a buffer of complex numbers, as rotary embeddings have it."""

        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(2), torch.tensor([0.3, 1.2])))

        def forward(self, x):
            return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * self.turn).flatten(-2)

    pair = from_torch(Turned())
    assert abs(pair.forward(X)[0] - X).max() > 0.1
    expect_right(checked(Turned(), X, complex_step=False), "x")


def test_outputs_in_a_dict_or_a_dataclass():
    @dataclass
    class Output:
        logits: object
        hidden: object

    expect_right(checked(lambda x: Output(x.sin(), {"all": [x * 2, None]}), X), "x")


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma):
        centred = x - x.mean(dim=-1, keepdim=True)
        r = 1 / torch.sqrt((centred * centred).mean(dim=-1, keepdim=True) + 1e-5)
        ctx.save_for_backward(centred * r, r, gamma)
        return gamma * centred * r

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        x_hat, r, gamma = ctx.saved_tensors
        g = dy * gamma
        return r * (g - g.mean(dim=-1, keepdim=True)), (dy * x_hat).sum(dim=0)


def test_the_line_and_the_missing_term_of_a_function():
    before = LayerNorm.backward
    row, _ = checked(LayerNorm, X, RNG.normal(size=4)).rows
    line = line_of(LayerNorm, "g = dy * gamma") + 1
    assert (row.verdict, row.cause) == ("WRONG", "missing term")
    assert row.diagnosis == (
        f"missing term: test_torch_pair.py, line {line}, in backward: `g - g.mean(dim=-1, keepdim=True)` should be "
        "`g - x_hat * (g * x_hat).mean(dim=-1, keepdim=True) - g.mean(dim=-1, keepdim=True)`"
    )
    assert LayerNorm.backward is before


@pytest.mark.parametrize("changes", [0, 150_000])
def test_a_function_that_another_one_calls_is_told_by_its_line_or_by_what_it_leaves_out(changes, monkeypatch):
    monkeypatch.setattr(search, "MOST_CHANGES", changes)
    row, _ = checked(lambda x, gamma: LayerNorm.apply(x, gamma), X, np.array([0.5, 1.5, -1.0, 2.0])).rows
    there, here = line_of(LayerNorm, "r = 1 / torch.sqrt"), line_of(LayerNorm, "g = dy * gamma") + 1
    left_out = f"it leaves out what goes through `centred * centred` (test_torch_pair.py, line {there}, in forward)"
    assert row.diagnosis.startswith(f"missing term: test_torch_pair.py, line {here}" if changes else left_out)


def without_grad(x):
    with torch.no_grad():
        mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) ** 2


CUTS = {
    "detach": (lambda x: x * x.sin().detach().sum(), "`x.sin().detach()` should be `x.sin()`"),
    "data": (lambda x: x * x.exp().data, "`x.exp().data` should be `x.exp()`"),
    "item": (lambda x: x * x.sum().item(), "`x.sum().item()` should be `x.sum()`"),
    "no_grad": (without_grad, "`with torch.no_grad()` cuts the graph"),
}


@pytest.mark.parametrize(("function", "said"), CUTS.values(), ids=CUTS)
def test_what_cuts_a_graph_is_told_with_its_line(function, said):
    (row,) = checked(function, X).rows
    line = line_of(function, "with torch.no_grad") if function is without_grad else function.__code__.co_firstlineno
    assert row.verdict == "WRONG"
    assert f"test_torch_pair.py, line {line}" in row.diagnosis
    assert row.diagnosis.endswith(said)


def test_without_a_line_what_to_do_is_said():
    weights = torch.linspace(0.1, 0.9, X.size, dtype=torch.float64).reshape(X.shape)
    unsourced = eval("lambda ctx, dy: dy * weights", {"weights": weights})
    odd = function_of("Odd", forward=lambda ctx, x: 1 * x, backward=unsourced)
    (row,) = checked(lambda x: odd.apply(x), X).rows
    assert row.diagnosis.startswith("no known pattern fits")
    assert row.diagnosis.endswith(
        "; check a torch.autograd.Function or a jax.custom_vjp by itself, or as a NumPy pair, and a line may be named"
    )


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
    report = checked(Layer(0.99), X, explain=False)
    assert {row.tensor: row.ok for row in report.rows} == {"x": True, "gain": False}


def test_complex_numbers_reach_a_module_where_it_takes_them():
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    pair = from_torch(module)
    report = gradcheck(pair, X)
    report.raise_if_failed()
    assert all(row.scaled_error <= 1e-10 for row in report.rows)


def test_dropout_drops_the_same_each_time_and_takes_no_complex_step():
    pair = from_torch(torch.nn.Dropout(0.5))
    first, second = ((torch.manual_seed(seed), pair.forward(X + 3)[0])[1] for seed in (1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first == 0).any()
    with pytest.raises(TypeError, match=r"no random numbers|not implemented for 'ComplexDouble'"):
        pair.forward(X + 1e-30j)
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


def softmax_and_log_sum(marked):
    """A Function that returns a softmax and its log-sum-exp, whose gradient its backward ignores."""

    def forward(ctx, x):
        lse = torch.log(torch.exp(x).sum(-1))
        p = torch.exp(x - lse[:, None])
        ctx.save_for_backward(p)
        if marked:
            ctx.mark_non_differentiable(lse)
        return p, lse

    def backward(ctx, dp, _):
        (p,) = ctx.saved_tensors
        return p * (dp - (dp * p).sum(-1, keepdim=True))

    return function_of("Softmax", forward=forward, backward=backward)


def test_outputs_that_torch_says_want_no_gradient_are_left_out():
    assert checked(softmax_and_log_sum(True), X).ok
    undeclared = checked(softmax_and_log_sum(False), X)
    assert [row.cause for row in undeclared.rows] == ["ignored output"]
    assert checked(lambda x: (x * x, (x * x).mean().detach()), X).ok
    assert not checked(lambda x: (x * x).detach(), X, explain=False).ok, "a graph that is cut is no output for the log"


def test_functions_and_modules_are_taken_as_they_are():
    assert gradcheck(make_scaled_sine(1.0), X, X + 1).ok
    assert gradcheck(torch.nn.Linear(4, 2), X).ok
    assert gradcheck(torch.sin, torch.tensor(X)).ok


def test_lists_of_tensors_single_numbers_and_gradients_of_nothing():
    assert {row.tensor for row in checked(lambda xs, w: torch.stack(xs).sin() * w, [X, X + 1], X - 1).rows} == {
        "xs[0]", "xs[1]", "w",
    }  # fmt: skip
    assert not checked(torch.sin, np.array(0.3)).notes, "the complex step is a witness"
