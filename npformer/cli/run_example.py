"""The texts that ``npformer trace`` and ``npformer explain`` give to the model of a run, and the answers wanted."""

from __future__ import annotations

import argparse
from pathlib import Path

from npformer.cli.decode import expect_text
from npformer.errors import ConfigError
from npformer.training import RunDirectory
from npformer.training.assemble import Trained, read_trained
from npformer.training.text_example import TextExample, text_example


def add_texts(parser: argparse.ArgumentParser) -> None:
    """--text, --answer and --best."""
    parser.add_argument("--text", action="append", default=[], help="of a run: what the model reads; may be repeated")
    parser.add_argument("--answer", action="append", help="what the model should write, one for each --text")
    parser.add_argument("--best", action="store_true", help="use the best checkpoint instead of the latest")


def example_of_run(path: Path, texts: list[str], answers: list[str] | None, best: bool) -> tuple[Trained, TextExample]:
    """The trained model of a run, and the texts as its inputs and targets; answers None: the model's own.

    Raises ConfigError without texts, for another number of answers, and for an empty one; and what reading the run and
    the texts raises.
    """
    run = RunDirectory.open(path)
    if not texts:
        raise ConfigError(f"--text: expected what the model of {path} is to read, got none; try --text TEXT")
    if answers is not None and len(answers) != len(texts):
        raise ConfigError(f"--answer: expected one for each of {len(texts)} --text, or none at all, got {len(answers)}")
    trained = read_trained(run, "numpy", best)
    for number, text in enumerate(texts, 1):
        expect_text(text, f"--text {number}", trained)
    for number, answer in enumerate(answers or [], 1):
        if not answer:
            raise ConfigError(f"--answer {number}: expected at least one character, got an empty text")
    return trained, text_example(trained, texts, answers)
