"""Bugs in layers, where a value that is used twice must get two gradients."""

from npformer.lab.museum.bug import OURS, Bug, edit

F, L = "npformer.functional.", "npformer.layers."
CATEGORY = "layer"
ENCODER, DECODER = L + "encoder_layer:EncoderLayer.backward", L + "decoder_layer:DecoderLayer.backward"
#: The gradient of x does not go through the norm.
PAST_THE_NORM = edit(
    F + "post_norm:post_norm_backward",
    "dtotal, dgamma, dbeta = layer_norm_backward(dy, cache.norm)\n"
    "...\n"
    "return dx, df, dgamma, dbeta",
    "dtotal, dgamma, dbeta = layer_norm_backward(dy, cache.norm)\n"
    "...\n"
    "return dy, df, dgamma, dbeta",
)  # fmt: skip

BUGS = (
    Bug(
        "residual-omitted", "residual added forward, omitted backward",
        edit(
            ENCODER,
            "self.branch_backward(dx, self.self_attention.backward(df, cache.pop()))",
            "self.branch_backward(0 * dx, self.self_attention.backward(df, cache.pop()))",
        )
        + edit(
            DECODER,
            "self.branch_backward(dx, self.self_attention.backward(df, cache.pop()))",
            "self.branch_backward(0 * dx, self.self_attention.backward(df, cache.pop()))",
        ),
        "y = x + f(x):   dx = dy + (f's backward)", "dx = f's backward alone",
        "The sum's short arm carries most of the gradient: for W_q of the lowest encoder layer the measured error was "
        "0.9997 of the whole. What is left goes through attention and is small, so the lower layers hardly move, and "
        "the upper ones learn to live with random features. The loss falls, and levels off too early.",
        sources=(7,), run={"norm_order": "post"},
    ),
    Bug(
        "residual-omitted-decoder", "the query's gradient of cross-attention omitted",
        edit(DECODER, "self.branch_backward(dx, dh)", "self.branch_backward(dx, 0 * dh)"),
        "dt = LN₁'s backward of dx + dh", "dt = LN₁'s backward of dx",
        "x goes into cross-attention twice: as the residual and as the query. Two uses, two gradients. The decoder's "
        "self-attention is never told what would have made a better question to the source.",
        seen=OURS, sources=(7,), run={"norm_order": "post"},
    ),
    Bug(
        "post-norm-bypassed", "post-LN's backward routed as pre-LN",
        PAST_THE_NORM,
        "y = LN(x + f):   dx = LN's backward of dy", "dx = dy, past the norm",
        "In pre-LN the stream runs past the norms untouched; in post-LN it goes through each of them. Half of the code "
        "came from a description of one, half from the other. The gradient arrives strongly below, just not the right "
        "one: the deeper the stack, the further off.",
        sources=(8, 25), run={"norm_order": "post"},
    ),
    Bug(
        "neither-post-nor-pre", "a norm around the sub-layer alone: x + LN(f(x))",
        edit(
            F + "post_norm:post_norm_forward",
            "total, residual = residual_forward(x, f, draw, bits)\n"
            "...\n"
            "return y, PostNormCache(residual, norm)",
            "total, residual = residual_forward(0 * x, f, draw, bits)\n"
            "...\n"
            "return x + y, PostNormCache(residual, norm)",
        )
        + PAST_THE_NORM,
        "LN(x + f(x)), or x + f(LN(x))", "x + LN(f(x))",
        "Its gradients are right, and it trains. It is simply another architecture under the name of the paper's, and "
        "nothing that is known of either order holds for it. When a program is compared with a paper, the wiring is "
        "what has to be compared.",
        sources=(8, 25), run={"norm_order": "post"},
    ),
    Bug(
        "pre-norm-stream-dropped", "pre-LN's stream left out in backward",
        edit(F + "add_norm:add_norm_backward", "dtotal + through_norm", "through_norm"),
        "dx = dtotal + (LN's backward of dnormed)", "dx = LN's backward of dnormed",
        "The sum has two readers, the next sub-layer's norm and the stream that runs on. The stream's term is what "
        "lets a gradient pass a hundred layers unscaled: it is the reason for pre-LN.",
        seen=OURS, sources=(7,), run={"norm_order": "pre"},
    ),
    Bug(
        "pre-norm-norm-skipped", "the first norm of pre-LN skipped in backward",
        edit(ENCODER, "self.enter_backward(dx, dh, cache.pop())", "dx if dh is None else dx + dh"),
        "dx = dx + LN₁'s backward of dnormed", "dx = dx + dnormed",
        "f(LN(x)) was differentiated as f(x). γ and β of that norm get no gradient at all and stay at 1 and 0 for "
        "ever, which is the quickest way to find it: list the parameters whose gradient is exactly zero.",
        seen=OURS, run={"norm_order": "pre"},
    ),
    Bug(
        "final-norm-skipped", "the final norm forgotten in backward",
        edit(
            L + "stacks:DecoderStack.backward",
            "dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())",
            "dx = dy if self.norm is None else dy + 0 * self.norm.backward(dy, cache.pop())",
        ),
        "dx = LN's backward of dy, then the layers", "dx = dy, then the layers",
        "The norm on top of a pre-LN stack was added later, to the forward. A forward line without its line in "
        "backward: read the two side by side, one from the top, one from the bottom.",
        seen=OURS, run={"norm_order": "pre"},
    ),
    Bug(
        "tied-one-gradient", "a tied embedding keeps one of its two gradients",
        edit(
            L + "linear:Linear.backward",
            "(self.weight.grad, self.bias.grad)",
            "(None if isinstance(self.weight, ParameterView) else self.weight.grad, self.bias.grad)",
        ),
        "dE = dE (as table) + dE (as output projection)ᵀ", "dE = dE (as table)",
        "One matrix, two uses. The output projection's share is the larger one, since every logit of every token "
        "depends on every row. Without it rows learn only when their token is read, never when it should have been "
        "said. On a small vocabulary the rest of the network makes up for it, so the curve is silent.",
        sources=(11,), run={"tie_embeddings": True},
    ),
    Bug(
        "tied-overwritten", "the embedding's gradient assigned over what was there",
        edit(
            L + "embedding:Embedding.backward",
            "self.ops.embedding.backward(dy, cache.pop(), into=(self.weight.grad,))",
            "self.weight.grad[...] = 0\n"
            "self.ops.embedding.backward(dy, cache.pop(), into=(self.weight.grad,))",
        ),
        "grad += dtable", "grad = dtable",
        "With one use per step `=` and `+=` are the same, and `=` saves zeroing. With a tied table it throws away what "
        "the output projection had added, and of the encoder's and decoder's uses only the last remains; with "
        "micro-batches, only the last micro-batch. Gradients are always added.",
        sources=(11, 17), run={"tie_embeddings": True},
    ),
    Bug(
        "gradient-assigned", "parameter gradients assigned, not accumulated",
        edit(
            L + "feed_forward:FeedForward.backward",
            "return self.ops.feed_forward.backward(dy, cache.pop(), into=into)",
            "for grad in into:\n"
            "    grad[...] = 0\n"
            "return self.ops.feed_forward.backward(dy, cache.pop(), into=into)",
        ),
        "W.grad += dW", "W.grad = dW",
        "A layer used twice has two gradients, and the second overwrites the first. So do micro-batches. "
        "A sum over whatever a value was used for is the whole of backpropagation; `=` forgets the sum.",
        sources=(17,), run={"accumulate": 4},
    ),
    Bug(
        "cache-on-self", "a layer that keeps its cache on itself, used twice",
        edit(
            L + "feed_forward:FeedForward.forward",
            "up, down = self.up, self.down\n"
            "...\n"
            "return y, cache",
            "up, down = self.up, self.down\n"
            "...\n"
            "self._last = cache._entries[-1]\n"
            "return y, cache",
        )
        + edit(
            L + "feed_forward:FeedForward.backward",
            "self.ops.feed_forward.backward(dy, cache.pop(), into=into)",
            "self.ops.feed_forward.backward(dy, self._last, into=into)",
        ),
        "the cache travels with the output", "self.cache = …, one place for all uses",
        "The second forward overwrites what the first one's backward needs; both then go back through the second. "
        "It shows as soon as a layer is shared, a model is run twice before backward, or an evaluation comes between "
        "a forward and its backward.",
        sources=(12,), run=None,
        instead=(
            "A Transformer uses each feed-forward once per step, so this run is unharmed: the fault waits for "
            "a reuse."
        ),
    ),
    Bug(
        "memory-last-layer", "the memory's gradient taken from one decoder layer only",
        edit(
            L + "stacks:DecoderStack.backward",
            "from_layer if dmemory is None else dmemory + from_layer",
            "from_layer",
        ),
        "dmemory = Σ over the decoder layers", "dmemory = that of the last one visited",
        "Every decoder layer reads the encoder's output, so each sends a gradient back. A loop that assigns keeps one. "
        "With one decoder layer there is nothing to sum and the test passes: use two of everything that repeats.",
        sources=(13,),
    ),
    Bug(
        "memory-values-only", "cross-attention sends no gradient back through its keys",
        edit(
            L + "multi_head_attention:MultiHeadAttention._project_backward",
            "dkv = concat_last(dk, dv)",
            "dkv = concat_last(0 * dk, dv)",
        ),
        "dmemory = dK·W_kᵀ + dV·W_vᵀ", "dmemory = dV·W_vᵀ",
        "The memory is key and value at once. The encoder is told what to say but never how to be found. Alignment "
        "between target and source comes late or not at all, and reversing a word needs exactly that.",
        seen=OURS, sources=(13,),
    ),
    Bug(
        "query-key-share-gradient", "the query's projection trained with the key's gradient",
        edit(
            L + "multi_head_attention:MultiHeadAttention._project_backward",
            "concat_last(dq, dk, dv)",
            "concat_last(dk, dk, dv)",
        ),
        "(dQ, dK, dV) into the three column blocks", "(dK, dK, dV)",
        "One letter. All shapes fit, and two of three blocks are right, as are all layers above. Only a check that "
        "names each parameter says where to look: W_q, and whatever lies below.",
        seen=OURS,
    ),
    Bug(
        "feed-forward-out-of-order", "the feed-forward's dropout undone after its activation",
        edit(
            F + "feed_forward:feed_forward_backward",
            "(da,) = dropout_backward(ddropped, cache.dropout)",
            "da = ddropped",
        ),
        "da = ddropped·keep·s, then the activation", "the dropout inside is skipped",
        "Forward: up, activation, dropout, down. Backward has to undo four things and undoes three. Count the lines: a "
        "composite's backward has as many as its forward.",
        seen=OURS, sources=(6,), run={"dropout": 0.1},
    ),
    Bug(
        "layers-in-forward-order", "a stack's backward walks its layers from the bottom",
        edit(L + "stacks:EncoderStack.backward", "reversed(self.layers)", "self.layers"),
        "for layer in reversed(layers)", "for layer in layers",
        "Each cache is popped for the wrong layer, and because layers are alike in shape it all fits: gradients "
        "computed from one layer's input with the other one's weights, and added to the wrong parameters. With a "
        "stack of one layer it is correct.",
        seen=OURS,
    ),
)  # fmt: skip
