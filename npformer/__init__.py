"""npformer: a Transformer on NumPy and CuPy, every backward pass written, derived and proven by hand.

Start with ``npformer/functional``: the mathematics, one operation per file. Then ``layers``,
``models``, ``training``. ``npf.gradcheck`` proves a gradient, yours too.
"""

from npformer import errors, functional, interop, layers
from npformer._version import __version__
from npformer.backend import Backend, Ops, Pair, get_backend
from npformer.decoding import beam_search, greedy, sample
from npformer.functional import AttentionMask
from npformer.layers import RandomKey
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.optim import Adam, AdamW, Constant, Noam, WarmupCosine
from npformer.proof import bisect, certify, gradcheck, prove
from npformer.training import TrainStep, load, save

__all__ = [
    "Adam",
    "AdamW",
    "AttentionMask",
    "Backend",
    "Constant",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Noam",
    "Ops",
    "Pair",
    "RandomKey",
    "TrainStep",
    "Transformer",
    "TransformerConfig",
    "WarmupCosine",
    "__version__",
    "beam_search",
    "bisect",
    "certify",
    "errors",
    "functional",
    "get_backend",
    "gradcheck",
    "greedy",
    "interop",
    "layers",
    "load",
    "prove",
    "sample",
    "save",
]
