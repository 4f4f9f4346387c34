"""The time left is right within 20 % after a tenth of a run, by a clock that is simulated."""

import pytest

from npformer.run.options import TrainingOptions
from npformer.run.progress import GENERATED, SAVED, TimeLeft, _times


def simulate(options, held_out, step, example, save, first=None, generates=True):
    """(step, what was said to be left, what was) after each step; costs are functions of the step, in seconds."""
    left, clock, said = TimeLeft(options, held_out, generates), 0.0, []
    for number in range(1, options.steps + 1):
        last, every = number == options.steps, options.every
        seconds = first if number == 1 and first is not None else step(number)
        clock += seconds
        left.stepped(seconds)
        if last or number % every.evaluate == 0:
            examples = min(options.final_examples if last else options.eval_examples, held_out)
            clock += examples * example(number)
            left.evaluated(examples * example(number), examples)
        if last or number % every.save == 0:
            clock += save(number)
            left.saved(save(number))
        said.append((number, left.seconds(number), clock))
    return [(number, told, clock - at) for number, told, at in said]


OPTIONS = TrainingOptions(steps=400, batch_size=100, warmup_steps=1)
#: Shapes of runs: options, held-out examples, and the seconds of a step, of an example, and of a checkpoint.
RUNS = {
    "as guessed": (OPTIONS, 1000, lambda n: 0.05, lambda n: 0.05 * GENERATED / 100, lambda n: 0.05 * SAVED),
    "twice as slow as guessed": (OPTIONS, 1000, lambda n: 0.05, lambda n: 0.1 * GENERATED / 100, lambda n: 0.1),
    "few are held out": (OPTIONS, 50, lambda n: 0.05, lambda n: 0.05 * GENERATED / 100, lambda n: 0.1),
    "evaluations that take most of the time": (
        TrainingOptions(steps=400, batch_size=100, warmup_steps=1, eval_every=20), 1000,
        lambda n: 0.05, lambda n: 0.02, lambda n: 3.0,
    ),
    "steps that vary": (OPTIONS, 1000, lambda n: 0.03 + 0.04 * (n % 2), lambda n: 0.002, lambda n: 0.1),
    "a device that is read at each tenth step": (
        OPTIONS, 1000, lambda n: 0.5 * (n % 10 == 0) + 1e-4, lambda n: 0.002, lambda n: 0.1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("first", [None, 30.0], ids=["at once", "first step compiles"])
def test_after_a_tenth_the_time_left_is_right_within_a_fifth(run, first):
    for number, told, true in simulate(*run, first=first):
        if number >= run[0].steps // 10 and number < run[0].steps:
            assert told == pytest.approx(true, rel=0.2), f"after step {number}"


def test_a_machine_that_slows_down_is_noticed():
    told = simulate(OPTIONS, 1000, lambda n: 0.05 if n <= 100 else 0.1, lambda n: 1e-9, lambda n: 0.0)
    assert all(found == pytest.approx(true, rel=0.2) for number, found, true in told if 220 <= number < 400)


@pytest.mark.parametrize("often", [1, 3, 5, 7, 12, 50])
def test_what_is_due_before_the_last_step(often):
    for step in range(12):
        assert _times(step, 12, often) == len([n for n in range(step + 1, 12) if n % often == 0])
