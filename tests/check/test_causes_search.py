"""The search for a cause: what it finds in long and in large pairs, where it stops, and what it says then."""

import functools
import io
import re
import sys
from itertools import count

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.adapters.stateful import from_object
from npformer.check.causes import search
from tests.check.functions import inverse, normals, told
from tests.check.own_code import Plus, Untransposed, changed, line_of

normal = normals(11)
X34, Y34, X43, W35, S33 = (normal(*shape) for shape in ((3, 4), (3, 4), (4, 3), (3, 5), (3, 3)))
LARGE, SMALL = (normal(50, 50) / 7, normal(50, 50) / 7), normal(5, 50)


def rms_over_rows(x, g):
    r = 1 / np.sqrt((x * x).mean(axis=-1) + 1e-6)
    return x * r[:, None] * g, (x, g, r)


def rms_over_rows_backward(dy, cache):
    x, g, r = cache
    corr = (dy * g * x).sum(axis=-1) * r**3 / x.shape[1]
    return dy * g * r[:, None] - x * corr[None, :], (dy * x * r[:, None]).sum(axis=0)


def with_z_loss(z, t, c):
    m = z.max(axis=1, keepdims=True)
    lse = m[:, 0] + np.log(np.exp(z - m).sum(axis=1))
    return (lse - z[np.arange(len(t)), t] + c * lse**2).mean(), (np.exp(z - lse[:, None]), t, lse, c)


def with_z_loss_backward(dy, cache):
    p, t, lse, c = cache
    d = p.copy()
    d[np.arange(len(t)), t] -= 1
    return dy * (d + 2 * c * lse[:, None]) / len(t)


def runge_kutta(y, a, h):
    k1 = np.tanh(y @ a)
    u = y + h / 2 * k1
    k2 = np.tanh(u @ a)
    v = y + h / 2 * k2
    k3 = np.tanh(v @ a)
    return y + h * k3, (y, a, h, k1, k2, k3, u, v)


def runge_kutta_backward(dy, cache):
    y, a, h, k1, k2, k3, u, v = cache
    g3 = h * dy * (1 - k3**2)
    da = v.T @ g3
    dv = g3 @ a.T
    g2 = h / 2 * dv * (1 - k2**2)
    da = da + u.T @ g2
    du = g2 @ a.T
    g1 = h / 2 * du * (1 - k1**2)
    da = da + y.T @ g1
    return dy + dv + du + g1 @ a.T, da


def gate(x, h, w):
    z = 1 / (1 + np.exp(-x @ w))
    return (1 - z) * np.tanh(x) + z * h, (x, h, w, z)


def gate_backward(dy, cache):
    x, h, w, z = cache
    da = dy * (h - np.tanh(x)) * z * (1 - z)
    return dy * z * (1 - np.tanh(x) ** 2) + da @ w.T, dy * z, x.T @ da


def added(x):
    return np.vstack([x[:1], x[1:] + x[:-1]]), x


def added_backward(dy, x):
    dx = dy.copy()
    dx[1:] += dy[:-1]
    return dx


def centred(x):
    return x - x.mean(**LAST), x


def centred_backward(dy, x):
    n = x.shape[1]  # noqa: F841
    return dy - dy.sum(**LAST)


LAST = {"axis": -1, "keepdims": True}
Z_LOSS = (normal(5, 4), np.array([0, 3, 1, 1, 2]), 0.5)
SQUARE = normal(4, 4), normal(4, 4), 0.1


