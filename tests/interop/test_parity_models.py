"""Encoder and Decoder do what torch.nn.TransformerEncoder does with their parameters: logits and every gradient."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.interop.torch import to_state_dict
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from tests.interop.conftest import core_of
from tests.models.test_encoder import TOKENS

SIZE = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "dropout": 0.0, "max_seq_len": 6}
ORDERS = pytest.mark.parametrize(("norm_order", "activation"), [("post", "relu"), ("pre", "gelu")])


def twin_of(torch, model, stack_name, head, classes):
    """The same network out of PyTorch's parts, its parameters to be loaded."""
    nn, config, dtype = torch.nn, model.config, {"dtype": torch.float64}
    stack = core_of(torch, config, config.num_layers, 1, "float64").encoder
    return nn.ModuleDict(
        {
            "embedding": nn.Embedding(7, config.d_model, **dtype),
            "positions": nn.Embedding(config.max_seq_len, config.d_model, **dtype),
            stack_name: stack,
            head: nn.Linear(config.d_model, classes, **dtype),
        }
    )


def theirs(torch, net, stack, head, causal, first):
    tokens, hidden = torch.tensor(TOKENS), torch.tensor(TOKENS == 0)
    length, width = TOKENS.shape[1], SIZE["d_model"]
    x = net["embedding"](tokens) * width**0.5 + net["positions"].weight[:length]
    future = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
    h = net[stack](x, mask=future, src_key_padding_mask=hidden)
    return net[head](h[:, 0] if first else h)


def state_of(model, grads=False):
    """By PyTorch's names; the map of an encoder's head is turned, as all others are."""
    return {name: x.T.copy() if name == "head.weight" else x for name, x in to_state_dict(model, grads).items()}


def expect_parity(torch, model, stack, head, *, causal, first=False):
    logits, cache = model.forward(TOKENS)
    net = twin_of(torch, model, stack, head, logits.shape[-1])
    net.load_state_dict({name: torch.tensor(x) for name, x in state_of(model).items()}, strict=True)
    counts = np.ones(logits.shape) if first else np.broadcast_to((TOKENS != 0)[..., None], logits.shape)
    upstream = np.random.default_rng(0).normal(size=logits.shape) * counts
    expected = theirs(torch, net, stack, head, causal, first)
    (expected * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(logits * counts, expected.detach().numpy() * counts, rtol=0, atol=1e-12)
    model.backward(upstream, cache)
    gradients = {name: p.grad.numpy() for name, p in net.named_parameters()}
    largest = max(np.abs(gradient).max() for gradient in gradients.values())
    for name, array in state_of(model, grads=True).items():
        np.testing.assert_allclose(array, gradients[name], rtol=0, atol=1e-12 * largest, err_msg=name)


def options(norm_order, activation):
    return SIZE | {"norm_order": norm_order, "activation": activation, "positions": "learned"}


@ORDERS
@pytest.mark.parametrize("head", ["sequence", "tokens", "masked"])
def test_an_encoder_is_pytorchs(norm_order, activation, head, comparison, numpy64):
    classes = None if head == "masked" else 4
    config = EncoderConfig(7, head=head, num_classes=classes, **options(norm_order, activation))
    model = shaken(Encoder(config, backend=numpy64))
    expect_parity(comparison.torch, model, "encoder", "head", causal=False, first=head == "sequence")


@ORDERS
def test_a_decoder_is_pytorchs_encoder_under_a_causal_mask(norm_order, activation, comparison, numpy64):
    model = shaken(Decoder(DecoderConfig(7, **options(norm_order, activation)), backend=numpy64))
    expect_parity(comparison.torch, model, "decoder", "generator", causal=True)
