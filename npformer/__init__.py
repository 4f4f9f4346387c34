"""npformer: a Transformer on NumPy and CuPy, every backward pass written, derived and proven by hand.

Start with ``npformer/functional``: the mathematics, one operation per file. Then ``layers``,
``models``, ``training``. ``npf.gradcheck`` proves a gradient, also one of your own.

Each name is imported when it is first used, so a gradient check does not import the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npformer._version import __version__

if TYPE_CHECKING:
    from npformer import errors, functional, interop, layers
    from npformer.backend import Backend, Ops, Pair, get_backend
    from npformer.check import certify, from_object, from_process, gradcheck, tolerance
    from npformer.decoding import greedy, sample
    from npformer.decoding.beam_search import beam_search
    from npformer.functional import AttentionMask
    from npformer.interop import from_jax, from_torch
    from npformer.layers import RandomKey
    from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
    from npformer.optim import Adam, AdamW, Constant, Noam, WarmupCosine
    from npformer.run import load, save
    from npformer.run.answers import decode
    from npformer.run.summary import read_run
    from npformer.see.record.bisect import bisect
    from npformer.see.record.trace import Trace, trace
    from npformer.training import TrainStep
else:

    def __getattr__(name):
        """Import a public name or a subpackage on first use, and keep it."""
        from npformer.late import public

        value = globals()[name] = public(__name__, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


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
    "Trace",
    "TrainStep",
    "Transformer",
    "TransformerConfig",
    "WarmupCosine",
    "__version__",
    "beam_search",
    "bisect",
    "certify",
    "decode",
    "errors",
    "from_jax",
    "from_object",
    "from_process",
    "from_torch",
    "functional",
    "get_backend",
    "gradcheck",
    "greedy",
    "interop",
    "layers",
    "load",
    "read_run",
    "sample",
    "save",
    "tolerance",
    "trace",
]
