"""How large gradients are: factors by hand, PyTorch's own initial values, and what the text says of depth."""

import math

import numpy as np
import pytest

from examples.experiments.gradient_sizes import attention_sizes, first_step, through_relus, transformer
from examples.experiments.initialisation import pytorch_default
from npformer.backend import PLAIN
from npformer.models import Transformer, TransformerConfig


@pytest.mark.parametrize("gain", [0.7, 1.0, 1.4])
def test_a_gradient_through_relus_is_multiplied_by_the_gain_at_each(gain):
    """ReLU halves the mean square, and W of deviation g·√(2/C) multiplies it by 2g²: g¹² in all."""
    found = np.mean([through_relus(gain, 12, np.random.default_rng(seed)) for seed in range(5)])
    assert found == pytest.approx(gain**12, rel=0.3)


def test_without_the_scale_more_and_more_queries_learn_nothing_and_the_others_more():
    """dq = scale·Σ dscores·k, its root mean square; nothing: all of a query's dscores are below 0.001."""
    without, scaled = (
        np.transpose([attention_sizes(width, is_scaled, np.random.default_rng(0)) for width in (16, 64, 256, 1024)])
        for is_scaled in (False, True)
    )
    median, mean, nothing = without
    assert nothing == pytest.approx([0.02, 0.16, 0.44, 0.69], abs=0.03)
    assert median[:3] == pytest.approx([0.177, 0.054, 0.0035], rel=0.2), "of a head of 64 more than with the scale"
    assert median[3] < 1e-4
    assert scaled[0] == pytest.approx([0.066, 0.033, 0.017, 0.0084], rel=0.1)
    assert mean / scaled[1] == pytest.approx([3.2, 4.1, 4.6, 4.8], rel=0.1)
    assert not scaled[2].any()


@pytest.mark.parametrize(("order", "grows", "arrives"), [("post", 1, 0.2), ("pre", 0.6, 0.5)])
def test_a_first_step_in_depth(order, grows, arrives):
    """Of 2 and 18 layers the sum of |g| grows as L, or about as √L; of a long step less arrives than it predicts."""
    found = {layers: np.mean([first_step(order, layers, seed) for seed in range(3)], axis=0) for layers in (2, 18)}
    assert math.log(found[18][0] / found[2][0]) / math.log(9) == pytest.approx(grows, abs=0.15)
    assert found[18][1] == pytest.approx(arrives, abs=0.1)
    assert found[2][1] > 0.85
    assert first_step(order, 18, rate=1e-6)[1] == pytest.approx(1, abs=0.02), (
        "a short one changes the loss by rate·Σ|g|"
    )


@pytest.mark.parametrize("vocabulary", [16, 96])
def test_the_first_logits_of_xaviers_output_map(vocabulary):
    """C = 32: their variance is 2C/(C + V), and the first loss is above ln V by about half of that."""
    config = TransformerConfig(vocabulary, vocabulary, d_model=32, num_heads=4, d_ff=64, dropout=0.0, init="xavier")
    model, tokens = Transformer(config), np.random.default_rng(0).integers(3, vocabulary, (64, 8))
    logits = model(tokens, tokens)
    variance = 2 * 32 / (32 + vocabulary)
    assert np.mean(logits**2) == pytest.approx(variance, rel=0.2)
    assert (variance >= 1) == (vocabulary <= 32)
    loss, _ = PLAIN.cross_entropy.forward(logits, tokens[::-1], 0, 0.0)
    assert loss - math.log(vocabulary) == pytest.approx(variance / 2, rel=0.3)


def test_initial_values_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    model = transformer(d_model=256, d_ff=512)
    pytorch_default(model, seed=0)
    torch.manual_seed(0)
    theirs = torch.nn.Transformer(256, 4, 2, 2, 512, batch_first=True).encoder.layers[1]
    theirs.requires_grad_(False)
    pairs = {
        "self_attention.query.weight": theirs.self_attn.in_proj_weight[:256],
        "self_attention.query.bias": theirs.self_attn.in_proj_bias[:256],
        "self_attention.output.weight": theirs.self_attn.out_proj.weight,
        "feed_forward.up.weight": theirs.linear1.weight,
        "feed_forward.up.bias": theirs.linear1.bias,
    }
    ours = dict(model.named_parameters())
    for name, values in pairs.items():
        mine = ours[f"encoder.layers.1.{name}"].data
        assert np.std(mine) == pytest.approx(float(values.std(correction=0)), rel=0.15, abs=1e-12)
    output = torch.nn.Linear(256, 16)
    assert np.max(np.abs(ours["generator.weight"].data)) <= 1 / 16 >= float(output.weight.detach().abs().max())
