"""npformer explain: an operation, a run's number, a small model's; adam, step, a run and a step of it; bad input."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from npformer.functional import OPERATIONS
from npformer.run import metrics
from npformer.run.begin import new_run
from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.see.explain.step import prepare_step
from tests.run.runs import SMALL as LAYERS

AT = "decoder.layers.0.self_attention.query.weight[3,5]"


def test_an_operation_is_explained(cli):
    outcome = cli("explain layer_norm").fine()
    assert "dx = r·(g − mean_C g − x̂·mean_C(g·x̂))" in outcome.out
    assert " ".join(outcome.out.split()).endswith("So every gradient is right.")


def test_an_operation_as_json(cli):
    document = cli("explain softmax --json").document
    assert (document["format"], document["name"], document["check"]["ok"]) == ("npformer-operation", "softmax", True)
    assert document["backward"]["lines"][-1]["values"].keys() == {"dx"}


def test_a_number_of_a_run_is_explained(cli, trained):
    outcome = cli(f"explain {trained} --text bot --answer tob --at {AT}").fine()
    outcome.says(f"w = {AT}", '"b" at b0 t2')
    assert "right" in outcome.out.split()


def test_a_run_without_an_answer_is_held_to_its_own(cli, trained):
    outcome = cli(f"explain {trained} --text bot --at 'generator.bias[4]'").fine()
    assert outcome.out.startswith("The targets are the model's own answer:")


def test_a_number_of_a_small_model_as_json(cli):
    document = cli("explain decoder --at 'decoder.layers.1@output[0,1,2]' --up 1 --json").document
    assert document["value"]["verdict"] == "right"
    assert len(document["up"]) == 1


def test_the_forward_alone_tells_no_gradient(cli):
    done = cli("explain softmax --forward").fine()
    done.says("forward, line by line", "npformer derive --template softmax")
    assert not re.search(r"\bd(x|y)\b|Backward|Jacobian", done.out)
    cli("explain softmax --forward --json").refused("--forward: expected no --html and no --json")
    cli("explain transformer --forward").refused("--forward: expected an operation as TARGET, got transformer")


def test_operations_and_small_models_are_listed(cli):
    listed = cli("explain --list --json").document
    assert "encoder" in listed["models"]
    assert "layer_norm" in listed["operations"]
    shown = re.findall(r"[\w-]+", cli("explain --list").out)
    assert {*shown} >= {*listed["models"], *listed["operations"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "TARGET: expected an operation, the folder of a run, a small model"),
        ("transformr --at 'x[0]'", "did you mean transformer"),
        ("transformer", "NAME[INDEX], got none; it has\n  src_embedding.weight (8, 4)"),
        ("transformer --at 'generator.bias[1]' --up 'dQ[0]'", "--up: expected a gradient that"),
        ("transformer --at 'generator.bias[1]' --text a", "expected the folder of a run"),
        ("layer_norm --at 'x[0]'", "expected a run or a model as TARGET, got the operation layer_norm"),
        ("layernorm", "layernorm: did you mean the operation layer_norm? Otherwise:"),
        ("rotary --at 'x[0]'", "got the operation rotary; leave them out"),
    ],
)
def test_bad_input_is_refused_with_what_would_be_right(cli, words, message):
    cli(f"explain {words}").refused(message)


MINE = """
import numpy as np
import npformer as npf

def build():
    layer = npf.layers.EncoderLayer(4, 2, 6, backend=npf.get_backend("numpy", kernels="plain"))
    return layer, (np.random.default_rng(0).normal(size=(2, 3, 4)),)

def pair():
    return npf.functional.relu_forward, npf.functional.relu_backward

def of_a_pair():
    return pair(), (np.ones(3),)
