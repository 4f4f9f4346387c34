"""How large gradients are: factors by hand, PyTorch's own initial values, and what the text says of depth."""

import math

import numpy as np
import pytest

from examples.experiments.initialisation import pytorch_default
from npformer.see.explain.sizes import attention_sizes, depth_norms, sizes, sizes_text, through_relus, transformer


@pytest.mark.parametrize("gain", [0.7, 1.0, 1.4])
def test_a_gradient_through_relus_is_multiplied_by_the_gain_at_each(gain):
    """ReLU halves the mean square, and W of deviation g·√(2/C) multiplies it by 2g²: g¹² in all."""
    found = np.mean([through_relus(gain, 12, np.random.default_rng(seed)) for seed in range(5)])
    assert found == pytest.approx(gain**12, rel=0.3)


def test_without_the_scale_one_key_takes_all():
    rng = np.random.default_rng(0)
    without, score = attention_sizes(1024, scaled=False, rng=rng)
    with_it, scaled_score = attention_sizes(1024, scaled=True, rng=rng)
    assert without > 0.9
    assert with_it < 0.4
    assert score < 1e-9 < scaled_score, "most queries have no gradient"


def test_depth_as_the_text_says():
    last = {(order, layers): depth_norms(order, layers)[-1] for order in ("post", "pre") for layers in (2, 12)}
    assert last["post", 12] / last["post", 2] == pytest.approx(1, abs=0.4)
    assert last["pre", 12] / last["pre", 2] == pytest.approx(math.sqrt(2 / 12), abs=0.15)


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


def test_the_text_has_every_table():
    text = sizes_text(sizes(), 100)
    assert text.count("\n\n") == 3
    assert [word in text for word in ("vanishes", "is kept", "explodes", "post-LN", "first loss")] == [True] * 5
