"""The first room: operations whose backward is not the derivative of their forward, or whose forward is off."""

from __future__ import annotations

from npformer.lab.museum.exhibit import FRAMEWORK, OURS, SEVERAL, Edit, Exhibit

F = "npformer.functional."
ROOM = "operation"

SOFTMAX = F + "softmax:softmax_forward"
SOFTMAX_BACK = F + "softmax:softmax_backward"

EXHIBITS = (
    Exhibit(
        "softmax-over-batch", ROOM, "softmax's gradient divided by the batch size",
        (Edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * (dy - shared) / dy.shape[0],)"),),
        "dx = y·(dy − Σ dy·y)", "dx = y·(dy − Σ dy·y)/B",
        "The batch mean belongs to the loss, which has divided once already; an operation in the middle of a network "
        "knows nothing of it. Everything below this softmax, that is W_q and W_k of every attention, learns B times "
        "slower than the rest. Adam, which divides by the gradient's own size, hides it almost completely: the loss "
        "falls as it should, and only a gradient check or plain gradient descent tells. A factor may enter a backward "
        "pass only where the forward has it.",
        sources=(1,),
    ),
    Exhibit(
        "softmax-diagonal", ROOM, "softmax differentiated like a sigmoid",
        (Edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * (1 - y) * dy,)"),),
        "dx_i = y_i·(dy_i − Σ_j dy_j·y_j)", "dx_i = y_i·(1 − y_i)·dy_i",
        "y(1 − y) is the diagonal of softmax's Jacobian: how an output moves with its own score. But every score is "
        "in the denominator of every output, and those cross terms −y_i·y_j are as large as the diagonal itself. With "
        "them each row of dx sums to 0, because a shift of all scores changes nothing; without them it does not. "
        "A test with one entry per row, or with an upstream gradient that is alike for all, never meets the cross terms.",
        seen=OURS,
    ),
    Exhibit(
        "softmax-no-shared", ROOM, "softmax's gradient without the shared part",
        (Edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * dy,)"),),
        "dx = y·(dy − Σ dy·y)", "dx = y·dy",
        "Half of the derivative is missing: the part by which raising one score takes weight away from all the others. "
        "With an upstream gradient of all ones the true answer is 0 and this kernel gives y, so even the crudest "
        "numerical comparison would find it; a test without one would not. Each row of a softmax gradient sums to 0: "
        "a certificate that costs one line and needs no numerical derivative.",
        seen=OURS,
    ),
    Exhibit(
        "softmax-wrong-axis", ROOM, "softmax over the wrong axis, forward and backward alike",
        (
            Edit(SOFTMAX, "total = xp.sum(powers, axis=-1, keepdims=True)", "total = xp.sum(powers, axis=-2, keepdims=True)"),  # noqa: E501
            Edit(SOFTMAX_BACK, "(dy * y, axis=-1, keepdims=True)", "(dy * y, axis=-2, keepdims=True)"),
        ),
        "Σ_keys weights = 1, for each query", "Σ_queries weights = 1, for each key",
        "The pair is consistent: up to the shift that keeps exp small, backward is the derivative of forward. What it "
        "computes is just not attention: each key shares itself out among the queries. In a decoder that leaks, since "
        "a query's weights depend on later queries. Ask of a forward not only whether it can be differentiated but "
        "what its rows sum to.",
        seen=OURS,
    ),
    Exhibit(
        "softmax-overflow", ROOM, "softmax without subtracting the maximum",
        (Edit(SOFTMAX, "shifted = x - top", "shifted = x"),),
        "exp(x − max)/Σ exp(x − max)", "exp(x)/Σ exp(x)",
        "The two are equal on paper. In float32 exp overflows at 88.7, and infinity divided by infinity is NaN. A new "
        "model has scores of about 1 and nothing happens; thousands of steps later a head becomes sure of itself, and "
        "the whole run turns to NaN in one step with nothing in the log that announced it.",
        seen=OURS, run=None, instead="A short run on a small task never reaches such scores: nothing would show.",
    ),
    Exhibit(
        "softmax-empty-row", ROOM, "a row in which everything is masked becomes NaN",
        (Edit(SOFTMAX, "y = powers / xp.where(total == 0, xp.ones_like(total), total)", "y = powers / total"),),
        "weights of a row of nothing: 0, and gradient 0", "0/0 = NaN",
        "Every exp(−∞) is 0 and so is their sum: 0/0 is NaN. One such row, a sentence of padding alone, "
        "is enough: backward sums over the batch in every weight gradient, and NaN plus anything is NaN. So one "
        "empty sentence destroys every parameter in one step. What a query that sees nothing returns must be decided, "
        "written down and tested; npformer says 0.",
        seen=FRAMEWORK, sources=(19,), run=None,
        instead="The generated tasks have no empty sentences. With one in a batch, every parameter is NaN one step later.",
    ),
    Exhibit(
        "softmax-minus-1e9", ROOM, "hidden scores set to −1e9 instead of −∞",
        (
            Edit(SOFTMAX, "xp.full_like(scores, -xp.inf)", "xp.full_like(scores, -1e9)"),
            Edit(SOFTMAX, "xp.full_like(shifted, -xp.inf)", "xp.full_like(shifted, -1e9) - top"),
        ),
        "weights of a row of nothing: 0", "exp(−1e9 − (−1e9))/S = 1/S each",
        "Where anything at all is visible, exp(−1e9) is exactly 0 and no difference can be measured. Where nothing is, "
        "all scores are equal, and the query attends evenly to the padding: silently, without NaN. It is the trick by "
        "which many projects avoid the NaN of the exhibit before this one, and it replaces a loud failure by a quiet "
        "one.",
        seen=SEVERAL, sources=(19, 23), run=None,
        instead="The generated tasks have no row of nothing: the curves are the same to the last bit.",
    ),
    Exhibit(
        "layer-norm-gamma-outside", ROOM, "LayerNorm's γ pulled out of the two means",
        (
            Edit(F + "layer_norm:layer_norm_backward", "g = dy * gamma", "g = dy"),
            Edit(F + "layer_norm:layer_norm_backward", "return r * (g", "return gamma * r * (g"),
        ),
        "g = γ·dy      dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂))",
        "γ differs from channel to channel, and a mean over channels cannot let it out. While γ is constant it can: "
        "at the start, γ = 1, the two formulas agree to the last digit, so a test on a fresh layer passes and the first "
        "training step is right. Then γ moves, and the gradient drifts away from the truth as the model learns. "
        "Move every parameter off its initial value before you check a gradient.",
        seen=SEVERAL, sources=(2,), run={"norm_order": "post"},
    ),
    Exhibit(
        "layer-norm-no-mean", ROOM, "LayerNorm's backward without the mean term",
        (Edit(F + "layer_norm:layer_norm_backward", "r * (g - along_one - x_hat", "r * (g - x_hat"),),
        "dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = r·(g − x̂·mean(g·x̂))",
        "The mean μ is made of all channels, so each channel acts on every other through it; mean g is what flows back "
        "that way. Left out, dx has a part along (1, 1, …, 1), a direction in which the output cannot change at all. "
        "Each token's dx must sum to 0 over its channels: another certificate without a numerical derivative.",
        sources=(3,),
    ),
    Exhibit(
        "layer-norm-no-variance", ROOM, "LayerNorm's backward without the x̂ term",
        (Edit(F + "layer_norm:layer_norm_backward", "- x_hat * along_x_hat), dgamma", "), dgamma"),),
        "dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = r·(g − mean g)",
        "The standard deviation was taken for a constant. Its share of the gradient is what stops the layer below from "
        "growing its output for nothing: making x twice as large leaves x̂ as it is, so dx must be orthogonal to x̂. "
        "Without the term, backward keeps asking for a larger or smaller x, which the forward then undoes.",
        sources=(3,),
    ),
    Exhibit(
        "layer-norm-unbiased", ROOM, "variance divided by C − 1 forward, by C backward",
        (
            Edit(
                F + "layer_norm:layer_norm_forward", "xp.mean(centred * centred, axis=-1, keepdims=True)",
                "(xp.sum(centred * centred, axis=-1, keepdims=True) / (x.shape[-1] - 1))",
            ),
        ),
        "σ² = Σ (x − μ)²/C, both ways", "σ² = Σ (x − μ)²/(C − 1) forward; mean over C backward",
        "Either divisor makes a decent layer; mixing them makes a backward that is not the derivative of its forward. "
        "It comes from a library call whose default divides by C − 1, in a file whose backward was derived for C. The "
        "error is one part in C: at C = 512 it hides below the tolerance that many tests use, at C = 4 it stands out. "
        "Check at small sizes: mistakes in a count are largest there.",
        sources=(3,),
    ),
    Exhibit(
        "layer-norm-eps-outside", ROOM, "LayerNorm's ε added outside the root",
        (
            Edit(
                F + "layer_norm:layer_norm_forward",
                "1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)",
                "1 / (xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True)) + eps)",
            ),
        ),
        "r = 1/√(σ² + ε)", "r = 1/(σ + ε)",
        "For ordinary tokens the two agree to five digits, so no training curve will ever show it. For a token whose "
        "channels are all alike, σ = 0, and there the root has no derivative: right gives 316 for r, wrong 100,000. "
        "Weights trained by one and run by the other give other outputs, which is how it is usually found.",
        sources=(4,), run=None, instead="The curves agree to three digits. A row of equal numbers is what shows it.",
    ),
    Exhibit(
        "layer-norm-no-eps", ROOM, "LayerNorm without ε: a constant token becomes NaN",
        (Edit(F + "layer_norm:layer_norm_forward", "keepdims=True) + eps)", "keepdims=True))"),),
        "r = 1/√(σ² + ε)", "r = 1/√σ²",
        "A token whose channels are all equal, an all-zero padding row for one, has variance 0. Then x̂ = 0·∞ = NaN, "
        "and every gradient of the batch with it. It waits for the first such row, which may come after hours, or only "
        "when the model is used.",
        sources=(4, 26), run=None, instead="No token is exactly constant in a short run: nothing would show.",
    ),
    Exhibit(
        "layer-norm-over-time", ROOM, "normalised over the tokens instead of the channels",
        (
            Edit(F + "layer_norm:layer_norm_forward", "x - xp.mean(x, axis=-1, keepdims=True)", "x - xp.mean(x, axis=-2, keepdims=True)"),  # noqa: E501
            Edit(F + "layer_norm:layer_norm_forward", "xp.mean(centred * centred, axis=-1", "xp.mean(centred * centred, axis=-2"),  # noqa: E501
            Edit(F + "layer_norm:layer_norm_backward", "xp.mean(g, axis=-1", "xp.mean(g, axis=-2"),
            Edit(F + "layer_norm:layer_norm_backward", "xp.mean(g * x_hat, axis=-1", "xp.mean(g * x_hat, axis=-2"),
        ),
        "μ, σ of one token, over its C channels", "μ, σ of one channel, over the T tokens",
        "Forward and backward agree, so every gradient check passes. But a token's output now depends on all tokens of "
        "its sentence: on the padding, and in the decoder on the future. The training loss is lovely, because "
        "the model reads ahead; decoding, where there is no future yet, is nonsense. Causality is a property of the "
        "whole model and has to be tested there.",
        seen=OURS,
    ),
    Exhibit(
        "layer-norm-gamma-twice", ROOM, "γ's gradient multiplied by γ",
        (Edit(F + "layer_norm:layer_norm_backward", "xp.sum(dy * x_hat, axis=tokens)", "xp.sum(dy * gamma * x_hat, axis=tokens)"),),  # noqa: E501
        "dγ = Σ dy·x̂", "dγ = Σ γ·dy·x̂",
        "g = γ·dy is the gradient that reaches x̂, and it stands ready in the next line: using it for dγ too is one "
        "slip of the eye. γ is what dy meets *beside* x̂, so its gradient has x̂ and not itself. Again γ = 1 hides it.",
        seen=OURS,
    ),
    Exhibit(
        "linear-bias-mean", ROOM, "the bias gradient averaged over the tokens",
        (Edit(F + "linear:linear_backward", "dbias = xp.sum(dy_rows, axis=0)", "dbias = xp.mean(dy_rows, axis=0)"),),
        "db = Σ_tokens dy", "db = mean_tokens dy",
        "The bias is added to every token, so it receives the sum of what they send back. The mean was taken already, "
        "in the loss. All biases learn N times too slowly, and since a network can do nearly everything without "
        "biases, nobody sees it in the curve.",
        sources=(17,),
    ),
    Exhibit(
        "linear-bias-first-token", ROOM, "the bias gradient taken over the batch only",
        (Edit(F + "linear:linear_backward", "dbias = xp.sum(dy_rows, axis=0)", "dbias = xp.sum(as_rows(dy if dy.ndim < 3 else dy[:, 0, :]), axis=0)"),),  # noqa: E501
        "db = Σ_b Σ_t dy_bt", "db = Σ_b dy_b0",
        "Code that was written for (B, C) met (B, T, C): the sum over axis 0 left an axis over, the shapes did not fit, "
        "and somebody took the first row to make them fit. Sum over every axis that the forward repeated the value "
        "along. At sequence length 1 both are the same, which is why a length of 1 proves nothing.",
        sources=(17,),
    ),
    Exhibit(
        "linear-no-transpose", ROOM, "the transpose left out wherever the shapes allow it",
        (
            Edit(
                F + "linear:linear_backward", "xp.matmul(dy_rows, xp.matrix_transpose(weight))",
                "xp.matmul(dy_rows, weight if weight.shape[0] == weight.shape[1] else xp.matrix_transpose(weight))",
            ),
        ),
        "dx = dy·Wᵀ", "dx = dy·W, where W is square",
        "Matrix products were put together by trying until the shapes fitted. A square W fits both ways, and attention's "
        "projections are square, so the gradient of everything below an attention is a random mixture of channels. "
        "The layers above the last attention still learn, and the loss falls to some level and stays. Use sizes that "
        "are all different in tests, and square ones as well.",
        sources=(15,),
    ),
    Exhibit(
        "relu-gate-of-gradient", ROOM, "ReLU's gate taken from the gradient",
        (Edit(F + "relu:relu_backward", "xp.where(cache.is_open, dy,", "xp.where(dy > 0, dy,"),),
        "dx = dy where x > 0", "dx = dy where dy > 0",
        "Backward asks what the *input* was, and here it was never kept, so dy itself is asked. Every gradient that "
        "passes is positive: the layers below are pushed one way only. The lesson is in the cache: what backward needs "
        "and did not get, somebody will replace by what is at hand.",
        sources=(18,),
    ),
    Exhibit(
        "relu-no-gate", ROOM, "ReLU's backward lets everything pass",
        (Edit(F + "relu:relu_backward", "(xp.where(cache.is_open, dy, xp.zeros_like(dy)),)", "(dy,)"),),
        "dx = dy where x > 0, else 0", "dx = dy",
        "A unit that was shut did not act on the loss, and cannot be credited or blamed for it. Half of the gradient "
        "that goes down is now about outputs that were 0. It trains, since the sign of the rest is right; it just "
        "trains another, worse descent.",
        seen=OURS,
    ),
    Exhibit(
        "gelu-tanh-derivative", ROOM, "the derivative of tanh-GELU for the GELU with erf",
        (
            Edit(
                F + "gelu:gelu_backward", "density = namespace(x).exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))",
                "xp = namespace(x)\n"
                "    t = xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))\n"
                "    phi_below = 0.5 * (1 + t)\n"
                "    density = 0.5 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)",
            ),
        ),
        "d/dx x·Φ(x) = Φ(x) + x·φ(x)", "the derivative of x·(1 + tanh(√(2/π)(x + 0.0447x³)))/2",
        "The tanh form is an approximation of the exact one, good to three digits, and each has its own derivative. "
        "Mixing them is an error in the third digit: training does not care, a check at 1e-2 passes, and a check in "
        "float32 cannot tell. Only float64 and a tight tolerance can.",
        sources=(18,), run={"activation": "gelu"},
    ),
    Exhibit(
        "gelu-no-density", ROOM, "GELU's product rule with one term",
        (Edit(F + "gelu:gelu_backward", "(phi_below + x * density)", "phi_below"),),
        "dx = dy·(Φ(x) + x·φ(x))", "dx = dy·Φ(x)",
        "x stands twice in x·Φ(x), and each place sends a gradient back. A value used twice has two gradients that are "
        "added: the product rule is that sentence for products.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Exhibit(
        "gelu-at-output", ROOM, "GELU differentiated at its output",
        (Edit(F + "gelu:gelu_forward", "GeluCache(x, phi_below)", "GeluCache(x * phi_below, phi_below)"),),
        "dx = dy·(Φ(x) + x·φ(x)) at the input x", "the same at y = x·Φ(x)",
        "The activation was applied in place, and what the cache holds is no longer x but y. For ReLU that is "
        "harmless, since y > 0 exactly where x > 0: code that worked with ReLU breaks when it is swapped for GELU.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Exhibit(
        "gelu-sigmoid", ROOM, "GELU by a sigmoid, forward and backward",
        (
            Edit(F + "gelu:gelu_forward", "phi_below = 0.5 * (1 + erf(x * math.sqrt(0.5)))", "phi_below = 1 / (1 + namespace(x).exp(-1.702 * x))"),  # noqa: E501
            Edit(F + "gelu:gelu_backward", "density = namespace(x).exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))", "density = 1.702 * phi_below * (1 - phi_below)"),  # noqa: E501
        ),
        "y = x·Φ(x)", "y = x·sigmoid(1.702·x)",
        "Not a bad function, and its gradient is right: it is only not the one on the label. It learns as well as "
        "the exact form, and weights carried from one program to the other give slightly wrong outputs. "
        "A forward needs reference values from elsewhere; a gradient check cannot supply them.",
        seen=OURS, run={"activation": "gelu"},
    ),
    Exhibit(
        "embedding-assigned", ROOM, "a repeated token keeps only its last gradient",
        (
            Edit(
                "npformer.backend.numpy.embedding:embedding_backward",
                "dtable[ordered[starts]] = np.add.reduceat(as_rows(dy)[order], starts, axis=0) * scale",
                "dtable[tokens] = as_rows(dy) * scale",
            ),
        ),
        "dtable[v] = Σ over all n with token n = v of dy_n", "dtable[v] = dy_n of the last such n",
        "table.grad[tokens] = dy looks like a sum and is an assignment: of several equal indices the last wins. (So "
        "is table.grad[tokens] += dy in NumPy; np.add.at adds.) The commonest tokens, repeated in every batch, lose "
        "most of their gradient. A test needs a token that occurs twice.",
        seen=SEVERAL, sources=(10, 17),
    ),
    Exhibit(
        "embedding-no-scale", ROOM, "√d_model in the embedding's forward only",
        (Edit("npformer.backend.numpy.embedding:embedding_backward", "starts, axis=0) * scale", "starts, axis=0)"),),
        "y = √C·table[token]      dtable = √C·Σ dy", "dtable = Σ dy",
        "A constant factor of the forward is a factor of the derivative too. Adam divides it away, and with plain "
        "gradient descent the table learns √C times too slowly.",
        sources=(10,),
    ),
    Exhibit(
        "positions-base", ROOM, "sinusoidal positions with base 100,000",
        (Edit(F + "positions:sinusoidal_table", "math.log(10000.0)", "math.log(100000.0)"),),
        "ω_i = 10000^(−2i/C)", "ω_i = 100000^(−2i/C)",
        "One zero too many. Nearby positions still differ in the fast columns, so it trains as well; the slow columns "
        "hardly move within a sentence. It shows when weights or tables from another program are put beside it. "
        "Constants want a reference value in a test, not a second reading.",
        sources=(20,),
    ),
    Exhibit(
        "positions-columns", ROOM, "all sines first, then all cosines",
        (Edit(F + "positions:sinusoidal_table", "xp.stack([xp.sin(angle), xp.cos(angle)], axis=-1)", "xp.concat([xp.sin(angle), xp.cos(angle)], axis=-1)"),),  # noqa: E501
        "sin and cos of one ω side by side: columns 2i, 2i + 1", "columns i and i + C/2",
        "A permutation of columns: a fresh model can learn with either, and many do. But it is not the paper's table; "
        "an odd width loses a cosine that it should keep, and weights trained with one order are noise with the other.",
        seen=SEVERAL, sources=(20,),
    ),
    Exhibit(
        "positions-exponent", ROOM, "positions without the 2 in the exponent",
        (Edit(F + "positions:sinusoidal_table", "-2 * math.log(10000.0)", "-math.log(10000.0)"),),
        "ω_i = 10000^(−2i/C), i < C/2", "ω_i = 10000^(−i/C), i < C/2",
        "The paper's i counts pairs, the loop's i counts pairs too, but somebody had columns in mind. The slowest "
        "wave is 100 times faster than it should be, so far positions repeat earlier. Nothing crashes, nothing is NaN.",
        seen=OURS,
    ),
    Exhibit(
        "positions-from-one", ROOM, "positions counted from 1",
        (Edit(F + "positions:sinusoidal_table", "xp.arange(offset, offset + length,", "xp.arange(offset + 1, offset + length + 1,"),),  # noqa: E501
        "p = 0, 1, …", "p = 1, 2, …",
        "Because attention works by differences of positions, a shift of all of them is nearly harmless: it is a bug "
        "of interchange, not of learning. Harmless bugs of that kind are how two programs that both work come to "
        "disagree.",
        seen=OURS,
    ),
    Exhibit(
        "learned-positions-mean", ROOM, "learned positions: gradient averaged over the batch",
        (Edit(F + "positions:learned_positions_backward", "used = xp.sum(", "used = xp.mean("),),
        "dtable_t = Σ_b dy_bt", "dtable_t = mean_b dy_bt",
        "A row of the table is added to every sentence of the batch. What is spread by broadcasting in the forward is "
        "summed in the backward: sum, never mean.",
        seen=OURS, run={"positions": "learned"},
    ),
)  # fmt: skip
