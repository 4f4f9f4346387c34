"""Numbers in English words to French words: a translation whose grammars differ.

    seventy-seven thousand, one hundred and eighty → soixante-dix-sept mille cent quatre-vingts

English counts in tens, French counts in twenties after sixty; "un" is not said before "cent" and "mille"; "et" stands
before "un" and "onze" but not after "quatre-vingt"; "cent" and "vingt" have an s if nothing follows them.

Pieces are words and marks: "soixante-dix-sept" is three words and two hyphens. A hash of the number holds out
one in ten.
"""

from __future__ import annotations

import random
from typing import Any

from npformer.data.batches import Example
from npformer.data.example_task import ExampleTask
from npformer.data.marked_words import MarkedWords
from npformer.data.real.extra import expect_extra
from npformer.data.real.user_cache import cached_lines, digest
from npformer.data.splits import divided
from npformer.data.vocabulary import SEQUENCE
from npformer.errors import whole_number

_VERSION = 1


def numbers(*, seed: int = 0, below: int = 100_000, count: int = 20_000) -> ExampleTask:
    """count numbers below a bound, or all of them if there are fewer; the seed determines batches, not the numbers.

    Raises ConfigError for bounds out of range, or if num2words is missing.
    """
    below = whole_number("below", below, at_least=100, at_most=1_000_000_000)
    count = whole_number("count", count, at_least=100, at_most=1_000_000)
    version = expect_extra("num2words", "numbers")
    lines = cached_lines(f"numbers-{_VERSION}-{version}-{below}-{count}.tsv", lambda: _lines(below, count))
    examples = [(Example(english, french), number) for number, english, french in (line.split("\t") for line in lines)]
    train, held_out = divided(examples)
    tokenizer = MarkedWords.learn((text for example, _ in examples for text in example), special=SEQUENCE)
    return ExampleTask("numbers", "translate", tokenizer, train, held_out, seed=seed, digest=digest(lines))


def _lines(below: int, count: int) -> list[str]:
    from num2words import num2words  # slow to import, and needed only here

    in_words: Any = num2words
    draw = random.Random(_VERSION).random  # only random() gives the same numbers in every version of Python
    chosen = set(range(min(below, 100)))  # numbers with words of their own; larger ones are composed of parts
    while len(chosen) < min(count, below):
        chosen.add(int(draw() * below))
    return [f"{n}\t{in_words(n, lang='en')}\t{in_words(n, lang='fr')}" for n in sorted(chosen)]
