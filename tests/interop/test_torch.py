"""Weights go to PyTorch's names and back unchanged, and what does not fit changes nothing."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open

import npformer as npf
from npformer.errors import CheckpointError
from npformer.interop.torch import load_from_file, load_state_dict, save_state_dict, to_state_dict
from tests.outputs import unchanged

CONFIG = npf.TransformerConfig(
    src_vocab_size=9, tgt_vocab_size=11, d_model=8, num_heads=2, num_encoder_layers=2, num_decoder_layers=1, d_ff=12
)
TIED = replace(CONFIG, src_vocab_size=11, tie_embeddings=True)


def a_model(backend, config=CONFIG, seed=0):
    """A model in which no two numbers are equal, and whose gradients are other numbers."""
    model = npf.Transformer(config, backend=backend, seed=seed)
    rng = np.random.default_rng([seed, 1])
    for _, parameter, _ in model.owned_parameters():
        parameter.data[...] = backend.array(rng.normal(size=parameter.data.shape))
        parameter.grad[...] = backend.array(rng.normal(size=parameter.grad.shape))
    return model


def refusal(model, mapping):
    """The message with which mapping is refused, once it is certain that nothing has changed."""
    before = model.backend.host(model.arena.values).copy()
    with pytest.raises(CheckpointError) as caught:
        load_state_dict(model, mapping)
    np.testing.assert_array_equal(model.backend.host(model.arena.values), before)
    return str(caught.value)


VARIANTS = {
    "post": CONFIG,
    "post, final norms": replace(CONFIG, final_norm=True),
    "pre": replace(CONFIG, norm_order="pre"),
    "pre, no final norms": replace(CONFIG, norm_order="pre", final_norm=False),
    "learned": replace(CONFIG, positions="learned", max_seq_len=7),
    "tied": TIED,
}


@pytest.mark.parametrize("place", ["numpy64", "strict64", pytest.param("cupy64", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_round_trip_changes_no_bit(config, place, request, numpy64):
    model, other = a_model(numpy64, config), a_model(request.getfixturevalue(place), config, seed=5)
    load_state_dict(other, to_state_dict(model))
    expected, actual, gradients = to_state_dict(model), to_state_dict(other), to_state_dict(other, grads=True)
    assert list(expected) == list(actual) == list(gradients)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)
        assert type(actual[name]) is type(gradients[name]) is np.ndarray


def test_arrays_are_contiguous_copies(numpy64):
    for config in (CONFIG, TIED):
        model = a_model(numpy64, config)
        before = model.arena.values.copy(), model.arena.grads.copy()
        for grads in (False, True):
            for name, array in to_state_dict(model, grads).items():
                assert array.flags.c_contiguous, name
                array[...] = 0
        np.testing.assert_array_equal(model.arena.values, before[0])
        np.testing.assert_array_equal(model.arena.grads, before[1])


def test_tied_tables_have_all_three_names_and_must_agree(numpy64):
    model = a_model(numpy64, TIED)
    for grads in (False, True):
        state = to_state_dict(model, grads)
        for name in ("tgt_embed.weight", "generator.weight"):
            np.testing.assert_array_equal(state[name], state["src_embed.weight"])
    state = to_state_dict(model)
    state["generator.weight"][3, 2] += 1e-9
    message = refusal(model, state)
    assert "generator.weight: expected the numbers of src_embed.weight" in message
    assert "tie_embeddings=False" in message


def test_one_error_lists_everything(numpy64):
    model = a_model(numpy64)
    state = dict(to_state_dict(a_model(numpy64, seed=5)))
    gone = [name for name in state if name.startswith("encoder.layers.1.")]
    for name in gone:
        del state[name]
    state["generator.weight"] = state["generator.weight"].T
    state["generator.bias"] = np.zeros(4)
    state["src_embed.weight"] = np.zeros((9, 8), dtype=np.int64)
    state["tgt_embed.weight"] = [[1.0], [2.0, 3.0]]
    state["decoder.layers.0.norm1.weight"] = np.zeros(8, dtype=np.complex128)
    state["positional_encoding"], state["encoder.layers.7.norm1.bias"] = np.zeros(3), np.zeros(8)
    message = refusal(model, state)
    for name in gone:
        assert name in message
    for part in (
        "state dict: expected exactly the model's arrays",
        "missing (12): ",
        "not part of the model (2): positional_encoding, encoder.layers.7.norm1.bias",
        "unfit (5): ",
        "generator.weight: expected (11, 8), got (8, 11) (its transpose)",
        "generator.bias: expected (11,), got (4,)",
        "got int64",
        "got list: ",
        "got complex128",
        "nothing was changed",
    ):
        assert part in " ".join(message.split()), part
    assert max(map(len, message.splitlines())) <= 110


def test_final_norms_that_one_side_lacks_are_named_with_the_remedy(numpy64):
    without, with_norms = a_model(numpy64), a_model(numpy64, VARIANTS["post, final norms"])
    message = refusal(without, to_state_dict(with_norms))
    assert "not part of the model (4): encoder.norm.weight" in message
    assert "TransformerConfig(final_norm=True)" in message
    message = refusal(with_norms, to_state_dict(without))
    assert "missing (4): encoder.norm.weight" in message
    assert "TransformerConfig(final_norm=False)" in message


def test_values_are_converted_to_the_models_dtype(numpy32, numpy64):
    model, other = a_model(numpy64), a_model(numpy32, seed=5)
    state = to_state_dict(model)
    load_state_dict(other, state)
    for name, array in to_state_dict(other).items():
        np.testing.assert_array_equal(array, state[name].astype("float32"))
    state["generator.bias"][0] = 1e300  # would become infinite
    assert "generator.bias: overflow" in refusal(other, state)


def test_files_of_gradients_are_not_taken_for_weights(numpy64, tmp_path):
    model, path = a_model(numpy64), tmp_path / "gradients.safetensors"
    save_state_dict(model, path, grads=True)
    with safe_open(str(path), framework="numpy") as file:
        for name, array in to_state_dict(model, grads=True).items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
    with unchanged(model.arena), pytest.raises(CheckpointError, match="expected parameters, got gradients"):
        load_from_file(model, path)


def test_files_that_cannot_be_read_or_written(numpy64, tmp_path):
    model, path = a_model(numpy64), tmp_path / "weights.safetensors"
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: expected a model file, found nothing"):
        load_from_file(model, path)
    save_state_dict(a_model(numpy64, VARIANTS["pre"]), path)
    with pytest.raises(CheckpointError, match=r"(?s)weights\.safetensors: expected exactly .*final_norm=True"):
        load_from_file(model, path)
    with pytest.raises(CheckpointError, match="expected a place to write"):
        save_state_dict(model, tmp_path / "nowhere" / "weights.safetensors")
    assert list(tmp_path.iterdir()) == [path]


def test_pytorch_is_neither_needed_nor_imported():
    code = (
        "import sys, npformer as npf, npformer.interop;"
        "model = npf.Transformer(npf.TransformerConfig(5, 5, d_model=4, num_heads=1, num_encoder_layers=1, "
        "num_decoder_layers=1, d_ff=4), backend=npf.get_backend('numpy'));"
        "npf.interop.torch.load_state_dict(model, npf.interop.torch.to_state_dict(model));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_what_a_batch_norm_remembers_travels(numpy64):
    config = npf.TransformerConfig(
        5, 5, d_model=4, num_heads=1, num_encoder_layers=1, num_decoder_layers=1, d_ff=4, norm="batch"
    )
    model, other = (a_model(numpy64, config, seed) for seed in (1, 2))
    for i, (_, buffer) in enumerate(model.named_buffers()):
        buffer.data[...] = i + 1
    state = to_state_dict(model)
    assert np.array_equal(state["encoder.layers.0.norm2.running_var"], np.full(4, 4.0))
    means = [name for name in state if name.endswith(".running_mean")]
    counts = {name.replace("running_mean", "num_batches_tracked"): np.array(7) for name in means}
    load_state_dict(other, state | counts)  # as PyTorch's own have them
    ids = np.array([[1, 2, 3]])
    assert np.array_equal(other(ids, ids), model(ids, ids))
    assert not any("running" in name for name in to_state_dict(model, grads=True))
    del state["encoder.layers.0.norm1.running_mean"]
    with pytest.raises(CheckpointError, match=r"missing \(1\): encoder.layers.0.norm1.running_mean"):
        load_state_dict(other, state)
