"""npformer train lm --data FILE: from a text of one's own to samples, refusals, and what a run remembers of it."""

import hashlib
import re

import pytest

from npformer.run import RunDirectory
from npformer.run.assemble import assemble
from npformer.run.trained import read_trained
from tests.cli.conftest import TINY, assignments, options_of

SMALL = TINY | {"kernels": "numpy", "num_layers": 1, "max_length": 16}
LINES = [f"Die {n}. Zeile: «grüße {'abcdefghij'[n % 10]}».\n" + "\n" * (n % 3 == 0) for n in range(120)]


def words(**changes):
    return assignments(SMALL | changes)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("".join(LINES))
    return path


@pytest.mark.parametrize("tokenizer", ["characters", "words"])
def test_a_text_becomes_samples(cli, mine, tmp_path, tokenizer):
    done = cli("train lm --data mine.txt", *words(tokenizer=tokenizer)).fine()
    task = assemble(options_of(tmp_path / "runs" / "lm-001")).task
    opening = " ".join(task.held_out(1)[0].source.split()[:3])
    assert done.err.startswith("training mine.txt with ")
    sample, tail = done.out.removeprefix("a sample:\n").split("held-out loss", 1)
    assert " ".join(sample.split()).startswith(opening[:10])
    assert all(line.startswith("  ") for line in sample.splitlines())
    assert re.search(r"^ .*, token accuracy .* %\nheld-out \d+\.\d+ bits per character \(6 sequences\)$", tail, re.M)
    tried = re.search(r"^try: npformer (decode runs/lm-001) '(.*)'$", done.out, re.M)
    assert tried
    continued = cli(*tried[1].split(), tried[2], "--max-len", 5).quiet()
    assert continued.out.startswith(tried[2])
    assert read_trained(RunDirectory(tmp_path / "runs" / "lm-001")).tokenizer.vocabulary == task.vocabulary


def test_a_prompt_is_continued_as_it_is(cli, mine):
    """With line breaks and spaces, by words too."""
    cli("train lm --data mine.txt --out run", *words(tokenizer="words")).fine()
    prompt = "Die  7.\n\nZeile: grüße"
    for options in ("", "--beam 2", "--top-k 3 --temperature 2"):
        done = cli(f"decode run --max-len 4 --json {options}", prompt)
        assert done.document[0]["output"].startswith(prompt)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("Grüße".encode("utf-16"), "", ["bad.txt: expected a text file, got text in UTF-16; save it as plain"]),
        ("".join(LINES)[:140].encode(), "", ["max_length: expected at most", "text of bad.txt, got 128; shorten the"]),
        ("".join(LINES).encode(), "--set tokenizer=words --set max_pieces=9", ["max_pieces: expected at least "]),
    ],
)
def test_bad_files_and_options_are_told_and_leave_nothing(cli, tmp_path, text, options, message):
    (tmp_path / "bad.txt").write_bytes(text)
    cli(f"train lm --data bad.txt {options}").refused(*message)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]


@pytest.fixture
def run(cli, mine, tmp_path):
    options = words(save_every=2, dropout=0.1, log_every=1)
    cli("train lm --data mine.txt --out run", *options).fine()
    return tmp_path / "run"


def test_the_run_notes_where_its_text_came_from(run, mine):
    assert options_of(run)["data"]["file"] == str(mine)
    state = (run / "checkpoints" / "step-00000004" / "state.json").read_text()
    assert hashlib.sha256(mine.read_bytes()).hexdigest() in state
    assert str(mine) in state


def test_a_changed_text_is_refused(run, mine, contents, resume):
    before, text = contents(run), mine.read_text()
    mine.write_text(text.replace("Die", "die", 1))
    resume().refused(str(mine), "expected the data that the run was trained on", "restore the")
    assert contents(run) == before


def test_another_split_would_evaluate_on_what_was_trained_on(run, resume, unchanged):
    with unchanged(run):
        resume("--set held_out_fraction=0.3").refused(
            "data.held_out_fraction: expected 0.1, as the run began, got 0.3",
            "evaluated on examples that it has trained on",
        )


def test_a_header_among_pairs_is_a_warning(cli, tmp_path):
    rows = "".join(f"{n}\t{n}\n" for n in range(60))
    (tmp_path / "table.tsv").write_text(f"Source\tTarget\n{rows}")
    done = cli("train pairs --data table.tsv", *assignments(TINY)).fine()
    done.warns(
        "npformer: warning: ", "table.tsv, line 1: expected a pair, got what looks like a header, 'Source\\tTarget'"
    )
