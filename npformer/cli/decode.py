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
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="what to decode (default: lines of standard input)")
    parser.add_argument("--best", action="store_true", help="use the best checkpoint instead of the latest")
    parser.add_argument("--max-len", type=int, help="stop after so many tokens (default: the longest in training)")
    add_device(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print one output per input, as soon as its batch is decoded."""
    if args.max_len is not None and args.max_len < 1:
        raise ConfigError(f"--max-len: expected an integer >= 1, got {args.max_len}")
    model, vocabulary = read_model(RunDirectory.open(args.run_folder), args.device, args.best)
    max_len = args.max_len or model.config.max_seq_len
    texts = iter(enumerate(args.texts, 1)) if args.texts else enumerate(_lines(), 1)
    place = "text" if args.texts else "standard input, line"
    results = []
    while chunk := list(islice(texts, BATCH_SIZE)):
        for number, text in chunk:
            _check(text, f"{place} {number}", vocabulary)
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


def _lines() -> Iterator[str]:
    """The lines of standard input. Raises DataError, with the line's number, if one is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: expected UTF-8, got {line[:20]!r}") from error


def _check(text: str, place: str, vocabulary: Vocabulary) -> None:
    if not text:
        raise DataError(f"{place}: expected at least one character, got an empty text")
    try:
        vocabulary.encode(text)
    except TokenError as error:
        raise TokenError(f"{place}: {error}") from error
