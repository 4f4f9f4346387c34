"""Shared by the commands: how parsers are made, and options of several commands."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from npformer.backend.backend import KERNELS, PRECISIONS
from npformer.visible import visible

DEVICES = ("auto", "numpy", "cupy")


def say(what: object) -> None:
    """A message on standard error: an error, or work left undone.

    npformer's own messages break a line only before two spaces. Any other line break comes from a name in the message
    and is shown as \\n.
    """
    lines = str(what).split("\n  ")
    print("npformer: " + "\n  ".join(map(visible, lines)), file=sys.stderr)


def new_parser(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """The parser of one command; summary and examples are shown by --help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for machines")
    return parser


def add_device(parser: argparse.ArgumentParser, default: str | None = "auto") -> None:
    """--device auto|numpy|cupy."""
    parser.add_argument(
        "--device", choices=DEVICES, default=default, help="where to compute; auto: cupy with a usable GPU, else numpy"
    )


def add_kernels(parser: argparse.ArgumentParser, default: str = "auto") -> None:
    """--kernels auto|plain|numpy|numba."""
    parser.add_argument(
        "--kernels",
        choices=KERNELS,
        default=default,
        help=f"the kernels on the CPU; auto: the fastest installed (default: {default})",
    )


def add_precision(parser: argparse.ArgumentParser, default: str | None = "float32") -> None:
    """--precision float32|tf32|bfloat16."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=default,
        help="the precision of a GPU's matrix products: tf32 rounds float32 operands to 10 bits, bfloat16 to 7; "
        "both add in float32 (default: float32)",
    )
