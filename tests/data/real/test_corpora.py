"""Real data: what numbers, commands, dates and the manual say, and that their two sides do not meet."""

import functools
from collections import Counter, defaultdict

import pytest

from npformer.data import Example
from npformer.data.real.language import LANGUAGES, ceiling, language
from npformer.data.real.manual import manual, mlm
from npformer.data.real.numbers import numbers
from npformer.data.real.scan import scan, scan_examples
from tests.data.epochs import epoch


def test_the_ceiling_is_the_best_answers_accuracy():
    examples = [Example("a", "x"), Example("a", "y"), Example("b", "x"), Example("c", "z"), Example("c", "x")]
    assert ceiling(examples) == 3 / 5
    task = language(count=100)
    held_out = task.held_out()
    votes = defaultdict(Counter)
    for source, target in held_out:
        votes[source][target] += 1
    best = sum(counter.most_common(1)[0][1] for counter in votes.values())
    assert ceiling(held_out) == pytest.approx(best / len(held_out))
    assert 0.95 < ceiling(held_out) < 0.99
    assert sum(len(counter) > 1 for counter in votes.values()) > 5, "some phrases are of several languages"


def test_twenty_languages_are_as_frequent_as_each_other():
    held_out = language(count=200).held_out()
    counts = Counter(target for _, target in held_out)
    assert set(counts) == set(LANGUAGES)
    assert len(LANGUAGES) == 20
    assert max(counts.values()) < 2 * min(counts.values())
    assert {target for _, target in held_out[: len(held_out) // 4]} == set(LANGUAGES)


SAID = {
    "seventy-seven": "soixante-dix-sept",
    "eighty": "quatre-vingts",
    "eighty-one": "quatre-vingt-un",
    "twenty-one": "vingt et un",
    "seventy-one": "soixante et onze",
}


def test_every_number_is_said_in_french_and_its_pieces_give_the_text_again():
    pytest.importorskip("num2words", reason="numbers are made with num2words")
    task = numbers(below=1_000, count=1_000)
    pairs = dict([*epoch(task), *task.held_out()])
    assert len(pairs) == 1_000
    assert {english: pairs[english] for english in SAID} == SAID
    assert pairs["nine hundred and ninety-nine"] == "neuf cent quatre-vingt-dix-neuf"
    for text in (text for pair in pairs.items() for text in pair):
        assert task.tokenizer.decode(task.tokenizer.encode(text)) == text


def test_numbers_are_drawn_from_all_below_the_bound():
    task = numbers(below=100_000, count=300)
    assert task.train_size + len(task.held_out()) == 300
    assert sum("thousand" in source for source, _ in task.held_out()) > len(task.held_out()) / 2


def test_sides_share_no_paragraph():
    train, held_out = manual()
    parts = [{" ".join(part.split()) for part in side.split("\n\n")} for side in (train, held_out)]
    assert parts[0].isdisjoint(parts[1])
    assert 0.05 < len(held_out) / len(train) < 0.25
    assert "statement" in train
    assert manual() == (train, held_out)


def test_whole_topics_are_held_out_and_no_paragraph_is_there_twice():
    topics = {f"topic{n}": f"A title {n}\n\nshared by all\n\nalone in {n}\n\n   code {n}\n" for n in range(40)}
    train, held_out = manual(topics)
    assert (train + held_out).count("shared by all") == 1
    assert "shared by all" in held_out
    for n in range(40):
        sides = [side for side in (train, held_out) if f"alone in {n}\n" in side]
        assert len(sides) == 1
        assert f"A title {n}\n\n" in sides[0]
        assert f"\n   code {n}\n" in sides[0]
    assert 0 < held_out.count("alone in") <= 4


def test_pieces_are_learnt_from_the_training_side_alone():
    task = mlm()
    train, _ = manual()
    assert len(task.vocabulary) == 1_000
    assert all(piece.removeprefix("##") in train for piece in task.vocabulary.text_pieces)


#: Commands and actions printed in the paper (figure 1, sections 2 and 4), I_ left out there.
PRINTED = {
    "jump": "JUMP",
    "jump left": "TURN_LEFT JUMP",
    "jump around right": "TURN_RIGHT JUMP TURN_RIGHT JUMP TURN_RIGHT JUMP TURN_RIGHT JUMP",
    "turn left twice": "TURN_LEFT TURN_LEFT",
    "turn around left": "TURN_LEFT TURN_LEFT TURN_LEFT TURN_LEFT",
    "turn opposite right": "TURN_RIGHT TURN_RIGHT",
    "jump thrice": "JUMP JUMP JUMP",
    "jump opposite left and walk thrice": "TURN_LEFT TURN_LEFT JUMP WALK WALK WALK",
    "jump opposite left after walk around left":
        "TURN_LEFT WALK TURN_LEFT WALK TURN_LEFT WALK TURN_LEFT WALK TURN_LEFT TURN_LEFT JUMP",
}  # fmt: skip


task_of = functools.cache(lambda split: scan(split=split))


def test_commands_are_as_many_as_published_and_mean_what_they_mean():
    examples = scan_examples()
    meaning = dict(examples)
    assert len(examples) == len(meaning) == 20_910
    assert {command: meaning[command].replace("I_", "") for command in PRINTED} == PRINTED
    assert max(len(command.split()) for command in meaning) == 9
    assert max(len(actions.split()) for actions in meaning.values()) == 48
    assert len({word for command in meaning for word in command.split()}) == 13
    assert len({word for actions in meaning.values() for word in actions.split()}) == 6


@pytest.mark.parametrize(
    ("split", "train", "held_out"), [("simple", 16_728, 4_182), ("length", 16_990, 3_920), ("jump", 14_670, 7_706)]
)
def test_splits_have_the_published_sizes(split, train, held_out):
    task = task_of(split)
    assert (task.train_size, len(task.held_out())) == (train, held_out)


def test_what_is_held_out_of_length_is_longer_than_all_that_is_trained():
    task = task_of("length")
    assert max(len(actions.split()) for _, actions in epoch(task)) == 22
    assert min(len(example.target.split()) for example in task.held_out()) == 24


def test_jump_is_trained_alone_and_held_out_in_company():
    task = task_of("jump")
    with_jump = [command for command, _ in epoch(task) if "jump" in command.split()]
    assert with_jump == ["jump"] * 1_467
    assert all("jump" in source.split() and source != "jump" for source, _ in task.held_out())
