"""npformer decode: what a trained model makes of a text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from npformer.cli.common import add_device, new_parser
from npformer.data import BOS_ID, EOS_ID, Example, Vocabulary, collate
from npformer.decoding import greedy
from npformer.errors import ConfigError, DataError, TokenError
from npformer.models import Transformer
from npformer.training import RunDirectory
from npformer.training.assemble import read_model

EXAMPLES = """examples:
  npformer decode runs/reverse-001 hello world       one output per line, in the order given
  cut -f1 dates.tsv | npformer decode runs/pairs-001"""

BATCH_SIZE = 250


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add this command's parser."""
    parser = new_parser(commands, "decode", "Decode texts with a trained model, greedily.", EXAMPLES)
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of a run of npformer train")
    parser.add_argument(
        "texts", metavar="TEXT", nargs="*", default=[], help="what to decode (default: lines of standard input)"
    )
    parser.add_argument("--best", action="store_true", help="use the best checkpoint instead of the latest")
    parser.add_argument("--max-len", type=int, help="stop after so many tokens (default: the longest in training)")
    add_device(parser)
    return parser


def take_texts(args: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Add the texts that follow an option to args.texts, and return what is unknown still.

    argparse takes RUN and TEXT at once, so it would refuse `decode RUN --json abc`.
    """
    end = unknown.index("--") if "--" in unknown else len(unknown)
    given: list[str] = []
    dashed: list[str] = []
    for word in unknown[:end]:
        (dashed if word.startswith("-") else given).append(word)
    args.texts = [*args.texts, *given, *unknown[end + 1 :]]
    return dashed


def run(args: argparse.Namespace) -> int:
    """Print one output per input, as soon as its batch is decoded."""
    if args.max_len is not None and args.max_len < 1:
        raise ConfigError(f"--max-len: expected an integer >= 1, got {args.max_len}")
    model, vocabulary = read_model(RunDirectory.open(args.run_folder), args.device, args.best)
    longest = model.config.max_seq_len if model.config.positions == "learned" else None  # sinusoidal ones never end
    max_len = args.max_len or model.config.max_seq_len
    if longest is not None and max_len > longest:
        raise ConfigError(f"--max-len: expected at most {longest}, the model's learned positions, got {max_len}")
    texts = iter(enumerate(args.texts, 1)) if args.texts else enumerate(_lines(), 1)
    place = "text" if args.texts else "standard input, line"
    size = 1 if not args.texts and _typed() else BATCH_SIZE
    results = []
    while chunk := list(islice(texts, size)):
        for number, text in chunk:
            _check(text, f"{place} {number}", vocabulary, longest, model.config.max_seq_len)
        outputs = decode_texts(model, vocabulary, [text for _, text in chunk], max_len)
        if args.json:
            results += [{"input": text, "output": out} for (_, text), out in zip(chunk, outputs, strict=True)]
        else:
            print("\n".join(outputs), flush=True)
    if args.json:
        print(json.dumps(results, ensure_ascii=False))
    return 0


def decode_texts(model: Transformer, vocabulary: Vocabulary, texts: list[str], max_len: int) -> list[str]:
    """What model makes of each text."""
    src = collate([Example(text, "") for text in texts], vocabulary).src
    rows = greedy(model, src, max_len, bos_id=BOS_ID, eos_id=EOS_ID)
    return [vocabulary.decode(row) for row in rows]


def _typed() -> bool:
    """Whether a person types the texts: then each is answered at once, and how to end is said."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print("type a text and Enter; Ctrl-D ends", file=sys.stderr)
    return True


def _lines() -> Iterator[str]:
    """The lines of standard input. Raises DataError, with the line's number, if one is not UTF-8."""
    if sys.stdin is None:  # closed before we began
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: expected UTF-8, got {line[:20]!r}") from error


def _check(text: str, place: str, vocabulary: Vocabulary, longest: int | None, trained: int) -> None:
    if not text:
        raise DataError(f"{place}: expected at least one character, got an empty text; leave it out")
    if longest is not None and len(text) >= longest:  # one position is for [EOS]
        raise DataError(
            f"{place}: expected at most {longest - 1} characters, since the model has learned {longest} positions, "
            f"got {len(text)}; shorten it, or train with longer texts or sinusoidal positions"
        )
    if len(text) >= trained:
        print(
            f"note: {place}: {len(text)} characters are more than any text in training had ({trained - 1}); "
            "expect little, and give --max-len for a longer output",
            file=sys.stderr,
        )
    try:
        vocabulary.encode(text)
    except TokenError as error:
        raise TokenError(f"{place}: {error}") from error
