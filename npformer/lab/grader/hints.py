"""Hints for errors that match no typical mistake: by exercise and gradient, and by kind of error.

Each has three levels: a question that leads to the idea; the missing part; almost the line of code.
"""

from __future__ import annotations

import re
from typing import Any

from npformer.check.diagnosis.mutants import Mutant
from npformer.lab.grader.exercises import Exercise

Hints = tuple[str, str, str]

_BIAS: Hints = (
    "To which outputs was it added? Its gradient is what comes back from all of them.",
    "Sum dy over every axis that the bias does not have.",
    "np.sum(dy, axis=tuple(range(dy.ndim - 1)))",
)
_UNDO: Hints = (
    "Number the lines of the forward. Does your backward have one line for each, in the opposite order?",
    "Each backward gets the gradient of its own output and its own cache; a value used twice adds two gradients.",
    "Undo the last line first, and hand its gradients to the line before: the exercise's docstring lists the parts.",
)
_FORWARD_OF_PARTS: Hints = (
    "Which line of the forward made use of it? Its gradient comes out of that line's backward alone.",
    "Check which cache and which gradient that one call is given.",
    "One call of that part's backward returns it; only its place in what you return is left to you.",
)

#: Hints that fit any gradient.
GENERAL = (_UNDO, _FORWARD_OF_PARTS)

#: Hints for an answer that does not do what a pair should, by the finding's name.
BY_CONDUCT: dict[str, Hints] = {
    "inputs": (
        "Which line writes into an array that came in? Other code still needs its old numbers.",
        "+=, *=, x[…] = … and out= write into the array itself, not into a new one.",
        "Work on a copy: d = dy.copy(), or d = dy + … in place of d += …"),
    "cache": (
        "Run backward twice in your head. What does the second run find in the cache?",
        "Something of the cache is written to, or taken out with pop.",
        "Take the cache apart by reading alone: x, weight = cache; then make new arrays."),
    "measured": (
        "What is known of the function that lets you write its slope down without trying it?",
        "The gradient is measured here: by moving numbers and calling the function again, or by complex numbers.",
        "Derive it on paper, line by line of the forward, and write the formula."),
    "structure": (
        "How many gradients are asked for, and in which form?",
        "One for each differentiable argument of the forward, nested as that argument is.",
        "The template's docstring shows what backward returns."),
    "time": (
        "Which loop depends on a condition, and what makes the condition false?",
        "The loop never ends, or it runs over every entry where one product of arrays would do.",
        "Write it with NumPy's sums and products over whole axes."),
    "process": (
        "Which array is the largest, or which call ends Python?",
        "Out of memory, or os._exit, or an error below Python.",
        "No array needs more axes than the forward's."),
}  # fmt: skip

