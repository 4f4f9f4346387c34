"""The compiled decoding step, alone and with a helper, and the encoder of whole texts, against the layers."""

import itertools
from functools import partial

import numpy as np
import pytest

from npformer.engine.fused_decode import encode, fused_encode, step
from npformer.engine.numba import decode_step, work_sharing
from npformer.engine.numba.decode_step import FEW_TOKENS, decoder_steps
from npformer.engine.numba.encode_texts import QUERIES
from npformer.errors import DTypeError
from npformer.layers import DecoderStack, EncoderStack
from tests.engine.numba.small_models import SOURCES, part_of, small_model

SRC = SOURCES[:4]
MANY = np.concatenate([SRC, SRC[:, ::-1]])[: FEW_TOKENS + 3]  # more than are multiplied without BLAS
MAX_LEN = 6
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}
model = partial(small_model, encoders=3, decoders=3)  # more layers than one


def tokens(batch):
    ids = np.random.default_rng(batch).integers(0, 9, (batch, MAX_LEN))
    ids[-1, :2] = 0  # queries that see nothing
    return ids


def begun(**changes):
    """A model with compiled steps, and a state that has made the first one."""
    fast = model("numba", **changes)
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    return fast, state


def logits(of, src, change=None):
    """Of all steps (T, B, V); the model is changed in the middle."""
    state, rows = of.start(src, MAX_LEN), []
    for t, now in enumerate(tokens(len(src)).T):
        if t == MAX_LEN // 2 and change is not None:
            change(of)
        rows.append(step(of, now, state))
    return np.array(rows)


def memory(of, src, change=None):
    """Of the encoder (B, S, C), prepared before it is changed, and taken."""
    is_fused = of.backend.kernels == "numba"
    assert (fused_encode(of, src) is not None) == is_fused
    if change is not None:
        change(of)
    encoded = encode(of, src)[0]
    assert (fused_encode(of, src) is not None) == is_fused
    return encoded


#: What is computed of a model, and the stack of layers that computes it.
WHOLE = {"decoder": logits, "encoder": memory}
EVERY_STACK = pytest.mark.parametrize("stack", WHOLE)


def error(stack, src=SRC[:2], dtype="float64", change=None, **changes):
    """The largest difference between the two, over what is computed with and the tolerance."""
    plain, fast = (WHOLE[stack](model(kernels, dtype, **changes), src, change) for kernels in ("plain", "numba"))
    assert fast.dtype == dtype
    return float(np.max(np.abs(fast - plain)) / np.max(np.abs(plain)) / TOLERANCE[dtype])


@EVERY_STACK
@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("batch", [1, 2, FEW_TOKENS, len(MANY)])
@pytest.mark.usefixtures("threads")
def test_it_is_the_composition(stack, dtype, norm_order, activation, batch):
    assert error(stack, MANY[:batch], dtype, norm_order=norm_order, activation=activation) < 1


@EVERY_STACK
@pytest.mark.parametrize(
    "changes",
    [{"final_norm": True}, {"norm_order": "pre", "final_norm": False}, {"tie_embeddings": True}, {"dropout": 0.3},
     {"scale_embedding": False}, {"positions": "learned"}, {"num_heads": 1}, {"num_decoder_layers": 1},
     {"num_encoder_layers": 1}],
)  # fmt: skip
@pytest.mark.parametrize("batch", [2, len(MANY)])
@pytest.mark.usefixtures("threads")
def test_it_is_the_composition_in_every_form(stack, changes, batch):
    assert error(stack, MANY[:batch], **changes) < 1


@pytest.mark.parametrize("tokens", [1, 2, QUERIES - 1, QUERIES + 3])
def test_texts_of_any_length(tokens):
    src = np.random.default_rng(tokens).integers(0, 9, (3, tokens))
    src[-1] = 0  # whose tokens see nothing
    assert error("encoder", src) < 1


