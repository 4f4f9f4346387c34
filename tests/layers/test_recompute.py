"""Layers that run their forward again in backward: the same gradients to the bit, from less memory."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask
from npformer.layers import AttentionRecorder, Context, DecoderStack, EncoderStack, RandomKey
from npformer.models import Transformer, TransformerConfig
from tests.check.functions import normal

KEY = RandomKey(seed=5, step=2, micro=1, first_row=3)
VISIBLE = np.array([[True, True, True, True], [True, True, False, False]])
STACKS = pytest.mark.parametrize("kind", [EncoderStack, DecoderStack])
ORDERS = pytest.mark.parametrize("norm_order", ["post", "pre"])


def build(kind, backend, recompute, **changes):
    options = {"num_layers": 3, "d_model": 6, "num_heads": 2, "d_ff": 7, "dropout": 0.3} | changes
    return shaken(kind(**options, recompute=recompute, backend=backend))


def inputs_of(kind, dtype):
    x, memory = normal(2, 4, 6, seed=1).astype(dtype), normal(2, 5, 6, seed=2).astype(dtype)
    return (x,) if kind is EncoderStack else (x, memory)


def backpropagated(stack, inputs, key):
    """y, the gradients of the inputs and those of the parameters, to the bit."""
    y, cache = stack.forward(*inputs, context=Context(AttentionMask(VISIBLE, causal=True), key=key))
    gradients = stack.backward(np.cos(y), cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return [a.tobytes() for a in (y, *gradients, *(p.grad for _, p in stack.named_parameters()))]


@STACKS
@ORDERS
@pytest.mark.parametrize("key", [KEY, None], ids=["dropout", "inference"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_those_of_a_stack_that_remembers(kind, norm_order, key, dtype, kernels):
    backend = get_backend("numpy", dtype, kernels=kernels)
    stacks = [build(kind, backend, recompute, norm_order=norm_order) for recompute in (False, True)]
    remembered, recomputed = (backpropagated(stack, inputs_of(kind, dtype), key) for stack in stacks)
    assert recomputed == remembered


def test_a_model_recomputes_both_its_stacks(numpy64, monkeypatch):
    """To the gradients of two layers recomputed the catalogue has a case."""
    src, tgt = np.array([[3, 5, 4, 6, 2], [4, 2, 0, 0, 0]]), np.array([[1, 6, 4], [1, 4, 0]])
    config = TransformerConfig(7, 7, d_model=6, num_heads=2, num_encoder_layers=2, num_decoder_layers=3, d_ff=9,
                               dropout=0.3, recompute=True)  # fmt: skip
    model, runs = Transformer(config, backend=numpy64), []

    def noting(run, *inputs, **options):
        runs.append(run)
        return run(*inputs, **options)

    for layer in (*model.encoder.layers, *model.decoder.layers):
        monkeypatch.setattr(layer, "forward", partial(noting, layer.forward))
    logits, cache = model.forward(src, tgt, key=KEY)
    model.backward(np.cos(logits), cache)
    assert len(runs) == 2 * 5


@STACKS
def test_two_caches_of_one_stack_do_not_mix(kind, numpy64):
    stack = build(kind, numpy64, recompute=True)
    alone = backpropagated(stack, inputs_of(kind, "float64"), KEY)
    stack.zero_grad()
    inputs = inputs_of(kind, "float64")
    y, cache = stack.forward(*inputs, context=Context(AttentionMask(VISIBLE, causal=True), key=KEY))
    stack.forward(*(2 * x for x in inputs), context=Context(key=RandomKey(9)))  # another batch, in between
    stack.backward(np.cos(y), cache)
    assert [p.grad.tobytes() for _, p in stack.named_parameters()] == alone[-len(list(stack.named_parameters())) :]


def held(stack, inputs):
    """Bytes that forward leaves behind for backward, and the most that backward needs beside them."""
    tracemalloc.start()
    try:
        y, cache = stack.forward(*inputs, context=Context(key=KEY))
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        stack.backward(y, cache)
        return left, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@STACKS
def test_forward_leaves_only_each_layers_input_behind(kind, numpy32):
    x = normal(8, 16, 24, seed=3).astype("float32")
    inputs = (x,) if kind is EncoderStack else (x, x[:, 1:])
    left, most = {}, {}
    for recompute in (False, True):
        for layers in (2, 6):
            stack = build(kind, numpy32, recompute, num_layers=layers, d_model=24, d_ff=96)
            left[recompute, layers], most[recompute, layers] = held(stack, inputs)
    for_a_layer = {recompute: (left[recompute, 6] - left[recompute, 2]) / 4 for recompute in (False, True)}
    assert x.nbytes <= for_a_layer[True] < 1.2 * x.nbytes
    assert for_a_layer[False] > 10 * x.nbytes
    assert most[True, 6] < 0.5 * most[False, 6]  # one layer's cache at a time


@STACKS
@ORDERS
def test_inference_is_not_affected(kind, norm_order, numpy64):
    stacks = [build(kind, numpy64, recompute, norm_order=norm_order) for recompute in (False, True)]
    inputs, watches = inputs_of(kind, "float64"), [AttentionRecorder(), AttentionRecorder()]
    outputs = [stack(*inputs, context=Context(recorder=watch)) for stack, watch in zip(stacks, watches, strict=True)]
    assert np.array_equal(*outputs)
    assert list(watches[0].weights) == list(watches[1].weights)
