"""The names that outside programs rely on, with the signatures that the documentation gives them."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import npformer as npf

ROOT = Path(npf.__file__).parent
PACKAGES = sorted(
    ".".join(("npformer", *path.parent.relative_to(ROOT).parts))
    for path in ROOT.rglob("__init__.py")
    if "__all__" in path.read_text(encoding="utf-8")
)

SIGNATURES = {
    "get_backend": {"name": "auto", "dtype": "float32"},
    "Transformer": {"config": ..., "backend": None, "seed": 0},
    "Transformer.forward": {"src": ..., "tgt_in": ..., "key": None},
    "Transformer.backward": {"dlogits": ..., "cache": ...},
    "Transformer.attention_weights": {"src": ..., "tgt_in": ...},
    "Transformer.zero_grad": {},
    "RandomKey": {"seed": 0, "step": 0, "micro": 0, "site": 0},
    "AttentionMask": {"key_visible": None, "causal": False, "query_offset": 0, "window": None, "stride": None},
    "functional.cross_entropy_forward": {"logits": ..., "targets": ..., "ignore_index": 0, "label_smoothing": 0.0},
    "functional.layer_norm_forward": {"x": ..., "gamma": ..., "beta": ..., "eps": 1e-5},
    "Adam": {"arena": ..., "lr": ..., "betas": (0.9, 0.98), "eps": 1e-9},
    "TrainStep": {
        "model": ..., "optimizer": ..., "seed": 0, "label_smoothing": 0.0, "clip_norm": None, "schedule": None,
        "accumulate": 1,
    },
    "greedy": {"model": ..., "src": ..., "max_len": 32},
    "sample": {
        "model": ..., "src": ..., "max_len": 32, "temperature": 1.0, "top_k": None, "top_p": None, "seed": 0,
    },
    "beam_search": {"model": ..., "src": ..., "max_len": 32, "beam": 4, "length_penalty": 0.6},
    "save": {"model": ..., "path": ...},
    "load": {"path": ..., "backend": ...},
    "gradcheck": {"target": ...},
    "trace": {"target": ..., "targets": None, "upstream": None, "lines": True},
}  # fmt: skip

#: The sizes are those of the paper.
CONFIG = {
    "src_vocab_size": ..., "tgt_vocab_size": ..., "d_model": 512, "num_heads": 8, "num_encoder_layers": 6,
    "num_decoder_layers": 6, "d_ff": 2048, "max_seq_len": ..., "dropout": 0.1, "norm_order": "post",
    "final_norm": None, "activation": "relu", "positions": "sinusoidal", "scale_embedding": True,
    "tie_embeddings": False, "init": "small", "pad_id": 0,
}  # fmt: skip


def attribute(name):
    """npformer.NAME, dots followed."""
    thing = npf
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", SIGNATURES)
def test_documented_signatures(name):
    parameters = inspect.signature(attribute(name)).parameters
    wanted = SIGNATURES[name]
    order = [parameter for parameter in parameters if parameter in wanted]
    assert order == list(wanted)
    for parameter, default in wanted.items():
        if default is not ...:
            assert parameters[parameter].default == default, parameter
    required = {
        p.name for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    assert required - {"self"} <= set(wanted)


def test_configuration_options():
    parameters = inspect.signature(npf.TransformerConfig).parameters
    assert set(CONFIG) <= set(parameters)
    for name, default in CONFIG.items():
        assert default is ... or parameters[name].default == default, name


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_complete_and_real(package):
    module = importlib.import_module(package)
    listed = list(module.__all__)
    for name in listed:
        assert hasattr(module, name)
    body = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body
    kinds = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)  # docstring, imports, __all__
    if all(isinstance(node, kinds) for node in body):  # it hands on, and does no work
        assert {name for node in body for name in handed_on(node)} <= set(listed)


def handed_on(node):
    """The names that an import from npformer binds."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "npformer":
        return [alias.asname or alias.name for alias in node.names]
    return []


def test_every_error_is_named_in_the_tree_and_descends_from_one_root():
    kinds = {name: kind for name, kind in vars(npf.errors).items() if isinstance(kind, type)}
    assert all(issubclass(kind, npf.errors.NpformerError) for kind in kinds.values())
    assert all(name in (npf.errors.__doc__ or "") for name in kinds)
