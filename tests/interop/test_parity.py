"""The model does what torch.nn.Transformer does: logits, every gradient, and the losses of training.

A gradient check cannot see a network that is wired wrongly but differentiated rightly. An independent
implementation can: PyTorch's own encoder and decoder, given our parameters, in float64.
"""

from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from npformer.interop.torch import load_from_file, load_state_dict, save_state_dict, to_state_dict
from tests.outputs import unchanged

POST = npf.TransformerConfig(
    src_vocab_size=13, tgt_vocab_size=11, d_model=16, num_heads=4, num_encoder_layers=2, num_decoder_layers=2,
    d_ff=24, max_seq_len=9, dropout=0.0, init="xavier",
)  # fmt: skip
PRE = replace(POST, norm_order="pre")
CONFIGS = {
    "post relu": POST,
    "post gelu": replace(POST, activation="gelu"),
    "pre relu": PRE,
    "pre gelu": replace(PRE, activation="gelu"),
    "post relu, final norms": replace(POST, final_norm=True),
    "pre relu, no final norms": replace(PRE, final_norm=False),
    "post relu, tied": replace(POST, src_vocab_size=11, tie_embeddings=True),
    "pre gelu, tied, learned, unscaled": replace(
        PRE, src_vocab_size=11, activation="gelu", tie_embeddings=True, positions="learned", scale_embedding=False
    ),
    "post gelu, learned": replace(POST, activation="gelu", positions="learned"),
}
#: What a step adds to gradients is the same for all: these two are trained.
TRAINED = ["post relu", "pre gelu, tied, learned, unscaled"]
each_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@each_config
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_logits_and_every_gradient(config, smoothing, comparison, numpy64):
    model = comparison.model(config, numpy64)
    twin = comparison.twin(model)
    for batch in comparison.batches(config, 4):
        expected, theirs = comparison.theirs(twin, batch, smoothing)
        logits, ours = comparison.ours(model, batch, smoothing)
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-12)
        error, name = comparison.worst_gradient(ours, theirs)
        assert error < 1e-10, f"{name}: {error:.1e}"


@pytest.mark.parametrize("name", TRAINED)
def test_a_hundred_steps_of_adam(name, comparison, numpy64):
    config = CONFIGS[name]
    model = comparison.model(config, numpy64)
    data = comparison.batches(config, 100)
    theirs = comparison.their_training(comparison.twin(model), data)
    np.testing.assert_allclose(comparison.our_training(model, data), theirs, rtol=0, atol=1e-9)
    assert np.mean(theirs[-10:]) < np.mean(theirs[:10]) - 0.1, "expected losses that fall: else nothing was trained"


def test_weights_come_back_from_pytorch(comparison, numpy64, tmp_path):
    files = pytest.importorskip("safetensors.torch")
    for config in CONFIGS.values():
        path, batch = tmp_path / "weights.safetensors", comparison.batches(config, 1)[0]
        twin = comparison.twin(comparison.model(config, numpy64))
        weights = twin.net.state_dict()
        model, other = npf.Transformer(config, backend=numpy64), npf.Transformer(config, backend=numpy64)
        load_state_dict(model, weights)
        np.testing.assert_allclose(model(*batch[:2]), comparison.theirs(twin, batch)[0], rtol=0, atol=1e-12)
        files.save_file({name: tensor.clone() for name, tensor in weights.items()}, path)
        load_from_file(other, path)
        np.testing.assert_array_equal(other.arena.values, model.arena.values)
        save_state_dict(model, path)
        back = files.load_file(path)
        assert back.keys() == weights.keys()
        assert all(comparison.torch.equal(back[name], tensor) for name, tensor in weights.items())


def test_tensors_that_numpy_cannot_read_are_named(comparison, numpy64, tmp_path):
    files, half = pytest.importorskip("safetensors.torch"), comparison.torch.bfloat16
    model = comparison.model(POST, numpy64)
    state = {name: comparison.torch.from_numpy(x) for name, x in to_state_dict(model).items()}
    state["generator.bias"] = state["generator.bias"].clone().requires_grad_()
    state["generator.weight"] = state["generator.weight"].to(half)
    unfit = r"(?s)unfit \(2\).*generator.weight: .*generator.bias: "
    with unchanged(model.arena), pytest.raises(npf.errors.CheckpointError, match=unfit):
        load_state_dict(model, state)
    files.save_file({name: tensor.detach().to(half) for name, tensor in state.items()}, tmp_path / "half")
    other = r"(?s)expected (arrays that NumPy has a dtype for|floating-point numbers).*bfloat16"  # JAX brings a dtype
    with unchanged(model.arena), pytest.raises(npf.errors.CheckpointError, match=other):
        load_from_file(model, tmp_path / "half")