@pytest.mark.parametrize(
    ("forward", "backward", "inputs", "expected"),
    [
        (rms_over_rows, rms_over_rows_backward, (normal(6, 6), normal(6)), "`corr[None, :]` should be `corr[:, None]`"),

        (with_z_loss, with_z_loss_backward, Z_LOSS, "`2 * c * lse[:, None]` should be `2 * c * lse[:, None] * p`"),
        (with_z_loss, changed(with_z_loss_backward, "(d + 2 * c * lse[:, None])", "d"), Z_LOSS,
         "missing term: … `p.copy()` should be `p.copy() + 2 * c * lse[..., None] * p`"),
        (runge_kutta, changed(runge_kutta_backward, "1 - k2**2", "1 - k1**2"), SQUARE, "`k1` should be `k2`"),
        (runge_kutta, changed(runge_kutta_backward, "dy + dv", "dv"), SQUARE,
         "`dv + du + g1 @ a.T` should be `dv + du + g1 @ a.T + dy`"),
        (gate, gate_backward, (normal(4, 3), normal(4, 3), normal(3, 3)), "`dy * z` should be `dy * (1 - z)`"),
        (added, added_backward, (X34,), "wrong place: … `dx[1:] += dy[:-1]` should be `dx[:-1] += dy[1:]`"),
        (centred, centred_backward, (X34,), "factor: … `dy.sum(**LAST)` should be `dy.sum(**LAST) / n`"),
        (centred, lambda dy, x: dy - dy.sum(**LAST) / (x.shape[1] - 1), (X34,),
         "wrong constant: … `x.shape[1] - 1` should be `x.shape[1]`"),
        (centred, lambda dy, x: (dy - dy.mean(**LAST)) * (np.arange(4) > 0), (X34,),
         "wrong place: … should be `dy - dy.mean(**LAST)`"),
    ],
    ids=["rows for columns", "a factor of a z loss", "a whole z loss", "k1 for k2", "+ dy", "1 - z", "the other side",
         "a size that nobody reads", "a number", "a mask too many"],
)  # fmt: skip
def test_mistakes_in_pairs_of_many_lines(forward, backward, inputs, expected):
    text = told((forward, backward), *inputs)
    for part in expected.split(" … "):
        assert part in text


def product(x, w):
    return np.tanh(x @ w), (x, w, np.tanh(x @ w))


def product_backward(dy, cache):
    x, w, y = cache
    da = dy * (1 + y * y)
    return da @ w.T, x.T @ da


class InADict:
    """A layer held in a dict in a list."""

    def __init__(self):
        self.parts = [{"inner": Plus()}]

    def forward(self, x):
        return self.parts[0]["inner"].forward(x)

    def backward(self, dy):
        return self.parts[0]["inner"].backward(dy)


def test_a_large_tensor_has_a_cause_too():
    """More elements than are checked one by one; and beside a large tensor that is right."""
    assert "`1 + y * y` should be `1 - y * y`" in told((product, product_backward), *LARGE)
    wrong = [row for row in gradcheck(from_object(Untransposed(50, 50)), SMALL).rows if not row.ok]
    assert [row.tensor for row in wrong] == ["x"]
    assert "`dy @ self.W` should be `dy @ self.W.mT`" in wrong[0].diagnosis


def traced(function):
    @functools.wraps(function)
    def outer(*inputs):
        return function(*inputs)

    return outer


@traced
def decorated(dy, y):
    return dy * (1 + y * y)


def of_two(dy, y, one=7):
    return dy * (one + y * y)


class Held:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y, None

    def backward(self, dy, _):
        return dy * (1 + self.y * self.y)


HELD = Held()


def tanh(x):
    return np.tanh(x), np.tanh(x)


@pytest.mark.parametrize(
    ("forward", "backward", "inner", "expected"),
    [
        (tanh, decorated, decorated.__wrapped__, "`1 + y * y` should be `1 - y * y`"),
        (tanh, functools.partial(of_two, one=1), of_two, "`one + y * y` should be `one - y * y`"),
        (HELD.forward, HELD.backward, Held.backward, "`1 + self.y * self.y` should be `1 - self.y * self.y`"),
    ],
    ids=["decorated", "partial", "bound"],
)
def test_a_function_inside_another_is_changed(forward, backward, inner, expected):
    text = told((forward, backward), X34)
    line = line_of(inner, "return dy")
    assert text == f"sign: test_causes_search.py, line {line}, in {inner.__name__}: {expected}"


def test_a_compiled_backward_is_changed_as_python():
    numba = pytest.importorskip("numba")
    compiled = numba.njit(decorated.__wrapped__)
    assert "`1 + y * y` should be `1 - y * y`" in told((tanh, compiled), X34)


def test_a_layer_in_a_dict():
    (row,) = gradcheck(from_object(InADict()), X34).rows
    assert f"line {line_of(Plus.backward, '1 + ')}, in backward: `1 + self.y ** 2` should be" in row.diagnosis


