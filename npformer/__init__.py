"""npformer: a Transformer on NumPy and CuPy, every backward pass written, derived and proven by hand.

Start with ``npformer/functional``: the mathematics, one operation per file. Then ``layers``,
``models``, ``training``. ``npf.gradcheck`` proves a gradient, also one of your own.

Each name is imported when it is first used, so a gradient check does not import the models.
"""

from __future__ import annotations

from importlib import import_module
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
    from npformer.run.summary import read_run
    from npformer.see.record.bisect import bisect
    from npformer.see.record.trace import Trace, trace
    from npformer.training import TrainStep
else:
    #: The public names by the module that defines them.
    _HOMES = {
        "npformer.backend": ("Backend", "Ops", "Pair", "get_backend"),
        "npformer.check": ("certify", "from_object", "from_process", "gradcheck", "tolerance"),
        "npformer.decoding": ("beam_search", "greedy", "sample"),
        "npformer.functional": ("AttentionMask",),
        "npformer.interop": ("from_jax", "from_torch"),
        "npformer.layers": ("RandomKey",),
        "npformer.models": ("Decoder", "DecoderConfig", "Encoder", "EncoderConfig", "Transformer", "TransformerConfig"),
        "npformer.optim": ("Adam", "AdamW", "Constant", "Noam", "WarmupCosine"),
        "npformer.run": ("load", "save"),
        "npformer.see.record": ("Trace", "bisect", "trace"),
        "npformer.training": ("TrainStep",),
        "npformer.run.summary": ("read_run",),
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
    _PARTS = {"errors", "functional", "interop", "layers", *(home.partition(".")[2] for home in _HOMES)}

    def __getattr__(name):
        """Import a public name or a subpackage on first use, and keep it."""
        if name in _HOME_OF:
            value = getattr(import_module(_HOME_OF[name]), name)
        elif name in _PARTS:
            value = import_module(f"npformer.{name}")
        else:
            raise AttributeError(f"module 'npformer' has no attribute {name!r}")
        globals()[name] = value
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
