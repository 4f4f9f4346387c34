"""SCAN: commands such as "jump twice and walk around left" to sequences of actions.

    C → S | S and S | S after S      [S1 and S2] = [S1][S2]        [S1 after S2] = [S2][S1]
    S → V | V twice | V thrice       [V twice] = [V][V]            [V thrice] = [V][V][V]
    V → U | U d | U opposite d | U around d | turn d | turn opposite d | turn around d
        [U d] = turn-d [U]           [U opposite d] = turn-d turn-d [U]
        [U around d] = (turn-d [U]) four times; [U] is nothing for turn
    U → walk | look | run | jump     d → left | right

These are 34 + 2·34 = 102 sentences S, and 102 + 2·102² = 20,910 commands. Splits, with the sizes published:

    simple   a fifth, 4,182 commands, chosen by chance       16,728 to train on
    length   the 3,920 with more than 22 actions             16,990
    jump     the 7,706 with jump within a longer command     13,203 and 1,467 times "jump" alone

The first split tests whether a model learns the commands, the others whether it learns their grammar. The recurrent
models of the source generalise where tests resemble training, and fail where the grammar is needed.

Source: Lake & Baroni 2018, arXiv:1711.00350.
Here a hash chooses the commands of the simple split, so they differ from the source's.
"""

from __future__ import annotations

from itertools import product

from npformer.data.batches import Example
from npformer.data.example_task import ExampleTask
from npformer.data.real.user_cache import digest
from npformer.data.splits import unit_hash
from npformer.data.tokenizer import Words
from npformer.data.vocabulary import SEQUENCE
from npformer.errors import ConfigError

SPLITS = ("simple", "length", "jump")
_LONGEST_TRAINED = 22
_SIMPLE_HELD_OUT = 4_182
_LONE_JUMPS = 1_467  # 10 % of the training examples


def scan(*, seed: int = 0, split: str = "simple") -> ExampleTask:
    """Commands to actions, both in words; split is one of SPLITS. Raises ConfigError for another split."""
    if split not in SPLITS:
        raise ConfigError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    examples = scan_examples()
    by_chance = sorted(examples, key=lambda example: unit_hash(example.source))
    held_out = [example for number, example in enumerate(by_chance) if _is_held_out(split, number, example)]
    train = sorted(set(examples) - set(held_out))
    if split == "jump":
        train += [Example("jump", "I_JUMP")] * (_LONE_JUMPS - 1)
    tokenizer = Words.learn((text for example in examples for text in example), special=SEQUENCE)
    name = f"scan-{split}"
    return ExampleTask(
        name, "translate", tokenizer, train, held_out, seed=seed, digest=digest([name, *map("\t".join, examples)])
    )


def scan_examples() -> list[Example]:
    """All 20,910 commands and their actions."""
    verbs = [Example(verb, f"I_{verb.upper()}") for verb in ("walk", "look", "run", "jump")]
    turns = [
        Example(" ".join((verb.source, *manner, side)), _turned(manner, side, verb.target))
        for verb, manner, side in product(
            [*verbs, Example("turn", "")], [(), ("opposite",), ("around",)], ("left", "right")
        )
    ]
    once = [*verbs, *turns]
    sentences = [
        Example(f"{v.source}{times}", " ".join([v.target] * count))
        for v, (times, count) in product(once, [("", 1), (" twice", 2), (" thrice", 3)])
    ]
    pairs = list(product(sentences, repeat=2))
    both = [Example(f"{a.source} and {b.source}", f"{a.target} {b.target}") for a, b in pairs]
    after = [Example(f"{a.source} after {b.source}", f"{b.target} {a.target}") for a, b in pairs]
    return [*sentences, *both, *after]


def _turned(manner: tuple[str, ...], side: str, action: str) -> str:
    turn = f"I_TURN_{side.upper()}"
    if manner == ("around",):
        return " ".join([f"{turn} {action}".strip()] * 4)
    return " ".join([turn] * (1 + len(manner)) + [action]).strip()


def _is_held_out(split: str, number: int, example: Example) -> bool:
    """number: the example's random position."""
    if split == "length":
        return len(example.target.split()) > _LONGEST_TRAINED
    if split == "jump":
        return "jump" in example.source and example.source != "jump"
    return number < _SIMPLE_HELD_OUT
