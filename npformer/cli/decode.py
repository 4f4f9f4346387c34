"""npformer decode: run a trained model on texts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from npformer.cli.common import add_device
from npformer.errors import ConfigError, DataError
from npformer.io.printable import visible
from npformer.io.terminal import folded
from npformer.models import Decoder
from npformer.run.answers import TEMPERATURE, Sampling, answer, expect_text, expect_way
from npformer.run.model_file import load_trained

SUMMARY = "Run a trained model on texts."
EXAMPLES = f"""examples:
  npformer decode runs/reverse-001 hello world       one output per line, in the order of the texts
  cut -f1 dates.tsv | npformer decode runs/pairs-001
  npformer decode runs/numbers-001 "forty-two" --beam 4  beam search, of four hypotheses
  npformer decode runs/language-001 "5. maj 1987"    the class of a text; runs/tags-001 gives one for each word
  npformer decode runs/mlm-001 "the value of the [MASK] is returned"
  npformer decode numerals.safetensors 1987          a file of npf.save with its tokenizer
  npformer decode runs/lm-001 "The for statement" --temperature 0.8 --top-k 20  sampling; also --top-p

Translation is greedy unless --beam or a sampling option is given. Continuing a text samples at temperature
{TEMPERATURE} unless another is given."""

BATCH_SIZE = 250


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("run_folder", metavar="RUN", type=Path, help="the folder of a run of npformer train, or a file of npf.save")
    add("texts", metavar="TEXT", nargs="*", default=[], help="what to decode (default: lines of standard input)")
    add("--best", action="store_true", help="use the best checkpoint instead of the latest")
    add("--max-len", type=int, help="the most tokens of an output (default: the longest in training)")
    add("--beam", type=int, metavar="N", help="beam search with N hypotheses")
    add("--temperature", type=float, metavar="X", help="sample tokens; below 1, likely tokens more often")
    add("--top-k", type=int, metavar="N", help="sample from the N likeliest tokens")
    add("--top-p", type=float, metavar="X", help="sample from the likeliest tokens that sum to X")
    add("--seed", type=int, default=0, help="the seed of sampling (default 0)")
    add_device(parser)


def take_texts(args: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Add the texts that follow an option to args.texts. Returns the words that remain unknown.

    argparse takes RUN and TEXT at once, so it would refuse `decode RUN --json abc`.
    """
    end = unknown.index("--") if "--" in unknown else len(unknown)
    texts: list[str] = []
    dashed: list[str] = []
    for word in unknown[:end]:
        (dashed if word.startswith("-") else texts).append(word)
    args.texts = [*args.texts, *texts, *unknown[end + 1 :]]
    if args.texts == ["-"]:  # standard input, as in other programs
        args.texts = []
    return dashed


def run(args: argparse.Namespace) -> int:
    """Print one output per input, as soon as its batch is decoded."""
    try:
        return _decode(args)
    except ConfigError as error:  # it names a parameter, "top_p", of which "--top-p" was typed
        name, _, problem = str(error).partition(":")
        raise ConfigError(f"--{name.replace('_', '-')}:{problem}" if name in vars(args) else str(error)) from error


def _decode(args: argparse.Namespace) -> int:
    way = Sampling(args.beam, args.temperature, args.top_k, args.top_p, args.seed)
    trained = load_trained(args.run_folder, args.device, args.best)
    max_len = expect_way(trained.model, args.max_len, way)
    texts = iter(enumerate(args.texts, 1)) if args.texts else enumerate(_lines(), 1)
    place = "text" if args.texts else "standard input, line"
    size = 1 if not args.texts and _typed() else BATCH_SIZE
    keep = "\n\t" if isinstance(trained.model, Decoder) else ""  # a continued text may have line breaks
    results = []
    while chunk := list(islice(texts, size)):
        for number, text in chunk:
            if said := expect_text(text, f"{place} {number}", trained):
                print(folded(said, sys.stderr), file=sys.stderr)
        answers = answer(trained, [text for _, text in chunk], max_len, way)
        if args.json:
            results += [{"input": text, **answer} for (_, text), answer in zip(chunk, answers, strict=True)]
        else:
            print("\n".join(visible(answer["output"], keep) for answer in answers), flush=True)
    if args.json:
        print(json.dumps(results))
    return 0


def _typed() -> bool:
    """Whether a person types the texts; then each is answered at once, after a note on how to end."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print("type a text and Enter; Ctrl-D ends", file=sys.stderr)
    return True


def _lines() -> Iterator[str]:
    """The lines of standard input. Raises DataError, with the line's number, if one is not UTF-8."""
    if sys.stdin is None:  # closed before the command began
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: expected UTF-8, got {line[:20]!r}") from error
