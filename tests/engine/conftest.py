"""What tests of the runtime share: small Transformers, their training, and what may change between two steps."""

from dataclasses import replace

import numpy as np

from npformer.models import Transformer, TransformerConfig
from npformer.optim import AdamW
from npformer.run.model_arrays import model_arrays, set_arrays
from npformer.training import TrainStep
from tests.backend.conftest import agree, lay_out, refuses_wrong_shapes, table
from tests.models.conftest import batch, small_model

#: Fixtures, found by their names.
__all__ = ["agree", "batch", "lay_out", "refuses_wrong_shapes", "small_model", "table"]

SIZES = {"d_model": 12, "num_heads": 2, "d_ff": 13, "dropout": 0.3, "max_seq_len": 8}
#: Changes of the configuration, and options of the step.
CASES = {
    "post-LN": ({}, {"label_smoothing": 0.1}),
    "pre-LN, GELU, learned positions": ({"norm_order": "pre", "activation": "gelu", "positions": "learned"}, {}),
    "tied, clipped, two micro-batches": ({"tie_embeddings": True}, {"accumulate": 2, "clip_norm": 0.05}),
    "recomputed, no dropout": ({"recompute": True, "dropout": 0.0}, {"accumulate": 3}),
    "no positions": ({"positions": "none"}, {}),
}

#: What NumPy's kernels compute, or Python.
NOT_RECORDED = {
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "linear": {"attention": "linear"},
    "local": {"attention": "local", "window": 2},
    "BatchNorm": {"norm": "batch"},
}


def build(backend, **changes):
    options = SIZES | {"num_encoder_layers": 1, "num_decoder_layers": 2} | changes
    return Transformer(TransformerConfig(9, 9, **options), backend=backend, seed=2)


def new_step(model, **options):
    return TrainStep(model, AdamW(model.arena, lr=0.01, eps=1e-4), seed=7, **options)  # eps: noise stays noise


def trained(step, batches):
    """(loss, gradient of what is trained, parameters) after each batch."""
    arena, losses = step.model.arena, []
    for inputs in batches:
        loss = np.asarray(step(*inputs))
        losses.append((loss, np.concatenate([arena.grads[run.where] for run in arena.runs()]), arena.values.copy()))
    return losses


def bits(losses):
    """Of what trained returns."""
    return [tuple(map(np.ndarray.tobytes, arrays)) for arrays in losses]


def _other_bias(step):
    """No part of the arena any more; its old memory may be trained or not, nobody looks there."""
    step.model.arena.configure("generator.bias", trainable=False)
    step.model.generator.bias.data = step.model.generator.bias.data + np.arange(9)


#: What may change between two steps, one after the other.
CHANGES = [
    lambda step: setattr(step.model.dropout, "rate", 0.6),
    lambda step: setattr(step.model.decoder.layers[1].feed_forward, "dropout", 0.0),
    lambda step: step.model.arena.configure("encoder", trainable=False),
    lambda step: setattr(step.model.encoder, "recompute", True),
    lambda step: setattr(step.model, "config", replace(step.model.config, pad_id=8)),
    lambda step: setattr(step, "label_smoothing", 0.2),
    lambda step: setattr(step, "seed", 3),
    lambda step: set_arrays(step.model, {name: x * 1.5 for name, x in model_arrays(step.model).items()}, "a test"),
    _other_bias,
]


def trained_through_changes(step, batches):
    """trained, at first and after each change."""
    losses = trained(step, batches)
    for change in CHANGES:
        change(step)
        losses += trained(step, batches)
    return losses
