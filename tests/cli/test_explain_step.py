"""npformer explain adam, step and sizes; and a step of a run, made again."""

from pathlib import Path

import numpy as np
import pytest

from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.see.explain.step import prepare_step

AT = "generator.bias[3]"


def test_adam(cli):
    cli("explain adam").fine().says("m ← β₁m + (1 − β₁)g", "The first step is 1.00 of the rate", "without corrections")
    document = cli(f"explain adam --at '{AT}' --json").document
    first = document["updates"][0]
    assert first["change"] == pytest.approx(-np.sign(first["gradient"]) * first["rate"], rel=1e-6)


def test_a_step_of_the_small_model(cli):
    cli(f"explain step --at '{AT}'").fine().says("step 1 of the showcase's model", "remainder of the quadrature")
    document = cli("explain step --json").document
    assert sum(document["parameters"].values()) == pytest.approx(document["change"], rel=1e-12)


def test_sizes(cli):
    cli("explain sizes").fine().says("vanishes", "explodes", "without √d_k")
    assert cli("explain sizes --json").document["format"] == "npformer-sizes"


def test_a_step_of_a_run_is_made_again(cli, trained, unchanged):
    with unchanged(trained):
        outcome = cli(f"explain {trained} --step 29 --at '{AT}'").fine()
    outcome.says(f"step 29 of {trained}", "weights", "past gradients")
    outcome.warns("step 29 is made again: 9 steps from step 20, then its change is split")
    assert cli(f"explain {trained} --step 13 --json").document["step"] == 13


def test_it_is_the_same_step_to_the_bit(trained):
    kept = list_checkpoints(trained / "checkpoints")
    last = load_checkpoint(kept[-1])
    begun = prepare_step(trained, last.step)
    assert begun.begins == load_checkpoint(kept[-2]).step
    begun.replay()
    for name, parameter in begun.assembled.step.model.named_parameters():
        assert np.array_equal(parameter.data, last.arrays[f"parameters.{name}"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{run} --step 31", "--step: expected a step that {run} has made, 1 to 30, got 31"),
        ("transformer --step 3", "--step: expected the folder of a run as TARGET, got transformer"),
        ("adam --at 'generator.bais[3]'", "the nearest names are generator.bias"),
        ("sizes --at 'generator.bias[3]'", "--at: expected none"),
        ("adam --forward", "--forward: expected none beside adam, step, sizes or --step; leave it out"),
        ("step --up 2 --html x.html", "--html, --up: expected none"),
    ],
)
def test_bad_input(cli, trained, words, message):
    cli(f"explain {words.format(run=trained)}").refused(message.format(run=trained))
    assert not Path("x.html").exists()
