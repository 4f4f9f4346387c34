"""npformer derive: a derivation on paper, checked line by line."""

from __future__ import annotations

import argparse
from pathlib import Path

from npformer.check.derivations import GRAMMAR, TEMPLATES, judge, read, template
from npformer.cli.common import finished, write_template
from npformer.data.textfile import read_text
from npformer.errors import ConfigError, DataError
from npformer.io.printable import shell_words, visible

SUMMARY = "Check a derivation line by line; name the first wrong line."
EXAMPLES = f"""examples:
  npformer derive --template layer_norm  writes layer_norm.txt: a forward, and lines to fill in
  npformer derive layer_norm.txt         which lines are right, and what the first wrong one lacks

A derivation is the lines of a forward and the gradients that you derived from it:
{GRAMMAR}

Each dNAME is compared with a measured derivative: NAME is changed after its line, and the loss computed again. A line
is judged by itself, with the measured gradients in the place of those above it. Templates:
{", ".join(TEMPLATES)}.

exit code: 0 every line is right, 1 a line is wrong or not written yet, 2 the file is no derivation"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="your derivation; with --template, where to write")
    add("--template", metavar="NAME", help="write NAME.txt (or FILE) to fill in")


def run(args: argparse.Namespace) -> int:
    """Exit 1 unless every line is right."""
    if args.template:
        path = Path(args.file or f"{args.template}.txt")
        again = shell_words("npformer", "derive", path)
        return write_template(args, path, template(args.template), f"fill it in, then: {again}")
    if args.file is None:
        raise ConfigError(
            "derive: expected a FILE, got none; npformer derive --template softmax writes one to begin with"
        )
    if args.file in TEMPLATES and not Path(args.file).exists():
        raise DataError(f"{args.file}: no such file; npformer derive --template {args.file} writes one to fill in")
    judged = judge(read(read_text(args.file).text, visible(args.file)))
    lines = [{"number": c.line, "name": c.name, "verdict": c.verdict, "problem": c.reason} for c in judged.claims]
    cause = judged.cause
    first = cause and {"line": cause.line, "name": cause.name, "sentences": cause.details}
    told = {"file": args.file, "ok": judged.ok, "lines": lines, "first_wrong": first, "not_derived": judged.left}
    return finished(args, told, str(judged), judged.ok)