@pytest.mark.parametrize(
    ("stack", "change"),
    [*itertools.product(WHOLE, ["in place", "array", "layer", "norm"]), ("decoder", "kind")],
)
@pytest.mark.usefixtures("threads")
def test_a_model_that_changes_is_computed_with_as_it_is_now(stack, change, change_stack):
    """A decoder between two steps."""

    def apply(of):
        if change == "in place":
            of.arena.values *= 0.9
        else:
            change_stack(change, getattr(of, stack))

    assert error(stack, change=apply) < 1
    before, after = (WHOLE[stack](model("numba"), SRC[:2], changing) for changing in (None, apply))
    assert np.max(np.abs(after - before)) > 1e-9


@EVERY_STACK
@pytest.mark.parametrize("kernels", ["plain", "numba"])
def test_a_parameter_of_another_precision_is_refused(stack, kernels):
    def change(of):
        bias = of.generator.bias if stack == "decoder" else of.encoder.layers[1].feed_forward.down.bias
        bias.data = bias.data.astype(np.float32)

    with pytest.raises(DTypeError, match=r"expected numbers of one precision, .* float32"):
        WHOLE[stack](model(kernels), SRC, change)


@EVERY_STACK
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_nan_is_seen(stack, activation):
    fast = model("numba", activation=activation)
    getattr(fast, stack).layers[1].feed_forward.up.bias.data[3] = np.nan
    assert np.isnan(WHOLE[stack](fast, SRC[:1])).all()


def test_a_step_is_taken(monkeypatch):
    fast = model("numba")
    assert fast.backend.engine.decoder_steps is decoder_steps
    monkeypatch.setattr(DecoderStack.step, "__code__", (lambda *args, **named: 1 / 0).__code__)
    assert logits(fast, MANY).shape == (MAX_LEN, len(MANY), 9)


def test_weights_are_looked_at_once_for_all_states(change_stack):
    fast, looked_at = model("numba"), []
    counted = lambda decoder, threads: looked_at.append(1) or decoder_steps(decoder, threads)  # noqa: E731
    object.__setattr__(fast.backend.engine, "decoder_steps", counted)
    for rows in ([0, 1, 2, 3], [3, 3], [0]):
        state = fast.start(SRC, MAX_LEN).select(rows)
        step(fast, tokens(4)[: len(rows), 0], state)
        assert state.fused[1] is not None
        assert len(looked_at) == 1
    change_stack("array", fast.decoder)
    step(fast, tokens(4)[:1, 1], state)
    assert len(looked_at) == 2
    fast.backend = model("numba").backend  # which may have another number of threads
    prepared = state.fused
    step(fast, tokens(4)[:1, 2], state)
    assert state.fused is not prepared


@pytest.mark.parametrize(
    "name",
    ["tgt_embedding.weight", "generator.weight", "generator.bias", "decoder.norm.beta", "decoder.layers.1.norm3.gamma",
     "decoder.layers.1.feed_forward.down.weight", "decoder.layers.2.cross_attention.output.bias"],
)  # fmt: skip
def test_a_decoders_arrays_of_other_shapes_are_left_to_the_layers(name):
    """The kernel knows addresses alone, and would read on behind what is there."""
    fast, state = begun(final_norm=True)
    assert state.fused[1] is not None
    parameter = part_of(fast, name)
    parameter.data = parameter.data[..., :-1].copy()
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the layers say
        step(fast, tokens(4)[:, 1], state)
    assert state.length == 1


def test_a_layer_without_a_state_is_refused():
    fast, state = begun()
    fast.decoder.layers = fast.decoder.layers[:-1]
    with pytest.raises(ValueError, match="longer"):
        step(fast, tokens(4)[:, 1], state)


