"""Parallel text from a file of source<TAB>target lines, character by character.

Text is not changed, so there is no Unicode normalisation: "é" as one code point and as "e"
with a combining accent are different texts, and an example with one teaches nothing about the
other. A hash of the source, not the seed, decides which lines are held out. So lines with
equal sources stay on one side, and added lines do not move others to another side.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from npformer.data.batches import Example
from npformer.data.example_task import ExampleTask
from npformer.data.splits import divided, expect_fraction
from npformer.data.textfile import read_lines
from npformer.data.tokenizer import Characters
from npformer.data.vocabulary import SEQUENCE
from npformer.errors import DataError

_OF, _KIND = r"(source|src|inputs?|question|prompt|text)", r"[ _]?(text|sentence)?\d?"
_TO = r"(target|tgt|outputs?|answer|response|completion|label|translation)"
_CODE = "(en|de|fr|es|pt|nl|ru|zh|ja|ar)"  # without "it", of which "es" is a translation
_NAME = "(english|german|french|spanish|italian|portuguese|dutch|russian|chinese|japanese|arabic)"
#: A line that names two columns: "source" and "target", "input_text" and "Output text", "en" and "de".
_HEADER = re.compile(rf"{_OF}{_KIND}\t{_TO}{_KIND}|{_CODE}\t(?!\5){_CODE}|{_NAME}\t(?!\7){_NAME}", re.IGNORECASE)


class PairsTask(ExampleTask):
    """Examples split once into training and held-out; batches run through epochs of the training side.

    Attributes: `name`; `vocabulary`, of all examples; `max_length`, in tokens; `digest`, the
    SHA-256 of the file; `train_size`, the number of training examples. Raises DataError if a
    side is empty, ConfigError if an option is out of range. `doubt` is a warning if the file seems to begin with a
    header, else "".
    """

    doubt = ""

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        name: str,
        digest: str,
        seed: int,
        held_out_fraction: float = 0.1,
    ) -> None:
        by_source = ((example, example.source) for example in examples)
        train, held_out = divided(by_source, expect_fraction(held_out_fraction))
        _check_both_sides(name, train, held_out, held_out_fraction)
        tokenizer = Characters.learn((text for example in examples for text in example), special=SEQUENCE)
        super().__init__(name, "translate", tokenizer, train, held_out, seed=seed, digest=digest)

    @classmethod
    def from_tsv(cls, path: str | os.PathLike[str], *, seed: int, held_out_fraction: float = 0.1) -> PairsTask:
        """Read UTF-8 lines of source<TAB>target, no header; lines may end in \\r\\n.

        Raises DataError with the file and, if there is one, the line at fault.
        """
        lines, digest = read_lines(path)
        examples = [_parse(path, number, line) for number, line in enumerate(lines, start=1)]
        task = cls(examples, name=Path(path).name, digest=digest, seed=seed, held_out_fraction=held_out_fraction)
        if _HEADER.fullmatch("\t".join(examples[0])):
            task.doubt = (
                f"{path}, line 1: expected a pair, got what looks like a header, {lines[0][:60]!r}, which is trained "
                "on like a pair; if it is a header, stop, delete the line (tail -n +2 OLD > NEW) and start again"
            )
        return task


def _parse(path: str | os.PathLike[str], number: int, line: str) -> Example:
    fields = line.removesuffix("\r").split("\t")
    if len(fields) != 2:
        tabs = "no tab" if len(fields) == 1 else f"{len(fields) - 1} tabs"
        problem = tabs if line.strip() else "an empty line"
        hint = "; if commas separate its columns, save the file with tabs" if tabs == "no tab" and "," in line else ""
        raise DataError(f"{path}, line {number}: expected source<TAB>target, got {problem}: {line[:60]!r}{hint}")
    for side, text in zip(("source", "target"), fields, strict=True):
        if not text:
            raise DataError(
                f"{path}, line {number}: expected a {side}, got an empty one: {line[:60]!r}; "
                "fill it in or delete the line"
            )
    return Example(*fields)


def _check_both_sides(name: str, train: list[Example], held_out: list[Example], fraction: float) -> None:
    for side, examples, remedy in (("training", train, "lower"), ("held-out", held_out, "raise")):
        if not examples:
            raise DataError(
                f"{name}: expected lines on both sides, but none is {side} at held_out_fraction={fraction}; "
                f"{remedy} it, or add lines with other sources"
            )
