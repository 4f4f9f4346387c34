"""Recorded decoding on the host: the step of a model as calls of kernels, which every token repeats without Python.

The record of a step serves all states of as many rows, of any lengths (``numba/decoding.py``). Each thread has records
of its own, since they share their memory. A call makes up to ``AT_ONCE`` tokens (``decoding/writing.py``); for few
texts of a large model a second thread takes half of each large product. Without Numba steps are the model's own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from npformer.engine.capabilities import Capabilities, capabilities_of, one_after_the_other
from npformer.engine.recorded_decode import Prepared, has_next, logits_of, newest_numbers, prepared, remembered
from npformer.functional import AttentionMask
from npformer.layers import CacheStack, DecodeState, KeyValues, LayerState
from npformer.models import Decoder, Transformer
from npformer.models.inputs import token_ids
from npformer.typing import Array, HostArray

MOST = 64  # records of a model and a thread
FEW_TEXTS, WORTH_SHARING = 4, 1 << 20  # texts, and products of two numbers in a step


class _Here(threading.local):
    """What this thread has prepared."""

    def __init__(self) -> None:
        self.prepared: Prepared = WeakKeyDictionary()
        self.encoders: Prepared = WeakKeyDictionary()
        self.is_one_of_several = False


_here = _Here()


def parts_of_texts(model: Transformer | Decoder, texts: int) -> int:
    """``FastEngine.parts_of_texts``: those of a model that is not npformer's are decoded one after the other."""
    engine = capabilities_of(model)
    if texts <= FEW_TEXTS or texts * model.arena.values.size < WORTH_SHARING or _records_of(model) is None:
        return 1
    return min(engine.threads, texts // 2)


def in_threads(model: Transformer | Decoder, texts: int, loops: Sequence[Iterator[None]]) -> None:
    """``FastEngine.decode_at_once``."""
    several, failed = 1 < len(loops) <= parts_of_texts(model, texts), list[bool]()

    def run(loop: Iterator[None]) -> None:
        _here.is_one_of_several = several
        try:
            for _ in loop:
                if failed:
                    return
        except BaseException:
            failed.append(True)
            raise
        finally:
            _here.is_one_of_several = False

    (capabilities_of(model).in_threads if several else one_after_the_other)([partial(run, loop) for loop in loops])


def start(model: Transformer, src: Array, max_len: int) -> DecodeState:
    """model.start(src, max_len), on one thread, with a recorded encoder if there may be one."""
    engine = capabilities_of(model)
    with engine.on_one_thread():
        may_be = engine.decoding is not None and getattr(model.start, "__func__", None) is Transformer.start
        encode = prepared(_here.encoders, model, lambda: _encoder(engine)) if may_be else None
        return model.start(src, max_len) if encode is None else model.start(src, max_len, encode=partial(encode, model))


def _encoder(engine: Capabilities) -> Callable[..., Any]:
    """A function of a model and src (B, S) that returns what model.encode does."""

    def read(model: Transformer, inputs: Any) -> tuple[Array]:
        return (model._encode(CacheStack(model, inference=True), *inputs)[0],)

    memory = engine.capture_part(read, lambda model: ())

    def encode(model: Transformer, src: Array) -> tuple[Array, AttentionMask]:
        ids = token_ids("src", src, model.config.src_vocab_size, model.backend)
        return memory(model, (ids,))[0], AttentionMask(key_visible=ids != model.config.pad_id)

    return encode


def step(model: Transformer | Decoder, tokens: Array, state: DecodeState) -> Array:
    """model.step(tokens, state), from a record if there is one."""
    recorded = _recorded(model, state, np.asarray(tokens), "step")
    if recorded is None:
        return model.step(tokens, state)
    _made(model, recorded, tokens, np.ones(state.batch), state, -1, 1)
    state.length += 1
    logits: Array = recorded.logits.copy()
    return logits


def likeliest(
    model: Transformer | Decoder, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """``FastEngine.likeliest``; the steps stop once all rows have ended."""
    chosen: HostArray = np.empty((min(count, state.max_len - state.length), state.batch), np.int64)
    recorded = _recorded(model, state, tokens, "likeliest", (chosen,))
    if recorded is None:
        return None
    made = _made(model, recorded, tokens, going, state, eos_id, len(chosen))
    state.length += made
    return chosen[:made]


def search(
    model: Transformer | Decoder,
    tokens: Array,
    state: DecodeState,
    beams: tuple[HostArray, ...],
    count: int,
    eos_id: int,
) -> tuple[HostArray, HostArray] | None:
    """``FastEngine.search``."""
    log_p, greedy, room, *limits = beams
    if room.max() > log_p.shape[1]:
        return None
    batch, k = log_p.size, min(int(room.max()), model.generator.bias.data.shape[0])
    best = np.empty((batch, k), np.int64), np.empty((batch, k), model.backend.dtype), np.empty(batch)
    rows, chosen = np.empty((2, min(count, state.max_len - state.length), batch), np.int64)
    arrays = (log_p, room, greedy, *best, *limits, np.empty_like(log_p), rows, chosen)
    recorded = _recorded(model, state, tokens, "search", arrays)
    if recorded is None:
        return None
    made = _made(model, recorded, tokens, np.ones(batch), state, eos_id, len(chosen))
    state.length += made
    return rows[:made], chosen[:made]


def _made(
    model: Any, recorded: Any, tokens: Array, going: HostArray, state: DecodeState, eos_id: int, count: int
) -> int:
    """Make up to count steps, at least one. Returns how many."""
    first = newest_numbers(model, tokens, going, state, state.batch)
    with capabilities_of(model).on_one_thread():
        made: int = recorded.run(first, (eos_id, model.config.pad_id), count, alone=not _here.is_one_of_several)
    return made


def _recorded(
    model: Transformer | Decoder, state: DecodeState, tokens: HostArray, kind: str, more: tuple[HostArray, ...] = ()
) -> Any:
    """The record of a step for the arrays of state, and more; None if there is none, or if tokens are none for it."""
    records = _records_of(model)
    if records is None or not has_next(state, tokens):
        return None
    arrays: Arrays | None = remembered(state, records, lambda: _arrays_of(model, state))
    return None if arrays is None else records.find(kind, state, arrays, more)


def _records_of(model: Transformer | Decoder) -> Any:
    parts = capabilities_of(model).decoding
    return None if parts is None else prepared(_here.prepared, model, lambda: Records(model, parts))


class Arrays(list[HostArray]):
    """The arrays of a state that a record is given: positions, what is visible, those of each layer, the source's."""


def _arrays_of(model: Transformer | Decoder, state: DecodeState) -> Arrays | None:
    """None if an array is not as the kernels read them."""
    own: list[Any] = [x for layer in state.layers for x in layer.past]  # type: ignore[attr-defined]
    memory = [x for layer in state.layers for x in layer.memory or ()]
    (batch, heads, room, width), hidden = own[0].shape, state.memory_mask.key_visible
    of_source: Any = () if hidden is None else (batch // state.together, heads, hidden.shape[1], width)
    due = [(state.positions.shape[0], heads * width), (batch, room), *[own[0].shape] * 2 * len(model.decoder.layers)]
    if hidden is not None:
        due += [*[of_source] * 2 * len(model.decoder.layers), (of_source[0], of_source[2])]
    arrays = Arrays([state.positions, state.visible, *own, *memory, *([] if hidden is None else [hidden])])
    dtypes = [bool if x is state.visible or x is hidden else np.dtype(state.backend.dtype) for x in arrays]
    if [x.shape for x in arrays] != due or [x.dtype for x in arrays] != dtypes:
        return None
    return arrays if all(x.flags.carray for x in arrays) else None


class Records:
    """The records for one version of a model on one thread; parts are those of ``numba/decoding.py``."""

    def __init__(self, model: Transformer | Decoder, parts: Any) -> None:
        self._model, self._parts, self._driver = ref(model), parts, parts.HostDriver(model.backend.dtype)
        self._steps: OrderedDict[Any, Any] = OrderedDict()

    def find(self, kind: str, state: DecodeState, arrays: Arrays, more: tuple[HostArray, ...]) -> Any:
        """The record of a kind for as many rows, with these arrays; None if there can be none."""
        key = kind, state.batch, state.together, arrays[0].shape[1], arrays[2].shape[1], len(arrays)  # C, H
        if key not in self._steps:
            if len(self._steps) >= MOST:
                self._steps.popitem(last=False)
            self._steps[key] = self._record(kind, state, [*arrays, *more])
        self._steps.move_to_end(key)
        found = self._steps[key]
        if found is not None and (more or found.given() is not arrays):
            found.give([*arrays, *more])
            found.given = ref(arrays)
        return found

    def _record(self, kind: str, state: DecodeState, arrays: list[HostArray]) -> Any:
        model: Any = self._model()
        embedding = model.tgt_embedding if isinstance(model, Transformer) else model.embedding
        if kind != "step" and model.generator.bias.data.shape[0] > embedding.weight.data.shape[0]:
            return None  # it might choose a token that has no vector
        helps = capabilities_of(model).threads > 1 and state.batch <= FEW_TEXTS
        is_worth = helps and state.batch * model.arena.values.size >= WORTH_SHARING
        widest = max(parameter.data.shape[-1] for _, parameter in model.named_parameters()) if is_worth else 0
        step = self._parts.Step(state.batch, 3 * widest)  # queries, keys and values are computed at once
        (positions, visible, *rest), count = step.kept(arrays), 2 * len(state.layers)
        pasts = [self._parts.Newest(step, *rest[i : i + 2]) for i in range(0, count, 2)]
        memories: list[Any] = [None] * len(pasts)
        hidden, more = None, rest[count:]
        if isinstance(model, Transformer):
            memories = [KeyValues(*more[i : i + 2]) for i in range(0, count, 2)]
            hidden, *more = more[count:]

        def work() -> tuple[Array, ...]:
            layers, encode = tuple(map(LayerState, pasts, memories)), partial(step.encodings, positions, visible)
            logits = logits_of(model, step.now, encode, layers, visible, hidden)[:, 0, :]
            step.choose(kind, logits, more)
            return (logits,)

        return step if step.record(work, self._driver) else None
