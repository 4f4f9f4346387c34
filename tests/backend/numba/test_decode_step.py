"""The compiled decoding step against the composition of the layers, alone and with a helper."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("numba")

from npformer.backend.numba import decode_step, sharing
from npformer.backend.numba.decode_step import FEW_TOKENS, decoder_steps
from npformer.errors import DTypeError
from npformer.layers import DecoderStack
from npformer.runtime.fused_decode import step
from tests.backend.numba.small_models import small_model

SRC = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0], [7, 7, 0, 2, 2]])
MANY = np.concatenate([SRC, SRC[:, ::-1]])[: FEW_TOKENS + 3]  # more than are multiplied without BLAS
MAX_LEN = 6
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}
model = partial(small_model, decoders=3)  # more layers than one


def tokens(batch):
    found = np.random.default_rng(batch).integers(0, 9, (batch, MAX_LEN))
    found[-1, :2] = 0  # queries that see nothing
    return found


def logits(of, batch, change=None):
    """Of all steps (T, B, V); the model is changed in the middle."""
    state, found = of.start(MANY[:batch], MAX_LEN), []
    for t, now in enumerate(tokens(batch).T):
        if t == MAX_LEN // 2 and change is not None:
            change(of)
        found.append(step(of, now, state))
    return np.array(found)


def error(dtype="float64", batch=2, change=None, **changes):
    """The largest difference between the two, over what is computed with and the tolerance."""
    plain, fast = (logits(model(kernels, dtype, **changes), batch, change) for kernels in ("plain", "numba"))
    assert fast.dtype == dtype
    return float(np.max(np.abs(fast - plain)) / np.max(np.abs(plain)) / TOLERANCE[dtype])


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("batch", [1, 2, FEW_TOKENS, len(MANY)])
@pytest.mark.usefixtures("threads")
def test_it_is_the_composition(dtype, norm_order, activation, batch):
    assert error(dtype, batch, norm_order=norm_order, activation=activation) < 1


@pytest.mark.parametrize(
    "changes",
    [{"final_norm": True}, {"norm_order": "pre", "final_norm": False}, {"tie_embeddings": True},
     {"scale_embedding": False}, {"positions": "learned"}, {"num_heads": 1}, {"num_decoder_layers": 1}],
)  # fmt: skip
@pytest.mark.parametrize("batch", [2, len(MANY)])
@pytest.mark.usefixtures("threads")
def test_it_is_the_composition_in_every_form(changes, batch):
    assert error(batch=batch, **changes) < 1


def in_place(of):
    of.arena.values *= 0.9


def another_precision(of):
    bias = of.generator.bias
    bias.data = bias.data.astype(np.float32)


@pytest.mark.parametrize("change", [in_place, "array", "layer", "norm", "kind"])
@pytest.mark.usefixtures("threads")
def test_a_model_that_changes_between_steps_is_computed_with_as_it_is_now(change, change_stack):
    def apply(of):
        change_stack(change, of.decoder) if isinstance(change, str) else change(of)

    assert error(change=apply) < 1
    before, after = logits(model("numba"), 2), logits(model("numba"), 2, apply)
    assert np.max(np.abs(after - before)) > 1e-9


@pytest.mark.parametrize("kernels", ["plain", "numba"])
def test_a_parameter_of_another_precision_is_refused_between_steps(kernels):
    with pytest.raises(DTypeError, match=r"linear: expected numbers of one precision, .* bias float32"):
        logits(model(kernels), 2, another_precision)


def test_it_is_taken(monkeypatch):
    fast = model("numba")
    assert fast.backend.decoder_steps is decoder_steps
    monkeypatch.setattr(DecoderStack.step, "__code__", (lambda *given, **named: 1 / 0).__code__)
    assert logits(fast, len(MANY)).shape == (MAX_LEN, len(MANY), 9)


def test_it_is_prepared_once(monkeypatch):
    fast = model("numba")
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    prepared = state.fused
    step(fast, tokens(4)[:, 1], state)
    assert state.fused is prepared
    assert state.select([0, 1]).fused is None


def test_weights_are_looked_at_once_for_all_states(change_stack):
    fast, looked_at = model("numba"), []
    object.__setattr__(
        fast.backend, "decoder_steps", lambda decoder, threads: looked_at.append(1) or decoder_steps(decoder, threads)
    )
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
def test_arrays_of_other_shapes_are_left_to_the_layers(name):
    """The kernel knows addresses alone, and would read on behind what is there."""
    fast = model("numba", final_norm=True)
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    assert state.fused[1] is not None
    parameter = _parameter(fast, name)
    parameter.data = parameter.data[..., :-1].copy()
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the layers say
        step(fast, tokens(4)[:, 1], state)
    assert state.length == 1


def _parameter(of, name):
    for part in name.split("."):
        of = of[int(part)] if part.isdigit() else getattr(of, part)
    return of


def test_a_layer_without_a_state_is_refused():
    fast = model("numba")
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    fast.decoder.layers = fast.decoder.layers[:-1]
    with pytest.raises(ValueError, match="longer"):
        step(fast, tokens(4)[:, 1], state)


def test_nothing_is_written_where_there_is_no_room():
    fast = model("numba")
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    steps = state.fused[1]
    assert steps(tokens(4)[:, :1], MAX_LEN - 1) is not None
    assert steps(tokens(4)[:, :1], MAX_LEN) is None
    assert steps(tokens(4)[:, :1], -1) is None
    assert steps(tokens(4)[:3, :1], 1) is None
    assert steps(tokens(4)[:, :2], 1) is None


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_nan_is_seen(activation):
    fast = model("numba", activation=activation)
    fast.decoder.layers[1].feed_forward.up.bias.data[3] = np.nan
    assert np.isnan(logits(fast, 1)).all()


def test_a_helper_that_falls_asleep_is_given_up(a_helper_falls_asleep):
    places, expected, fast = a_helper_falls_asleep(24), logits(model("plain"), 2), model("numba")  # in the second step
    state, lost = fast.start(SRC[:2], MAX_LEN), []
    for t, now in enumerate(tokens(2).T):
        assert np.allclose(step(fast, now, state), expected[t], rtol=0, atol=1e-12)
        lost.append([int(place[sharing.LOST]) for place in places])
    assert lost == [[0]] + [[1]] * (MAX_LEN - 1)  # nobody is invited for a while
    steps = state.fused[1]
    assert steps._shared is not places[0]
    assert places[0][sharing.PRESENT] == 0  # it was waited for: the caller may move rows
    assert 0 < steps._alone <= decode_step.ALONE


def test_a_helper_leaves_when_there_is_nothing_to_do(until, monkeypatch):
    monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    fast = model("numba")
    state = fast.start(SRC, MAX_LEN)
    step(fast, tokens(4)[:, 0], state)
    shared = state.fused[1]._shared
    until(lambda: shared[sharing.PRESENT] == 0)
    assert shared[sharing.PRESENT] == 0


def test_a_helper_that_is_wanted_elsewhere_does_not_wait(until, monkeypatch):
    """As when rows leave a batch, and others' steps follow."""
    monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    monkeypatch.setattr(sharing, "PATIENCE", 10**15)  # looks: for ever
    monkeypatch.setattr(decode_step, "LONGEST_PATIENCE", 10**15)
    fast = model("numba")
    states = [fast.start(SRC, MAX_LEN) for _ in range(2)]
    for state in states:
        step(fast, tokens(4)[:, 0], state)
    one, two = (state.fused[1]._shared for state in states)
    until(lambda: one[sharing.PRESENT] == 0)
    helped = one[sharing.PRESENT], two[sharing.PRESENT]
    two[sharing.WANTED] = 1
    assert helped == (0, 1)
