"""Prepares the arguments of the decoding kernel, once for many steps.

The shape of every array is checked here, since a kernel that knows only addresses would read and write anywhere. The
arrays are kept, so their addresses stay valid as long as the steps do. Weights that an optimiser changes in place are
used as they are then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from npformer.backend.fallback import takes_real
from npformer.backend.numpy.blas import one_blas_thread
from npformer.backend.workspace import address
from npformer.engine.numba import work_sharing
from npformer.engine.numba.beam_choice import Beams
from npformer.engine.numba.decode_kernel import steps_of_tokens
from npformer.engine.numba.decode_parts import DECIDED, POSITION, POSITIONS, Run, Sizes
from npformer.engine.numba.linear import FEW_TOKENS
from npformer.typing import Array

WORTH_SHARING = 1 << 20  # products of two numbers in a step; of one token: what it reads is in one core's own cache
NUMBERS_A_LOOK = 50  # of a part: its reader has four times as long as it needs
MOST_HELPER_LOOKS = 10 * work_sharing.MOST_LOOKS  # of a helper between two steps, while a caller chooses many tokens
ALONE = 32  # steps without help after a helper that fell asleep
A_MOMENT = 1e-4  # seconds between two looks at whether it has left


def decoder_steps(decoder: Any, threads: int) -> DecoderWeights | None:
    """Prepare a decoder: returns a function from a state to its steps, or None if no kernel fits this decoder."""
    if not (decoder.layers and takes_real(decoder.bias.dtype.char)):
        return None
    return DecoderWeights(decoder, threads) if _fits(decoder) else None


class DecoderWeights:
    """A decoder's weights as addresses, shared by all decoding runs."""

    def __init__(self, decoder: Any, threads: int) -> None:
        norm = decoder.norm or ()
        self.decoder, self.threads = decoder, threads
        self.layers = np.array([[address(x) for x in layer.weights] for layer in decoder.layers])
        model = [address(x) for x in (decoder.embedding, decoder.weight, decoder.bias, *norm)] + [0, 0][len(norm) :]
        self.model = np.array([*model[:POSITIONS], 0, *model[POSITIONS:]])
        self.is_tied = not decoder.weight.flags.c_contiguous
        f, v = decoder.layers[0].weights[12].shape[1], decoder.bias.shape[0]
        self.sizes = (*decoder.embedding.shape, f, v)
        self.numbers = sum(weight.size for layer in decoder.layers for weight in layer.weights) + decoder.weight.size

    def __call__(self, state: Any) -> TokenSteps | None:
        """The steps of a run; None if an array of state has a shape that the kernel does not expect."""
        source, layers, dtype = state.memory_mask.key_visible, state.layers, self.decoder.bias.dtype
        if source is None or len(layers) != len(self.decoder.layers) or any(kept.memory is None for kept in layers):
            return None
        (batch, room), s, readers = state.visible.shape, source.shape[1], state.visible.shape[0] // state.together
        h, c = self.decoder.layers[0].heads, self.sizes[1]
        past, memory = (batch, h, room, c // h), (readers, h, s, c // h)
        numbers: list[tuple[Array, tuple[int, ...]]] = [(state.positions, (room, c))]
        for kept in layers:
            numbers += zip((*kept.past, *kept.memory), (past, past, memory, memory), strict=True)
        masks = [(state.visible, (batch, room)), (source, (readers, s))]
        return TokenSteps(self, state) if are(numbers, dtype) and are(masks, np.bool_) else None


class TokenSteps:
    """The steps of one decoding run: from tokens (B, 1) at a position to logits (B, 1, V), or to further tokens."""

    def __init__(self, weights: DecoderWeights, state: Any) -> None:
        first, decoder = weights.decoder.layers[0], weights.decoder
        pasts = [(*past, *memory) for past, memory in state.layers]
        self._kept = weights, pasts, state.positions
        addresses = [[address(x) for x in past] for past in pasts]
        layers, model = np.concatenate([weights.layers, addresses], axis=1), weights.model.copy()
        model[POSITIONS] = address(state.positions)
        (batch, room), (tokens, c, f, v) = state.visible.shape, weights.sizes
        self._shape, self._embedded, self._dtype = (batch, c, v), tokens, decoder.bias.dtype
        parts = 2 if weights.threads > 1 and batch * weights.numbers >= WORTH_SHARING else 1
        self._by_blas = batch > FEW_TOKENS
        self._alone = 0
        looks = work_sharing.MOST_LOOKS + batch * max(4 * c * c, 2 * c * f, c * v) // parts // NUMBERS_A_LOOK
        self._helper_looks = min(looks, MOST_HELPER_LOOKS)
        memory_visible = np.array(state.memory_mask.key_visible)
        sizes = Sizes(
            first.heads, f, v, room, memory_visible.shape[1], state.together, first.norm_order == "pre",
            first.activation == "gelu", weights.is_tied, parts, looks,
        )  # fmt: skip
        self._everybody, self._no_choices = np.ones(batch, dtype=np.bool_), np.empty((0, batch), dtype=np.int64)
        none, self._no_scores = np.empty(0, dtype=np.int64), np.empty(0)
        self._no_beams = Beams(np.empty((0, 0)), none, none, *self._work(0, 0))
        sums, inputs, logits = (np.empty(shape, self._dtype) for shape in ((parts, batch, c), (batch, c), (batch, v)))
        self.run = Run(
            layers, model, sizes, float(decoder.scale), float(decoder.eps), none, none, sums, inputs, logits,
            state.visible, memory_visible,
        )  # fmt: skip
        self._new_place()

    def _new_place(self) -> None:
        """Allocate working memory that no helper has seen."""
        shared = np.zeros(work_sharing.SLOTS, dtype=np.int64)
        shared[work_sharing.TICKET] = work_sharing.MOST_PARTS - 1  # nothing to take
        sums, inputs, logits = map(np.empty_like, (self.run.sums, self.run.inputs, self.run.logits))
        self.run = self.run._replace(
            progress=np.zeros(2, dtype=np.int64), shared=shared, sums=sums, inputs=inputs, logits=logits
        )

    def __call__(self, tokens: Array, position: int) -> Array | None:
        """The logits. Token ids have been checked. None unless there is one token for each row, and room for it."""
        batch, _, v = self._shape
        if not self._fit(tokens, position, 1):
            return None
        self._take(tokens, position, (0, 0), self._no_choices, self._everybody)
        return self.run.logits.reshape(batch, 1, v).copy()

    def write(self, tokens: Array, position: int, going: Array, ends: tuple[int, int], count: int) -> Array | None:
        """Up to count tokens for each row, (n, B), as DecoderSteps says; None as for one step."""
        batch, _, v = self._shape
        if not self._fit(tokens, position, count) or v > self._embedded:  # a token might have no vector
            return None
        chosen = np.empty((count, batch), dtype=np.int64)
        return chosen[: self._take(tokens, position, ends, chosen, going)]

    def search(
        self, tokens: Array, position: int, beams: tuple[Array, ...], ends: tuple[int, int], count: int
    ) -> tuple[Array, Array] | None:
        """Up to count steps of beams, rows and tokens (n, B), as DecoderSteps says; None as for one step."""
        log_p, greedy, room, best, longest = beams
        (batch, _, v), most = self._shape, int(room.max())
        if not self._fit(tokens, position, count) or v > self._embedded or most > log_p.shape[1]:
            return None
        rows, chosen = np.empty((2, count, batch), dtype=np.int64)
        run_beams = Beams(log_p, room, greedy, *self._work(batch, min(most, v)))
        done = self._take(tokens, position, ends, chosen, self._everybody, (run_beams, best, longest), rows)
        return rows[:done], chosen[:done]

    def _fit(self, tokens: Array, position: int, count: int) -> bool:
        """Whether there is a token for each row, and room for so many steps."""
        return bool(tokens.shape == (self._shape[0], 1) and 0 <= position <= self.run.sizes.room - count)

    def _work(self, batch: int, k: int) -> tuple[Array, ...]:
        """Working memory for k proposals of each row, and for their sums."""
        return np.empty((batch, k), dtype=np.int64), np.empty((batch, k), self._dtype), np.empty(batch)

    def _take(
        self, tokens: Array, position: int, ends: tuple[int, int], chosen: Array, going: Array,
        search: tuple[Beams, Array, Array] | None = None, rows: Array | None = None,
    ) -> int:  # fmt: skip
        """Run the kernel; if it lost a helper, repeat that step and go on.

        A lost helper writes the keys and values of its part when it wakes up. The repeated step writes the same
        numbers, so this does no harm until rows are moved: by a search, or by the caller after the last step.
        """
        search = search or (self._no_beams, self._no_scores, self._no_scores)
        rows, totals = self._no_choices if rows is None else rows, np.empty_like(search[0].log_p)
        ids, done, lost = np.array(tokens).reshape(-1), 0, list[Array]()
        while True:
            self.run.progress[POSITION] = position + done
            rest = ids, *ends, chosen[done:], going, *search, rows[done:], totals
            self._invite(len(chosen) - done, rest)
            with one_blas_thread() if self._by_blas else nullcontext():
                steps_of_tokens(self.run, 0, *rest)
            done += int(self.run.progress[DECIDED])
            if not self.run.shared[work_sharing.LOST]:
                break
            lost.append(self.run.shared)
            if rows.size:
                until_left(lost)
            self._alone = ALONE
            self._new_place()
        until_left(lost)
        return done

    def _invite(self, steps: int, rest: tuple[Any, ...]) -> None:
        """Invite a helper for so many steps, if that pays and none is present; rest: arguments that it does not use."""
        if self.run.sizes.parts == 1 or self.run.shared[work_sharing.PRESENT]:
            return
        if self._alone:
            self._alone = max(0, self._alone - max(1, steps))
            return
        work_sharing.helper.invite(partial(_help, self._kept, (self.run, self._helper_looks, *rest)), self.run.shared)


def until_left(places: Sequence[Array]) -> None:
    """Wait until no helper works in any of these shared places."""
    while any(place[work_sharing.PRESENT] for place in places):
        Event().wait(A_MOMENT)


def _help(kept: Any, arguments: tuple[Any, ...]) -> None:
    """The helper's job. kept holds the arrays whose addresses are in arguments."""
    steps_of_tokens(*arguments)


def _fits(decoder: Any) -> bool:
    """Whether every weight has the shape that the kernel expects."""
    first, (tokens, c), v = decoder.layers[0], decoder.embedding.shape, decoder.bias.shape[0]
    layer = [*attention_shapes(c), *attention_shapes(c), *feed_forward_shapes(c, first.weights[12].shape[1])]
    weight = decoder.weight if decoder.weight.flags.c_contiguous else decoder.weight.T
    expected = [
        (decoder.embedding, (tokens, c)), (decoder.bias, (v,)),
        (weight, (c, v) if weight is decoder.weight else (v, c)),
        *zip(decoder.norm or (), [(c,), (c,)], strict=False),
    ]  # fmt: skip
    for layer_parts in decoder.layers:
        if layer_parts[:3] != first[:3]:
            return False
        expected += zip(layer_parts.weights, layer, strict=True)
    return c % first.heads == 0 and are(expected, decoder.bias.dtype)


def attention_shapes(c: int) -> list[tuple[int, ...]]:
    """The shapes of an attention sub-layer: two weights with their biases, γ and β."""
    return [(c, 3 * c), (3 * c,), (c, c), (c,), (c,), (c,)]


def feed_forward_shapes(c: int, f: int) -> list[tuple[int, ...]]:
    """The shapes of a feed-forward sub-layer."""
    return [(c, f), (f,), (f, c), (c,), (c,), (c,)]


def are(expected: Iterable[tuple[Array, tuple[int, ...]]], dtype: Any) -> bool:
    """Whether each array has its shape and this dtype, and is contiguous."""
    return all(
        x.shape == shape and x.dtype == dtype and x.flags.c_contiguous and x.flags.aligned for x, shape in expected
    )
