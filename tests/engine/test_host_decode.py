"""Recorded decoding on the host against the layers: every form of model, what changes, and what is left to them."""

import gc
import threading
from dataclasses import replace
from functools import cache, partial
from weakref import ref

import numpy as np
import pytest

pytest.importorskip("numba")
from npformer.backend import Pair, get_backend
from npformer.backend.numpy.blas import blas_threads, can_set_blas_threads
from npformer.decoding import beam_search, beams, greedy, opening, sample, writing
from npformer.engine import host_decode
from npformer.engine.host_decode import step
from npformer.engine.numba import replay
from npformer.errors import ConfigError, DTypeError, TokenError
from npformer.layers import DecoderStack, Embedding, LayerNorm, Linear
from npformer.models import Decoder, DecoderConfig, Transformer
from tests.engine.conftest import NOT_RECORDED
from tests.engine.numba.small_models import SOURCES, part_of, shaken, small_model

SRC = SOURCES[:4]
MAX_LEN = 30
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def transformer(kernels, dtype="float64", **changes):
    """So loud that texts are not one token for ever, and end at different steps."""
    made = small_model(kernels, dtype, **({"encoders": 2, "decoders": 3} | changes))
    made.generator.weight.data[...] *= 2
    made.generator.bias.data[2] -= 2
    return made


def decoder(kernels, dtype="float64", **changes):
    options = {"d_model": 15, "num_heads": 3, "d_ff": 21, "num_layers": 2} | changes
    backend = get_backend("numpy", dtype, kernels=kernels, threads=2)
    return shaken(Decoder(DecoderConfig(9, **options), backend=backend, seed=2))


BUILD = {"transformer": transformer, "decoder": decoder}
FORMS = [
    {"norm_order": "pre"}, {"activation": "gelu"}, {"final_norm": True}, {"norm_order": "pre", "final_norm": False},
    {"tie_embeddings": True}, {"dropout": 0.3}, {"scale_embedding": False}, {"positions": "learned"},
    {"positions": "none"}, {"num_heads": 1},
]  # fmt: skip


@pytest.fixture(params=["alone", "shared"])
def threads(request, monkeypatch):
    """Steps of one thread, and of two; models are small in tests, and two threads would not share them."""
    if request.param == "shared":
        monkeypatch.setattr(host_decode, "WORTH_SHARING", 0)
        monkeypatch.setattr("npformer.engine.numba.decoding.LARGE_WEIGHT", 0)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """A text takes several calls."""
    monkeypatch.setattr(writing, "AT_ONCE", 16)
    monkeypatch.setattr(beams, "AT_ONCE", 1)


def steps_of(model):
    """The records of a model on this thread; None in the place of one that there cannot be."""
    return list(host_decode._records_of(model)._steps.values())


def logits(of, src=SRC, change=None, count=6):
    """Of all steps (T, B, V); the model is changed in the middle."""
    state, rows = of.start(src, count) if isinstance(of, Transformer) else of.start(len(src), count), []
    ids = np.random.default_rng(len(src)).integers(0, 9, (count, len(src)))
    ids[:2, -1] = 0  # queries that see nothing
    for t, tokens in enumerate(ids):
        if t == count // 2 and change is not None:
            change(of)
        rows.append(step(of, tokens, state))
    assert state.length == count
    return np.array(rows)


def same_logits(dtype="float64", build=transformer, src=SRC, change=None, **changes):
    plain, fast = (logits(build(kernels, dtype, **changes), src, change) for kernels in ("plain", "numba"))
    assert fast.dtype == dtype
    np.testing.assert_allclose(fast, plain, rtol=0, atol=TOLERANCE[dtype] * np.max(np.abs(plain)))


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize("batch", [1, 2, 4, len(SOURCES)])
@pytest.mark.usefixtures("threads")
def test_steps_are_those_of_the_layers(build, batch, dtype):
    same_logits(dtype, BUILD[build], SOURCES[:batch])


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize("changes", FORMS, ids=str)
@pytest.mark.usefixtures("threads")
def test_steps_are_those_of_the_layers_in_every_form(build, changes):
    same_logits(build=BUILD[build], src=SRC[:2], **changes)


@cache
def searched(search, build, eos_id, rows, kernels="plain"):
    """With a stop, a token at a time."""
    return search(BUILD[build](kernels), SOURCES[:rows], MAX_LEN, eos_id=eos_id, stop=lambda text: False)


def same(actual, expected):
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(actual, expected)
        return
    for ones, others in zip(actual, expected, strict=True):
        assert [one.tokens.tolist() for one in ones] == [other.tokens.tolist() for other in others]
        for number in ("score", "log_probability"):
            due = [getattr(other, number) for other in others]
            np.testing.assert_allclose([getattr(one, number) for one in ones], due, rtol=1e-12, atol=1e-11)


