"""The options of a run: presets, what follows from the data, what is refused, the way through a file, their table."""

import dataclasses
import re
from typing import get_type_hints

import pytest

from npformer.errors import ConfigError
from npformer.optim import Constant, Noam, WarmupCosine
from npformer.run.config_file import FOLLOW, kinds_of, parse_assignment, read_toml, write_toml
from npformer.run.options import (
    BY_TASK,
    FROM_DATA,
    OF_DATA,
    SECTIONS,
    TrainingOptions,
    complete,
    defaults_of,
    option_rows,
)
from npformer.run.tasks import ANSWERS, SMALL_MODEL, TASKS

EMPTY = {name: {} for name in SECTIONS}

#: Every option, each with a value that is not its default.
OTHER = {
    "run": {"task": "pairs", "seed": 7, "device": "numpy", "dtype": "float64", "kernels": "plain",
            "precision": "tf32", "init_from": "runs/lm-001", "log_to": "csv"},
    "data": {"file": "a \"b\"\\ü.tsv", "held_out_fraction": 0.25, "symbols": 5, "min_length": 2, "max_length": 9,
             "split": "jump", "count": 30, "tokenizer": "words", "max_pieces": 77},
    "model": {
        "d_model": 12, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 3, "d_ff": 7, "max_seq_len": 99,
        "dropout": 0.125, "norm_order": "post", "final_norm": False, "activation": "gelu", "positions": "learned",
        "scale_embedding": False, "tie_embeddings": True, "init": "xavier", "recompute": True,
        "attention": "local", "window": 3, "stride": 2,
    },
    "training": {
        "steps": 123, "batch_size": 5, "optimizer": "adamw", "learning_rate": 1e-5, "schedule": "noam",
        "warmup_steps": 12, "beta1": 0.8, "beta2": 0.999, "eps": 1e-12, "weight_decay": 0.5, "clip_norm": None,
        "label_smoothing": 0.1, "accumulate": 3, "slots": 4, "log_every": 4, "eval_every": 6, "eval_examples": 8,
        "final_examples": 9, "save_every": 11, "keep_last": 13, "patience": 17,
    },
}  # fmt: skip


def config(**sections):
    return EMPTY | sections


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_its_model_and_a_file_says_so(task, tmp_path):
    """Whatever a task's own defaults are, others can be given, and what is written gives the same again."""
    entry = TASKS[task]
    classes = 5 if entry.kind in ("classify", "tag") else 0
    chosen = config(run={"task": task}, model={"d_model": 24, "d_ff": 12}, training={"steps": 3, "optimizer": "adam"})
    options = complete(chosen, 20, 9, classes)
    assert type(options.model) is ANSWERS[entry.kind].config
    assert getattr(options.model, "head", None) == ANSWERS[entry.kind].head
    assert getattr(options.model, "num_classes", None) == (classes or None)
    assert (options.model.d_model, options.training.steps, options.training.optimizer) == (24, 3, "adam")
    assert {option.name for option in dataclasses.fields(options.model)} <= {
        *get_type_hints(SECTIONS["model"]),
        *FOLLOW,
    }
    path = tmp_path / "config.toml"
    path.write_text(options.text(), encoding="utf-8")
    names = re.findall(r"^(?:# )?(\w+) = ", options.text(), re.M)
    assert names == [row.name for row in option_rows(task)], "what no hand sets, and data of others, is not in it"
    older = write_toml(options.sections()).replace("[data]", '[data]\nsha256 = "0"')
    path.write_text(older, encoding="utf-8")
    assert complete(read_toml(path, SECTIONS), 20, 9, classes) == options


def test_what_is_not_given_follows_from_the_data_and_the_preset():
    model = complete(EMPTY, 29, 13).model
    assert (model.src_vocab_size, model.tgt_vocab_size, model.max_seq_len) == (29, 29, 13)
    assert {name: getattr(model, name) for name in SMALL_MODEL} == SMALL_MODEL
    assert complete(config(model={"max_seq_len": 99}), 29, 13).model.max_seq_len == 99


@pytest.mark.parametrize(("steps", "warmup"), [(1, 1), (30, 6), (999, 199), (10**6, 200)])
def test_a_short_run_has_a_short_warm_up(steps, warmup):
    pairs = {"task": "pairs"}  # which has no warm-up of its own
    assert complete(config(run=pairs, training={"steps": steps}), 5, 5).training.warmup_steps == warmup
    assert complete(config(run=pairs, training={"steps": steps, "warmup_steps": 0}), 5, 5).training.warmup_steps == 0
    assert complete(config(training={"steps": 20}), 5, 5).training.warmup_steps == 4, "of 30 that the task reverse has"


@pytest.mark.parametrize(
    ("steps", "every"),
    [(1, (1, 1, 1)), (59, (1, 10, 10)), (60, (2, 10, 10)), (360, (10, 50, 50)), (1000, (20, 200, 200))],
)
def test_log_lines_and_evaluations_follow_the_steps(steps, every):
    assert TrainingOptions(steps=steps, warmup_steps=1).every == every


def test_what_is_set_does_not_follow_the_steps():
    assert TrainingOptions(log_every=7, eval_every=9).every == (7, 9, 9)
    assert TrainingOptions(steps=1000, save_every=3).every == (20, 200, 3)