#: (exercise, gradient) → hints; "*" for any gradient.
BY_GRADIENT: dict[tuple[str, str], Hints] = {
    ("linear", "dx"): (
        "x_ni is multiplied by W_ij for every j. What comes back from all those j?",
        "dx_ni = Σ_j dy_nj W_ij: a matrix product with weight transposed.", "dx = dy @ weight.T"),
    ("linear", "dweight"): (
        "W_ij meets x_ni for every token n. What comes back from all those tokens?",
        "dW_ij = Σ_n x_ni dy_nj: make x and dy matrices with one row per token, transpose one, multiply.",
        "x_rows.T @ dy_rows, with x_rows = x.reshape(-1, C_in)"),
    ("linear", "dbias"): _BIAS,
    ("relu", "*"): (
        "What is the slope of the function at x, and what does the chain rule do with it?",
        "The slope is 1 where x > 0 and 0 elsewhere; it multiplies dy.", "np.where(x > 0, dy, 0.0)"),
    ("gelu", "*"): (
        "The function is a product of two things that depend on x. Which rule is that?",
        "dx = dy·(Φ(x) + x·φ(x)), with φ the derivative of Φ.", "dy * (phi_below + x * exp(−x²/2)/√(2π))"),
    ("softmax", "*"): (
        "How does y_j move if x_i does, for j = i and for j ≠ i?",
        "∂y_j/∂x_i = y_j(I_ij − y_i), I_ij being 1 where i = j; sum over j with the weights dy_j.",
        "y * (dy - np.sum(dy * y, axis=-1, keepdims=True))"),
    ("dropout", "*"): (
        "By what was each number multiplied on the way forward?", "By s if it was kept and 0 if not; so is dy.",
        "np.where(keep, dy * scale, 0.0)"),
    ("embedding", "*"): (
        "Which entries of y did row v of the table make, and with which factor?",
        "Row v gets scale times the sum of dy over all tokens equal to v.", "np.add.at(dtable, tokens, scale * dy)"),
    ("learned_positions", "dx"): ("If x moves by 1, by how much does y?", "A sum hands its gradient on.", "dx = dy"),
    ("learned_positions", "dtable"): (
        "Which rows were used, and by how many sequences?",
        "Rows offset … offset + T − 1 get dy summed over the batch; all others are 0.",
        "dtable = zeros; dtable[offset : offset + T] = dy.sum(axis=0)"),
    ("layer_norm", "dx"): (
        "By how many ways does x reach y?",
        "Three: directly, through the mean, through r. With g = γ·dy each gives a term.",
        "r * (g - mean(g) - x_hat * mean(g * x_hat))"),
    ("layer_norm", "dgamma"): (
        "What does γ meet in the forward, and for how many tokens?", "Σ over tokens of dy·x̂.",
        "np.sum(dy * x_hat, axis=tokens)"),
    ("layer_norm", "dbeta"): _BIAS,
    ("residual", "dx"): ("If x moves by 1, by how much does y?", "A sum hands its gradient on.", "dx = dy"),
    ("residual", "df"): (
        "What happened to f before it was added?", "dy goes back through the dropout.",
        "df = dropout_backward(dy, dropout_cache)"),
    ("cross_entropy", "*"): (
        "Write a token's loss as log Σ exp z − Σ q z. What is its slope in z_v?",
        "It is p_v − q_v, for tokens that count, over their number, times dloss.",
        "(p - q) * np.where(counted, dloss / num_counted, 0.0)"),
    ("attention", "dv"): (
        "out = weights V is a linear map of V. What was dW in the linear exercise?",
        "Each v_s meets every query with the weight it got: a product with weights transposed.",
        "np.matrix_transpose(weights) @ dout"),
    ("attention", "dq"): (
        "Undo the forward from below: out, weights, scores. Which of the three gradients is the first wrong one?",
        "dweights = dout Vᵀ; back through the softmax to dscores; then scores = Q Kᵀ/√D is linear in Q.",
        "dq = dscores @ k * scale"),
    ("attention", "dk"): (
        "q and k play the same part in the scores, with rows and columns exchanged.",
        "dk is dq with dscores transposed and q for k.", "dk = np.matrix_transpose(dscores) @ q * scale"),
    ("multi_head_attention", "dx"): (
        "From x to the queries to the heads: which of these steps is undone wrongly?",
        "split_heads is undone by merge_heads; the queries by linear_backward.",
        "dx, dwq, dbq = linear_backward(merge_heads(dq), q_cache)"),
    ("multi_head_attention", "dmemory"): (
        "How often is the memory used?", "Twice, for keys and for values: two gradients, added.",
        "dmemory_k + dmemory_v"),
}  # fmt: skip

#: Hints for a mutant's operator (see npformer.check.diagnosis.mutants).
BY_OPERATOR: dict[str, tuple[str, str]] = {
    "drop a term": (
        "Which value is used more than once in the forward? Each use sends a gradient back.",
        "One term of a sum is missing."),
    "change a sign": ("Move one number up in your head. Does what it leads to grow or fall?", "One sign is wrong."),
    "drop a factor": (
        "By what was the value multiplied on its way forward? All of that comes back.", "One factor is missing."),
    "scale by 2": ("Is anything counted twice?", "It is twice what it should be: one use is counted twice."),
    "swap operands": ("Which of the two comes first? Write their shapes, or their signs.",
                      "Two operands stand in each other's place."),
    "drop a transpose": ("Over which index does the sum run, in the forward and on the way back?",
                         "A transpose is missing."),
    "shift an axis": ("Over which axis did the forward go? Over which do you?",
                      "One operation runs over the wrong axis."),
    "sum to mean": ("Is it a sum or a mean, and over how many?", "A sum stands for a mean, or a mean for a sum."),
    "flip a choice": ("Which entries did the forward let pass?", "A condition is the wrong way round."),
    "drop the choice": ("Which entries did the forward let pass?", "A condition (np.where) is missing."),
    "swap outputs": ("In which order are the gradients asked for?", "Two gradients stand in each other's place."),
    "return zero": ("Does nothing depend on it? Move one number of it in your head.", "It is 0 and should not be."),
}  # fmt: skip