SEARCHES = {f"{k} beams": partial(beam_search, beam=k) for k in (1, 4, 7)}
SEARCHES |= {"greedy": greedy, "sample": partial(sample, top_k=5)}


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize("rows", [1, len(SOURCES)])
@pytest.mark.parametrize("eos_id", [0, 2, 5, 7, None])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.usefixtures("threads")
def test_a_search_finds_what_it_finds_step_by_step(search, eos_id, rows, build):
    """Rows end at different steps, or never, and pads, 0, are tokens that a model may choose."""
    expected, made = searched(SEARCHES[search], build, eos_id, rows), BUILD[build]("numba")
    same(SEARCHES[search](made, SOURCES[:rows], MAX_LEN, eos_id=eos_id), expected)
    assert None not in steps_of(made)


@pytest.mark.parametrize("length_penalty", [0.0, 2.0])
@pytest.mark.usefixtures("threads")
def test_sources_are_done_at_different_steps(length_penalty):
    """Where short texts are the best, hypotheses under way are given up, between ends too."""
    src, options = np.random.default_rng(3).integers(3, 9, (12, 5)), {"length_penalty": length_penalty}
    expected = beam_search(transformer("plain"), src, MAX_LEN, stop=lambda text: False, **options)
    same(beam_search(transformer("numba"), src, MAX_LEN, **options), expected)


@pytest.mark.parametrize("search", ["greedy", "4 beams"])
def test_it_is_taken(search, monkeypatch):
    """But for a beam's first step, after which there are more rows than before."""
    fast, steps = transformer("numba"), []
    expected = SEARCHES[search](fast, SRC, MAX_LEN)
    monkeypatch.setattr(DecoderStack.step, "__code__", (lambda *args, **named: 1 / 0).__code__)
    engine = fast.backend.engine
    monkeypatch.setattr(type(engine), "step", staticmethod(lambda *args: steps.append(1) or step(*args)))
    same(SEARCHES[search](fast, SRC, MAX_LEN), expected)
    assert len(steps) == (search != "greedy")


def test_a_record_serves_all_lengths_and_keeps_no_state(monkeypatch):
    fast, plain = transformer("numba"), transformer("plain")
    arrays, arrays_of = [], host_decode._arrays_of
    monkeypatch.setattr(host_decode, "_arrays_of", lambda *given: arrays.append(arrays_of(*given)) or arrays[-1])
    for length, most in ((5, 9), (2, 30), (4, 20)):
        same(greedy(fast, SRC[:, :length], most), greedy(plain, SRC[:, :length], most))
    steps = steps_of(fast)
    assert len(steps) == len({each.rows.size for each in steps})
    assert len(arrays) > len(steps)
    gone = [ref(each) for each in arrays]
    arrays.clear()
    gc.collect()
    assert not any(one() for one in gone)


def test_only_some_records_are_kept(monkeypatch):
    monkeypatch.setattr(host_decode, "MOST", 2)
    fast = transformer("numba")
    for rows in (1, 2, 3, 1):
        same(greedy(fast, SRC[:rows], 9), greedy(transformer("plain"), SRC[:rows], 9))
    assert len(steps_of(fast)) == 2


def test_rows_have_moved_when_it_is_over():
    """What is kept is that of the rows that the last step computed, so that the state can go on from there."""
    fast, plain = (transformer(kernels, encoders=1, decoders=2) for kernels in ("numba", "plain"))
    fast.generator.bias.data[2] = plain.generator.bias.data[2] = -100
    first, log_p = np.array([1, 3, 4, 5]), np.log(np.array([[0.4, 0.3, 0.2, 0.1]]))
    states = [of.start(SRC[:1], MAX_LEN).select([0] * 4) for of in (fast, plain)]
    beam_state = (log_p, np.array([0]), np.array([4]), np.array([-np.inf]), np.array([1.0]))
    rows, tokens = host_decode.search(fast, first, states[0], beam_state, 7, -1)
    assert rows.shape == tokens.shape == (7, 4)
    assert np.any(rows != np.arange(4))
    for fed, onward in zip((first, *tokens[:-1]), (None, *rows[:-1]), strict=True):
        if onward is not None:
            states[1].reorder(onward)
        plain.step(fed, states[1])
    assert states[0].length == states[1].length == 7
    assert np.array_equal(states[0].visible[:, :7], states[1].visible[:, :7])
    for state in states:
        state.reorder(rows[-1])
    actual, expected = (step(of, tokens[-1], state) for of, state in zip((fast, plain), states, strict=True))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_not_more_than_there_is_room_for():
    fast, one = transformer("numba"), np.array([0.0])
    state, going = fast.start(SRC[:2], 5), np.ones(2, dtype=bool)
    chosen = host_decode.likeliest(fast, np.ones(2, dtype=np.int64), state, going, 50, -1)
    assert (chosen.shape, state.length) == ((5, 2), 5)
    assert host_decode.likeliest(fast, chosen[-1], state, going, 1, -1) is None
    state, beam_state = fast.start(SRC[:1], MAX_LEN), (one[None], np.array([0]), np.array([2]), one, one)
    assert host_decode.search(fast, np.array([1]), state, beam_state, 3, 2) is None, "a beam that outgrows its slots"
    assert state.length == 0


