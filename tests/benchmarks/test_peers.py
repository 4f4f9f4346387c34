"""PyTorch's side computes the same as npformer's: a whole network, its steps, and decoding."""

import dataclasses

import numpy as np
import pytest
from safetensors.numpy import load_file

import npformer as npf
from benchmarks import harness
from benchmarks.own.model import NO_END, decoding_model, save_weights, sources
from npformer.backend import cupy_problem
from npformer.models.presets import PRESETS, Preset

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch

from benchmarks.peers import torch_decode, torch_model, torch_train
from benchmarks.peers.torch_device import place

SMALL = Preset(11, 12, 3, 2, 20, 6, 4)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("form", ["Textbook", "Fused"])
def test_a_network_has_the_same_logits_and_padding_is_hidden(form, numpy32, tmp_path):
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


def test_incremental_decoding_gives_the_same_tokens(numpy32, tmp_path):
    size = dataclasses.replace(SMALL, vocab_size=40)
    model = decoding_model(size, numpy32)
    net = torch_model.Transformer(size, 0.0, torch_model.Fused)
    net.load(load_file(save_weights(size, tmp_path, decoding=True))).eval()
    src, positions = sources(size, 16), torch_model.sinusoids(10, size.d_model)
    ours = npf.greedy(model, src, max_len=10, eos_id=NO_END)
    theirs = torch_decode.greedy(net, torch.from_numpy(src), positions).numpy()
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 5, "a decoder that repeats itself proves little"


@pytest.mark.parametrize("form", ["textbook", "fast"])
def test_steps_made_together_are_the_steps_made_one_by_one(form, tmp_path, monkeypatch):
    weights = save_weights(PRESETS["tiny"], tmp_path)
    single = getattr(torch_train, form)("tiny", 0.0, "numpy", weights).tasks["step"]()
    one_by_one = [single() for _ in range(4)]
    monkeypatch.setitem(harness.TOGETHER, "numpy", 2)
    monkeypatch.setattr(torch_train, "PREPARED", 1)
    made = getattr(torch_train, form)("tiny", 0.0, "numpy", weights)
    assert made.facts["ready_seconds"] > 0
    np.testing.assert_allclose(made.tasks["step"]()(), one_by_one[2:], rtol=1e-6)  # the first two made it ready


@pytest.mark.parametrize("form", ["textbook", "fast"])
def test_steps_drop_and_the_loss_that_is_compared_does_not(form, tmp_path):
    weights = save_weights(PRESETS["tiny"], tmp_path)
    torch.manual_seed(1)
    without, made = (getattr(torch_train, form)("tiny", rate, "numpy", weights) for rate in (0.0, 0.5))
    assert made.facts["loss"] == without.facts["loss"]
    whole, dropped = ([step() for _ in range(8)] for step in (without.tasks["step"](), made.tasks["step"]()))
    assert whole[0] == pytest.approx(without.facts["loss"], rel=1e-6)
    assert np.abs(np.subtract(whole, dropped)).max() > 1e-4


def test_tf32_is_a_setting_of_products():
    before = torch.get_float32_matmul_precision()
    try:
        settings = []
        for precision in ("tf32", "float32"):
            place("numpy", precision)
            settings.append(torch.get_float32_matmul_precision())
    finally:
        torch.set_float32_matmul_precision(before)
    assert settings == ["high", "highest"]


@pytest.mark.skipif(cupy_problem() is None, reason="a GPU answers")
def test_pytorch_without_a_gpu_says_so():
    with pytest.raises(RuntimeError, match="expected a GPU that PyTorch sees, got none"):
        place("cupy", "tf32")