def for_gradient(exercise: Exercise, gradient: str) -> Hints:
    """The hints for a gradient of an exercise, whatever the error."""
    top = gradient.split(".")[0]
    for key in ((exercise.name, top), (exercise.name, "*")):
        if key in BY_GRADIENT:
            return BY_GRADIENT[key]
    return _FORWARD_OF_PARTS if "." in gradient else _UNDO


def for_mutant(mutant: Mutant, gradient: str) -> Hints:
    """The hints for a gradient that equals that of a mutant of the reference."""
    question, named = BY_OPERATOR.get(mutant.operator, ("Read that line of the backward once more.", mutant.operator))
    if mutant.operator == "drop a term" and mutant.before.startswith(f"{mutant.after} + "):
        named = f"One term of a sum is missing: what --answer calls `{mutant.before[len(mutant.after) + 3 :]}`."
    line = f"In the words of --answer: where `{mutant.before}` belongs, yours does what `{mutant.after}` would."
    if "." in gradient:  # in a whole layer, the place of the error is half the answer
        question = f"Coming from the output, {gradient} is the first gradient to be wrong. {question}"
    return question, named, line


def for_kind(problem: str, gradient: str) -> Hints:
    """The hints for numbers of the wrong kind: "precision" (float32's) or "not finite" (NaN)."""
    if problem == "precision":
        return (
            "The inputs are float64. Where does a smaller kind of number come in, or a difference of near numbers?",
            f"Somewhere on the way to {gradient} an array is made in float32, or a slope is measured: a gradient "
            "check wants every digit.",
            "Look for astype, dtype= and np.float32, and leave them out; derive what is measured.",
        )
    return (
        "Which operation makes a NaN: 0/0, inf − inf, log of 0, 0·inf? On which of the inputs can it happen?",
        "Something is divided by 0 or is infinite, on the inputs that the report names. A backward seldom "
        "divides at all.",
        "Use what the forward has kept (its cache) instead of dividing once more.",
    )


def for_forward(exercise: Exercise) -> Hints:
    """The hints for a forward that computes something else."""
    lines = exercise.formula.replace("   ", "\n").split("\n")
    formula = " ; ".join(line.strip() for line in lines if line.strip())
    return (
        "Follow one row of the report by hand. Which line is the first to differ from the formula?",
        f"The formula is {formula}. A backward can only be the derivative of the "
        "forward that is there, so the forward comes first.",
        f"`npformer grade original.py --template {exercise.name}` writes the forward as it was given.",
    )


def for_order(exercise: Exercise) -> Hints:
    """The hints for right gradients in another order."""
    wanted = ", ".join(exercise.gradients)
    return (
        "In which order does the forward take what these are the gradients of?",
        f"The forward takes {', '.join(exercise.wrt)} in this order, and so the gradients are returned.",
        f"return {wanted}",
    )


def for_error(failure: dict[str, Any], line: str, exercise: Exercise) -> Hints:
    """The hints for an exception in the learner's code; line is the line at which it stopped."""
    message = failure["message"]
    near = next(
        (name for name in exercise.gradients if re.search(rf"(^|\W){name}(\W|$)", line)), exercise.gradients[-1]
    )
    last = for_gradient(exercise, near)[2] if failure["step"] == "backward" else "Compare with the template's forward."
    if failure["type"] == "MemoryError":
        return (
            "How large is the largest array that you make?",
            message,
            "No array needs more axes than the forward's.",
        )
    single = re.search(r"\((\w+),\) = (\w+_backward)\(", line)
    if "unpack" in message and single:
        return (
            "What does the call on that line return: an array, or a tuple of arrays?",
            f"{single[2]} returns its one gradient as it is. In npformer's own code it is a tuple of one.",
            f"{single[1]} = {single[2]}(…)",
        )
    if "unpack" in message:
        return (
            "How many things does the forward put into its cache, and how many does the backward take out?",
            "The cache is what your forward returns second, as it is.",
            "Take it apart in the order in which it was made.",
        )
    if any(word in message for word in ("shape", "mismatch", "broadcast", "dimension", "axis", "size")):
        return (
            "Write the shape under every name of that line, in letters. Which two do not meet?",
            f"A gradient has the shape of what it is the gradient of: {near} that of {near[1:]}. Which product of what "
            "you have gives that shape?",
            last,
        )
    return (
        "What is in each name on that line? Print it: the report shows what your code prints.",
        "Follow the failing value back to where it was made.",
        last,
    )