class Silent(LayerNorm):
    """A norm that is none of npformer's."""

    def forward(self, x, *, context):
        y, cache = super().forward(x)
        return y * 0, cache


def change_stack(name, stack):
    """Replace an array, a layer, a norm or a norm's kind in a stack of three layers; or change numbers in place."""
    layers, weight = stack.layers, stack.layers[1].feed_forward.up.weight
    if name == "in place":
        weight.data[...] *= 0.9
    elif name == "array":
        weight.data = weight.data * 0.9
    elif name == "layer":
        stack.layers = layers[::-1]
    else:
        kind = {"norm": LayerNorm, "kind": Silent}[name]
        layers[2].norm2 = kind(weight.data.shape[0], backend=layers[2].norm2.backend)


@pytest.mark.parametrize("change", ["in place", "array", "layer", "norm", "kind"])
@pytest.mark.usefixtures("threads")
def test_a_model_that_changes_between_two_steps_is_computed_with_as_it_is_now(change):
    def apply(of):
        change_stack(change, of.decoder)

    same_logits(change=apply)
    before, after = (logits(transformer("numba"), change=changing) for changing in (None, apply))
    assert np.max(np.abs(after - before)) > 1e-9


def test_an_encoder_that_changes_is_computed_with_as_it_is_now():
    fast, plain = transformer("numba", encoders=3), transformer("plain", encoders=3)
    for change in (None, "in place", "array", "layer", "norm", "kind"):
        for of in (fast, plain) if change else ():
            change_stack(change, of.encoder)
        for _ in range(3):  # run, recorded, and from the record
            for length in (5, 3):
                keys, due = (host_decode.start(of, SRC[:, :length], 8).layers[0].memory.keys for of in (fast, plain))
                np.testing.assert_allclose(keys, due, rtol=0, atol=1e-12)


class Doubled(Embedding):
    """An embedding that says that it may be recorded, and computes something else than npformer's."""

    static = True

    def forward(self, tokens):
        x, cache = super().forward(tokens)
        return 2 * x, cache


class Shifted(Linear):
    static = True

    def forward(self, x):
        y, cache = super().forward(x)
        return y + np.arange(y.shape[-1]), cache


def doubled(of):
    of.tgt_embedding.__class__ = Doubled


def shifted(of):
    of.generator.__class__ = Shifted


def larger(of):
    """There are tokens that have no vector."""
    of.generator.weight.data, of.generator.bias.data = np.ones((15, 11)), np.where(np.arange(11) == 10, 1e6, 0.0)


@pytest.mark.parametrize(
    "change", [doubled, shifted, *NOT_RECORDED.values()], ids=lambda change: getattr(change, "__name__", str(change))
)
def test_what_cannot_be_recorded_is_left_to_the_layers(change):
    options = (change | {"num_heads": 1, "d_model": 16}) if isinstance(change, dict) else {}
    plain, fast = transformer("plain", **options), transformer("numba", **options)
    for of in () if options else (plain, fast):
        change(of)
    for search in SEARCHES.values():
        same(search(fast, SRC, 12), search(plain, SRC, 12, stop=lambda text: False))
    records = host_decode._records_of(fast)
    assert records is None or set(records._steps.values()) == {None}


@pytest.mark.parametrize("place", ["class", "model"])
def test_a_model_with_a_start_of_its_own_does_as_that_says(place):
    model = transformer("numba")
    start = type(model).start

    def backwards(model, src, max_len, **options):
        return start(model, src[:, ::-1].copy(), max_len, **options)

    if place == "class":
        model.__class__ = type("Backwards", (type(model),), {"start": backwards})
    else:
        model.start = lambda src, max_len: backwards(model, src, max_len)
    keys = host_decode.start(model, SRC, 8).layers[0].memory.keys
    np.testing.assert_allclose(keys, start(model, SRC[:, ::-1].copy(), 8).layers[0].memory.keys, atol=1e-12)


