"""Classes as people write them: their parameters are found, their mistakes too, and they stay as they were."""

import copy
import inspect

import numpy as np
import pytest

import npformer as npf
from npformer.errors import ConfigError, DTypeError
from tests.check.functions import normals
from tests.check.own_code import Box, Dense, Network, Tanh, expect_right, line_of

normal = normals()
X = normal(5, 3)


class Added(Dense):
    """Gradients are added to, which are there from the beginning, in the precision of W."""

    def __init__(self):
        super().__init__()
        self.dW, self.db = np.ones_like(self.W), np.ones_like(self.b)

    def backward(self, dy):
        self.dW = self.x.T @ dy if self.dW is None else self.dW + self.x.T @ dy
        self.db += dy.sum(0)
        return dy @ self.W.T


class InPlace:
    """The gradient is written into what is there, and zeroed by forward; a velocity belongs to the optimiser."""

    def __init__(self):
        self.W = normal(3, 4)
        self.dW, self.velocity = np.ones_like(self.W), np.zeros_like(self.W)

    def forward(self, x):
        self.x = x
        self.dW[...] = 0
        return x @ self.W

    def backward(self, dy):
        np.matmul(self.x.T, dy, out=self.dW)
        return dy @ self.W.T


class Hidden:
    """_w with _dw, and a way back to the object around it."""

    def __init__(self):
        self._w, self._dw, self.around = normal(3), np.zeros(3), self

    def forward(self, x):
        self.x = x
        return x * self._w

    def backward(self, dy):
        self._dw = (dy * self.x).sum(0)
        return dy * self._w


class Private:
    """_w with _w_grad; called, with no method forward."""

    def __init__(self):
        self._w = normal(3)
        self._w_grad = None

    def __call__(self, x):
        self._seen = x
        return x * self._w

    def backward(self, dy):
        self._w_grad = (dy * self._seen).sum(0)
        return (dy * self._w,)


class Tables:
    """Dicts params and grads."""

    def __init__(self):
        self.params = {"W": normal(3, 4), "b": normal(4)}
        self.grads = {}

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        self.grads = {"W": self.x.T @ dy, "b": dy.sum(axis=0)}
        return dy @ self.params["W"].T


class Lists:
    """Lists params and grads, the gradients written into what is there."""

    def __init__(self):
        weights = normal(3, 4)
        self.params, self.grads = [weights], [np.full_like(weights, 7)]

    def forward(self, x):
        (weights,) = self.params
        self.x = x
        return x @ weights

    def backward(self, dy):
        self.grads[0][...] = self.x.T @ dy
        return dy @ self.params[0].T


class Boxes:
    """Objects of their own with data and grad."""

    def __init__(self):
        self.weights = Box(normal(3, 4))

    def forward(self, x):
        self.x = x
        return x @ self.weights.data

    def backward(self, dy):
        self.weights.grad = self.x.T @ dy
        return dy @ self.weights.data.T


def small_network():
    return Network(Dense(), Tanh(), Dense(4, 2))


