"""The command line: one file per command, one place for errors and exit codes.

0 done and holds · 1 ran and something failed · 2 bad input · 130/143 SIGINT/SIGTERM, after saving
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence

from npformer._version import __version__
from npformer.cli import decode, doctor, gradcheck, train
from npformer.errors import Interrupted, NpformerError

COMMANDS = (train, decode, gradcheck, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    parser = build_parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(_unknown_option(unknown[0], args.parser))
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except Interrupted as stopped:
        print(f"npformer: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except NpformerError as error:
        print(f"npformer: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("npformer: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has left: nothing to say, and no one to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="npformer",
        description="A Transformer on NumPy and CuPy with every backward pass written by hand.",
        epilog="example: npformer train reverse",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"npformer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        command = module.add_parser(commands)
        command.set_defaults(run=module.run, parser=command)
    return parser


def _unknown_option(given: str, parser: argparse.ArgumentParser) -> str:
    known = [option for action in parser._actions for option in action.option_strings]
    near = difflib.get_close_matches(given.split("=")[0], known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else f"; the options are {', '.join(known)}"
    return f"unknown argument {given!r}{hint}"
