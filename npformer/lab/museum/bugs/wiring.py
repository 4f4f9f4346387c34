"""Bugs in the wiring of a network. Most have right gradients, so no gradient check finds them."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

T = "npformer.models.transformer:Transformer."
MASK = "npformer.functional.attention_mask:AttentionMask._pattern"
D = "npformer.layers.decoder_layer:DecoderLayer."
CATEGORY = "wiring"

BUGS = (
    Bug(
        "causal-off", "the decoder's causal mask is off by default",
        edit(
            T + "_decode",
            "AttentionMask(key_visible=tgt_in != self.config.pad_id, causal=True)",
            "AttentionMask(key_visible=tgt_in != self.config.pad_id)",
        ),
        "target position i sees j ≤ i", "target position i sees all j",
        "The decoder is shown the token that it is to predict, one position to the right. The teacher-forced loss goes "
        "to nearly nothing, much too fast, and decoding gives nonsense: with no future to copy from, the model knows "
        "nothing. A training loss that is too good is a bug report.",
        seen=SEVERAL, sources=(22,),
    ),
    Bug(
        "causal-one-ahead", "causal mask off by one: the next token is visible",
        edit(
            MASK,
            "back >= 0 if near is None else near & (back >= 0)",
            "back >= -1 if near is None else near & (back >= -1)",
        ),
        "visible where j ≤ i", "visible where j ≤ i + 1",
        "One diagonal too many, and exactly the one that matters: input i + 1 is output i. Change a later token and "
        "see whether an earlier logit moves: that test has no tolerance to argue about, the difference must be "
        "exactly 0.",
        sources=(22,),
    ),
    Bug(
        "causal-diagonal-hidden", "causal mask off by one: a token does not see itself",
        edit(
            MASK,
            "back >= 0 if near is None else near & (back >= 0)",
            "back > 0 if near is None else near & (back > 0)",
        ),
        "visible where j ≤ i", "visible where j < i",
        "The first position sees nothing at all: NaN in many programs, zeros in npformer. The others miss the newest "
        "token in attention, though the residual still brings it, so the model learns all the same. Nothing leaks, "
        "hence a causality test alone is content: it also has to be asked that every past token has an influence.",
        sources=(22,),
    ),
    Bug(
        "causal-encoder", "the causal mask given to the encoder too",
        edit(
            T + "_encode",
            "AttentionMask(key_visible=src != self.config.pad_id)",
            "AttentionMask(key_visible=src != self.config.pad_id, causal=True)",
        ),
        "encoder: every token sees every token", "encoder: token i sees j ≤ i",
        "The source is there as a whole, and may be read in both directions. Here its first tokens know nothing of the "
        "rest, and the first target token cannot see the end of the source by way of the memory's mask either. The "
        "model works, worse, and gives no sign.",
        sources=(22,),
    ),
    Bug(
        "cross-padding-visible", "source padding visible to cross-attention",
        edit(
            T + "_decode",
            'context.child("decoder", mask=mask, memory_mask=memory_mask)',
            'context.child("decoder", mask=mask)',
        ),
        "cross-attention hides source padding", "source padding takes part",
        "The padding mask went to the encoder and not to the second place that reads the source. Outputs now depend "
        "on how far a sentence was padded, that is on its neighbours in the batch: the same sentence, translated "
        "alone and in a batch, comes out differently.",
        seen=SEVERAL, sources=(23,),
    ),
    Bug(
        "encoder-padding-visible", "padding visible to the encoder",
        edit(T + "_encode", 'context.child("encoder", mask=mask)', 'context.child("encoder")'),
        "self-attention hides padding", "padding takes part in every mean",
        "Every token averages over padding as well, and the pad row of the table gets gradients and learns to be "
        "something. The effect depends on the longest sentence of the batch. Test: pad more, and nothing may change.",
        sources=(10, 23),
    ),
    Bug(
        "mask-inverted", "the padding mask's meaning inverted",
        edit(T + "_encode", "src != self.config.pad_id", "src == self.config.pad_id"),
        "True = this key may be looked at", "True = this key is hidden",
        "Half of the world's masks are True where something is hidden, the other half where it is seen. Given the "
        "wrong one, the model reads padding and nothing else. A mask should be named for what True means.",
        seen=OURS,
    ),
    Bug(
        "cross-sides-swapped", "cross-attention asks from the encoder and answers from the decoder",
        edit(
            D + "forward",
            "own, cross, feed_forward = map(context.child, names)\n"
            "...\n"
            "f = cache.keep(self.cross_attention.forward(h, memory, context=cross))",
            "own, cross, feed_forward = map(context.child, names)\n"
            "...\n"
            "f = cache.keep(self.cross_attention.forward(memory, h, context=cross.child('', "
            "memory_mask=context.mask)))",
        )
        + edit(
            D + "backward",
            "dh, dmemory = self.cross_attention.backward(df, cache.pop())",
            "dmemory, dh = self.cross_attention.backward(df, cache.pop())",
        ),
        "Q from the decoder; K, V from the memory", "Q from the memory; K, V from the decoder",
        "While both sides are equally long nothing crashes and all gradients are right. Position i of the target gets "
        "what source position i asked for. It was found by measuring a program whose own gradient checks passed; "
        "another form of it took K from one side and V from the other. Use lengths that differ, and ask what each "
        "logit depends on.",
        sources=(21,), run={"equal_lengths": True},
    ),
    Bug(
        "positions-before-scaling", "positions added before the embedding is scaled",
        edit(
            "npformer.models.token_input:embed",
            "x = cache.run(embedding, tokens)\n"
            "if positions is not None:\n"
            "    x = cache.run(positions, x)",
            "x = cache.run(embedding, tokens)\n"
            "if positions is not None:\n"
            "    x = cache.run(positions, x / embedding.scale) * embedding.scale",
        ),
        "x = √C·table[token] + PE", "x = √C·(table[token] + PE)",
        "The scale is there to bring the table's small entries up to the size of the sines. Applied to both, positions "
        "are √C times louder than meant, and tokens have to shout to be heard.",
        sources=(20,),
    ),
    Bug(
        "padding-zeroed", "padded tokens zeroed on the query side, into a LayerNorm without ε",
        edit(
            "npformer.models.token_input:embed",
            "x = cache.run(embedding, tokens)\n"
            "if positions is not None:\n"
            "    x = cache.run(positions, x)",
            "x = cache.run(embedding, tokens)\n"
            "if positions is not None:\n"
            "    x = cache.run(positions, x) * (tokens != 0)[..., None]",
        )
        + edit(
            "npformer.functional.layer_norm:layer_norm_forward",
            "xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)",
            "xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True))",
        ),
        "padding is hidden as a key, and otherwise left alone", "x·mask, then LN of a row of zeros",
        "A padded query does no harm: nobody reads it. Zeroing its row makes a constant token, whose variance is 0, "
        "and the norm's gradient there is 1/0. Masked out later, it is 0·∞, and NaN reaches every weight. Hide keys, "
        "leave queries alone.",
        sources=(26,), run={"norm_order": "pre"},
    ),
    Bug(
        "target-not-shifted", "the target is not shifted",
        edit(
            "npformer.data.batches:batch_of",
            "Batch(\n"
            "    src=sources.padded(last=last),\n"
            "    tgt_in=targets.padded(first=first),\n"
            "    tgt_out=targets.padded(last=last),\n"
            ")",
            "Batch(\n"
            "    src=sources.padded(last=last),\n"
            "    tgt_in=targets.padded(last=last),\n"
            "    tgt_out=targets.padded(last=last),\n"
            ")",
        ),
        "tgt_in = [BOS] a b c      tgt_out = a b c [EOS]", "tgt_in = tgt_out",
        "The decoder sees the very token it is to predict, at its own position, through a causal mask that is "
        "perfectly right. The loss is near 0 within a hundred steps: the model has learned to copy its input. Free "
        "decoding, which starts from [BOS], has never been trained.",
        sources=(24,),
    ),
    Bug(
        "dropout-at-inference", "dropout stays on when the model is used",
        edit(
            "npformer.layers.call_tree:Context.draw",
            "return None if self.key is None or rate == 0 else self.key.child(name).draw(rate)",
            "return None if rate == 0 else (self.key or RandomKey()).child(name).draw(rate)",
        ),
        "no key: nothing is dropped", "dropped all the same",
        "A flag that says `training` and was never turned off. The model is evaluated with a tenth of it missing, and "
        "its scores are lower than they need be. npformer has no flag: without a key there is nothing to draw from.",
        seen=OURS, run=None,
        instead="The training curve cannot change: training is right. The held-out score is what suffers.",
    ),
    Bug(
        "decoding-first-position", "decoding puts every token at the first position",
        edit(T + "step", "state.positions[state.length : stop, :]", "state.positions[: stop - state.length, :]"),
        "the newest token stands at position t", "it stands at position 0, every time",
        "Great teacher-forced loss, nonsense when decoding: the complaint that users of such programs make most. "
        "Teacher forcing never runs this code, so the training curve has nothing to say about it. A step is given one "
        "token, and to count positions from the start of what one is given was right until then.",
        seen=SEVERAL, run=None, instead=(
            "Training is right and its curve the same; what is decoded goes astray after the first token."
        ),
    ),
)  # fmt: skip
