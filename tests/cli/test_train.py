"""npformer train: a run's files and messages, and that a seed determines all of them."""

import json
import re

import pytest

from npformer.run import metrics
from npformer.run.assemble import assemble
from npformer.see.page import report
from tests.cli.conftest import options_of

PAIRS = "".join(f"{n}\t{n * 7}\n" for n in range(100, 160))
LAST_LINES = r"held-out loss \d+\.\d{4}, token accuracy \d+\.\d %\nheld-out exact match \d+\.\d % \(%d sequences\)\n"


@pytest.mark.parametrize("task", ["copy", "pairs"])
def test_every_task_trains_and_leaves_a_run(task, train_small, tmp_path):
    (tmp_path / "own.tsv").write_text(PAIRS)
    done = train_small("pairs --data own.tsv" if task == "pairs" else task).fine()
    run = tmp_path / "runs" / f"{task}-001"
    files = {"config.toml", "metrics.jsonl", "vocabulary.txt", "checkpoints", "lock"}
    assert {path.name for path in run.iterdir()} == files | {"curves.svg", "attention.svg", "report.html"}
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-00000020", "step-00000030"]
    pictures = [(run / name).read_bytes() for name in ("curves.svg", "attention.svg")]
    assert all(picture.startswith(b"<svg ") and len(picture) > 5_000 for picture in pictures)
    count = len(assemble(options_of(run)).task.held_out(20))
    assert re.search(LAST_LINES.replace("%d", str(count)), done.out), done.out
    done.says("pictures: runs/", f"report: runs/{task}-001/report.html", f"try: npformer decode runs/{task}-001 ")
    steps = [(record["step"], record["kind"]) for record in metrics.read(run / "metrics.jsonl")[1:]]
    trains = [(step, "train") for step in (1, 7, 14, 21, 28, 30)]
    assert sorted(steps) == sorted([*trains, *((step, kind) for step in (15, 30) for kind in ("eval", "gradient"))])
    assert f"the run's folder is runs/{task}-001\n" in done.err


def test_json_is_one_document_and_nothing_else_is_on_stdout(train_small, tmp_path):
    done = train_small("copy --json --out 'my run'").fine()
    document = done.document
    assert done.out.count("\n") == 1
    last = metrics.read(tmp_path / "my run" / "metrics.jsonl")[-1]
    assert document["run"] == "my run"
    assert document["step"] == 30
    assert document["sequences"] == last["examples"] == 20
    assert [document[name] for name in ("loss", "token_accuracy", "exact_match")] == [
        last[name] for name in ("loss", "token_accuracy", "exact_match")
    ]
    assert document["pictures"] == ["my run/curves.svg", "my run/attention.svg"]
    assert "numpy" in document["backend"]


def test_a_measure_of_nan_is_null_in_json(train_small, monkeypatch):
    from npformer.run.trainer import Trainer
    from npformer.training import Evaluation

    monkeypatch.setattr(Trainer, "evaluate", lambda self, count: Evaluation(1.0, float("nan"), 0.0, 1, ("a",)))
    done = train_small("copy --json")
    document = json.loads(done.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert (document["loss"], document["token_accuracy"]) == (1.0, None)


def test_nothing_is_ever_overwritten(train_small, trained, unchanged):
    with unchanged(trained):
        train_small(f"reverse --out {trained}").refused(str(trained), "Nothing is ever overwritten", "--resume")


def test_a_seed_determines_everything(train_small, trained, same_run, tmp_path):
    train_small("reverse --out again", dropout=0.2).fine()
    same_run(tmp_path / "again", trained)
    train_small("reverse --out other --seed 1", dropout=0.2).fine()
    with pytest.raises(AssertionError):
        same_run(tmp_path / "other", trained)


def test_the_config_of_a_run_trains_it_again(cli, trained, same_run, tmp_path):
    cli("train --config", trained / "config.toml", "--out", "again").fine()
    same_run(tmp_path / "again", trained)
    assert (tmp_path / "again" / "config.toml").read_text() == (trained / "config.toml").read_text()


def test_set_overrides_the_file_and_the_short_flag_overrides_set(cli, trained, tmp_path):
    short = ("copy", "--config", trained / "config.toml", "--out", "new", "--seed", 3)
    cli("train", *short, "--set", "run.seed=2", "--set", "steps=2", "--set", "warmup_steps=1").fine()
    options = options_of(tmp_path / "new")
    assert (options["run"]["task"], options["run"]["seed"], options["training"]["steps"]) == ("copy", 3, 2)
    assert options["model"]["dropout"] == 0.2


def test_pictures_name_the_task_and_the_run(train_small, tmp_path, monkeypatch):
    drawn, title = {}, "pairs of own.tsv · run my $run"
    for name in ("draw_curves", "draw_attention"):
        monkeypatch.setattr(report, name, lambda *args, name=name: drawn.update({name: args}))
    (tmp_path / "own.tsv").write_text(PAIRS)
    train_small("pairs --data own.tsv --out 'my $run'", steps=5, warmup_steps=3, clip_norm=0.5).fine()
    metrics_drawn, path, *rest = drawn["draw_curves"]
    assert metrics_drawn == metrics.read(path.with_name("metrics.jsonl"))
    assert rest == [title, 3, 0.5]
    assert re.fullmatch(rf"{re.escape(title)}: .* → .*", drawn["draw_attention"][-1])
