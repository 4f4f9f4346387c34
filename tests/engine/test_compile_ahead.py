"""The kernels compiled before the first batch are those that training, or decoding, then calls."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("numba")
from npformer.backend import get_backend
from npformer.decoding import beam_search, greedy
from npformer.engine import host_decode
from npformer.engine.compile_ahead import operations_of
from npformer.engine.numba import compiling, decoding, work_sharing
from npformer.layers import FeedForward, RandomKey
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.optim import Adam
from npformer.training import TrainStep
from tests.engine.conftest import NOT_RECORDED, SIZES

STACKS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
VARIANTS = {
    "post-LN": {},
    "pre-LN, GELU, learned": {"norm_order": "pre", "activation": "gelu", "positions": "learned"},
    "tied, no dropout": {"tie_embeddings": True, "dropout": 0.0},
} | NOT_RECORDED
#: Models of one sequence.
OTHERS = {"Encoder": (Encoder, EncoderConfig), "Decoder": (Decoder, DecoderConfig)}
#: Only where a step is recorded, which some layers do not allow.
RECORDING = {"add_and_compare.add", "add_and_compare.compare"}


@pytest.fixture
def asked(monkeypatch):
    """The names of kernels that somebody wanted to have ready."""
    names = set()
    before = compiling.prepare

    def prepare(kernels, dtype):
        names.update(kernel.name for kernel in kernels)
        return before(kernels, dtype)

    monkeypatch.setattr(compiling, "prepare", prepare)
    return names


@pytest.fixture
def called(monkeypatch):
    """The names of kernels that were called."""
    names = set()
    before = compiling.Kernel.__call__

    def call(kernel, *arguments):
        names.add(kernel.name)
        before(kernel, *arguments)

    monkeypatch.setattr(compiling.Kernel, "__call__", call)
    return names


def build(name="post-LN"):
    backend = get_backend("numpy", "float64", kernels="numba", threads=2)
    if name in OTHERS:
        model, config = OTHERS[name]
        return model(config(9, num_layers=1, **SIZES), backend=backend)
    return Transformer(TransformerConfig(9, 9, **SIZES | STACKS | VARIANTS[name]), backend=backend)


def batch(*shape):
    return np.random.default_rng(0).integers(1, 9, size=shape)


@pytest.mark.parametrize("name", [*VARIANTS, *OTHERS])
def test_compile_ahead_covers_the_kernels_a_training_step_calls(name, asked, called):
    model = build(name)
    assert asked == set()
    step = TrainStep(model, Adam(model.arena))
    assert called == set()
    before = set(asked)
    for shape in ((1, 2), (6, 5), (6, 5), (6, 5)):  # the second time it is recorded
        step(*[batch(*shape)] * len(model.config.batch))
    assert called - RECORDING == before - RECORDING
    assert called <= before
    assert asked == before


USES = {"greedy": greedy, "beams": partial(beam_search, beam=2)}


@pytest.mark.parametrize(
    "of",
    [*(("greedy", name) for name in (*VARIANTS, "Decoder")), ("beams", "post-LN"), ("beams", "rotary")],
    ids=" ".join,
)
def test_compile_ahead_covers_the_kernels_that_decoding_calls(of, asked, called, monkeypatch):
    use, name = of
    monkeypatch.setattr(host_decode, "WORTH_SHARING", 0)
    monkeypatch.setattr(decoding, "LARGE_WEIGHT", 0)
    monkeypatch.setattr(work_sharing, "MOST_LOOKS", 1)
    monkeypatch.setattr(work_sharing.helper, "invite", lambda job, shared: job())
    model = build(name)
    USES[use](model, batch(1, 2), max_len=4)
    before = set(asked)
    USES[use](model, batch(6, 5 if name in VARIANTS else 3), max_len=4)
    assert asked == before
    assert called <= before
    assert ("decoding.choose_hypotheses" in called) == (use == "beams" and name == "post-LN")
    assert not any("backward" in kernel for kernel in called)


def test_it_is_asked_once_for_a_model(asked):
    model = build()
    for use in (lambda: TrainStep(model, Adam(model.arena)), lambda: greedy(model, batch(1, 2), max_len=2)):
        use()
        assert asked
        asked.clear()
        use()
        assert asked == set()


class Counting(FeedForward):
    """A layer from elsewhere, which notices that it is run."""

    runs = 0

    def forward(self, *inputs, **options):
        Counting.runs += 1
        return super().forward(*inputs, **options)


def test_a_layer_from_elsewhere_is_not_run_unasked(asked):
    model = build()
    model.encoder.layers[0].feed_forward = Counting(8, 12, backend=model.backend)
    model.arena = type(model.arena)(model.owned_parameters(), model.backend)
    TrainStep(model, Adam(model.arena))
    assert Counting.runs == 0
    assert asked == set()


def test_a_model_is_as_it_was(small_model):
    model = small_model(get_backend("numpy", "float64", kernels="numba"), norm="batch", dropout=0.5)
    model.arena.grads[...] = 7.0
    before = [np.array(x) for x in (model.arena.values, model.arena.grads, *(b.data for _, b in model.named_buffers()))]
    assert operations_of(model, RandomKey(seed=0, step=0)) >= {
        "embedding",
        "attention",
        "batch_norm",
        "dropout",
        "residual",
    }
    after = [model.arena.values, model.arena.grads, *(b.data for _, b in model.named_buffers())]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
    assert all(layer.backend is model.backend for layer in model.all_layers())


def test_a_vocabulary_of_pads_alone_has_operations_too():
    backend = get_backend("numpy", kernels="numba")
    model = Transformer(TransformerConfig(1, 1, **SIZES | STACKS), backend=backend)
    assert "embedding" in operations_of(model, None)
