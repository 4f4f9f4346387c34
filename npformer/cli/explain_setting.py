"""What ``npformer explain`` explains: a run's model on texts, or a small model."""

from __future__ import annotations

from pathlib import Path

from npformer.cli.decode import expect_text
from npformer.errors import ConfigError
from npformer.explain import Setting
from npformer.explain.models import model_setting
from npformer.functional import OPERATIONS
from npformer.training import RunDirectory
from npformer.training.assemble import read_trained
from npformer.training.text_example import text_example

OWN = "The targets are the model's own answer: {}. --answer gives another."


def setting_of(what: str, texts: list[str], answers: list[str] | None, best: bool) -> Setting:
    """The run in the folder what, or the small model with this name. Raises ConfigError, and what reading raises."""
    if Path(what).is_dir():
        return _of_run(Path(what), texts, answers, best)
    if texts or answers or best:
        raise ConfigError(f"--text, --answer, --best: expected the folder of a run with them, got {what!r}")
    if what in OPERATIONS:
        raise ConfigError(f"--at: expected a run or a model with it, got the operation {what}; leave --at out")
    return model_setting(what)


def _of_run(path: Path, texts: list[str], answers: list[str] | None, best: bool) -> Setting:
    run = RunDirectory.open(path)
    if not texts:
        raise ConfigError(f"--text: expected what the model of {path} is to read, got none; try --text TEXT")
    if answers is not None and len(answers) != len(texts):
        raise ConfigError(f"--answer: expected one for each of {len(texts)} --text, or none at all, got {len(answers)}")
    trained = read_trained(run, "numpy", best)
    for number, text in enumerate(texts, 1):
        expect_text(text, f"--text {number}", trained)
    found = text_example(trained, texts, answers)
    pieces = trained.tokenizer.vocabulary.pieces
    note = "" if answers is not None or trained.kind == "causal" else OWN.format(", ".join(found.answers))
    return Setting(
        str(path), trained.model, found.inputs, {}, found.targets, labels=found.tokens, pieces=pieces, note=note
    )