FORMS = {
    "dW": (Dense(), ["x", "W", "b"]),
    "added to": (Added(), ["x", "W", "b"]),
    "in place": (InPlace(), ["x", "W"]),
    "_dw": (Hidden(), ["x", "_w"]),
    "_w_grad": (Private(), ["x", "_w"]),
    "dicts": (Tables(), ["x", "params.W", "params.b"]),
    "lists": (Lists(), ["x", "params.0"]),
    "boxes": (Boxes(), ["x", "weights.data"]),
    "network": (small_network(), ["x", "layers.0.W", "layers.0.b", "layers.2.W", "layers.2.b"]),
    "none": (Tanh(), ["x"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_checked_by_its_names(form):
    target, names = FORMS[form]
    report = expect_right(npf.from_object(target), X, rows=names)
    assert report.name == type(target).__name__
    inner = inspect.unwrap(npf.from_object(target).forward)
    assert inner is getattr(type(target), "forward", type(target).__call__)


def test_a_wrong_gradient_is_found_however_deep():
    network = small_network()
    network.layers[2].factor = 1.01
    report = npf.gradcheck(npf.from_object(network), X)
    assert [row.tensor for row in report.rows if not row.ok] == ["layers.2.W"]


def test_the_object_stays_as_it_was():
    network = small_network()
    network.forward(X), network.backward(np.ones((5, 2)))
    before, held = copy.deepcopy(network), [id(layer.W) for layer in network.layers if isinstance(layer, Dense)]
    assert npf.gradcheck(npf.from_object(network), X).ok
    for one, other in zip(network.layers, before.layers, strict=True):
        assert vars(one).keys() == vars(other).keys()
        for name in vars(one):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert [id(layer.W) for layer in network.layers if isinstance(layer, Dense)] == held
    assert network.layers[0].W.dtype == np.float32


def test_the_check_is_of_the_object_as_it_was_given():
    layer = Dense()
    pair = npf.from_object(layer)
    before, _ = pair.forward(X)
    layer.W[...] = 0
    np.testing.assert_array_equal(pair.forward(X)[0], before)


class Drawing:
    """Draws from NumPy's global numbers and from its own, counts its calls, and keeps a running mean."""

    def __init__(self):
        self.rng, self.calls, self.mean = np.random.default_rng(4), 0, np.zeros(3)

    def forward(self, x):
        self.calls += 1
        self.mean = self.mean + x.mean(0)
        self.mask = (np.random.random(x.shape) < 0.7) * (self.rng.random(x.shape) < 0.9) * self.calls
        return x * self.mask

    def backward(self, dy):
        return dy * self.mask


def test_what_a_call_leaves_behind_is_not_there_in_the_next():
    target = Drawing()
    np.random.seed(1)
    first, _ = npf.from_object(target).forward(X)
    np.random.seed(2)
    np.testing.assert_array_equal(npf.from_object(target).forward(X)[0], first)
    before = np.random.get_state()[1].copy()
    expect_right(npf.from_object(target), X, rows=["x"])
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert (target.calls, target.mean.tolist()) == (0, [0, 0, 0])


class Loss:
    """Two inputs, one of which has no gradient, and a backward without dy."""

    def forward(self, y, wanted):
        self.rest = y - wanted
        return float((self.rest**2).mean())

    def backward(self):
        return 2 * self.rest / self.rest.size


def test_a_loss_whose_backward_takes_nothing():
    expect_right(npf.from_object(Loss()), X, np.arange(15).reshape(5, 3), complex_step=False, rows=["y"])


class Several:
    """Two inputs, two outputs, and a list of gradients."""

    def forward(self, a, b):
        self.kept = a, b
        return [a * b, a + b]

    def backward(self, dys):
        (a, b), (first, second) = self.kept, dys
        return [first * b + second, first * a + second]


def test_several_inputs_and_outputs():
    expect_right(npf.from_object(Several()), X, X + 1, rows=["a", "b"])


class Table:
    """An embedding: no float input, and backward returns nothing."""

    def __init__(self):
        self.table = normal(6, 3)

    def forward(self, tokens):
        self.tokens = tokens
        return self.table[tokens]

    def backward(self, dy):
        self.step_for_table = np.zeros(self.table.shape)
        np.add.at(self.step_for_table, self.tokens, dy)


def test_a_gradient_under_another_name_and_no_float_input():
    tokens = np.array([[1, 2, 2], [5, 0, 1]])
    with pytest.raises(ConfigError) as caught:
        npf.from_object(Table())
    for part in (
        "table: expected a place of its gradient, one of dtable, d_table, grad_table, table_grad",
        'parameters={"table": "PLACE"}) names it',
        '{"table": None} says that table is a constant, no parameter',
    ):
        assert part in str(caught.value)
    expect_right(npf.from_object(Table(), parameters={"table": "step_for_table"}), tokens, rows=["table"])


def test_what_is_given_comes_before_what_is_found():
    network = small_network()
    pair = npf.from_object(network, parameters={"layers.0.W": None, "layers.2.W": "layers.0.dW"})
    assert npf.gradcheck(pair, X).problems[0].startswith("gradient of layers.2.W: expected (4, 2), got (3, 4)")
    assert [name for name, _ in pair.named_parameters()] == ["layers.2.W", "layers.0.b", "layers.2.b"]
    rows = ["x", "layers.0.b", "layers.2.W", "layers.2.b"]
    expect_right(npf.from_object(network, parameters={"layers.0.W": None}), X, rows=rows)


class Doing(Tanh):
    """tanh, whose backward ends with a deed."""

    def __init__(self, deed):
        self.deed, self.scratch = deed, np.zeros(3)

    def forward(self, x):
        self.x = x
        return super().forward(x)

    def backward(self, dy):
        dx = super().backward(dy)
        self.deed(self, dy, dx)
        return dx


AGAIN = (
    "a second backward with the same cache gives another gradient of x (1.0e+00 of its size away): backward changes "
)


def spoil(array, number):
    array[...] = number


@pytest.mark.parametrize(
    ("deed", "problem"),
    [
        (lambda x, dy, dx: spoil(x.y, 1), f"{AGAIN}its cache or draws random numbers anew"),
        (lambda x, dy, dx: spoil(x.x, 0), "forward or backward changes its input x; work on a copy"),
        (lambda x, dy, dx: setattr(x, "y", None), ""),  # a cache may be freed
        (lambda x, dy, dx: spoil(x.scratch, dy[0]), ""),
    ],
    ids=["kept", "input", "freed", "scratch"],
)  # fmt: skip
def test_what_a_backward_writes_to(deed, problem):
    report = npf.gradcheck(npf.from_object(Doing(deed)), X)
    assert [row.verdict for row in report.rows] == ["right"]
    assert report.problems == ((problem,) if problem else ())


def test_a_backward_that_learns_or_adds_to_its_gradients_has_no_problem():
    summing = Added()
    summing.dW, summing.db = None, np.float64(0)

    class Learning(Dense):
        def backward(self, dy, rate=0.1):
            dx = super().backward(dy)
            self.W -= rate * self.dW
            self.b = self.b - rate * self.db
            return dx

    for target in (Learning(), summing):
        expect_right(npf.from_object(target), X, rows=["x", "W", "b"])


class Turning:
    """A weight, a constant, and a state that other methods write."""

    def __init__(self):
        self.W, self.cos, self.mean = normal(3), np.cos(normal(3)), np.zeros(3)

    def learn(self):
        self.mean = self.mean + 1

    def forward(self, x):
        self.x = x - self.mean
        return self.x * self.W * self.cos

    def backward(self, dy):
        self.dW = (dy * self.x * self.cos).sum(0)
        return dy * self.W * self.cos


def test_what_was_taken_for_what_is_said():
    with pytest.raises(ConfigError, match=r'"cos": None} says that cos is a constant, no parameter'):
        npf.from_object(Turning())
    report = expect_right(npf.from_object(Turning(), parameters={"cos": None}), X, rows=["x", "W"])
    assert report.notes == (
        "parameters: W with its gradient dW",
        "taken as no parameters, so unchecked: cos, mean",
    )
    assert npf.gradcheck(npf.from_object(InPlace()), X).notes == ("parameters: W with its gradient dW",)
    assert npf.gradcheck(npf.from_object(Tanh()), X).notes == ()


def test_three_times_too_large_with_three_rows_is_no_count_of_rows():
    class Tripled(Dense):
        def backward(self, dy):
            self.dW, self.db = self.x.T @ dy * 3, dy.sum(0)
            return dy @ self.W.T

    report = npf.gradcheck(npf.from_object(Tripled()), X[:3])
    assert report.rows[1].diagnosis == (
        f"extra factor: test_stateful.py, line {line_of(Tripled.backward, '* 3')}, in backward: `self.x.T @ dy * 3` "
        "should be `self.x.T @ dy`"
    )


def test_complex_parameters_are_refused_with_the_way():
    turned = Dense()
    turned.W = turned.W * (1 + 1j)
    with pytest.raises(DTypeError, match=r"^W: expected real numbers, got complex64; make its real and imaginary"):
        npf.gradcheck(npf.from_object(turned), X)


def test_what_is_refused():
    class Updating(Tanh):
        def backward(self, dy, learning_rate):
            return dy

    class Silent(Dense):
        def backward(self, dy):
            if dy is None:
                self.dW = self.db = dy
            return dy @ self.W.T

    for target, words in ((Tanh, "got the class Tanh"), (np.sin, "got an object of type ufunc")):
        with pytest.raises(ConfigError, match=f"expected an object with the methods forward and backward, {words}"):
            npf.from_object(target)
    with pytest.raises(ConfigError, match=r"expected backward\(dy\), got one that also needs learning_rate"):
        npf.from_object(Updating())
    with pytest.raises(ConfigError, match="W: expected its gradient in dW after backward, found nothing there"):
        npf.gradcheck(npf.from_object(Silent()), X)
    with pytest.raises(ConfigError, match="U: expected a float array of NumPy's, got NoneType"):
        npf.from_object(Dense(), parameters={"U": "dU"})
