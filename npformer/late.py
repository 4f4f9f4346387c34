"""What is imported by its name: the only place where a module of another part of npformer is named by a
text to be imported.

Public names are imported when they are first used, so a gradient check does not import the models. And a lower storey
reaches a higher one by name alone, where the higher one may be left out or would make the lower one slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: The public names of a package by the module that defines them; of ``npformer.check`` those that no check needs.
HOMES = {
    "npformer": {
        "npformer.backend": ("Backend", "Ops", "Pair", "get_backend"),
        "npformer.check": ("certify", "from_object", "from_process", "gradcheck", "tolerance"),
        "npformer.decoding": ("beam_search", "greedy", "sample"),
        "npformer.functional": ("AttentionMask",),
        "npformer.interop": ("from_jax", "from_torch"),
        "npformer.layers": ("RandomKey",),
        "npformer.models": ("Decoder", "DecoderConfig", "Encoder", "EncoderConfig", "Transformer", "TransformerConfig"),
        "npformer.optim": ("Adam", "AdamW", "Constant", "Noam", "WarmupCosine"),
        "npformer.run": ("load", "save"),
        "npformer.run.answers": ("decode",),
        "npformer.run.summary": ("read_run",),
        "npformer.see.record": ("Trace", "bisect", "trace"),
        "npformer.training": ("TrainStep",),
    },
    "npformer.check": {
        "npformer.check.adapters.process": ("from_process",),
        "npformer.check.cases.case": ("Case",),
        "npformer.check.cases.catalogue": ("catalogue",),
        "npformer.check.invariants": ("INVARIANTS", "certify"),
        "npformer.check.rounding.budget": ("against_float64",),
        "npformer.check.rounding.tolerance": ("tolerance",),
    },
}
PARTS = {"errors", "functional", "interop", "layers", *(home.split(".")[1] for home in HOMES["npformer"])}

#: A module -> the higher ones that it asks for by name.
HIGHER = {
    "npformer.backend.select": ("npformer.engine.gpu", "npformer.engine.host", "npformer.engine.numba"),
    "npformer.io.notebook": ("npformer.see.page.notebook",),
    "npformer.run.begin": ("npformer.see.page.report",),
}


def higher(name: str) -> Any:
    """The module of this name, one of HIGHER. Raises what its import raises."""
    return import_module(next(module for modules in HIGHER.values() for module in modules if module == name))


def public(package: str, name: str) -> Any:
    """The public name of a package, or the part of npformer. Raises AttributeError if there is none."""
    for home, names in HOMES[package].items():
        if name in names:
            return getattr(import_module(home), name)
    if package == "npformer" and name in PARTS:
        return import_module(f"npformer.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