"""


def test_a_layer_of_ones_own_comes_from_a_file(cli, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    cli("explain mine.py --at 'x[0,1,2]'").fine().says("feature 2 of token b0 t1 of the input x")
    cli("explain mine.py:of_a_pair --at 'x[0]'").refused("expected a layer or a model derived from")
    cli("explain other.py --at 'x[0]'").refused("there is no file 'other.py'")


def test_a_page_of_all_numbers_is_written_and_opens_at_the_one_asked_for(cli, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    cli("explain relu --html page.html").fine().says("the page is in page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!")
    cli("explain mine.py --at 'norm1.gamma[2]' --html number.html").fine()
    opens = re.search(r'"opens":(\{.*?\})', (tmp_path / "number.html").read_text())[1]
    assert json.loads(opens) == {"call": 6, "what": "gradients", "name": "dgamma", "flat": 2}
    (tmp_path / "own.html").write_text("mine")
    cli("explain transformer --at 'generator.bias[1]' --html own.html").refused("--html", "own.html")
    assert (tmp_path / "own.html").read_text() == "mine"


def test_a_run_may_have_the_name_of_an_operation(cli, trained, tmp_path):
    assert "linear" in OPERATIONS
    (tmp_path / "linear").symlink_to(trained)
    assert "w = generator.bias[4]" in cli("explain linear --text bot --at 'generator.bias[4]'").out


ENTRY = "generator.bias[3]"


def test_adam(cli):
    cli("explain adam").fine().says("m ← β₁m + (1 − β₁)g", "The first step is 1.00 of the rate", "without corrections")
    document = cli(f"explain adam --at '{ENTRY}' --json").document
    first = document["updates"][0]
    assert first["change"] == pytest.approx(-np.sign(first["gradient"]) * first["rate"], rel=1e-6)


def test_a_step_of_the_small_model(cli):
    cli(f"explain step --at '{ENTRY}'").fine().says("step 1 of the showcase's model", "remainder of the quadrature")
    document = cli("explain step --json").document
    assert sum(document["parameters"].values()) == pytest.approx(document["change"], rel=1e-12)


def test_a_step_of_a_run_is_made_again(cli, trained, unchanged):
    with unchanged(trained):
        outcome = cli(f"explain {trained} --step 29 --at '{ENTRY}'").fine()
    outcome.says(
        f"step 29 of {trained}",
        "weights",
        "past gradients",
        "the mean of steps 29 to 30; made\n            again it is the same\n",
    )
    outcome.warns("step 29 is made again: 10 steps from step 20, then its change is split")
    assert cli(f"explain {trained} --step 13 --json").document["step"] == 13


def spoil(run, kind, **fields):
    """The last line of this kind in the run's log says something else."""
    lines = metrics.read(run / "metrics.jsonl")
    [line for line in lines if line["kind"] == kind][-1].update(fields)
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loss", "that the run logged, the mean of steps 29 to 30, got"),
        ("learning_rate", "Options were changed"),
        ("grad_norm", "froze parts"),
    ],
)
def test_a_step_that_is_not_the_one_of_the_log_is_refused(cli, copied, name, message):
    run = copied("other")
    spoil(run, "train", **{name: 0.5})
    cli(f"explain {run} --step 29").refused(f"step 30: expected the {name} 0.5 that the run logged", message)


def test_other_versions_are_told(cli, copied):
    run = copied("older")
    spoil(run, "run", npformer="0.0")
    cli(f"explain {run} --step 29").fine()
    spoil(run, "train", loss=0.5)
    cli(f"explain {run} --step 29").refused("The run was trained with npformer 0.0, now")


def test_what_is_frozen_has_no_share(cli, tmp_path):
    options = {"run": {"task": "reverse"}, "model": LAYERS, "training": {"steps": 6, "log_every": 2, "save_every": 3}}
    with new_run(options, tmp_path / "frozen") as trainer:
        trainer.step.model.arena.configure("encoder", trainable=False)
        trainer.train()
    for step in (1, 2, 5):
        document = cli(f"explain frozen --step {step} --json").document
        parts = document["parameters"]
        assert {part for name, part in parts.items() if name.startswith("encoder.")} == {0.0}
        assert parts["generator.weight"] != 0
    cli("train --resume frozen --set steps=8").fine()
    cli("explain frozen --step 7").fine().says("frozen: 14 parameters")


def test_a_run_alone(cli, trained, unchanged):
    with unchanged(trained):
        cli(f"explain {trained}").fine().says("no loss was lost", "is left: it needs more steps", "0 steps, of at")
    document = cli(f"explain {trained} --json").document
    assert (document["format"], document["causes"], document["hurt"]) == ("npformer-run", [], None)


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
        ("adam --forward", "--forward: expected none beside adam, step, --step or a run alone"),
        ("step --up 2 --html x.html", "--html, --up: expected none"),
    ],
)
def test_bad_input_beside_a_step(cli, trained, words, message):
    cli(f"explain {words.format(run=trained)}").refused(message.format(run=trained))
    assert not Path("x.html").exists()
