"""Tests that cannot fail. Each passes on a wrong kernel; npformer's checker does not let it."""

from __future__ import annotations

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, Edit

F = "npformer.functional."
CATEGORY = "tests that cannot fail"
SOFTMAX, LINEAR = F + "softmax:softmax_backward", F + "linear:linear_backward"
NORM, ATTENTION = F + "layer_norm:layer_norm_backward", F + "attention:attention_backward"
NOT_RUN = "A test trains nothing: it is run here on the wrong kernel, and passes."

BUGS = (
    Bug(
        "test-ones-upstream", CATEGORY, "an upstream gradient of all ones into softmax",
        (Edit(SOFTMAX, "return (y * (dy - shared),)", "return (7 * y * (dy - shared),)"),),
        "Σ r·softmax(x) with random r", "Σ softmax(x) = 1, whatever x is",
        "The sum of a softmax is 1 and its derivative 0, and 7 times 0 is 0 as well: any multiple of the right kernel "
        "passes, so does one that returns nothing but zeros. A check needs a question whose answer is not 0.",
        sources=(30,), run=None, instead=NOT_RUN, test="ones upstream",
    ),
    Bug(
        "test-length-one", CATEGORY, "sequences of length 1",
        (
            Edit(
                LINEAR,
                "dbias = xp.sum(dy_rows, axis=0)",
                "dbias = xp.sum(as_rows(dy if dy.ndim < 3 else dy[:, 0, :]), axis=0)",
            ),
        ),
        "T ≥ 2, all lengths different", "T = 1",
        "A sum over one element is that element, a softmax over one key is 1, a causal mask over one token hides "
        "nothing. What goes wrong along an axis cannot go wrong along an axis of length 1.",
        seen=SEVERAL, sources=(30,), run=None, instead=NOT_RUN, test="length one",
    ),
    Bug(
        "test-gamma-one", CATEGORY, "LayerNorm tested at γ = 1, β = 0",
        (
            Edit(NORM, "g = dy * gamma", "g = dy"),
            Edit(NORM, "return r * (g", "return gamma * r * (g"),
        ),
        "γ and β random", "γ = 1, β = 0, as they are initialised",
        "γ on the wrong side of a mean is the commonest LayerNorm bug, and at γ = 1 both sides are equal. A freshly "
        "made layer is the one input at which its gradient must not be checked.",
        seen=SEVERAL, sources=(30,), run=None, instead=NOT_RUN, test="gamma one",
    ),
    Bug(
        "test-zero-inputs", CATEGORY, "inputs that are all zero",
        (Edit(LINEAR, "dweight = xp.matmul(", "dweight = 2 * xp.matmul("),),
        "x random", "x = 0",
        "dW = xᵀ·dy is 0 at x = 0, and so is twice that. Zeros and ones are the inputs that come to mind first and at "
        "which the most terms vanish.",
        sources=(30,), run=None, instead=NOT_RUN, test="zero inputs",
    ),
    Bug(
        "test-wide-tolerance", CATEGORY, "a tolerance so wide that a factor of 2 passes",
        (Edit(LINEAR, "dweight = xp.matmul(", "dweight = 2 * xp.matmul("),),
        "scaled error ≤ 1e-7 in float64", "rtol = 1.5, because it failed at 1e-2",
        "The test failed, the tolerance was raised until it did not. In float64 right gradients agree to 1e-7 by "
        "central differences and to 1e-10 by the complex step; whatever needs more is either wrong or at a kink, and "
        "which of the two can be found out.",
        seen=SEVERAL, sources=(30,), run=None, instead=NOT_RUN, test="wide tolerance",
    ),
    Bug(
        "test-no-assertion", CATEGORY, "a test without an assertion",
        (Edit(SOFTMAX, "return (y * (dy - shared),)", "return (y * dy,)"),),
        "report.raise_if_failed()", "print(max_error)",
        "It computes the right comparison and prints it, between two hundred other lines. Put a bug in and see whether "
        "the test turns red: a test that was never seen to fail is a guess.",
        seen=SEVERAL, sources=(30,), run=None, instead=NOT_RUN, test="no assertion",
    ),
    Bug(
        "test-with-itself", CATEGORY, "a function compared with itself",
        (Edit(SOFTMAX, "return (y * (dy - shared),)", "return (y * (1 - y) * dy,)"),),
        "backward against a witness that does not call it", "backward of the batch against backward row by row",
        "Two calls of one kernel agree, right or wrong. It looks like a test of batching, which it is, and is counted "
        "as a gradient check, which it is not. A witness must not have been taught by the accused.",
        sources=(30,), run=None, instead=NOT_RUN, test="with itself",
    ),
    Bug(
        "test-shapes-only", CATEGORY, "a gradient test that looks at shapes",
        (
            Edit(
                NORM,
                "return r * (g - along_one - x_hat * along_x_hat)",
                "return -3 * r * (g - along_one - x_hat * along_x_hat)",
            ),
        ),
        "compare numbers", "dx.shape == x.shape",
        "In one published library LayerNorm's gradient could be multiplied by −3 and the whole suite stayed green. A "
        "shape is the least that can be right about an array.",
        seen="a published library", sources=(30,), run=None, instead=NOT_RUN, test="shapes only",
    ),
    Bug(
        "test-no-dropout", CATEGORY, "attention's gradient tested with dropout off",
        (
            Edit(
                ATTENTION,
                "dv = xp.matmul(xp.matrix_transpose(dropped), dout)",
                "dv = xp.matmul(xp.matrix_transpose(softmax.y), dout)",
            ),
        ),
        "dropout on, with a fixed mask", "dropout = 0, so that the result does not change",
        "Dropout was turned off because finite differences need the same function twice. With the mask as an argument "
        "it *is* the same function, and the lines that handle it are checked with the rest.",
        seen=SEVERAL, sources=(30,), run=None, instead=NOT_RUN, test="no dropout",
    ),
    Bug(
        "test-one-head", CATEGORY, "attention tested with one head",
        (
            Edit(F + "attention:_weights", "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])"),
            Edit(ATTENTION, "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])"),
        ),
        "H ≥ 2, H ≠ D ≠ T ≠ B", "H = 1, so D = C",
        "With one head the width of a head is the width of the model, and 1/√D cannot be told from 1/√C. Choose sizes "
        "so that no two are equal: then a confusion of two is a wrong number or a crash.",
        seen=OURS, sources=(30,), run=None, instead=NOT_RUN, test="one head",
    ),
)  # fmt: skip
