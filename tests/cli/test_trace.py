"""npformer trace: an operation, a model and a trained run; refused input writes nothing."""

import json
import os

import numpy as np
import pytest

import npformer as npf
from npformer.cli import trace as command
from npformer.run import RunDirectory
from npformer.run.trained import read_trained
from npformer.see.record.trace import Trace
from tests.run.runs import failing


def test_an_operation(cli):
    outcome = cli("trace layer_norm").quiet()
    assert outcome.out.startswith("layer_norm\ncall")
    assert "; 1 call, " in outcome.out
    document = cli("trace layer_norm --json").document
    assert document["calls"][0]["type"] == "layer_norm"


def test_a_model_in_a_file(cli, tmp_path):
    outcome = cli("trace transformer --out trace.json").quiet()
    assert outcome.lines[-1].startswith("the trace is in trace.json (0.")
    text = (tmp_path / "trace.json").read_text()
    assert Trace.from_json(text).document["title"] == "transformer"
    cli("trace transformer --no-lines --out trace.json").fine()  # npformer's own file is written again
    assert len((tmp_path / "trace.json").read_text()) < len(text)
    assert os.listdir(tmp_path) == ["trace.json"]


OWN = """
import numpy as np
import npformer as npf

def build():
    layer = npf.layers.EncoderLayer(4, 2, 6, backend=npf.get_backend("numpy", kernels="plain"), dropout=0.5)
    return layer, (np.ones((1, 2, 4)),), {"context": npf.layers.Context(key=npf.RandomKey(0))}

def with_limit():
    return *build()[:2], {"limit": 0.5}

def of_a_pair():
    return (npf.functional.relu_forward, npf.functional.relu_backward), (np.ones(3),)
"""


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("EncoderLayer: post, relu", "EncoderLayer"),
        ("own.py", "EncoderLayer"),
        ("own.py:of_a_pair", "relu"),
    ],
)
def test_whatever_explain_takes_and_pairs_of_a_file(cli, tmp_path, name, type_):
    (tmp_path / "own.py").write_text(OWN)
    outcome = cli("trace", name, "--json").quiet()
    assert outcome.document["calls"][0]["type"] == type_
    assert any(call["backward"] for call in outcome.document["calls"])


def test_a_run_is_held_to_an_answer_with_padding(cli, trained):
    document = cli(f"trace {trained} --text bad --answer dab --text a --answer a --json").document
    assert document["tokens"]["source"] == [["b", "a", "d", "[EOS]"], ["a", "[EOS]", "[PAD]", "[PAD]"]]
    assert document["title"] == "reverse: bad → dab, a → a"
    model, tokenizer, *_ = read_trained(RunDirectory.open(trained), "numpy")
    trace = Trace.from_json(json.dumps(document))
    ids = [
        [[tokenizer.vocabulary.id_of(piece) for piece in row] for row in rows] for rows in document["tokens"].values()
    ]
    logits = model.backend.host(model(np.array(ids[0]), np.array(ids[1]))).astype(np.float64)
    loss, _ = npf.functional.cross_entropy_forward(logits, np.array(ids[2]), 0)
    assert document["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert len(trace.document["parameters"]) == len(list(model.named_parameters()))


def test_a_run_is_held_to_its_own_answer(cli, trained):
    answer = cli(f"decode {trained} bad").out.strip()
    outcome = cli(f"trace {trained} --text bad --no-lines").quiet()
    assert outcome.lines[0] == f"reverse: bad → {answer}"


def test_refused_targets(cli, trained, tmp_path):
    cli("trace layer_nrm").refused("expected an operation, the folder of a run", "did you mean layer_norm?")
    cli("trace zzz").refused("got 'zzz'; npformer explain --list names operations and small models")
    (tmp_path / "own.py").write_text(OWN)
    cli("trace own.py:with_limit").refused("options of the forward under names that npf.trace has not", "got limit")
    for option in ("--text bot", "--answer bot", "--best"):
        cli(f"trace relu {option}").refused("--text, --answer, --best: expected the folder of a run with them")
    cli("trace", tmp_path, "--text", "bot").refused("expected the folder of a run", "a folder without config.toml")
    cli(f"trace {trained}").refused("--text: expected what the model", "try --text TEXT")
    cli(f"trace {trained} --text ab --answer a --answer b").refused("--answer: expected one for each of 1")
    cli(f"trace {trained} --text a --answer ''").refused("--answer 1: expected at least one character")
    cli("trace relu --limit 0").refused("--limit: expected a number of megabytes above 0")


def test_places_that_cannot_be_written(cli, tmp_path, monkeypatch):
    """tests/io/test_output_files.py has more of them."""
    monkeypatch.setattr(command, "_recorder", lambda args: pytest.fail("the place is looked at first"))
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    for option in ("--out", "--html"):
        cli(f"trace relu {option} mine.json").refused(f"{option}: expected a free name, but 'mine.json' is there")
    assert (tmp_path / "mine.json").read_text() == '{"mine": 1}'
    assert os.listdir(tmp_path) == ["mine.json"]


@pytest.mark.parametrize("line", ["trace relu --out t.json", "explain relu --html t.html"])
def test_a_disk_that_is_full(cli, tmp_path, monkeypatch, line):
    monkeypatch.setattr("npformer.io.output_files.write_atomically", failing())
    cli(line).refused(f"{line.split()[2]}: expected to write '{line.split()[3]}', got: the disk is full")
    assert os.listdir(tmp_path) == []


def test_a_page_is_written_and_may_be_written_again(cli, tmp_path):
    for bugs in (("--bugs", "usual"), ("--bugs", "relu-no-gate")):
        done = cli("trace relu --html page.html", *bugs).fine().says("the page is in page.html (0.")
        assert len(done.lines) == 1, "the page has the tree of calls"
        assert "relu-no-gate" in (tmp_path / "page.html").read_text()
    for bugs in (("--bugs", "none"), ()):
        cli("trace relu --html page.html", *bugs).fine()
        assert "relu-no-gate" not in (tmp_path / "page.html").read_text()
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_trained_run_has_a_page(cli, trained, tmp_path):
    answered = ("--text", "bad", "--answer", "dab")
    cli(f"trace {trained}", *answered, "--html", "page.html", "--bugs", "loss-by-batch").quiet()
    page = (tmp_path / "page.html").read_text()
    assert "<title>reverse: bad → dab" in page
    assert all(name in page for name in ("loss-by-batch", "self_attention"))


def test_bugs_that_cannot_be_shown(cli, tmp_path):
    cli("trace relu --bugs relu-no-gate").refused("--bugs: expected --html FILE.html with it")
    cli("trace relu --html p.html --bugs relu-no-gat").refused("did you mean relu-no-gate")
    cli("trace relu --html p.html --bugs loss-by-batch").refused(
        "expected bugs whose code this trace runs, got loss-by-batch; these it runs: ", "relu-no-gate"
    )
    assert os.listdir(tmp_path) == []