def test_every_option_comes_back_from_a_file(tmp_path):
    for changed in (OTHER, EMPTY):
        options = complete(changed, 20, 9)
        path = tmp_path / "config.toml"
        path.write_text(write_toml(options.sections(), FOLLOW), encoding="utf-8")
        again = complete(read_toml(path, SECTIONS), 20, 9)
        assert again == options
    defaults = {name: complete(EMPTY, 20, 9).sections()[name] for name in SECTIONS}
    for name, section in OTHER.items():
        expected = {field.name for field in dataclasses.fields(defaults[name])} - {"norm", *FOLLOW}
        assert set(section) == expected, "an option is not tried here"
        assert not {key for key, value in section.items() if getattr(defaults[name], key) == value}


def test_every_option_can_be_set_in_a_shell():
    for name, section in OTHER.items():
        for key, value in section.items():
            text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            assert parse_assignment(f"{key}={text}", SECTIONS) == (name, key, value)


@pytest.mark.parametrize(
    ("section", "options", "message"),
    [
        ("training", {"steps": 0}, r"training\.steps: expected an integer >= 1, got 0"),
        *[("training", {name: 0}, rf"training\.{name}: expected an integer from 1 to 2147483647, got 0") for name in
          ("batch_size", "accumulate", "slots", "log_every", "eval_every", "eval_examples", "final_examples",
           "save_every", "keep_last", "patience")],
        *[("training", {name: value}, rf"training\.{name}: expected a finite number > 0, got {value}")
          for name in ("learning_rate", "eps", "clip_norm") for value in (0.0, float("inf"))],
        ("training", {"batch_size": 2**31}, r"training\.batch_size: expected an integer from 1 to .*, got 2147483648"),
        ("run", {"seed": 2**64}, r"run\.seed: expected an integer with 0 <= seed < 2\*\*64, got 18446744073709551616"),
        ("run", {"seed": -1}, r"run\.seed: expected an integer with 0 <= seed < 2\*\*64, got -1"),
        ("training", {"weight_decay": -0.1}, r"training\.weight_decay: expected a finite number >= 0, got -0.1"),
        ("training", {"warmup_steps": -1}, r"training\.warmup_steps: expected 0 <= .* got -1"),
        ("training", {"steps": 5, "warmup_steps": 6}, r"training\.warmup_steps: .*<= steps=5, got 6"),
        ("training", {"schedule": "noam", "warmup_steps": 0}, "warmup_steps: expected an integer >= 1 for .* noam"),
        ("model", {"positions": "learned", "max_seq_len": 8},
         r"model\.max_seq_len: expected at least 9, .*got 8; raise it, or use sinusoidal"),
        ("model of copy", {"num_layers": 3},
         r"model\.num_layers: expected an option of the model for the task copy, a Transformer; it has .*d_ff"),
        ("model of lm", {"num_encoder_layers": 3}, r"model\.num_encoder_layers: .* for the task lm, a Decoder"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(section, options, message):
    section, _, task = section.partition(" of ")
    run = {"run": {"task": task}} if task else {}
    with pytest.raises(ConfigError, match=message):
        complete(config(**run | {section: options}), 20, 9, 5)


def test_schedules():
    made = [TrainingOptions(schedule=name).make_schedule(64) for name in ("constant", "noam", "warmup_cosine")]
    assert [type(schedule) for schedule in made] == [Constant, Noam, WarmupCosine]
    options = TrainingOptions(steps=40, warmup_steps=10, learning_rate=0.5)
    assert options.make_schedule(64)(10) == pytest.approx(0.5)
    assert options.make_schedule(64)(40) == pytest.approx(0.0)
    noam = dataclasses.replace(options, schedule="noam").make_schedule(64)
    assert noam(10) == pytest.approx(0.5 * 64**-0.5 * 10**-0.5)


EVERY_TASK = pytest.mark.parametrize("task", TASKS)


def test_every_option_has_a_row_and_a_meaning():
    rows = option_rows()
    assert [(row.section, row.name) for row in rows] == [
        (section, name) for section, options in SECTIONS.items() for name in kinds_of(options)
    ]
    assert all(len(row.meaning) > 8 and row.kind for row in rows)
    assert all("\n" not in row.meaning and row.meaning.isprintable() for row in rows)


@EVERY_TASK
def test_a_task_has_the_options_of_its_data_and_its_model(task):
    rows = option_rows(task)
    assert tuple(row.name for row in rows if row.section == "data") == tuple(
        name for name in kinds_of(SECTIONS["data"]) if name in TASKS[task].data
    )
    fields = {field.name for field in dataclasses.fields(ANSWERS[TASKS[task].kind].config)}
    assert {row.name for row in rows if row.section == "model"} == fields - {*FOLLOW}


@EVERY_TASK
def test_a_default_can_be_set_and_gives_the_same(task):
    """So it is written as one would type it."""
    options = defaults_of(task).sections()
    for row in option_rows(task):
        if row.name in OF_DATA:
            assert row.default == FROM_DATA
            continue
        text = row.default.partition(" (")[0]
        section, name, value = parse_assignment(f"{row.section}.{row.name}={text}", SECTIONS)
        expected = getattr(options[section], name)
        assert value == (pytest.approx(expected) if isinstance(expected, float) else expected), row


def test_what_differs_between_tasks_is_by_task():
    varied = {(row.section, row.name) for row in option_rows() if row.default == BY_TASK}
    assert ("training", "steps") in varied
    assert not {("training", "beta1"), ("training", "log_every"), ("data", "symbols")} & varied
