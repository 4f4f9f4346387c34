"""npformer judge: exit codes, the table, JSON, and a run that goes on."""

import json

import pytest

from npformer.cli import judge
from tests.check.test_kernels import REFERENCE, RIGHT, with_backward

FILES = {
    "kernels/square--a.py": RIGHT,
    "kernels/square--b.py": with_backward("return dy * x * w, of_w(dy, x)"),
    "references/square.py": REFERENCE,
}
FOLDERS = "judge kernels --against references"


@pytest.fixture
def files(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_folder(cli, files):
    done = cli(FOLDERS)
    assert done.code == 1
    done.says("right        kernels/square--a.py  (float32, ", "wrong        kernels/square--b.py  (float32, ",
              "the gradient of x is wrong: in float32, 0.5", "\nverdict      gradients   regimes  kernel\n"
              "right           2 of 2         –  square--a.py\n"
              "wrong           1 of 2         –  square--b.py\n\n2 kernels: 1 right, 1 wrong")  # fmt: skip
    assert done.width <= 80
    assert "\x1b[32mright\x1b[0m        kernels/" in cli(f"{FOLDERS} --color always").out


def test_json(cli, files):
    done = cli(f"{FOLDERS} --json")
    assert done.code == 1
    document = done.document
    assert (document["format"], document["version"], document["ok"]) == ("npformer-judge", 1, False)
    assert [row["verdict"] for row in document["kernels"]] == ["right", "wrong"]
    assert document["kernels"][1].keys() == {
        "kernel", "key", "precision", "verdict", "causes", "seconds", "tensors", "regimes", "problems", "notes",
    }  # fmt: skip
    assert [row["verdict"] for row in document["kernels"][1]["tensors"]] == ["WRONG", "right"]


def test_an_interrupted_run_goes_on(cli, files, monkeypatch):
    done = []

    def judged(task, limits, judged=judge.judged):
        if len(done) == 1:
            done.append("")
            raise KeyboardInterrupt
        done.append(task.path.name)
        return judged(task, limits)

    monkeypatch.setattr(judge, "judged", judged)
    assert cli(f"{FOLDERS} --out verdicts.json").code == 130
    stored = json.loads((files / "verdicts.json").read_text())
    assert [row["kernel"] for row in stored["kernels"]] == ["square--a.py"]
    assert cli(f"{FOLDERS} --out verdicts.json --resume").code == 1
    assert done == ["square--a.py", "", "square--b.py"]
    assert cli(f"{FOLDERS} --out verdicts.json --resume --json").document["kernels"][0] == stored["kernels"][0]
    (files / "kernels/square--a.py").write_text(RIGHT + "\n")
    assert cli(f"{FOLDERS} --out verdicts.json --resume").code == 1
    assert done[3:] == ["square--a.py"], "a kernel that was changed is judged anew"


def test_refusals(cli, files):
    cli("judge kernels").refused("the following arguments are required: --against")
    cli("judge nothing.py --against references").refused("nothing.py: expected a kernel's Python file, or a folder of")
    cli("judge kernels --against nothing.py").refused("--against: expected a reference of square--a.py, got nothing.py")
    cli(f"{FOLDERS} --resume").refused("--resume: expected --out FILE beside it")
    cli(f"{FOLDERS} --time-limit 0").refused("expected 1 <= --time-limit <= 86400")
    (files / "verdicts.json").write_text("mine")
    cli(f"{FOLDERS} --out verdicts.json").refused("--out: expected a free name, but 'verdicts.json' is there")
    (files / "verdicts.json").write_text('{"format":"npformer-judge","version":0}')
    cli(f"{FOLDERS} --out verdicts.json --resume").refused("--resume: expected verdicts of version 1 in verdicts.json")
