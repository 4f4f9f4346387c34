"""Commands print no control characters, even if files and arguments contain them."""

import json
import os
import re
import shutil
import subprocess

import pytest

from npformer.cli import decode
from tests.cli.conftest import TINY, assignments

ESCAPE, TURNED, BAD = "\x1b[2J", "\u202e", "\x1b[2Jgone\u202e\x9b\x7f"


def is_calm(text):
    """Whether a text holds only printable characters and line feeds: no cursor movement, no change of direction."""
    return text.replace("\n", "").isprintable()


def test_a_path_in_an_error(cli):
    for command in (("grade",), ("decode",), ("train", "--resume"), ("train", "pairs", "--data")):
        done = cli(*command, f"no{TURNED}\nnpformer: all is well{ESCAPE}.py")
        assert done.code == 2
        assert "no\\u202e\\nnpformer: all is well\\x1b[2J.py" in done.err
        assert is_calm(done.err)
        assert "\nnpformer:" not in done.err, "one message"


def test_a_syntax_error_keeps_its_lines_and_its_caret(cli, tmp_path):
    (tmp_path / "mine.py").write_text(f"x = '{ESCAPE}' +* 1\n")
    done = cli("grade mine.py")
    assert is_calm(done.err)
    _, _, line, caret = done.err.rstrip("\n").split("\n")
    assert line == "    x = '\\x1b[2J' +* 1"
    assert line[caret.index("^")] == "*"


@pytest.mark.parametrize("where", ["backward", "top"])
def test_the_errors_prints_and_warnings_of_a_graded_file(cli, tmp_path, where):
    act = f"print({BAD!r}); import warnings; warnings.warn({BAD!r}); raise ValueError({BAD!r})"
    text = "import numpy as np\ndef relu_forward(x): return np.where(x > 0, x, 0.0), x > 0\ndef relu_backward(dy, c):\n"
    (tmp_path / "mine.py").write_text(f"{text}    {act}\n" if where == "backward" else f"{act}\n{text}    pass\n")
    done = cli("grade mine.py")
    shown = done.out + done.err
    assert "\\x1b[2Jgone\\u202e\\x9b\\x7f" in shown
    assert is_calm(shown)
    if where == "backward":
        assert done.width <= 80
        (exercise,) = cli("grade mine.py --json").document["exercises"]
        assert exercise["printed"].startswith(BAD), "JSON keeps the text unchanged"


def test_decoded_texts(cli, trained, monkeypatch):
    pieces = [f"a{BAD}b", "two\nlines", "früh 語"]
    monkeypatch.setattr(decode, "answer", lambda *args: [{"output": text} for text in pieces])
    monkeypatch.setattr(decode, "expect_text", lambda *anything: None)
    done = cli(f"decode {trained} x y z")
    assert done.lines == ["a\\x1b[2Jgone\\u202e\\x9b\\x7fb", "two\\nlines", "früh 語"]
    document = cli(f"decode {trained} --json x y z")
    assert is_calm(document.out)
    assert [entry["output"] for entry in json.loads(document.out)] == pieces


def test_examples_and_names_of_a_run(cli, train_small, tmp_path):
    odd = "é\u202e"  # these two and the escape are pieces of the vocabulary
    lines = [f"\x1b{odd[i % 2]}{i}\t{i}\x1b" for i in range(60)]
    (tmp_path / f"da{ESCAPE}ta.tsv").write_text("\n".join(lines))
    run = f"run{TURNED}\nit"
    options = {"steps": 2, "save_every": 2, "eval_every": 2, "log_every": 2, "final_examples": 5}
    done = train_small("pairs --data", f"da{ESCAPE}ta.tsv", "--out", run, **options).fine()
    assert "run\\u202e\\nit" in done.err
    assert "run\\u202e\\nit" in done.out
    assert is_calm(done.out + done.err)
    assert done.out.count("(expected ") == 5
    assert done.out.count("\\x1b)") == 5
    again = cli("decode", run, "0\x1b", "1\u202e")
    assert is_calm(again.out + again.err)
    shutil.rmtree(tmp_path / run / "checkpoints")
    refused = cli("train --resume", run)
    assert refused.code == 2
    assert "run\\u202e\\nit" in refused.err
    assert is_calm(refused.err)


@pytest.mark.parametrize(
    ("task", "text", "prompt"),
    [
        ("lm", "".join(f"it's\u2028{i % 7}\n\ta{i % 9}\x0bb {i}\n\n" for i in range(99)), r"it's\u2028\d\n\ta\d"),
        ("pairs", "".join(f"-{i}\\n'\u00ad\t{i}\n" for i in range(60)), r"-\d+\\n'\u00ad"),
    ],
)
def test_the_command_to_try_can_be_pasted(cli, tmp_path, task, text, prompt):
    """Its words are what a shell makes of it: the run's folder, and a text of the vocabulary."""
    (tmp_path / "mine.txt").write_text(text, newline="\n")
    options = assignments(TINY | {"d_model": 8})
    done = cli(f"train {task} --data mine.txt --out", "it's a\nrun", *options).fine()
    (line,) = re.findall(r"^try: (.*)$", done.out, re.M)
    assert is_calm(line)
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    program, *words = map(os.fsdecode, read.split(b"\0")[:-1])
    assert (program, words[:2]) == ("npformer", ["decode", "it's a\nrun"])
    assert re.fullmatch(prompt, words[-1])
    cli(*words, "--max-len", "3").quiet() if task == "lm" else cli(*words).quiet()
