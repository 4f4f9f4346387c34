"""Derivations line by line: 60 of them, half wrong, the first 40 written before the checker; refusals; templates."""

import re

import pytest

from benchmarks.corpus.pairs import pairs
from npformer.check.derivations import TEMPLATES, judge, read, template
from npformer.errors import ConfigError, DataError

SOFTMAX = "x: (N,)\np = np.exp(x)\ny = p / p.sum(axis=0)\n"
NORM = """x: (N, C)
mu = x.mean(axis=-1, keepdims=True)
var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
y = (x - mu) / np.sqrt(var)
"""


RIGHT, WRONG = (
    [(each.name, each.text, each.line(None)) for each in pairs("derivations") if each.deserves == kind]
    for kind in ("right", "wrong")
)


def cause(lines, forward=NORM):
    return judge(read(forward + lines)).cause


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text, _ in RIGHT])
def test_no_right_one_is_accused(text):
    judged = judge(read(text))
    assert (judged.ok, judged.cause) == (True, None)


@pytest.mark.parametrize(("text", "wanted"), [pytest.param(text, at, id=name) for name, text, at in WRONG])
def test_the_first_wrong_line_is_named(text, wanted):
    found = judge(read(text)).cause
    assert found.line == wanted
    assert found.details


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("dx = dy / np.sqrt(var)", "through mu (line 2) as well: the term dmu·∂mu/∂x is missing in dx"),
        ("dmu = dy.sum(axis=1, keepdims=True) / np.sqrt(var)", "dy·∂y/∂mu has the wrong sign in dmu"),
        ("dmu = -dy.sum(axis=1, keepdims=True) / np.sqrt(var) / C", "dy·∂y/∂mu is 1/C times what it should be"),
        ("dmu = -dy / np.sqrt(var)", "dmu has to be summed over axis 1: .sum(axis=1, keepdims=True)"),
        ("dmu = -dy.sum(axis=1) / np.sqrt(var[:, 0])", "right, in another shape: is keepdims=True missing"),
        ("dmu = dy @ dy", "it cannot be computed: the shapes do not fit: dy is (N, C); dmu is to be (N, 1)"),
        ("dvar = (dy + dy.sum(axis=1)) * mu", "the shapes (N, C) and (N,) do not fit: dy is (N, C), mu is (N, 1)"),
        ("dmu = dy.sum(axis=0)", "dmu: it has the shape (C,), expected (N, 1), that of mu"),
        ("dvar = dy.sum(axis=1, keepdims=True) / 0", "dvar: it is not finite"),
        ("dy = dy * 2", "dy is given: leave this line out"),
    ],
)  # fmt: skip
def test_what_a_line_lacks(lines, words):
    assert words in "\n".join(cause(lines).details)


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        ("attention", "dv = weights @ dout", "line 10: `weights @ dout` should be `weights.mT @ dout`"),
        ("softmax", "dx = y * (dy - (dy * y).sum(axis=-1))", "should be `(dy * y).sum(axis=1, keepdims=True)`"),
        ("residual", "df = dy", "df is dy alone: the factor ∂y/∂f is missing"),
        ("dropout", "dx = dy * keep", "`dy * keep` should be `dy * keep * scale`"),
        (
            "layer_norm",
            "dx = r * (dy - dy.mean(axis=-1, keepdims=True) - x_hat * (dy * x_hat).mean(axis=-1, keepdims=True))",
            "with dy * gamma in the place of dy it is right",
        ),
    ],
)
def test_what_a_line_of_an_exercise_lacks(name, lines, words):
    """Lines that cannot be computed, too; masks of whole numbers; a factor that is forgotten in several places."""
    assert words in "\n".join(cause(f"\n{lines}", TEMPLATES[name]).details)


def test_a_forward_may_begin_in_the_first_line():
    found = cause("dx = 2 * dy", "x = np.ones((2, 3))\ny = x * x * x\n")
    assert found.details[-1] == "line 3: `2 * dy` should be `2 * dy + dy`"


def test_a_transposed_array_of_three_axes():
    found = cause("dw = x.T @ dy", "x: (B, T, C)\nw: (C, F)\ny = x @ w\n")
    assert "dw is to be (C, F)" in found.details[0]
    assert ".T turns all axes round, .mT the last two" in found.details[0]


def test_one_mistake_accuses_one_line():
    """Later lines get the measured gradient."""
    lines = judge(read(NORM + "dmu = dy\ndx = dy / np.sqrt(var) + dmu / C")).claims
    assert [line.verdict for line in lines] == ["WRONG", "WRONG"]  # dx lacks what goes through var
    forward = "x: (N, C)\nu = x * x\ny = np.exp(u)\n"
    lines = judge(read(forward + "du = dy\ndx = 2 * x * du")).claims
    assert [line.verdict for line in lines] == ["WRONG", "right"]


