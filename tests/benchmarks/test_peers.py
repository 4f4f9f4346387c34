"""PyTorch's side computes what npformer's does: operation by operation, a whole network, and decoding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npformer as npf
from benchmarks.cases import DRAW, case
from benchmarks.own.model import NO_END, decoding_model, save_weights, sources
from benchmarks.own.ops import NAMES
from npformer.backend import PLAIN, Backend
from npformer.functional import Draw
from npformer.models.presets import Preset

SMALL = Preset(11, 12, 3, 2, 20, 6, 4)


@pytest.fixture
def torch() -> Iterator[Any]:
    """PyTorch with one thread, where it is installed."""
    module = pytest.importorskip("torch", reason="PyTorch is not installed")
    threads = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(threads)


def as_tuple(x: Any) -> tuple[Any, ...]:
    """A tuple of one, if it is not a tuple."""
    return () if x is None else x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_is_the_same_without_dropout(name: str, torch: Any) -> None:
    from benchmarks.peers import torch_ops

    function, inputs, dy = torch_ops.prepared(name, SMALL, 0.0, torch.device("cpu"))
    outputs = as_tuple(function(*inputs))
    wanted = [x for x in inputs if x.requires_grad]
    theirs = [x.numpy() for x in torch.autograd.grad(outputs, wanted, dy)]
    for i in torch_ops.TRANSPOSED.get(name, ()):
        theirs[i] = theirs[i].T

    given = case(name, SMALL)
    options = [without_dropout(option) for option in given.options]
    pair = getattr(PLAIN, name)
    y, cache = pair.forward(*given.arrays, *options)
    into = [np.zeros_like(x) for x in given.arrays[len(given.arrays) - given.parameters :]]
    ours = [*as_tuple(pair.backward(given.dy, cache, into=into)), *into]
    for mine, other in zip(as_tuple(y), outputs, strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-4, atol=1e-4)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


def without_dropout(option: Any) -> Any:
    """An option of the forward, without dropout."""
    return None if isinstance(option, Draw) and option == DRAW else option


@pytest.mark.parametrize("form", ["Textbook", "Fused"])
def test_a_network_has_the_same_logits_and_padding_is_hidden(
    form: str, torch: Any, numpy32: Backend, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    from benchmarks.peers import torch_model

    model = npf.Transformer(SMALL.config(0.0), backend=numpy32, seed=0)
    state = load_file(save_weights(SMALL, tmp_path))
    net = torch_model.Transformer(SMALL, 0.5, getattr(torch_model, form)).load(state).eval()
    src, tgt_in, _ = SMALL.example_batch()
    src[:2, 4:], tgt_in[1:3, 3:] = 0, 0
    theirs = net(torch.from_numpy(src), torch.from_numpy(tgt_in)).detach().numpy()
    ours = model(src, tgt_in)
    counted = tgt_in != 0
    np.testing.assert_allclose(ours[counted], theirs[counted], rtol=1e-4, atol=1e-4)
    unhidden = net(torch.from_numpy(np.where(src == 0, 1, src)), torch.from_numpy(tgt_in)).detach().numpy()
    assert np.abs(unhidden - theirs)[counted].max() > 1e-2, "the check would not see whether padding is hidden"


def test_incremental_decoding_says_the_same(torch: Any, numpy32: Backend, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    from benchmarks.peers import torch_decode, torch_model

    size = dataclasses.replace(SMALL, vocab_size=40)
    model = decoding_model(size, numpy32)
    net = torch_model.Transformer(size, 0.0, torch_model.Fused)
    net.load(load_file(save_weights(size, tmp_path, decoding=True))).eval()
    src, positions = sources(size, 16), torch_model.sinusoids(10, size.d_model)
    ours = npf.greedy(model, src, max_len=10, eos_id=NO_END)
    theirs = torch_decode.greedy(net, torch.from_numpy(src), positions, NO_END).numpy()
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 5, "a decoder that repeats itself proves little"
    end = int(ours[0, 3])
    ours = npf.greedy(model, src, max_len=10, eos_id=end)
    theirs = torch_decode.greedy(net, torch.from_numpy(src), positions, end).numpy()
    np.testing.assert_array_equal(ours, theirs)
