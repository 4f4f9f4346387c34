"""The engine of a backend: what a training step and a search ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npformer.engine import compile_ahead, host_decode
from npformer.engine.capabilities import Capabilities, run_eagerly


@dataclass(frozen=True)
class FastEngine(Capabilities):
    """Makes a step or a search faster than as it is written, with the same numbers: what ``backend.engine`` is.

    compile_ahead(model, *purposes)   compile the kernels that the model needs for "training", "decoding" or "beams",
                                      before their first call
    parts_of_texts(model, texts)      into how many parts, one a thread, to split texts that are decoded
    decode_at_once(model, texts, loops)   run the loops, which decode so many texts, to their ends, each on a thread if
                                      there are so many; if one fails, the others soon stop
    start(model, src, max_len)        model.start(src, max_len), a decode state
    step(model, tokens, state)        model.step(tokens, state), the logits

    likeliest(model, tokens, state, going, count, eos_id): up to count greedy steps from tokens (B,) on: the chosen
    tokens (n, B). None: not at once for this model. going (B,) marks the unfinished rows; the others are fed pads. The
    steps may stop once an unfinished row chooses eos_id; if they go on, that row is fed pads and chooses pads.

    search(model, tokens, state, beams, count, eos_id): up to count steps of beams of width w from tokens (n·w,) on:
    rows and tokens, both (steps, n·w). beams are log P (n, w) and greedy (n,), both updated; room, the best finished
    score and the longest penalty (n,), as in ``decoding/beams.py``. The steps stop once a hypothesis chooses eos_id, or
    once all hypotheses of a source are worse than its best finished one. None: not at once for this model, or if more
    hypotheses may continue than a beam is wide.
    """

    compile_ahead = staticmethod(compile_ahead.compile_ahead)
    parts_of_texts = staticmethod(host_decode.parts_of_texts)
    decode_at_once = staticmethod(host_decode.in_threads)
    start = staticmethod(host_decode.start)
    step = staticmethod(host_decode.step)
    likeliest = staticmethod(host_decode.likeliest)
    search = staticmethod(host_decode.search)

    def eager(self) -> FastEngine:
        """The same engine, which records nothing."""
        return replace(self, capture=run_eagerly, capture_part=run_eagerly, decoding=None, rooms=None)
