"""The command line: one file per command, one place for errors and exit codes.

0 done and holds · 1 ran and something failed · 2 bad input · 130/143/141 SIGINT/SIGTERM/a closed output; a training
saves first, unless a second signal comes
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TextIO

from npformer._version import __version__
from npformer.cli import (
    bench,
    certify,
    compile,
    decode,
    derive,
    doctor,
    explain,
    gradcheck,
    grade,
    judge,
    lessons,
    museum,
    report,
    tolerance,
    trace,
    train,
)
from npformer.cli.common import Help, Parser, add_color, new_parser
from npformer.errors import NpformerError, nearest
from npformer.io.progress_bar import show_bars
from npformer.io.terminal import choose_colour, say_error
from npformer.run.config_file import kinds_of
from npformer.run.options import SECTIONS

EXAMPLES = f"""examples:
  npformer train reverse           reverse words, in {train.TAKES}
  npformer lessons                 what to read, to write and to see, in order
  npformer museum show causal-off  a bug, its effect, and what finds it
  npformer grade --list            write a backward, and have it graded
  npformer COMMAND --help          a command's options, and examples"""

#: What a learner and a trainer need; then what whoever writes kernels, or looks after a machine, does.
FIRST = (train, decode, report, lessons, grade, derive, museum, explain, trace, gradcheck)
MORE = (tolerance, judge, certify, bench, compile, doctor)
COMMANDS = FIRST + MORE
MORE_TITLE = "kernels, speed and this machine"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Raises SystemExit(2) for arguments that the parser refuses."""
    _prepare_outputs()
    parser = build_parser(sys.argv[1:] if argv is None else argv)
    args, unknown = parser.parse_known_args(argv)
    choose_colour(args.color)
    if args.command is None:
        return _no_command(parser, unknown)
    if args.command == "decode":
        unknown = decode.take_texts(args, unknown)
    args.words = list(sys.argv[1:] if argv is None else argv)
    if unknown:
        args.parser.error(_unknown_option(unknown[0], args.parser))
    try:
        with show_bars():
            code: int = args.run(args)
        if sys.stdout is not None:  # None if it was closed before the command began
            sys.stdout.flush()
        return code
    except NpformerError as error:
        return _say(error, error.exit_code)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except MemoryError as error:
        return _say(f"not enough memory: {error}; make the model, the batch or the sequences smaller", 1)
    except BrokenPipeError:  # the reader of the output has gone: print nothing
        for stream in (sys.stdout, sys.stderr):  # those whose reader has gone
            try:
                stream.flush()
            except OSError:
                _discard(stream)
        return 128 + signal.SIGPIPE
    except OSError as error:  # for example, a full disk below the standard output
        _discard(sys.stdout)
        return _say(f"the system refused: {error}; see to that, then try again", 1)


def _no_command(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> int:
    """Exit 2, since nothing was done; a script whose command is an empty variable notices it."""
    if unknown:
        parser.error(_unknown_option(unknown[0], parser))
    parser.print_help(sys.stderr)
    return _say("expected a command, got none", 2)


def _prepare_outputs() -> None:
    """Show the code of a character that the terminal's encoding lacks, instead of a traceback.

    If standard error was closed before the command began, errors are dropped, and no file of npformer's gets its
    descriptor.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the program
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(what: object, code: int) -> int:
    try:
        say_error(what)
    except OSError:  # nobody reads it
        _discard(sys.stderr)
    return code


def _discard(stream: TextIO) -> None:
    """Drop buffered output, which would fail again when Python exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def name_of(module: ModuleType) -> str:
    """What is typed for the command of this module."""
    return module.__name__.rpartition(".")[2]


class _InGroups(Help):
    """Help that puts a heading before the second group of commands."""

    def _format_action(self, action: argparse.Action) -> str:
        return f"\n{MORE_TITLE}:\n" * (action.dest == name_of(MORE[0])) + super()._format_action(action)


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser of all commands; words: what is typed, and only the command among them needs its options."""
    parser = Parser(
        prog="npformer",
        description="A Transformer on NumPy and CuPy with every backward pass written by hand.",
        epilog=EXAMPLES,
        formatter_class=_InGroups,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"npformer {__version__}")
    add_color(parser)
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in COMMANDS:
        name = name_of(module)
        command = new_parser(commands, name, module.SUMMARY, module.EXAMPLES)
        if words is None or name in words:
            module.add_options(command)
        command.set_defaults(run=module.run, parser=command)
    return parser


def _unknown_option(word: str, parser: argparse.ArgumentParser) -> str:
    known = [option for action in parser._actions for option in action.option_strings if option[:2] == "--"]
    places = [f"--{action.metavar}".lower() for action in parser._actions if not action.option_strings]
    settable = [name for options in SECTIONS.values() for name in kinds_of(options)] if "--set" in known else []
    flag = next((flag for flag, end in (("--model", ".py"), ("--data", ".")) if flag in known and end in word), "")
    if word in places:
        hint = f": {word[2:].upper()} stands without it; leave it out"
    elif word.startswith("-"):
        near = nearest(word.split("=")[0], [*known, *settable])
        if near and near[0] not in known:
            near = [f"--set {name}=VALUE" for name in near if name not in known]
        else:
            near = near[:1]
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; the options are {', '.join(known)}"
    elif flag and "=" not in word:
        hint = f": a word too many; a file of your own goes after {flag}: {flag} {word}"
    else:
        hint = ": a word too many" + (f"; try --set {word if '=' in word else 'KEY=VALUE'}" if settable else "")
    if parser.prog.endswith("decode"):
        hint += "; texts of a file are read by < FILE, and a TEXT that begins with a dash goes after a lone --"
    return f"unknown argument {word!r}{hint}"
