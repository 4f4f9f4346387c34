"""The counted matrix products of a step are those of a real step, and each is timed."""

import math
from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from benchmarks.own import train
from benchmarks.products import linears, step_flop
from npformer.backend import PLAIN
from npformer.functional.arrays import namespace
from npformer.models.presets import PRESETS, Preset


def counted_step(size, backend, monkeypatch):
    """The operations of all products in a step of the plain pairs."""
    shapes = []
    multiply = np.matmul

    def counting(a, b):
        product = multiply(a, b)
        shapes.append(2 * math.prod(product.shape) * a.shape[-1])
        return product

    model = npf.Transformer(size.config(0.0), backend=replace(backend, ops=PLAIN))
    src, tgt_in, tgt_out = size.example_batch()
    monkeypatch.setattr(namespace(np.ones(1)), "matmul", counting)
    logits, cache = model.forward(src, tgt_in)
    _, loss_cache = PLAIN.cross_entropy.forward(logits, tgt_out, 0, 0.0)
    model.backward(PLAIN.cross_entropy.backward(1.0, loss_cache), cache)
    return sum(shapes)


@pytest.mark.parametrize("size", [Preset(7, 12, 3, 1, 20, 5, 2), Preset(11, 8, 2, 3, 8, 6, 3)], ids=str)
def test_the_count_is_that_of_a_real_step(size, numpy64, monkeypatch):
    one_hot = 2 * 2 * size.batch * size.length * size.vocab_size * size.d_model  # the plain embedding's gradients
    assert counted_step(size, numpy64, monkeypatch) == step_flop(size) + one_hot


def test_every_product_is_timed_three_for_each_linear_map(alone, monkeypatch):
    monkeypatch.setattr(train, "FLOP_PER_TURN", 1.0)  # once: the time does not matter here
    shapes = linears(PRESETS["tiny"])
    seconds = train.products(shapes, alone)()()
    assert len(seconds) == 3 * len(shapes)
    assert min(seconds) > 0
