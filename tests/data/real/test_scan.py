"""The commands and splits are those published: their numbers, and what the paper's examples mean."""

import functools

import pytest

from npformer.data.real.scan import scan, scan_examples
from tests.data.epochs import epoch

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