def test_two_gradients_in_the_other_order_are_told_without_a_source():
    names = {"np": np}
    exec("def backward(dy, cache):\n    a, b = cache\n    return dy * np.sin(a), dy * np.cos(a) * b\n", names)
    rows = gradcheck((lambda a, b: (np.sin(a) * b, (a, b)), names["backward"]), X34, Y34).rows
    assert [(row.cause, row.diagnosis) for row in rows] == [
        ("swapped outputs", "it is the gradient of b, and that is this one's: return them in order"),
        ("swapped outputs", "it is the gradient of a, and that is this one's: return them in order"),
    ]


def test_a_transposition_of_all_uses_is_told_as_one():
    def backward(dy, y):
        return -y @ dy @ y

    assert told((inverse, backward), S33).endswith("in `return -y @ dy @ y`, `y` should be `y.mT`")


def long_backward(dy, cache):
    x, w, y = cache
    unused = dy * y  # noqa: F841
    return dy @ np.sinh(w.T + 3), np.cosh(x.T - 2) @ (dy * np.cos(5 * y))


TRIED = r"[\d,]+ changes of its source were tried, in \d+\.\d s"
NO_CAUSE = ((product, long_backward), X43, W35)


def test_names_that_are_never_used_are_a_hint_and_no_cause():
    rows = gradcheck(*NO_CAUSE).rows
    assert {row.cause for row in rows} == {"unknown"}
    hint = "no known pattern fits; `unused` is computed and never used in long_backward; "
    assert all(re.fullmatch(re.escape(hint) + TRIED, row.diagnosis) for row in rows)


@pytest.mark.parametrize("limit", ["count", "time"])
def test_what_was_not_tried_is_said(limit, monkeypatch):
    ticks = count()
    if limit == "count":
        monkeypatch.setattr(search, "MOST_CHANGES", 20)
    else:
        monkeypatch.setattr(search, "now", lambda: next(ticks) / 10)
    text = told(*NO_CAUSE)
    tried, _, rest = text.rpartition("; ")[2].partition(" of ")
    assert re.fullmatch(TRIED, rest)
    assert int(tried) < int(rest.split(" ")[0].replace(",", ""))
    assert limit == "time" or tried == "20"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "is_long"), [(Terminal, True), (io.StringIO, True), (Terminal, False)])
def test_a_long_search_shows_a_bar_on_a_terminal_alone(stream, is_long, monkeypatch):
    ticks, shown = count(), stream()
    if is_long:
        monkeypatch.setattr(search, "now", lambda: next(ticks) / 50)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown)
    told(*NO_CAUSE)
    assert ("looking for the cause" in shown.getvalue()) == (is_long and stream is Terminal) == (shown.getvalue() != "")


def test_a_loop_that_waits_for_a_condition_is_searched_within_a_bound_of_its_lines():
    def backward(dy, y):
        n = 1
        while n > 0:
            dy, n = dy * (1 + y * y), n - 1
        return dy

    assert re.fullmatch(r"sign: .*, in backward: `1 \+ y \* y` should be `1 - y \* y`", told((tanh, backward), X34))


def test_no_cause_is_sought_where_none_is_asked_for(monkeypatch):
    monkeypatch.setattr("npformer.check.causes.diagnosis.diagnosed", lambda *_, **__: pytest.fail("a search"))
    rows = gradcheck((product, product_backward), X43, W35, explain=False).rows
    assert [(row.verdict, row.cause, row.diagnosis) for row in rows] == [("WRONG", "", "")] * 2


def test_a_change_may_neither_run_for_long_nor_fill_the_memory(monkeypatch):
    """`n` steps could become `n**2`, and a product a table of all pairs."""
    monkeypatch.setattr(search, "MORE_LINES", 100)

    def forward(x):
        return np.cumsum(x), len(x)

    def backward(dy, n):
        dx, total = np.zeros(n), 0.0
        for i in range(n**1):
            total += dy[n - 1 - i]
            dx[n - 1 - i] = total * 1.5
        return dx

    (row,) = gradcheck((forward, backward), normals(0)(300)).rows
    assert row.verdict == "WRONG"
    with search.bounded_memory(), pytest.raises(MemoryError):
        np.ones(search.MOST_BYTES // 4)
