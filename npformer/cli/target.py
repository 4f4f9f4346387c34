"""What ``npformer trace`` and ``npformer explain`` look at: a run's model on texts, a small model, or a file's."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

from npformer.check.adapters.user_file import user_case
from npformer.cli.common import names_python_file
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.run import RunDirectory
from npformer.run.answers import expect_text
from npformer.run.text_example import text_example
from npformer.run.trained import read_trained
from npformer.see.explain import Setting
from npformer.see.record.models import model_setting, plain_backend
from npformer.see.record.trace import trace

TARGET = (
    "an operation, the folder of a run, a small model, or FILE.py[:NAME]; "
    "npformer explain --list names operations and small models"
)
#: Options that ``npf.trace`` takes itself and does not hand on to the forward.
OF_TRACE = {p.name for p in inspect.signature(trace).parameters.values() if p.kind is p.KEYWORD_ONLY}
OWN = "The targets are the model's own answer: {}. --answer gives another."


def add_target(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """TARGET; and of a run --text, --answer and --best."""
    add = parser.add_argument
    add("target", metavar="TARGET", nargs=nargs, help=TARGET)
    add("--text", action="append", default=[], help="of a run: what the model reads; may be repeated")
    add("--answer", action="append", help="what the model should write, one for each --text")
    add("--best", action="store_true", help="use the best checkpoint instead of the latest")


def is_operation(args: argparse.Namespace) -> bool:
    """Whether TARGET is an operation. Raises ConfigError if there is a text, which only a run can read."""
    if args.target not in OPERATIONS or Path(args.target).is_dir():
        return False
    _expect_no_text(args)
    return True


def setting_of(args: argparse.Namespace) -> Setting:
    """The model that TARGET names, and what goes into it. Raises ConfigError, and what reading raises."""
    path = Path(args.target)
    if path.is_dir():
        return _of_run(path, args)
    setting = _of_file(args.target) if names_python_file(args.target) else model_setting(args.target)
    _expect_no_text(args)
    return setting


def _of_file(spec: str) -> Setting:
    case = user_case(spec)
    clash = ", ".join(name for name in case.options if name in OF_TRACE)
    if clash:
        raise ConfigError(
            f"{spec}: expected options of the forward under names that npf.trace has not itself, got {clash}; "
            "bind them in the file, for example by functools.partial"
        )
    target = case.build(plain_backend())
    return Setting(case.name, target, case.inputs, case.options, title=case.how.get("name", ""))


def _expect_no_text(args: argparse.Namespace) -> None:
    if args.text or args.answer or args.best:
        raise ConfigError(f"--text, --answer, --best: expected the folder of a run with them, got {args.target!r}")


def _of_run(path: Path, args: argparse.Namespace) -> Setting:
    """The trained model of a run, and the texts as its inputs and targets; without answers the model's own."""
    run, texts, answers = RunDirectory.open(path), args.text, args.answer
    if not texts:
        raise ConfigError(f"--text: expected what the model of {path} is to read, got none; try --text TEXT")
    if answers is not None and len(answers) != len(texts):
        raise ConfigError(f"--answer: expected one for each of {len(texts)} --text, or none at all, got {len(answers)}")
    trained = read_trained(run, "numpy", args.best)
    for number, text in enumerate(texts, 1):
        expect_text(text, f"--text {number}", trained)
    for number, answer in enumerate(answers or [], 1):
        if not answer:
            raise ConfigError(f"--answer {number}: expected at least one character, got an empty text")
    example, causal = text_example(trained, texts, answers), trained.kind == "causal"
    pairs = zip(texts, example.answers, strict=True)
    title = ", ".join(f"{text} → {answer}" if answer or not causal else text for text, answer in pairs)
    return Setting(
        str(path),
        trained.model,
        example.inputs,
        targets=example.targets,
        labels=example.tokens,
        pieces=trained.tokenizer.vocabulary.pieces,
        classes=trained.classes,
        note="" if answers is not None or causal else OWN.format(", ".join(example.answers)),
        title=f"{path.name}: {title}",
    )
