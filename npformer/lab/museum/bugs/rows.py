"""Bugs in softmax and LayerNorm, where each number of a row affects all others."""

from npformer.lab.museum.bug import FRAMEWORK, OURS, SEVERAL, Bug, edit

F = "npformer.functional."
CATEGORY = "operation"

SOFTMAX = F + "softmax:softmax_forward"
SOFTMAX_BACK = F + "softmax:softmax_backward"
#: γ stands before the two means, where a norm that is tested at γ = 1 does not miss it.
GAMMA_OUTSIDE = edit(
    F + "layer_norm:layer_norm_backward",
    "g = dy * gamma\n"
    "...\n"
    "return r * (g - along_one - x_hat * along_x_hat), dgamma, dbeta",
    "g = dy\n"
    "...\n"
    "return gamma * r * (g - along_one - x_hat * along_x_hat), dgamma, dbeta",
)  # fmt: skip

BUGS = (
    Bug(
        "softmax-over-batch", "softmax's gradient divided by the batch size",
        edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * (dy - shared) / dy.shape[0],)"),
        "dx = y·(dy − Σ dy·y)", "dx = y·(dy − Σ dy·y)/B",
        "The batch mean belongs to the loss, which has divided once already; an operation in the middle of a network "
        "knows nothing of it. W_q and W_k of every attention get gradients B times too small, and so does whatever "
        "lies below, as far as it goes through the scores. Adam, which divides by a gradient's own size, restores the "
        "step of W_q and W_k but not the mixture that reaches the layers below: it learns, more slowly, and nothing "
        "looks broken. A factor may enter a backward pass only where the forward has it.",
        sources=(1,),
    ),
    Bug(
        "softmax-diagonal", "softmax differentiated like a sigmoid",
        edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * (1 - y) * dy,)"),
        "dx_i = y_i·(dy_i − Σ_j dy_j·y_j)", "dx_i = y_i·(1 − y_i)·dy_i",
        "y(1 − y) is the diagonal of softmax's Jacobian: how an output moves with its own score. But every score is "
        "in the denominator of every output, and those cross terms −y_i·y_j are as large as the diagonal itself. With "
        "them each row of dx sums to 0, because a shift of all scores changes nothing; without them it does not. A "
        "test with one entry per row never meets the cross terms. Nor does one whose upstream gradient is 1 at a "
        "single entry and 0 elsewhere, if it looks at dx of that entry alone.",
        seen=OURS,
    ),
    Bug(
        "softmax-no-shared", "softmax's gradient without the shared part",
        edit(SOFTMAX_BACK, "return (y * (dy - shared),)", "return (y * dy,)"),
        "dx = y·(dy − Σ dy·y)", "dx = y·dy",
        "Half of the derivative is missing: the part by which raising one score takes weight away from all the others. "
        "With an upstream gradient of all ones the true answer is 0 and this kernel gives y, so even the crudest "
        "numerical comparison would find it; a test without one would not. Each row of a softmax gradient sums to 0: "
        "an invariant that costs one line and needs no numerical derivative.",
        seen=OURS,
    ),
    Bug(
        "softmax-wrong-axis", "softmax over the wrong axis, forward and backward alike",
        edit(
            SOFTMAX,
            "xp.sum(powers, axis=-1, keepdims=True)",
            "xp.sum(powers, axis=-2, keepdims=True)",
        )
        + edit(
            SOFTMAX_BACK,
            "namespace(dy).sum(dy * y, axis=-1, keepdims=True)",
            "namespace(dy).sum(dy * y, axis=-2, keepdims=True)",
        ),
        "Σ_keys weights = 1, for each query", "Σ_queries weights = 1, for each key",
        "The pair is consistent: up to the shift that keeps exp small, backward is the derivative of forward. What it "
        "computes is just not attention: each key shares itself out among the queries. In a decoder that leaks, since "
        "a query's weights depend on later queries. Ask of a forward not only whether it can be differentiated but "
        "what its rows sum to.",
        seen=OURS,
    ),
    Bug(
        "softmax-overflow", "softmax without subtracting the maximum",
        edit(SOFTMAX, "powers = xp.exp(scores - top)", "powers = xp.exp(scores)"),
        "exp(x − max)/Σ exp(x − max)", "exp(x)/Σ exp(x)",
        "The two are equal on paper. In float32 exp overflows at 88.7, and infinity divided by infinity is NaN. A new "
        "model has scores of about 1 and nothing happens; thousands of steps later a head becomes sure of itself, and "
        "the whole run turns to NaN in one step with nothing in the log that announced it.",
        seen=OURS, run=None, instead="A short run on a small task never reaches such scores: nothing would show.",
    ),
    Bug(
        "softmax-empty-row", "a row in which everything is masked becomes NaN",
        edit(SOFTMAX, "y = powers / xp.where(total == 0, xp.ones_like(total), total)", "y = powers / total"),
        "weights of a row of nothing: 0, and gradient 0", "0/0 = NaN",
        "Every exp(−∞) is 0 and so is their sum: 0/0 is NaN. One such row, a sentence of padding alone, "
        "is enough: backward sums over the batch in every weight gradient, and NaN plus anything is NaN. So one "
        "empty sentence destroys every parameter in one step. What a query that sees nothing returns must be decided, "
        "written down and tested; npformer says 0.",
        seen=FRAMEWORK, sources=(19,), run=None,
        instead=(
            "The generated tasks have no empty sentences. With one in a batch, every parameter is NaN one "
            "step later."
        ),
    ),
    Bug(
        "softmax-minus-1e9", "hidden scores set to −1e9 instead of −∞",
        edit(SOFTMAX, "xp.full_like(x, -xp.inf)", "xp.full_like(x, -1e9)"),
        "weights of a row of nothing: 0", "exp(−1e9 − (−1e9))/S = 1/S each",
        "Where anything at all is visible, exp(−1e9) is exactly 0 and no difference can be measured. Where nothing is, "
        "all scores are equal, and the query attends evenly to the padding: silently, without NaN. It is the trick by "
        "which many projects avoid the NaN of the bug before this one, and it replaces a loud failure by a quiet "
        "one.",
        seen=SEVERAL, sources=(19, 23), run=None,
        instead="The generated tasks have no row of nothing: the curves are the same to the last bit.",
    ),
    Bug(
        "layer-norm-gamma-outside", "LayerNorm's γ pulled out of the two means",
        GAMMA_OUTSIDE,
        "g = γ·dy      dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂))",
        "γ differs from channel to channel, and a mean over channels cannot let it out. While γ is constant it can: "
        "at the start, γ = 1, the two formulas agree to the last digit, so a test on a fresh layer passes and the "
        "first training step is right. Then γ moves, and the gradient drifts away from the truth as the model learns. "
        "Move every parameter off its initial value before you check a gradient.",
        seen=SEVERAL, sources=(2,), run={"norm_order": "post"},
    ),
    Bug(
        "layer-norm-no-mean", "LayerNorm's backward without the mean term",
        edit(
            F + "layer_norm:layer_norm_backward",
            "r * (g - along_one - x_hat * along_x_hat)",
            "r * (g - x_hat * along_x_hat)",
        ),
        "dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = r·(g − x̂·mean(g·x̂))",
        "The mean μ is made of all channels, so each channel acts on every other through it; mean g is what flows back "
        "that way. Left out, dx has a part along (1, 1, …, 1), a direction in which the output cannot change at all. "
        "Each token's dx must sum to 0 over its channels: another invariant without a numerical derivative.",
        sources=(3,),
    ),
    Bug(
        "layer-norm-no-variance", "LayerNorm's backward without the x̂ term",
        edit(F + "layer_norm:layer_norm_backward", "r * (g - along_one - x_hat * along_x_hat)", "r * (g - along_one)"),
        "dx = r·(g − mean g − x̂·mean(g·x̂))", "dx = r·(g − mean g)",
        "The standard deviation was taken for a constant. Its share of the gradient is what stops the layer below from "
        "growing its output for nothing: making x twice as large leaves x̂ as it is, so dx has no part along x̂. "
        "Without the term, backward keeps asking for a larger or smaller x, which the forward then undoes.",
        sources=(3,),
    ),
    Bug(
        "layer-norm-unbiased", "variance divided by C − 1 forward, by C backward",
        edit(
            F + "layer_norm:layer_norm_forward",
            "centred = x - xp.mean(x, axis=-1, keepdims=True)\n"
            "r = 1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)",
            "centred = x - xp.mean(x, axis=-1, keepdims=True)\n"
            "r = 1 / xp.sqrt(xp.sum(centred * centred, axis=-1, keepdims=True) / (x.shape[-1] - 1) + eps)",
        ),
        "σ² = Σ (x − μ)²/C, both ways", "σ² = Σ (x − μ)²/(C − 1) forward; mean over C backward",
        "Either divisor makes a decent layer; mixing them makes a backward that is not the derivative of its forward. "
        "It comes from a library call whose default divides by C − 1, in a file whose backward was derived for C. The "
        "error is one part in C: at C = 512 it hides below the tolerance that many tests use, at C = 4 it stands out. "
        "Check at small sizes: mistakes in a count are largest there.",
        sources=(3,),
    ),
    Bug(
        "layer-norm-eps-outside", "LayerNorm's ε added outside the root",
        edit(
            F + "layer_norm:layer_norm_forward",
            "1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)",
            "1 / (xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True)) + eps)",
        ),
        "r = 1/√(σ² + ε)", "r = 1/(σ + ε)",
        "For ordinary tokens the two agree to five digits, so no training curve will ever show it. For a token whose "
        "channels are all alike, σ = 0, and there the root has no derivative: right gives 316 for r, wrong 100,000. "
        "Weights trained by one and run by the other give other outputs, which is how it is usually found.",
        sources=(4,), run=None, instead="The curves agree to three digits. A row of equal numbers is what shows it.",
    ),
    Bug(
        "layer-norm-no-eps", "LayerNorm without ε: a constant token becomes NaN",
        edit(
            F + "layer_norm:layer_norm_forward",
            "xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)",
            "xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True))",
        ),
        "r = 1/√(σ² + ε)", "r = 1/√σ²",
        "A token whose channels are all equal, an all-zero padding row for one, has variance 0. Then x̂ = 0·∞ = NaN, "
        "and every gradient of the batch with it. It waits for the first such row, which may come after hours, or only "
        "when the model is used.",
        sources=(4, 26), run=None, instead="No token is exactly constant in a short run: nothing would show.",
    ),
    Bug(
        "layer-norm-over-time", "normalised over the tokens instead of the channels",
        edit(
            F + "layer_norm:layer_norm_forward",
            "x - xp.mean(x, axis=-1, keepdims=True)",
            "x - xp.mean(x, axis=-2, keepdims=True)",
        )
        + edit(
            F + "layer_norm:layer_norm_forward",
            "xp.mean(centred * centred, axis=-1, keepdims=True)",
            "xp.mean(centred * centred, axis=-2, keepdims=True)",
        )
        + edit(
            F + "layer_norm:layer_norm_backward",
            "xp.mean(g, axis=-1, keepdims=True)",
            "xp.mean(g, axis=-2, keepdims=True)",
        )
        + edit(
            F + "layer_norm:layer_norm_backward",
            "xp.mean(g * x_hat, axis=-1, keepdims=True)",
            "xp.mean(g * x_hat, axis=-2, keepdims=True)",
        ),
        "μ, σ of one token, over its C channels", "μ, σ of one channel, over the T tokens",
        "Forward and backward agree, so every gradient check passes. But a token's output now depends on all tokens of "
        "its sentence: on the padding, and in the decoder on the future. The training loss is lovely, because "
        "the model reads ahead; decoding, where there is no future yet, is nonsense. Causality is a property of the "
        "whole model and has to be tested there.",
        seen=OURS,
    ),
    Bug(
        "layer-norm-gamma-twice", "γ's gradient multiplied by γ",
        edit(
            F + "layer_norm:layer_norm_backward",
            "x_hat, r, gamma = cache\n"
            "...\n"
            "dgamma, dbeta = xp.sum(dy * x_hat, axis=tokens), xp.sum(dy, axis=tokens)",
            "x_hat, r, gamma = cache\n"
            "...\n"
            "dgamma, dbeta = xp.sum(dy * gamma * x_hat, axis=tokens), xp.sum(dy, axis=tokens)",
        ),
        "dγ = Σ dy·x̂", "dγ = Σ γ·dy·x̂",
        "g = γ·dy is the gradient that reaches x̂, and it stands ready in the next line: using it for dγ too is one "
        "slip of the eye. γ is what dy meets *beside* x̂, so its gradient has x̂ and not itself. Again γ = 1 hides it.",
        seen=OURS,
    ),
)  # fmt: skip
