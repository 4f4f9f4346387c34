"""Bugs in attention, its dropout and its heads."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

F = "npformer.functional."
CATEGORY = "attention"
BACK = F + "attention:attention_backward"
SOFTMAX = F + "softmax:softmax_forward"
DROP = F + "dropout:dropout_forward"
DROP_BACK = F + "dropout:dropout_backward"

BUGS = (
    Bug(
        "attention-no-scale", "1/√D forgotten in attention's backward",
        edit(BACK, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1.0"),
        "dQ = dscores·K/√D      dK = dscoresᵀ·Q/√D", "dQ = dscores·K      dK = dscoresᵀ·Q",
        "The scale stands between QKᵀ and softmax, so the gradient passes it on its way down. Forgotten, W_q and W_k "
        "get gradients √D times too large, W_v the right ones. Adam hides the factor; clipping by the global norm "
        "does not, because the swollen part now decides how far everything is cut back.",
        seen=SEVERAL, sources=(14,), run={"clip_norm": 0.1},
    ),
    Bug(
        "attention-scale-twice", "1/√D applied twice in attention's backward",
        edit(BACK, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1 / q.shape[-1]"),
        "dQ = dscores·K/√D", "dQ = dscores·K/√D/√D",
        "Once in the function that undoes the scaling, once more in the one that undoes the product. By plain gradient "
        "descent queries and keys learn √D times too slowly. A constant ratio of wrong to right over a whole tensor, "
        "and equal to a size of the problem, names its own cause: divide the two before you look anywhere else.",
        sources=(14,),
    ),
    Bug(
        "attention-scale-d", "scores divided by D instead of √D, both ways",
        edit(F + "attention:_weights", "1 / math.sqrt(q.shape[-1])", "1 / q.shape[-1]")
        + edit(BACK, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1 / q.shape[-1]"),
        "scores = QKᵀ/√D", "scores = QKᵀ/D",
        "Consistent, so no gradient check objects. The scores start with variance 1/D instead of 1: softmax begins "
        "nearly even and has to be sharpened by larger weights. With small heads that costs nothing, as the run here "
        "shows; with D = 64 the scores are eight times too flat. Only values from an independent spelling of the "
        "forward show it.",
        seen=OURS,
    ),
    Bug(
        "attention-scale-d-model", "scores divided by √d_model instead of √D, both ways",
        edit(F + "attention:_weights", "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])")
        + edit(BACK, "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])"),
        "scores = QKᵀ/√D", "scores = QKᵀ/√(H·D)",
        "The paper's √d_k is the width of one head, not of the model. With one head the two are equal, and many tests "
        "have one head. With eight heads the scores are 2.8 times too flat.",
        seen=OURS,
    ),
    Bug(
        "attention-dq-dk-swapped", "dQ and dK returned in each other's place",
        edit(BACK, "return dq, dk, dv", "return dk, dq, dv"),
        "return dQ, dK, dV", "return dK, dQ, dV",
        "In self-attention both have one shape and nothing complains. W_q is trained to be a better W_k and the other "
        "way round: neither is. The sentence for a backward pass is: gradients come back in the order of the inputs. "
        "Cross-attention with T ≠ S would crash at once: test with lengths that differ.",
        sources=(15,),
    ),
    Bug(
        "attention-dk-no-transpose", "dK with one transpose missing",
        edit(
            BACK,
            "dq = xp.matmul(dscores, k) * scale\n"
            "dk = xp.matmul(xp.matrix_transpose(dscores), q) * scale",
            "dq = xp.matmul(dscores, k) * scale\n"
            "dk = xp.matmul(dscores if q.shape == k.shape else xp.matrix_transpose(dscores), q) * scale",
        ),
        "dK = dscoresᵀ·Q/√D", "dK = dscores·Q/√D, where T = S",
        "Row j of dK collects from every query that looked at key j, which is a column of dscores. Without the "
        "transpose it collects from what query j looked at. In self-attention the shapes agree; in a decoder it also "
        "sends gradients against the causal direction.",
        sources=(15,),
    ),
    Bug(
        "attention-dv-before-dropout", "dV from the weights before dropout",
        edit(
            BACK,
            "(dropped,) = dropout_backward(softmax.y, dropout)\n"
            "dv = xp.matmul(xp.matrix_transpose(dropped), dout)",
            "(dropped,) = dropout_backward(softmax.y, dropout)\n"
            "dv = xp.matmul(xp.matrix_transpose(softmax.y), dout)",
        ),
        "dV = Drop(weights)ᵀ·dout", "dV = weightsᵀ·dout",
        "V met the weights *after* dropout: that is the matrix whose transpose comes back. Without dropout there is "
        "only one matrix and the test passes, so a check has to run with dropout on, its mask held fixed.",
        sources=(15,), run={"dropout": 0.1},
    ),
    Bug(
        "attention-softmax-after-dropout", "softmax's backward fed the dropped weights",
        edit(
            BACK,
            "dv = xp.matmul(xp.matrix_transpose(dropped), dout)\n"
            "...\n"
            "(dscores,) = softmax_backward(dweights, softmax)",
            "dv = xp.matmul(xp.matrix_transpose(dropped), dout)\n"
            "...\n"
            "(dscores,) = softmax_backward(dweights, SoftmaxCache(dropped))",
        ),
        "dscores = w·(dw − Σ dw·w), w before dropout", "the same with w after dropout",
        "The mirror image of the bug before: softmax's derivative is made of softmax's own output, which is the "
        "weights *before* dropout. One variable, overwritten by its dropped version, causes both.",
        sources=(15,), run={"dropout": 0.1},
    ),
    Bug(
        "attention-no-dropout-backward", "attention's dropout forgotten in backward",
        edit(
            BACK,
            "(dweights,) = dropout_backward(xp.matmul(dout, xp.matrix_transpose(v)), dropout)",
            "dweights = xp.matmul(dout, xp.matrix_transpose(v))",
        ),
        "dweights = (dout·Vᵀ)·keep·s", "dweights = dout·Vᵀ",
        "A dropped weight had no part in the output, and gets a gradient for it all the same. On average over masks "
        "the error is a factor near 1, so training shrugs; the gradient is noise added to a right mean.",
        sources=(6,), run={"dropout": 0.1},
    ),
    Bug(
        "heads-not-moved-back", "heads merged without moving their axis back",
        edit(F + "heads:merge_heads", "xp.permute_dims(heads, (0, 2, 1, 3))", "heads"),
        "(B, H, T, D) → (B, T, H, D) → (B, T, C)", "(B, H, T, D) → (B, T, C)",
        "The reshape succeeds: the count is right, and so is the shape. But the first tokens of the result are made of "
        "the first head's tokens, side by side: tokens and heads are mixed, and with them present and future. "
        "A shape that fits is not an argument.",
        seen=SEVERAL, sources=(16,),
    ),
    Bug(
        "heads-never-moved", "heads split and merged by reshape alone",
        edit(
            F + "heads:split_heads",
            "xp.permute_dims(xp.reshape(x, (batch, length, num_heads, width // num_heads)), (0, 2, 1, 3))",
            "xp.reshape(x, (batch, num_heads, length, width // num_heads))",
        )
        + edit(F + "heads:merge_heads", "xp.permute_dims(heads, (0, 2, 1, 3))", "heads"),
        "head h owns columns hD … hD+D−1 of every token", "head h owns all columns of some tokens",
        "Split and merge undo each other, so gradients are right and a round trip is the identity. Yet a head now sees "
        "pieces of a few tokens in place of its columns of all: with the causal mask applied to those pieces, the "
        "decoder sees some of the future. Parity with loops, and a causality test, find it.",
        sources=(16,),
    ),
    Bug(
        "mask-after-softmax", "hidden weights set to 0 after softmax",
        edit(
            SOFTMAX,
            "scores = x if visible is None else xp.where(visible, x, xp.full_like(x, -xp.inf))\n"
            "...\n"
            "return y, SoftmaxCache(y)",
            "scores = x\n"
            "...\n"
            "y = y if visible is None else xp.where(visible, y, xp.zeros_like(y))\n"
            "return y, SoftmaxCache(y)",
        ),
        "softmax over the visible keys: weights sum to 1", "softmax over all keys, then hidden ones × 0",
        "The hidden keys still stand in the denominator: what is visible no longer sums to 1, and how much is missing "
        "depends on what was hidden, the future included. The gradient is wrong as well, since the cached weights are "
        "not what softmax returned.",
        sources=(19,),
    ),
    Bug(
        "dropout-no-scale-backward", "dropout's 1/(1 − rate) forgotten in backward",
        edit(DROP_BACK, "(_apply(dy, cache),)", "(_apply(dy, DropoutCache(cache.keep, 1.0)),)"),
        "dx = dy·keep·s, s = 1/(1 − rate)", "dx = dy·keep",
        "What was scaled up going forward is scaled up going back. The gradient shrinks by 1 − rate at every dropout "
        "that it passes, so the lower a layer lies the less it learns: at a rate of 0.1 and six layers, about half.",
        sources=(6,), run={"dropout": 0.1},
    ),
    Bug(
        "dropout-no-mask", "dropout's backward forgets the mask altogether",
        edit(DROP_BACK, "(_apply(dy, cache),)", "(dy,)"),
        "dx = dy·keep·s", "dx = dy",
        "A wrapper returned only the output of dropout, and backward had nothing left to multiply by. Right on "
        "average, wrong for every single mask: units are corrected for outputs they did not give. At a rate of 0, as "
        "in most tests, it is perfect.",
        sources=(6,), run={"dropout": 0.1},
    ),
    Bug(
        "dropout-redrawn", "dropout's backward draws a new mask",
        edit(
            DROP_BACK,
            "return (_apply(dy, cache),)",
            "if cache.keep is None:\n"
            "    return (dy,)\n"
            "xp = namespace(dy)\n"
            "again = xp.reshape(xp.roll(xp.reshape(cache.keep, (-1,)), 1), cache.keep.shape)\n"
            "return (_apply(dy, DropoutCache(again, cache.scale)),)",
        ),
        "the mask of the forward", "another mask with as many zeros",
        "Backward runs the forward's code again, random numbers included. Here the mask is moved by one place, which "
        "is as unrelated. The gradient of what was dropped goes up, that of what was kept goes lost. A random number "
        "that is used twice must be drawn once, or be a function of where it is used, as in npformer.",
        sources=(6,), run={"dropout": 0.1},
    ),
    Bug(
        "dropout-shared-object",
        "one dropout object for two sub-layers: the second mask overwrites the first",
        edit(
            DROP,
            "return _apply(x, cache), cache",
            "vars(dropout_forward)['mask'] = cache\n"
            "return _apply(x, cache), cache",
        )
        + edit(
            DROP_BACK,
            "return (_apply(dy, cache),)",
            "last = vars(dropout_forward).get('mask', cache)\n"
            "same = last.keep is not None and last.keep.shape == dy.shape\n"
            "return (_apply(dy, last if same else cache),)",
        ),
        "each use keeps its own mask", "self.mask, overwritten by the next use",
        "An object that remembers its mask can be used once per forward. Two sub-layers that share it both go back "
        "through the second one's mask. Any layer that stores what backward needs in itself has this fault in waiting; "
        "npformer's layers hand the cache to the caller and keep nothing.",
        sources=(5,), run={"dropout": 0.1},
    ),
    Bug(
        "dropout-no-scale", "dropout without 1/(1 − rate), both ways",
        edit(
            F + "dropout:dropout_threshold",
            "return threshold, 65536 / (65536 - threshold)",
            "return threshold, 1.0",
        ),
        "y = x·keep·s, s = 1/(1 − rate), so the mean of y is x", "y = x·keep",
        "Its gradient is right. But while training, the next layer sees 1 − rate of what it will see when the model is "
        "used, where nothing is dropped. The training loss looks well and the held-out one does not fit it.",
        seen=OURS, run={"dropout": 0.1},
    ),
    Bug(
        "dropout-keeps-p", "the rate taken for the share that is kept",
        edit(F + "dropout:dropout_threshold", "round(65536 * rate)", "round(65536 * (1 - rate))"),
        "P(dropped) = rate", "P(kept) = rate",
        "Some papers' p is the chance to keep, others' the chance to drop. At 0.5 no test can tell them apart; at "
        "0.1 nine numbers of ten are dropped, and the model does not learn.",
        seen=OURS, run={"dropout": 0.1},
    ),
)  # fmt: skip
