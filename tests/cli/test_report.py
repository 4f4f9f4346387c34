"""npformer report: a page about one run or several; refused input writes nothing."""

import json
import os
import re
import shutil
from unittest.mock import Mock

import pytest

from npformer.run import metrics


def expect_sound(text):
    """No script, no request, no style attribute; every link leads somewhere in the page."""
    assert not re.search(r"<(script|img|link|iframe|object|embed|form)\b| (style|src|on\w+)=", text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in re.findall(r'<a href="([^"]*)"', text)} <= set(ids)
    assert "default-src 'none'" in text
    assert "script-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import", text)


def test_training_writes_one_at_its_end(trained):
    text = (trained / "report.html").read_text()
    expect_sound(text)
    sections = re.findall(r'<section id="(\w+)"', text)
    assert sections == [
        "what", "repeat", "curves", "examples", "mistakes", "attention", "gradients", "environment", "options"
    ]  # fmt: skip
    assert "Report: reverse" in text
    last = [record for record in metrics.read(trained / "metrics.jsonl") if record["kind"] == "eval"][-1]
    assert f"{last['loss']:.4f} nats per token" in text
    assert text.count('class="drawn map"') == 6  # three attentions of two heads
    assert "decoder.layers.0" in text


def test_a_run_again_is_the_same_page(cli, trained, tmp_path):
    done = cli(f"report {trained} --out page.html").quiet()
    assert done.out.startswith("the report is in page.html (0.")
    assert (tmp_path / "page.html").read_bytes() == (trained / "report.html").read_bytes()
    assert os.listdir(tmp_path) == ["page.html"]
    cli(f"report {trained} --out page.html --examples 3").fine()  # its own page is replaced
    assert "of 3 are right" in (tmp_path / "page.html").read_text()


def test_several_runs_stand_side_by_side(cli, trained, copied, tmp_path):
    other = copied("other <b>run</b> & \u202e")
    config = (other / "config.toml").read_text()
    (other / "config.toml").write_text(re.sub(r"learning_rate = \S+", "learning_rate = 0.25", config))
    done = cli(f"report {trained}", other, "--json", "--examples", 4).fine()
    assert done.document["report"] == "report.html"
    text = (tmp_path / "report.html").read_text()
    expect_sound(text)
    assert text.count("<article>") == 8
    assert "with the options that b&gt; &amp; \\u202e ended with" in text
    assert "other &lt;b&gt;run&lt;/b&gt; &amp; \\342\\200\\256/config.toml&#x27;" in text, "it can be pasted"
    differences = text.partition('<section id="differences"')[2].partition("</section>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', differences) == ["training.learning_rate"]
    assert "<td>0.25</td>" in differences


def test_an_old_run_without_norms_says_so(cli, copied):
    old = copied("old")
    lines = (old / "metrics.jsonl").read_text().splitlines(keepends=True)
    (old / "metrics.jsonl").write_text("".join(line for line in lines if '"gradient"' not in line))
    cli("report old --examples 2").fine()
    assert "metrics lack these norms" in (old / "report.html").read_text()


DAMAGED = {
    "config.toml's model": lambda text: text.replace("d_ff = 16", "d_ff = 8"),
    "vocabulary.txt": lambda text: "".join(text.splitlines(keepends=True)[:-3]),
    "vocabulary.txt, line 2": lambda text: text.replace("\n", "\nx", 1),
    "metrics.jsonl, line 1": lambda text: f"torn\n{text}",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_run_is_named_with_its_file_and_left_out(cli, trained, copied, tmp_path, what):
    """By a report of several, which goes on with the others; a report of it alone and decode refuse it so."""
    name = re.match(r"[a-z.]+", what)[0]
    file = copied("broken") / name
    file.write_text(DAMAGED[what](file.read_text()))
    place = "broken/" + what.partition("'")[0] + ": "
    done = cli(f"report {trained} broken --out page.html --examples 3 --json")
    assert done.code == 1
    done.warns("npformer: broken is left out: ", place)
    assert done.document["left_out"] == ["broken"]
    assert done.document["runs"] == [str(trained)]
    assert "Report: reverse<" in (tmp_path / "page.html").read_text()
    cli("report broken --out other.html").refused(place)
    if name != "metrics.jsonl":
        cli("decode broken abc").refused(place)
    if place.endswith((".toml: ", "vocabulary.txt: ")):
        cli("report broken").refused(
            "does not fit step-00000030: ", "; npformer train --resume broken says how to mend"
        )
        cli("train --resume broken").refused(f"broken/{name}", "mv ", f"{name}-damaged")


def test_a_report_without_a_run_that_can_be_read_writes_nothing(cli, trained, copied, tmp_path, unchanged):
    for name in ("config.toml", "vocabulary.txt", "metrics.jsonl", "checkpoints"):
        place = copied(name) / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        (tmp_path / name / "report.html").unlink()
    (tmp_path / "notes.html").write_text("mine")
    (tmp_path / "torn").mkdir()
    with unchanged(tmp_path):
        for name in ("config.toml", "vocabulary.txt", "metrics.jsonl", "checkpoints"):
            cli(f"report {name} torn --out page.html").refused(name.removesuffix("s"), "expected", "torn")
        cli("report nothing").refused("nothing: expected the folder of a run", "found nothing")
        cli("report torn").refused("expected the folder of a run")
        cli(f"report {trained} --out notes.html").refused("expected a free name")
        cli(f"report {trained}", trained / ".." / trained.name).refused("report: expected each run once, got ")
        cli(f"report {trained} --examples 0").refused("--examples: expected an integer >= 1, got 0")
    for name in ("config.toml", "torn", "nothing"):
        done = cli(f"report {name} {trained} --out page.html --examples 3")
        assert done.code == 1
        done.warns(f"{name} is left out: ").says("the report is in page.html")


def test_a_report_that_fails_warns_and_the_run_is_complete(train_small, tmp_path, monkeypatch):
    monkeypatch.setattr("npformer.see.page.report.report_page", Mock(side_effect=RuntimeError("out of paint")))
    done = train_small("reverse --out run --json", steps=4, final_examples=4).fine()
    assert "warning: no report was written: out of paint" in done.err
    assert json.loads(done.out)["report"] is None
    assert "report.html" not in os.listdir(tmp_path / "run")
    assert (tmp_path / "run" / "curves.svg").exists()


def test_a_reader_s_own_file_is_kept_by_a_run_that_goes_on(cli, copied):
    report = copied("run") / "report.html"
    report.write_text("mine")
    cli("train --resume run").fine().warns("warning: no report was written: report: expected a free name")
    assert report.read_text() == "mine"