def test_a_mistake_in_a_line_of_ones_own_is_named_there():
    found = cause("g = dy * (1 + a ** 2)\ndx = g\n", "x: (N, C)\na = np.tanh(x)\ny = a * 1\n")
    assert (found.line, found.name) == (4, "g")
    assert found.details == ("line 4: `1 + a ** 2` should be `1 - a ** 2`",)


def test_a_right_line_of_ones_own_is_not_accused():
    """With g / s in the place of g the line of ds would be right, too; but dx uses g as well."""
    forward = "x: (N, C)\nc = x * 2\ns = np.sqrt((c ** 2).sum(axis=1, keepdims=True))\ny = c / s * 3\n"
    lines = "g = dy * 3\nds = -(g * c).sum(axis=1, keepdims=True) / s\ndc = g / s + ds * c / s\ndx = 2 * dc"
    found = judge(read(forward + lines))
    assert [line.verdict for line in found.claims] == ["your own", "WRONG", "right", "right"]
    assert (found.cause.line, found.cause.name) == (6, "ds")


@pytest.mark.parametrize("jacobian", ["np.diag(y) - np.outer(y, y)", "np.diag(y)"])
def test_a_line_of_ones_own_may_come_before_the_first_gradient(jacobian):
    """The output is the last name whose gradient is used and not derived."""
    judged = judge(read(f"{SOFTMAX}J = {jacobian}\nA = J * 2\ndx = A @ dy / 2"))
    verdict = "right" if "outer" in jacobian else "WRONG"
    assert [(line.name, line.verdict) for line in judged.claims] == [
        ("J", "your own"), ("A", "your own"), ("dx", verdict),
    ]  # fmt: skip


def test_a_number_without_end_is_no_whole_number():
    with pytest.raises(DataError, match="k cannot be computed: OverflowError"):
        judge(read("x: (N,)\nk = 9 ** 9 ** 9\ny = x * k\ndx = k * dy"))
    for endless in ("9 ** 9 ** 9", "(N * N) ** N ** N ** N ** N"):
        assert "OverflowError" in cause(f"dx = dy * {endless}", "x: (N,)\ny = x * 9\n").details[0]


def test_the_partial_derivative_and_the_total_one():
    """∂y/∂x by y's own line is 1/√var; in total y depends on x through mu and var as well."""
    assert judge(read(NORM + "partial(y, x) = 1 / np.sqrt(var)\npartial(var, mu) = 0 * mu")).ok
    found = cause("partial(y, x) = 3 * x / x", "x: (N, C)\nu = x * x\ny = x + u / x\n")
    assert found.name == "partial(y, x)"
    total = cause("partial(y, x) = 2 * x / x", "x: (N, C)\nu = x * 1\ny = x + u\n")
    assert "this is the total derivative of y by x" in total.details[0]
    assert judge(read(NORM + "dvar = (dy * partial(y, var)).sum(axis=1, keepdims=True)")).ok
    (told,) = cause("partial(y, var) = -0.5 * (x - mu) / var").details
    assert told == "y is line 4: its derivative by var, with every other name held"


def test_names_are_not_taken_for_others():
    """A constant that equals a size; a size that is called dk, beside k; a scale of no axis need not be derived."""
    forward = "x: (N, C)\nk = 3\ny = x * k\nz = y ** 2\n"
    assert judge(read(forward + "dy = 2 * y * dz\ndk = (dy * partial(y, k)).sum(axis=None)")).ok
    found = judge(read("q: (T, dk)\nk: (S, dk)\ny = q @ k.T / np.sqrt(dk)\ndq = dy @ k / np.sqrt(dk)"))
    assert [line.verdict for line in found.claims] == ["right"]
    assert judge(read(f"{TEMPLATES['dropout']}\ndx = dy * keep * scale")).left == ()


