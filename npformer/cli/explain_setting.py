"""What ``npformer explain`` explains: a run's model on texts, a small model, or what a Python file builds; its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npformer.backend import get_backend
from npformer.cli.run_example import example_of_run
from npformer.errors import ConfigError
from npformer.explain import Setting
from npformer.explain.models import model_setting
from npformer.explain.place import Place
from npformer.functional import OPERATIONS
from npformer.layers import Layer
from npformer.pages import trace_page
from npformer.pages.bugs import bug_traces
from npformer.pages.opening import opening
from npformer.proof.trace import Trace, trace
from npformer.proof.user_file import user_case

OWN = "The targets are the model's own answer: {}. --answer gives another."


def setting_of(what: str, texts: list[str], answers: list[str] | None, best: bool) -> Setting:
    """The run in the folder what, the small model with this name, or what the file FILE.py[:NAME] builds.

    Raises ConfigError, and what reading raises.
    """
    if Path(what).is_dir():
        return _of_run(Path(what), texts, answers, best)
    if texts or answers or best:
        raise ConfigError(f"--text, --answer, --best: expected the folder of a run with them, got {what!r}")
    if what in OPERATIONS:
        raise ConfigError(f"--at: expected a run or a model with it, got the operation {what}; leave --at out")
    return _of_file(what) if what.partition(":")[0].endswith(".py") else model_setting(what)


def page_of(target: Any, setting: Setting | None, place: Place | None = None) -> bytes:
    """The page of the trace of an operation, by its name, or of a setting, which opens at a place."""
    inputs = () if setting is None else setting.inputs
    about: dict[str, Any] = {}
    if setting is not None:
        about = {"targets": setting.targets, "tokens": setting.labels or None, "name": setting.name} | setting.options

    def record() -> Trace:
        return trace(target, *inputs, **about)

    found = record()
    opens = None if place is None else opening(found, place)
    return trace_page(found, bugs=bug_traces(record, found), opens=opens).encode()


def _of_file(what: str) -> Setting:
    """A layer or model of the user's, as for ``npformer gradcheck --model``."""
    case = user_case(what)
    target = case.build(get_backend("numpy", dtype="float64", kernels="plain"))
    if not isinstance(target, Layer):
        raise ConfigError(
            f"{what}: expected a layer or a model derived from npformer.layers.Layer, got {type(target).__name__}; "
            "npformer trace and npformer gradcheck take other targets, too"
        )
    return Setting(case.name, target, case.inputs, case.options)


def _of_run(path: Path, texts: list[str], answers: list[str] | None, best: bool) -> Setting:
    trained, found = example_of_run(path, texts, answers, best)
    pieces = trained.tokenizer.vocabulary.pieces
    note = "" if answers is not None or trained.kind == "causal" else OWN.format(", ".join(found.answers))
    return Setting(
        str(path),
        trained.model,
        found.inputs,
        targets=found.targets,
        labels=found.tokens,
        pieces=pieces,
        classes=trained.classes,
        note=note,
    )
