"""Shared by the commands: how parsers are made, options of several commands, and the colours of verdicts."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from npformer.backend import Backend, get_backend
from npformer.backend.backend import PRECISIONS, expect_precision
from npformer.backend.select import KERNELS
from npformer.check import Case
from npformer.check.adapters.user_file import UserCase
from npformer.errors import ConfigError, nearest, whole_number
from npformer.io import progress_bar
from npformer.io.printable import visible
from npformer.io.terminal import COLOURS, GREEN, RED, YELLOW, folded, paint, say_error
from npformer.lab.grader.templates import write_new
from npformer.run.tasks import TASKS

DEVICES = ("auto", "numpy", "cupy")

#: What is coloured in a report. A word counts only in its place, since "right" is a word of many sentences.
VERDICTS = {
    GREEN: r"(?<=[\d–] )right$|(?:^|(?<=   ))right(?=   L = |$)|(?<=: )right\.$|(?<=^  )right(?=   )|^right(?=   )|✓"
    r"|(?<=  )holds$|^all \d.* (?:right|hold)\b|\b(\d+) of \1 (?:bugs|exercises)",
    RED: r"\bWRONG\b|✗|(?<=^  )wrong(?=   )|^(?:wrong|refused)(?=   )|\bSURVIVES\b|\bSURVIVED(?=:)|DOES NOT HOLD"
    r"|^\d+ of \d+ (?:gradients|claims) (?:are|do) not\b",
    YELLOW: r"\bnot yet(?=;)|\bnot begun\b|KINK HERE|CANNOT TELL|PROVES NOTHING|^cannot tell(?= )|^  …",
}


def tell(report: str) -> None:
    """A report on standard output, above the bars; its verdicts in green, red and yellow if that is coloured."""
    for colour, pattern in VERDICTS.items():
        report = re.sub(pattern, partial(_painted, colour), report, flags=re.M)
    progress_bar.say(report)


def _painted(colour: str, match: re.Match[str]) -> str:
    return paint(match[0], colour)


def finished(args: argparse.Namespace, document: Any, text: str, ok: bool = True, problem: str = "") -> int:
    """Tell a command's result, as JSON where --json asks for it. Returns the exit code: 1 unless ok.

    No text: nothing is told. problem: goes to standard error beside the text; the JSON says it by itself.
    """
    if args.json:
        print(json.dumps(document))
    elif text:
        tell(text)
        note(problem)
    return 0 if ok else 1


def write_template(args: argparse.Namespace, path: Path, text: str, then: str) -> int:
    """Write a new file for a learner, and tell what to do with it. Raises OutputError if there is one."""
    write_new(path, text)
    return finished(args, {"file": str(path)}, f"{visible(path)} is written; {then}")


class Help(argparse.RawDescriptionHelpFormatter):
    """Paragraphs are filled to the terminal's width; indented lines are examples or code, and stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_filled(paragraph.split("\n"), width) for paragraph in text.split("\n\n"))


def _filled(paragraph: list[str], width: int) -> str:
    groups = groupby(paragraph, key=lambda line: line.startswith("  "))
    return "\n".join(_examples([*lines], width) if shown else fill(" ".join(lines), width) for shown, lines in groups)


