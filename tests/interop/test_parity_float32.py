"""In float32 we stand no further from PyTorch than PyTorch does from itself.

Two right programs that add in another order disagree in the last digits, and training spreads that.
So the yardstick is measured, not chosen: the same network in PyTorch with its channels, its hidden units
and the rows of the batch in another order is the same function, of which every sum rounds otherwise.
GELU, since a ReLU that stands at its kink may fall on either side, in either program.
"""

import numpy as np
import pytest

import npformer as npf
from npformer.interop.torch import to_state_dict

STEPS = 20
REORDERINGS = 3
#: For the end of a name, which of its axes run over channels (C) or hidden units (F); norms: C.
AXES = {
    "embed.weight": "-C", "in_proj_weight": "-C", "in_proj_bias": "-", "out_proj.weight": "C-", "out_proj.bias": "C",
    "linear1.weight": "FC", "linear1.bias": "F", "linear2.weight": "CF", "linear2.bias": "C",
    "generator.weight": "-C", "generator.bias": "-",
}  # fmt: skip


def reordered(state, order):
    """The arrays with their channels and hidden units in the order of order["C"] and order["F"]."""
    outputs = {}
    for name, array in state.items():
        for axis, letter in enumerate(next((axes for end, axes in AXES.items() if name.endswith(end)), "C")):
            array = np.take(array, order[letter], axis=axis) if letter in order else array
        outputs[name] = np.ascontiguousarray(array)
    return outputs


def reordered_measures(comparison, model, data, seed):
    """Logits, gradients and losses of PyTorch with everything in another order, put back in the first order."""
    rng, config = np.random.default_rng(seed), model.config
    rows = rng.permutation(len(data[0][0]))
    order = {"C": rng.permutation(config.d_model), "F": rng.permutation(config.d_ff)}
    back = {letter: np.argsort(permutation) for letter, permutation in order.items()}
    twin = comparison.twin(model, reordered(to_state_dict(model), order))
    twin.sinusoids = twin.sinusoids[:, order["C"]].contiguous()
    data = [[x[rows] for x in batch] for batch in data]
    logits, gradients = comparison.theirs(twin, data[0])
    return logits[np.argsort(rows)], reordered(gradients, back), comparison.their_training(twin, data)


def distances(comparison, measures, reference):
    """How far the logits, the worst gradient (scaled) and the losses of training are from the reference."""
    logits, gradients, losses = measures
    error, _ = comparison.worst_gradient(gradients, reference[1])
    return np.array([np.abs(logits - reference[0]).max(), error, np.abs(losses - reference[2]).max()])


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_no_further_from_pytorch_than_thrice_what_it_is_from_itself(norm_order, comparison, numpy32):
    config = npf.TransformerConfig(
        40, 40, d_model=64, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, d_ff=128, max_seq_len=12,
        dropout=0.0, norm_order=norm_order, activation="gelu",
    )  # fmt: skip
    model, data = comparison.model(config, numpy32), comparison.batches(config, STEPS)
    twin = comparison.twin(model)
    reference = (*comparison.theirs(twin, data[0]), comparison.their_training(twin, data))
    others = [reordered_measures(comparison, model, data, seed) for seed in range(REORDERINGS)]
    theirs = np.max([distances(comparison, other, reference) for other in others], axis=0)
    ours = distances(comparison, (*comparison.ours(model, data[0]), comparison.our_training(model, data)), reference)
    text = f"{norm_order}-LN, logits, worst gradient, losses: PyTorch from itself {theirs}, npformer from it {ours}"
    print(text)
    assert (theirs > 0).all(), f"expected that another order rounds otherwise: {text}"
    assert (theirs < 1e-3).all(), f"expected the same function in another order: {text}"
    assert (ours <= 3 * theirs).all(), text
