"""Tests that cannot fail. Each passes on a wrong kernel, which npformer's checker finds."""

from __future__ import annotations

from npformer.lab.museum.bug import CATEGORIES, OURS, SCRATCH, SEVERAL, Bug, Edit, edit
from npformer.lab.museum.bugs.rows import GAMMA_OUTSIDE

F = "npformer.functional."
CATEGORY = CATEGORIES[-1]
SOFTMAX, LINEAR = F + "softmax:softmax_backward", F + "linear:linear_backward"
NORM, ATTENTION = F + "layer_norm:layer_norm_backward", F + "attention:attention_backward"


def _empty(
    name: str, title: str, edits: tuple[Edit, ...], right: str, wrong: str, story: str, test: str, seen: str = SCRATCH
) -> Bug:
    """A test that passes on the kernel with these edits."""
    instead = "A test trains nothing: it is run here on the wrong kernel, and passes."
    return Bug(name, title, edits, right, wrong, story, seen, (30,), None, instead, test)


BUGS = (
    _empty(
        "test-ones-upstream", "an upstream gradient of all ones into softmax",
        edit(SOFTMAX, "return (y * (dy - shared),)", "return (7 * y * (dy - shared),)"),
        "Σ r·softmax(x) with random r", "Σ softmax(x) = 1, whatever x is",
        "The sum of a softmax is 1 and its derivative 0, and 7 times 0 is 0 as well: any multiple of the right kernel "
        "passes, so does one that returns nothing but zeros. A check needs a question whose answer is not 0.",
        test="ones upstream",
    ),
    _empty(
        "test-length-one", "sequences of length 1",
        edit(
            LINEAR,
            "dy_rows = as_rows(dy)\n"
            "...\n"
            "dbias = xp.sum(dy_rows, axis=0)",
            "dy_rows = as_rows(dy)\n"
            "...\n"
            "dbias = xp.sum(as_rows(dy if dy.ndim < 3 else dy[:, 0, :]), axis=0)",
        ),
        "T ≥ 2, all lengths different", "T = 1",
        "A sum over one element is that element, a softmax over one key is 1, a causal mask over one token hides "
        "nothing. What goes wrong along an axis cannot go wrong along an axis of length 1.",
        seen=SEVERAL, test="length one",
    ),
    _empty(
        "test-gamma-one", "LayerNorm tested at γ = 1, β = 0",
        GAMMA_OUTSIDE,
        "γ and β random", "γ = 1, β = 0, as they are initialised",
        "γ on the wrong side of a mean is the commonest LayerNorm bug, and at γ = 1 both sides are equal. A freshly "
        "made layer is the one input at which its gradient must not be checked.",
        seen=SEVERAL, test="gamma one",
    ),
    _empty(
        "test-zero-inputs", "inputs that are all zero",
        edit(
            LINEAR,
            "xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)",
            "2 * xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)",
        ),
        "x random", "x = 0",
        "dW = xᵀ·dy is 0 at x = 0, and so is twice that. Zeros and ones are the inputs that come to mind first and at "
        "which the most terms vanish.",
        test="zero inputs",
    ),
    _empty(
        "test-wide-tolerance", "a tolerance so wide that a factor of 2 passes",
        edit(
            LINEAR,
            "xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)",
            "2 * xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)",
        ),
        "scaled error ≤ 1e-7 in float64", "rtol = 1.5, because it failed at 1e-2",
        "The test failed, the tolerance was raised until it did not. In float64 right gradients agree to 1e-7 by "
        "central differences and to 1e-10 by the complex step; whatever needs more is either wrong or at a kink, and "
        "which of the two can be found out.",
        seen=SEVERAL, test="wide tolerance",
    ),
    _empty(
        "test-no-assertion", "a test without an assertion",
        edit(SOFTMAX, "return (y * (dy - shared),)", "return (y * dy,)"),
        "report.raise_if_failed()", "print(max_error)",
        "It computes the right comparison and prints it, between two hundred other lines. Put a bug in and see whether "
        "the test turns red: a test that was never seen to fail is a guess.",
        seen=SEVERAL, test="no assertion",
    ),
    _empty(
        "test-with-itself", "a function compared with itself",
        edit(SOFTMAX, "return (y * (dy - shared),)", "return (y * (1 - y) * dy,)"),
        "backward against a witness that does not call it", "backward of the batch against backward row by row",
        "Two calls of one kernel agree, right or wrong. It looks like a test of batching, which it is, and is counted "
        "as a gradient check, which it is not. A witness must not have been taught by the accused.",
        test="with itself",
    ),
    _empty(
        "test-shapes-only", "a gradient test that looks at shapes",
        edit(NORM, "r * (g - along_one - x_hat * along_x_hat)", "-3 * r * (g - along_one - x_hat * along_x_hat)"),
        "compare numbers", "dx.shape == x.shape",
        "In one published library LayerNorm's gradient could be multiplied by −3 and the whole suite stayed green. A "
        "shape is the least that can be right about an array.",
        seen="a published library", test="shapes only",
    ),
    _empty(
        "test-no-dropout", "attention's gradient tested with dropout off",
        edit(
            ATTENTION,
            "(dropped,) = dropout_backward(softmax.y, dropout)\n"
            "dv = xp.matmul(xp.matrix_transpose(dropped), dout)",
            "(dropped,) = dropout_backward(softmax.y, dropout)\n"
            "dv = xp.matmul(xp.matrix_transpose(softmax.y), dout)",
        ),
        "dropout on, with a fixed mask", "dropout = 0, so that the result does not change",
        "Dropout was turned off because finite differences need the same function twice. With the mask as an argument "
        "it *is* the same function, and the lines that handle it are checked with the rest.",
        seen=SEVERAL, test="no dropout",
    ),
    _empty(
        "test-one-head", "attention tested with one head",
        edit(F + "attention:_weights", "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])")
        + edit(ATTENTION, "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])"),
        "H ≥ 2, H ≠ D ≠ T ≠ B", "H = 1, so D = C",
        "With one head the width of a head is the width of the model, and 1/√D cannot be told from 1/√C. Choose sizes "
        "so that no two are equal: then a confusion of two is a wrong number or a crash.",
        seen=OURS, test="one head",
    ),
)  # fmt: skip