@pytest.mark.parametrize("lines", ["x: (N, C)\ny = np.maximum(x, 0)\ndx = dy * x", "x: (3, 4)\ny = x * 3\ndx = 9 * dy"])
def test_what_fits_the_drawn_sizes_alone_is_not_told(lines):
    assert "` should be" not in "\n".join(judge(read(lines)).cause.details)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dL/dx = y", "line 1: it is not Python"),
        (
            "x: (N, C)\ny = np.exp(x)\nu = 2 * x\ndx = u",
            "line 2: y is used by no later line of the forward, whose last",
        ),
        (
            "x: (N,)\ny = np.exp(x)\nj = np.diag(y)\nz = j @ x\ndx = j @ dy",
            "dz is given, since z is the forward's last line",
        ),
        ("x: (N, C)\ny = x\n∂L/∂x = dy", "write dx for ∂L/∂x, and partial(y, x) for ∂y/∂x"),
        ("x: (N, C)\nw: (C,)\ny = x · w\ndx = dy", "write * for a product entry by entry"),
        ("x: (N, C)\ny = x * 2\ndx = 2dy", "write 2 * x for 2x"),
        ("x: (N, C)\ny = x ^ 2\ndx = 2 * dy", "write ** for a power"),
        ("x: (N, C)\ny = x * 2\n\tdx = 2 * dy", "begin each line at the left"),
        ("x: (N)\ny = x * 2\ndx = 2 * dy", "write a shape as (N, C), that of a vector as (N,)"),
        ("x: (N, C)\ny = x * 2\ndx == 2 * dy", "write = between a name and its formula"),
        ("x: (N, C)\ny = x * 2\ndx = y.copy()\ndx[0] = 1", "line 4: an entry cannot be set: write all entries"),
        ("x: (N, C)\na, b = x, x\ndx = dy", "line 2: expected one name before =, and a line for each name"),
        ("x: (N, C)\ny = ...\ndx = dy", "y is of the forward: expected its formula, got dots"),
        ("x: (N, C)\ny = x * 2\ngrad_x = 2 * dy", "after it; grad_x: no name of the forward with a d before it"),
        (
            "x: (N, C)\ny = np.softmax(x)\ndx = dy",
            "np.softmax is not among the functions of a derivation: write it out",
        ),
        ("x: (N, C)\ny = x ** 2\n\\frac{dL}{dx} = 2x", "line 3: it is not Python"),
        ("x: (N, C)\ny = x\ndx = open('x')", "line 3: open is no function of a derivation"),
        ("x: (N, C)\ny = x\ndx = np.load('x')", "np.load is not among the functions"),
        ("x: (N, C)\ny = x\ndx = x.tofile('x')", ".tofile is not among what arrays have"),
        ("x: (N, C)\ny = x\ndx = [i for i in dy]", "`[i for i in dy]` is no part of a formula"),
        ("x: (N, C)\ny = exp(x)\ndx = dy", "exp is no function of a derivation: write np.exp"),
        ("x: (N, C)\ny = x\nfor i in x: pass", "expected one of the grammar's lines, got `for i in x"),
        ("x: (N, C)\ny = x * z\ndx = dy", "z is not known here: expected one of x"),
        ("x: (N, C)\nu = x\ny = u\ndx = du", "du is not known here: a gradient is used after the line that derives it"),
        ("x: (N, C)\ny = x\ny = 2 * x\ndx = dy", "y is set twice"),
        ("x: (N, C)\nC = x\ndx = dy", "C is a size or a function and cannot be set"),
        ("x: (N, C)\ny = x; dx = dy", "expected one statement a line, got two"),
        ("x: (N, C)\ny = x * 2", "expected lines such as `dx = dy * …` after it"),
        ("x: (N, C)\ny = " + "-" * 9_000 + "x\ndx = dy", "nested too deeply: write it in several lines"),
        ("x: (N, C)", "expected a forward, such as `y = x * v`"),
        ("x: (N, C)\ny = x\npartial(y, x) = one", "line 3: one is not known here: expected one of dy, x, y"),
        ("x: (N, C)\ny = x\npartial(x, y) = 1", "expected a forward's line that sets x and uses y"),
    ],
)
def test_other_notations_are_refused_with_the_grammar(text, words):
    with pytest.raises(DataError, match=re.escape(words)) as raised:
        read(text)
    assert "dNAME is the derivative of the loss by NAME" in str(raised.value)


def test_a_forward_that_cannot_run():
    with pytest.raises(DataError, match=r"line 2: y is no number: .* such as `x: \(N, C\) > 0` has positive ones"):
        judge(read("x: (N, C)\ny = np.log(x)\ndx = dy / x"))
    with pytest.raises(DataError, match="unexpected keyword argument 'dim'; NumPy's are axis and keepdims"):
        judge(read("x: (N, C)\ny = x.sum(dim=1)\ndx = dy"))
    with pytest.raises(
        DataError, match=r"line 2: y cannot be computed: the shapes do not fit: x is \(N, C\)(.|\n)*N = 3, C = 4"
    ):
        judge(read("x: (N, C)\ny = x @ x\ndx = dy"))
    with pytest.raises(DataError, match="t holds whole numbers and has no derivative: leave dt out"):
        judge(read("t: (N,) < 3\nx: (N,)\ny = x * t\ndt = dy"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_runs(name):
    lines = judge(read(template(name))).claims
    assert {line.verdict for line in lines} == {"not yet"}


def test_an_unknown_template():
    with pytest.raises(ConfigError, match=r"expected one of linear, relu, .*got 'nothing'"):
        template("nothing")