def _examples(lines: list[str], width: int) -> str:
    """The lines; if one is too long, with less room between a command and what it does, or with that below it."""
    if max(map(len, lines)) <= width:
        return "\n".join(lines)
    pairs = [(command, meaning.strip()) for command, _, meaning in (line[2:].partition("  ") for line in lines)]
    longest = max(len(command) for command, meaning in pairs if meaning) if any(meaning for _, meaning in pairs) else 0
    closer = [f"  {command.ljust(longest)}  {meaning}".rstrip() for command, meaning in pairs]
    if max(map(len, closer)) <= width:
        return "\n".join(closer)
    margin = " " * 6
    below = (fill(meaning, width, initial_indent=margin, subsequent_indent=margin) for _, meaning in pairs)
    return "\n".join(f"  {command}\n{meaning}".rstrip() for (command, _), meaning in zip(pairs, below, strict=True))


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest of the known words for one that it does not know.

    Its errors are as wide as the terminal.
    """

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, folded(f"{self.prog}: error: {message}\n", sys.stderr))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = [str(choice) for choice in action.choices or ()]
        if known and str(value) not in known:
            more = ["train --resume", *(f"train {task}" for task in TASKS)] if action.dest == "command" else []
            near = nearest(str(value), [*known, *more])
            if action.dest == "task" and "." in str(value):
                near = [f"lm --data {value}"]
            hint = f"; did you mean {near[0]}?" if near else ""
            hint = "; npformer museum alone lists the bugs" if action.dest == "part" and value == "list" else hint
            raise argparse.ArgumentError(action, f"expected one of {', '.join(known)}, got {str(value)!r}{hint}")


def new_parser(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """The parser of one command, or of one part of a command; summary and examples are shown by --help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, epilog=examples, formatter_class=Help, allow_abbrev=False
    )
    left = argparse.SUPPRESS  # so that a part's default does not replace what its command was given
    parser.add_argument("--json", action="store_true", default=left, help="print the result as JSON, for machines")
    add_color(parser, left)
    return parser


def add_color(parser: argparse.ArgumentParser, default: str = "auto") -> None:
    """--color auto|always|never."""
    meaning = "colour what is right and wrong; auto: on a terminal, unless NO_COLOR is set (default: auto)"
    parser.add_argument("--color", choices=COLOURS, default=default, help=meaning)


def add_device(parser: argparse.ArgumentParser, default: str | None = "auto", more: str = "") -> None:
    """--device auto|numpy|cupy."""
    where = f"where to compute; auto: cupy with a usable GPU, else numpy{more}"
    parser.add_argument("--device", choices=DEVICES, default=default, help=where)


def add_kernels(parser: argparse.ArgumentParser, default: str | None = "auto", shown: str = "auto") -> None:
    """--kernels auto|plain|numpy|numba."""
    how = f"the kernels on the CPU; auto: the fastest installed (default: {shown})"
    parser.add_argument("--kernels", choices=KERNELS, default=default, help=how)


def names_python_file(spec: str) -> bool:
    """Whether it has the form FILE.py or FILE.py:NAME."""
    return spec.endswith(".py") or ".py:" in spec


def expect_at_least_1(args: argparse.Namespace, name: str) -> None:
    """Raise ConfigError if an option was given a number below 1."""
    value = getattr(args, name)
    if value is not None:
        whole_number(f"--{name}", value, at_least=1)


def note(problem: str) -> None:
    """A message on standard error, if there is a problem."""
    if problem:
        say_error(problem)


def add_backend_of_checks(parser: argparse.ArgumentParser) -> None:
    """--device and --kernels, None unless given: a user's model has a backend of its own, so they have no effect."""
    add_device(parser, None, " (default: numpy)")
    add_kernels(parser, None, "plain")


def backend_of_checks(args: argparse.Namespace, dtype: str) -> Backend:
    """The backend that --device and --kernels choose. Raises ConfigError if one of them is given beside --model."""
    chosen = [f"--{name}" for name in ("device", "kernels") if getattr(args, name) is not None]
    if args.model and chosen:
        raise ConfigError(
            f"{chosen[0]}: expected no --model beside it, since a model has a backend of its own; choose it in the file"
        )
    return get_backend(args.device or "numpy", dtype=dtype, kernels=args.kernels or "plain")


def backend_of(case: Case, backend: Backend) -> Backend | None:
    """What computes a check: this backend, or that of a user's model, in float64; None for a pair of functions."""
    if not isinstance(case, UserCase):
        return backend
    its_backend = getattr(case.build(backend), "backend", None)
    return replace(its_backend, dtype="float64") if isinstance(its_backend, Backend) else None


def add_precision(parser: argparse.ArgumentParser, default: str | None = "float32") -> None:
    """--precision float32|tf32."""

    def precision(text: str) -> str:
        try:
            return expect_precision(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("precision: ")) from None

    parser.add_argument(
        "--precision",
        type=precision,
        metavar="|".join(PRECISIONS),
        default=default,
        help="the precision of a GPU's matrix products: tf32 rounds float32 operands to 10 bits, and adds in float32 "
        "(default: float32)",
    )