def test_nothing_is_written_where_there_is_no_room():
    steps = begun()[1].fused[1]
    assert steps(tokens(4)[:, :1], MAX_LEN - 1) is not None
    assert steps(tokens(4)[:, :1], MAX_LEN) is None
    assert steps(tokens(4)[:, :1], -1) is None
    assert steps(tokens(4)[:3, :1], 1) is None
    assert steps(tokens(4)[:, :2], 1) is None


def test_a_helper_that_falls_asleep_is_given_up(a_helper_falls_asleep):
    places = a_helper_falls_asleep(24)  # in the second step
    expected, fast = logits(model("plain"), SRC[:2]), model("numba")
    state, lost = fast.start(SRC[:2], MAX_LEN), []
    for t, now in enumerate(tokens(2).T):
        assert np.allclose(step(fast, now, state), expected[t], rtol=0, atol=1e-12)
        lost.append([int(place[work_sharing.LOST]) for place in places])
    assert lost == [[0]] + [[1]] * (MAX_LEN - 1)  # nobody is invited for a while
    steps = state.fused[1]
    assert steps.run.shared is not places[0]
    assert places[0][work_sharing.PRESENT] == 0  # it was waited for: the caller may move rows
    assert 0 < steps._alone <= decode_step.ALONE


def test_a_helper_leaves_when_there_is_nothing_to_do(until, monkeypatch):
    monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    shared = begun()[1].fused[1].run.shared
    until(lambda: shared[work_sharing.PRESENT] == 0)
    assert shared[work_sharing.PRESENT] == 0


def test_a_helper_that_is_wanted_elsewhere_does_not_wait(until, monkeypatch):
    """As when rows leave a batch, and others' steps follow."""
    monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    monkeypatch.setattr(work_sharing, "MOST_LOOKS", 10**15)  # looks: for ever
    monkeypatch.setattr(decode_step, "MOST_HELPER_LOOKS", 10**15)
    fast = model("numba")
    states = [fast.start(SRC, MAX_LEN) for _ in range(2)]
    for state in states:
        step(fast, tokens(4)[:, 0], state)
    one, two = (state.fused[1].run.shared for state in states)
    until(lambda: one[work_sharing.PRESENT] == 0)
    helped = one[work_sharing.PRESENT], two[work_sharing.PRESENT]
    two[work_sharing.WANTED] = 1
    assert helped == (0, 1)


def another_eps(of):
    of.encoder.layers[1].norm1.eps = 0.1


def turned(of):
    weight = of.encoder.layers[0].self_attention.output.weight
    weight.data = np.asfortranarray(weight.data)


@pytest.mark.parametrize(
    "change",
    [another_eps, turned, "kind", {"attention": "linear"}, {"positions": "rotary", "num_heads": 1, "d_model": 16},
     {"positions": "relative"}, {"norm": "batch"}],
)  # fmt: skip
def test_unsupported_cases_are_left_to_the_layers(change, change_stack):
    options = change if isinstance(change, dict) else {}
    plain, fast = model("plain", **options), model("numba", **options)
    for of in () if options else (plain, fast):
        change_stack(change, of.encoder) if isinstance(change, str) else change(of)
    assert fused_encode(fast, SRC) is None
    np.testing.assert_allclose(encode(fast, SRC)[0], plain.encode(SRC)[0], rtol=0, atol=1e-12)


def test_an_encoders_arrays_of_other_shapes_are_left_to_the_layers():
    """The kernel knows addresses alone, and would read on behind what is there."""
    for part, name in (("feed_forward", "up"), ("feed_forward", "down"), ("self_attention", "output")):
        fast = model("numba")
        parameter = getattr(getattr(fast.encoder.layers[1], part), name).bias
        parameter.data = parameter.data[:-1].copy()
        assert fused_encode(fast, SRC) is None


def test_the_encoder_is_taken(monkeypatch):
    fast = model("numba")
    monkeypatch.setattr(EncoderStack.__call__, "__code__", (lambda *args, **named: 1 / 0).__code__)
    assert encode(fast, SRC)[0].shape == (4, 5, 15)