@pytest.mark.parametrize("where", ["encoder.layers.0.norm1", "decoder.layers.1.cross_attention"])
def test_a_layer_computes_on_its_own_backend(where):
    made, calls = transformer("numba"), []
    greedy(made, SRC, MAX_LEN)
    layer = part_of(made, where)
    name = "post_norm" if "norm" in where else "linear"
    pair = getattr(made.backend.ops, name)

    def forward(*inputs):
        calls.append(1)
        return pair.forward(*inputs)

    layer.backend = replace(made.backend, ops=replace(made.backend.ops, **{name: Pair(forward, pair.backward)}))
    greedy(made, SRC, MAX_LEN)
    assert calls


@pytest.mark.parametrize("kernels", ["plain", "numba"])
def test_what_does_not_fit_is_refused_as_ever(kernels):
    def of_another_precision(of):
        of.generator.bias.data = of.generator.bias.data.astype(np.float32)

    def shorter(name, of):
        parameter = part_of(of, name)
        parameter.data = parameter.data[..., :-1].copy()

    with pytest.raises(DTypeError, match=r"expected numbers of one precision, .* float32"):
        logits(transformer(kernels), change=of_another_precision)
    layer = "decoder.layers.1"
    of_layer = [f"{layer}.norm3.gamma", f"{layer}.feed_forward.down.weight", f"{layer}.cross_attention.output.bias"]
    for name in ("tgt_embedding.weight", "generator.weight", "decoder.norm.beta", *of_layer):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever the layers say
            logits(transformer(kernels, final_norm=True), change=partial(shorter, name))
    model = transformer(kernels)
    larger(model)
    for search in (greedy, beam_search):
        with pytest.raises(TokenError, match="0 <= id < 9, got 10"):
            search(model, SRC, MAX_LEN)
    with pytest.raises(ConfigError, match="eos_id: expected a token id, or None"):
        greedy(model, SRC, MAX_LEN, eos_id=2.0)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_nan_is_seen(activation):
    fast = transformer("numba", activation=activation)
    fast.decoder.layers[1].feed_forward.up.bias.data[3] = np.nan
    assert np.isnan(logits(fast, SRC[:1])).all()


def test_an_interrupted_step_can_be_made_again(monkeypatch):
    model, plain = transformer("numba"), transformer("plain")
    state, due, tokens = model.start(SRC, 9), plain.start(SRC, 9), np.full(4, 3)
    run = replay.Record.run
    for t in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(replay.Record, "run", lambda record, *given: run(record, *given) or 1 / 0)
            for call in (lambda: step(model, tokens, state),
                         lambda: host_decode.likeliest(model, tokens, state, np.full(4, True), 2, -1)):  # fmt: skip
                with pytest.raises(ZeroDivisionError):
                    call()
        assert state.length == t
        np.testing.assert_allclose(step(model, tokens, state), plain.step(tokens, due), rtol=0, atol=1e-12)


@pytest.mark.parametrize("whose", ["the caller's", "the other"])
def test_if_one_thread_fails_the_other_stops(whose, monkeypatch):
    monkeypatch.setattr(host_decode, "WORTH_SHARING", 0)
    model, begun = transformer("numba"), threading.Event()

    def failing():
        begun.wait(600)
        yield
        raise KeyboardInterrupt

    def endless():
        begun.set()
        while True:
            yield

    loops = [failing(), endless()] if whose == "the caller's" else [endless(), failing()]
    with pytest.raises(KeyboardInterrupt):
        host_decode.in_threads(model, len(SOURCES), loops)
    same(greedy(model, SOURCES, MAX_LEN), greedy(transformer("plain"), SOURCES, MAX_LEN))


def test_texts_are_shared_out_where_that_pays(monkeypatch):
    parts, in_threads = [], opening.in_threads
    for module in (opening, writing):
        noting = lambda *given: parts.append(len(given[2])) or in_threads(*given)  # noqa: E731
        monkeypatch.setattr(module, "in_threads", noting)
    model = transformer("numba")
    for worth, rows, stop, due in (
        (0, 6, None, 2),
        (0, 4, None, 1),
        (0, 6, lambda text: False, 1),
        (10**9, 6, None, 1),
    ):
        monkeypatch.setattr(host_decode, "WORTH_SHARING", worth)
        greedy(model, SOURCES[:rows], 5, stop=stop)
        assert parts == [due] * 2
        parts.clear()


def test_products_of_a_step_leave_no_threads_behind(monkeypatch):
    """They would wait, in a loop, on the core of the thread that helps with the steps."""
    if not can_set_blas_threads():
        pytest.skip("this NumPy's BLAS cannot be told how many threads to use")
    before, seen, run = blas_threads(), [], replay.Record.run
    monkeypatch.setattr(replay.Record, "run", lambda *given: seen.append(blas_threads()) or run(*given))
    greedy(transformer("numba"), SRC, MAX_LEN)
    assert set(seen) == {1}
    assert blas_threads() == before
