"""What went wrong in a run: where its loss was lost, and each cause in a small run in which it is planted."""

import math
from fnmatch import fnmatch

import pytest

from npformer.run.begin import continued, new_run
from npformer.run.journal import Listeners
from npformer.see.explain.run import BUDGET, Course, course_document, course_told, hurt_in
from tests.run.runs import SMALL

TRAINING = {"steps": 12, "batch_size": 8, "log_every": 2, "eval_every": 4, "eval_examples": 20, "final_examples": 20}


def run_of(folder, pattern="", number=1.0, parts="", **options):
    """A small run; parameters whose names fit the pattern are multiplied first, or put back after each step."""
    kept = {}

    def edit(made=None):
        for name, parameter in trainer.step.model.named_parameters():
            if fnmatch(name, pattern) and (made is None or number == 1):
                parameter.data[...] = kept.setdefault(name, parameter.data * number)

    model = SMALL | {name: options.pop(name) for name in ("dropout",) if name in options}
    sections = {"run": {"task": "reverse", "device": "numpy"}, "model": model, "training": TRAINING | options}
    with new_run(sections, folder, on_step=edit) as trainer:
        edit()
        trainer.train()
    return Course(folder)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([3, 2, 1, 0.5, 0.1], None),
        ([3, 1, 1.2, 0.9, 1.3, 0.8], None),
        ([3, 1, 0.9, 2, 3, 3], (3, 4)),
        ([3, 1, math.nan], (2, 3)),
        ([3, 1, 4, 3, 1, 0.5], None),
        ([3], None),
        ([], None),
    ],
)
def test_where_a_loss_is_lost(losses, expected):
    hurt = hurt_in([*enumerate(map(float, losses), 1)])
    assert (hurt and (hurt.after, hurt.by)) == expected


@pytest.mark.parametrize(
    ("cause", "plant"),
    [
        (None, {}),
        ("norm", {"pattern": "encoder.layers.0.norm2.gamma", "number": 20.0, "parts": "encoder.layers.0.norm2.gamma"}),
        (
            "attention",
            {"pattern": "*cross_attention.key.weight", "number": 30.0, "parts": "decoder.layers.0.cross_attention"},
        ),
        ("embedding", {"pattern": "src_embedding.weight", "number": 50.0, "parts": "src*"}),
        ("frozen", {"pattern": "decoder.*", "parts": "decoder.*"}),
        ("decay", {"optimizer": "adamw", "weight_decay": 50.0}),
        ("adam", {"eps": 1.0}),
        ("adam", {"beta1": 0.999}),
        ("clipping", {"clip_norm": 1e-6}),
        ("dropout", {"dropout": 0.6}),
    ],
)
def test_what_is_planted_is_named_first(tmp_path, cause, plant):
    found = run_of(tmp_path / "run", **plant).causes
    assert [each.name for each in found[:1]] == [cause] * (cause is not None)
    assert all(fnmatch(part, plant["parts"]) for each in found[:1] for part in each.parts)


def test_a_step_that_is_too_long(tmp_path):
    """From step 13 on the rate is 200 times as high; the step after which the loss is lost is made again."""
    run_of(tmp_path / "run", schedule="constant", learning_rate=5e-3)
    with continued(tmp_path / "run", {"training": {"steps": 24, "learning_rate": 1.0}}, Listeners()) as (trainer, _):
        trainer.train()
    course = Course(tmp_path / "run")
    assert (course.hurt.after, course.hurt.by) == (12, 14)
    assert [cause.name for cause in course.causes] == ["rate"]
    assert course.change.made.number in (12, 13)
    assert course.change.change > 0
    assert 0 < course.made <= BUDGET
    told = " ".join(" ".join(course_told(course, 80)).split())
    assert "for good" in told
    assert "the slope promised" in told
    assert course_document(course)["causes"][0]["name"] == "rate"
