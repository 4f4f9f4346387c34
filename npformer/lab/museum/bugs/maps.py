"""Bugs in linear maps, activations, tables and positions."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

F = "npformer.functional."
CATEGORY = "operation"

BUGS = (
    Bug(
        "linear-bias-mean", "the bias gradient averaged over the tokens",
        edit(F + "linear:linear_backward", "dbias = xp.sum(dy_rows, axis=0)", "dbias = xp.mean(dy_rows, axis=0)"),
        "db = Σ_tokens dy", "db = mean_tokens dy",
        "The bias is added to every token, so it receives the sum of what they send back. The mean was taken already, "
        "in the loss. Plain gradient descent would learn all biases N times too slowly. Adam divides by the gradient's "
        "size, and so hides a constant factor from the curve.",
        sources=(17,),
    ),
    Bug(
        "linear-bias-first-token", "the bias gradient taken over the batch only",
        edit(
            F + "linear:linear_backward",
            "dy_rows = as_rows(dy)\n"
            "...\n"
            "dbias = xp.sum(dy_rows, axis=0)",
            "dy_rows = as_rows(dy)\n"
            "...\n"
            "dbias = xp.sum(as_rows(dy if dy.ndim < 3 else dy[:, 0, :]), axis=0)",
        ),
        "db = Σ_B Σ_T dy", "db = Σ_B dy at the first token",
        "Code that was written for (B, C) met (B, T, C): the sum over axis 0 left an axis over, the shapes did not "
        "fit, and somebody took the first row to make them fit. Sum over every axis that the forward repeated the "
        "value along. At sequence length 1 both are the same, which is why a length of 1 proves nothing.",
        sources=(17,),
    ),
    Bug(
        "linear-no-transpose", "the transpose left out wherever the shapes allow it",
        edit(
            F + "linear:linear_backward", "xp.matmul(dy_rows, xp.matrix_transpose(weight))",
            "xp.matmul(dy_rows, weight if weight.shape[0] == weight.shape[1] else xp.matrix_transpose(weight))",
        ),
        "dx = dy·Wᵀ", "dx = dy·W, where W is square",
        "Matrix products were put together by trying until the shapes fitted. A square W fits both ways, and "
        "attention's projections are square, so the gradient of everything below an attention is a random mixture of "
        "channels. The layers above the last attention still learn, and the loss falls to some level and stays. Use "
        "sizes that are all different in tests, and square ones as well.",
        sources=(15,),
    ),
    Bug(
        "relu-gate-of-gradient", "ReLU's gate taken from the gradient",
        edit(
            F + "relu:relu_backward",
            "xp.where(cache.is_open, dy, xp.zeros_like(dy))",
            "xp.where(dy > 0, dy, xp.zeros_like(dy))",
        ),
        "dx = dy where x > 0", "dx = dy where dy > 0",
        "Backward asks what the *input* was, and here it was never kept, so dy itself is asked. Every gradient that "
        "passes is positive: the layers below are pushed one way only. The lesson is in the cache: what backward needs "
        "and did not get, somebody will replace by what is at hand.",
        sources=(18,),
    ),
    Bug(
        "relu-no-gate", "ReLU's backward lets everything pass",
        edit(F + "relu:relu_backward", "(xp.where(cache.is_open, dy, xp.zeros_like(dy)),)", "(dy,)"),
        "dx = dy where x > 0, else 0", "dx = dy",
        "A unit that was shut did not act on the loss, and cannot be credited or blamed for it. Half of the gradient "
        "that goes down is now about outputs that were 0. It trains about as well, since what is right in it points "
        "downhill: a falling loss is no proof of a gradient.",
        seen=OURS,
    ),
    Bug(
        "gelu-tanh-derivative", "the derivative of tanh-GELU for the GELU with erf",
        edit(
            F + "gelu:gelu_backward",
            "x, phi_below = cache\n"
            "density = namespace(x).exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))",
            "x, phi_below = cache\n"
            "xp = namespace(x)\n"
            "t = xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))\n"
            "phi_below = 0.5 * (1 + t)\n"
            "density = 0.5 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)",
        ),
        "d/dx x·Φ(x) = Φ(x) + x·φ(x)", "the derivative of x·(1 + tanh(√(2/π)(x + 0.0447x³)))/2",
        "The tanh form is an approximation of the exact one, good to three digits, and each has its own derivative. "
        "Mixing them is an error of up to 1e-3: training does not care, and a check at 1e-2 passes. A check in float32 "
        "can tell if y is differenced before it is summed; the rounding of a long sum hides it. In float64 it stands "
        "out by many digits.",
        sources=(18,), run={"activation": "gelu"},
    ),
    Bug(
        "gelu-no-density", "GELU's product rule with one term",
        edit(F + "gelu:gelu_backward", "(phi_below + x * density)", "phi_below"),
        "dx = dy·(Φ(x) + x·φ(x))", "dx = dy·Φ(x)",
        "x stands twice in x·Φ(x), and each place sends a gradient back. A value used twice has two gradients that are "
        "added: the product rule is that sentence for products.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Bug(
        "gelu-at-output", "GELU differentiated at its output",
        edit(F + "gelu:gelu_forward", "GeluCache(x, phi_below)", "GeluCache(x * phi_below, phi_below)"),
        "dx = dy·(Φ(x) + x·φ(x)) at the input x", "the same at y = x·Φ(x)",
        "The activation was applied in place, and what the cache holds is no longer x but y. For ReLU that is "
        "harmless, since y > 0 exactly where x > 0: code that worked with ReLU breaks when it is swapped for GELU.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Bug(
        "gelu-sigmoid", "GELU by a sigmoid, forward and backward",
        edit(
            F + "gelu:gelu_forward",
            "phi_below = 0.5 * (1 + erf(x * math.sqrt(0.5)))",
            "phi_below = 1 / (1 + namespace(x).exp(-1.702 * x))",
        )
        + edit(
            F + "gelu:gelu_backward",
            "x, phi_below = cache\n"
            "density = namespace(x).exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))",
            "x, phi_below = cache\n"
            "density = 1.702 * phi_below * (1 - phi_below)",
        ),
        "y = x·Φ(x)", "y = x·sigmoid(1.702·x)",
        "Not a bad function, and its gradient is right: it is only not the one on the label. It learns as well as "
        "the exact form, and weights carried from one program to the other give slightly wrong outputs. "
        "A forward needs reference values from elsewhere; a gradient check cannot supply them.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Bug(
        "embedding-assigned", "a repeated token keeps only its last gradient",
        edit(
            "npformer.functional.embedding:embedding_backward",
            "tokens, num_rows, scale = cache\n"
            "xp = namespace(dy)\n"
            "...\n"
            "return (scale * xp.matmul(xp.matrix_transpose(one_hot), as_rows(dy)),)",
            "tokens, num_rows, scale = cache\n"
            "xp = namespace(dy)\n"
            "...\n"
            "dtable = xp.zeros((num_rows, dy.shape[-1]), dtype=dy.dtype)\n"
            "dtable[xp.reshape(tokens, (-1,))] = scale * as_rows(dy)\n"
            "return (dtable,)",
        ),
        "dtable[v] = Σ over all n with token n = v of dy_n", "dtable[v] = dy_n of the last such n",
        "table.grad[tokens] = dy looks like a sum and is an assignment: of several equal indices the last wins. (So "
        "is table.grad[tokens] += dy in NumPy; np.add.at adds.) The commonest tokens, repeated in every batch, lose "
        "most of their gradient. A test needs a token that occurs twice.",
        seen=SEVERAL, sources=(10, 17),
    ),
    Bug(
        "embedding-no-scale", "√d_model in the embedding's forward only",
        edit(
            "npformer.functional.embedding:embedding_backward",
            "scale * xp.matmul(xp.matrix_transpose(one_hot), as_rows(dy))",
            "xp.matmul(xp.matrix_transpose(one_hot), as_rows(dy))",
        ),
        "y = √C·table[token]      dtable = √C·Σ dy", "dtable = Σ dy",
        "A constant factor of the forward is a factor of the derivative too. Adam divides it away, and with plain "
        "gradient descent the table learns √C times too slowly.",
        sources=(10,),
    ),
    Bug(
        "positions-base", "sinusoidal positions with base 100,000",
        edit(F + "positions:sinusoidal_table", "math.log(10000.0)", "math.log(100000.0)"),
        "ω_i = 10000^(−2i/C)", "ω_i = 100000^(−2i/C)",
        "One zero too many. Nearby positions still differ in the fast columns, so it trains as well; the slow columns "
        "hardly move within a sentence. It shows when weights or tables from another program are put beside it. "
        "Constants want a reference value in a test, not a second reading.",
        sources=(20,),
    ),
    Bug(
        "positions-columns", "all sines first, then all cosines",
        edit(
            F + "positions:sinusoidal_table",
            "xp.stack([xp.sin(angle), xp.cos(angle)], axis=-1)",
            "xp.concat([xp.sin(angle), xp.cos(angle)], axis=-1)",
        ),
        "sin and cos of one ω side by side: columns 2i, 2i + 1", "columns i and i + C/2",
        "A permutation of columns: a fresh model can learn with either, and many do; an odd width loses the same last "
        "cosine in both. But it is not the paper's table, and weights trained with one order are noise with the other.",
        seen=SEVERAL, sources=(20,),
    ),
    Bug(
        "positions-exponent", "positions without the 2 in the exponent",
        edit(F + "positions:sinusoidal_table", "-2 * math.log(10000.0)", "-math.log(10000.0)"),
        "ω_i = 10000^(−2i/C), i < C/2", "ω_i = 10000^(−i/C), i < C/2",
        "The paper's i counts pairs, the loop's i counts pairs too, but somebody had columns in mind. The slowest "
        "wave is 100 times faster than it should be, so far positions repeat earlier. Nothing crashes, nothing is NaN.",
        seen=OURS,
    ),
    Bug(
        "positions-from-one", "positions counted from 1",
        edit(
            F + "positions:sinusoidal_table",
            "xp.arange(offset, offset + length, dtype=xp.float64, device=device)",
            "xp.arange(offset + 1, offset + length + 1, dtype=xp.float64, device=device)",
        ),
        "p = 0, 1, …", "p = 1, 2, …",
        "Because attention works by differences of positions, a shift of all of them is nearly harmless: it is a bug "
        "of interchange, not of learning. Harmless bugs of that kind are how two programs that both work come to "
        "disagree.",
        seen=OURS,
    ),
    Bug(
        "learned-positions-mean", "learned positions: gradient averaged over the batch",
        edit(
            F + "positions:learned_positions_backward",
            "xp.sum(xp.reshape(dy, (-1, length, width)), axis=0)",
            "xp.mean(xp.reshape(dy, (-1, length, width)), axis=0)",
        ),
        "dtable_t = Σ_B dy_t", "dtable_t = mean_B dy_t",
        "A row of the table is added to every sentence of the batch. What is spread by broadcasting in the forward is "
        "summed in the backward: sum, never mean.",
        seen=OURS, run={"positions": "learned"},
    ),
)  # fmt: skip
