"""The page in which an exercise is written and judged: its own verdicts are npformer's, its arrays are NumPy's."""

import base64
import json
import re
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from docs.site import places
from docs.site.here import libraries, page
from docs.site.here.rewrite import rewritten
from npformer.lab.grader import EXERCISES, find
from npformer.lab.grader.exercises import cases_of
from npformer.lab.grader.templates import pair_source
from npformer.see.page.document import Pack
from tests.lab import learner

BODY = "x, weight = cache; D = dy.reshape(-1, dy.shape[-1]); X = x.reshape(-1, x.shape[-1])\n    "
#: Replaces what the page calls: the text is an expression, or a name is an exercise to be held against NumPy.
OTHER = """
import json
import numpy as np
from npformer.lab.grader.exercises import _value, cases_of, find
from npformer.lab.grader.grading import compared


def errors(exercise):
    for told, case in zip(exercise.cases, cases_of(exercise)):
        for names, ours, theirs in (
            (exercise.outputs, case.outputs, told["outputs"]), (exercise.gradients, case.gradients, told["true"])
        ):
            for name, c in compared(names, ours, _value(theirs)).items():
                yield 1.0 if c.problem else c.error


def graded(name, text, seconds, stopped):
    if name:
        found = list(errors(find(name)))
        return json.dumps({"compared": len(found), "worst": max(found)})
    a = np.array([[1.5, -2.0, 3.0, 4.0], [0.5, 6.0, -7.0, 8.0]])
    x = eval(text, {"np": np, "a": a, "float": np.number})
    x = np.asarray(x)
    numbers = [v * 1.0 for v in x.ravel().tolist()]
    return json.dumps({"shape": list(x.shape), "numbers": [v if abs(v) < 1e300 else None for v in numbers]})
"""
#: What people write, beside what the exercises use.
EXPRESSIONS = (
    "a[:, None, ::2]", "a[..., -1]", "a[1, 1:3]", "a[::-1].T", "a[a > 0]", "a[np.array([1, 0, 1])]",
    "a[[0, 1], [2, 3]]", "a.T[::2] @ a[:, ::3]", "a[:, ::2] @ a[:, 1::2].T", "np.einsum('...i,...j->...ij', a, a)",
    "a.sum(0)", "a.mean(-1, keepdims=True)", "np.var(a, axis=1)", "a.std()", "np.max(a, axis=(0, 1))",
    "np.maximum(a, 0)", "a ** 2", "2.0 / a", "1 - a", "a % 2", "-a", "abs(a)", "~(a > 0)", "(a > 0) & (a < 5)",
    "np.where(a > 0, a, 0.0)", "np.square(a[:, ::2])", "np.take(a, np.array([2, 0]), axis=1)",
    "np.concatenate([a, a], axis=1)", "np.stack([a, a], axis=-1)", "np.outer(a[0], a[1])", "np.tensordot(a, a.T, 1)",
    "np.expand_dims(a, 1)", "np.squeeze(a[:1], 0)", "np.roll(a, 1, axis=1)", "np.flip(a, 1)", "np.cumsum(a, axis=1)",
    "np.tril(a)", "np.eye(3)[[0, 2]]", "np.arange(1, 7).reshape(2, 3)", "np.full((2,), 3.0)",
    "np.ones_like(a) + np.zeros(4)", "np.argmax(a, axis=1)", "np.moveaxis(a[None], 0, -1)", "np.swapaxes(a, 0, 1)",
    "a.transpose(1, 0)", "np.broadcast_to(a[0], (3, 4))", "np.exp(a) / np.sqrt(a * a)", "np.array([1, 2]) @ a",
    "np.dot(a, a.T)", "float(a[0, 0]) * a", "a.astype(bool)", "np.nan_to_num(np.array([np.nan, 1.0]))",
    "a.reshape((4, -1))",
)  # fmt: skip


@pytest.fixture(scope="module")
def ask(fetched, tmp_path_factory):
    """ask(jobs, files): the answers of the page's worker in node; files take the place of the page's."""
    pack = Pack()
    data = {f"data/{each.name}.json": page._exercise(each, pack) for each in EXERCISES}

    def answers(jobs, files=None, change=lambda name, told, pack: None):
        folder = tmp_path_factory.mktemp("worker")
        for each in EXERCISES:
            change(each, data[f"data/{each.name}.json"], pack)
        texts = page._modules() | {name: json.dumps(told) for name, told in data.items()} | (files or {})
        (folder / "worker.mjs").write_text(page.worker(fetched))
        (folder / "micropython.wasm").write_bytes(fetched.wasm)
        packed = np.frombuffer(zlib.decompress(base64.b64decode(pack.text())), dtype=np.uint8)
        (folder / "numbers").write_bytes(packed.reshape(8, -1).T.tobytes())
        (folder / "files.json").write_text(json.dumps(texts))
        (folder / "jobs.json").write_text(json.dumps(jobs))
        subprocess.run(["node", Path(__file__).parent / "judge.mjs", folder], check=True, timeout=600)
        return json.loads((folder / "answers.json").read_text())

    return answers


def files():
    """(exercise, whether it is right, cause, text) of the grader's tests: each right answer, and one that is wrong."""
    for each in EXERCISES:
        yield each.name, True, "", learner.right(each.name)
    for name, rows in learner.FILES["wrong"].items():
        for body, _, cause in rows[:1]:
            yield name, False, cause, pair_source(find(name), body)


def test_it_judges_the_files_of_the_graders_tests_as_the_grader_does(ask):
    rows = list(files())
    assert len(rows) >= 30
    answers = ask([{"exercise": name, "text": text} for name, _, _, text in rows])
    other = []
    for (name, right, cause, text), answer in zip(rows, answers, strict=True):
        if "return (*" in text:  # in one file: MicroPython does not read it
            assert "no * within a tuple" in answer["grade"]["verdict"]
            continue
        causes = [fault["cause"] for fault in answer["grade"]["faults"]] if "grade" in answer else answer["broken"]
        if "grade" not in answer or answer["grade"]["ok"] != right or (cause and cause not in causes):
            other.append((name, cause, causes))
    assert other == []


def test_its_numbers_are_numpys(ask):
    """The 84 cases of the grader, to 1e-12."""

    def with_truth(exercise, told, pack):
        for case, row in zip(cases_of(exercise), told["cases"], strict=True):
            row |= {"outputs": page._placed(case.outputs, pack), "true": page._placed(case.gradients, pack)}

    answers = ask([{"exercise": e.name, "text": ""} for e in EXERCISES], {"here.py": OTHER}, with_truth)
    assert [answer.get("broken") for answer in answers] == [None] * len(EXERCISES)
    assert all(answer["grade"]["compared"] >= 2 for answer in answers)
    assert max(answer["grade"]["worst"] for answer in answers) < 1e-12


def test_its_arrays_do_what_numpys_do(ask):
    answers = ask([{"exercise": "", "text": text} for text in EXPRESSIONS], {"here.py": OTHER})
    a = np.array([[1.5, -2.0, 3.0, 4.0], [0.5, 6.0, -7.0, 8.0]])
    for text, answer in zip(EXPRESSIONS, answers, strict=True):
        expected = np.asarray(eval(text, {"np": np, "a": a}))
        assert "grade" in answer, (text, answer)
        assert answer["grade"]["shape"] == list(expected.shape), text
        np.testing.assert_allclose(answer["grade"]["numbers"], expected.ravel().astype(float), rtol=1e-12, err_msg=text)


def test_what_is_no_answer_is_told_so(ask):
    def linear(body):
        return pair_source(find("linear"), body)

    told = {
        "x += 1; return dy @ weight.T, X.T @ D, D.sum(0)": ("inputs", "writes into its inputs: x"),
        "return dy @ weight.T": ("backward", "expected to return 3 gradients"),
        "return dy @ weight.T, X.T @ D, np.no_such(D)": ("backward", "linear_backward stops with AttributeError"),
    }
    jobs = [{"exercise": "linear", "text": linear(BODY + body)} for body in told]
    jobs += [
        {"exercise": "linear", "text": "import torch\n" + linear("pass")},
        {"exercise": "linear", "text": linear("return (*cache, 1)")},
        {"exercise": "linear", "text": linear("pass"), "stopped": [
            {"step": "forward", "signatures": [None, None]}, {"step": "backward", "signatures": [None, None]}]},
        {"exercise": "linear", "text": pair_source(find("linear")).replace("+ bias", "+ 2 * bias")},
    ]  # fmt: skip
    *answers, banned, unread, stopped, other = ask(jobs)
    for (name, words), answer in zip(told.values(), answers, strict=True):
        wrong = {finding["name"]: finding["text"] for finding in answer["grade"]["findings"] if not finding["ok"]}
        assert words in wrong[name], answer
    assert "linear.py: it imports torch: an exercise is solved with NumPy only" in banned["grade"]["verdict"]
    assert "`npformer grade linear.py` judges it\n  line " in unread["grade"]["verdict"]
    assert "linear_backward did not come back within 10 s" in stopped["grade"]["findings"][-1]["text"]
    wrong = {finding["name"]: finding["text"] for finding in other["grade"]["findings"] if not finding["ok"]}
    assert wrong.keys() == {"forward", "dbias"}
    assert "is not the derivative of your own forward (measured)" in wrong["dbias"]


def test_micropython_is_blamed_only_for_what_python_may_read(ask):
    pythons = {  # -> the line of the body, and what is said of it
        "z = 1\nreturn z": (3, "'return' outside function"),
        "  z = 1": (2, "unexpected indent; check how far this line is indented"),
        "z = (dy * y\n\n    return z": (
            4,
            "invalid syntax; check this line and the one above it: is a bracket left open",
        ),
        "if dy is None": (2, "invalid syntax; check this line and the one above it: is a bracket left open"),
        "break": (2, "'break'/'continue' outside loop"),
    }
    others = ("z = 1, *cache", "z = [*dy, 1]", "z = {**dy}", "match dy:\n        case 1: pass", "z = lambda a, /: a")
    start = pair_source(find("softmax"), "pass").rstrip().count("\n")
    jobs = [
        {"exercise": "softmax", "text": pair_source(find("softmax"), "y = cache\n    " + t)}
        for t in [*pythons, *others]
    ]
    verdicts = [
        answer["grade"]["verdict"] for answer in ask([*jobs, {"exercise": "softmax", "text": "return (dy\n\n"}])
    ]
    for (line, words), verdict in zip(pythons.values(), verdicts, strict=False):
        assert words in verdict
        assert "MicroPython" not in verdict
        assert f"\n  line {start + line}: " in verdict
    for verdict in verdicts[len(pythons) : -1]:
        assert "check this line and the one above it. If Python reads them, MicroPython" in verdict
    assert verdicts[-1].endswith("\n  line 1: return (dy")  # not the empty line below it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x: int = (*a, 1)", "x = tuple(a) + tuple([1])\n"),
        ("def f(a: int, /, *, b: str) -> int:\n    'd'\n    return zip(a, b, strict=True)",
         "def f(a, *, b):\n    pass\n    return zip(a, b)\n"),
        ("class A(NamedTuple):\n    x: int\n    y: int = 2",
         "from collections import namedtuple\n_A = namedtuple('A', ('x', 'y'))\n\n"
         "def A(x, y=2):\n    return _A(x, y)\n"),
        ("@dataclass(frozen=True)\nclass B:\n    x: int\n    y: list = field(default_factory=list)",
         "class B:\n\n    def __init__(self, x, y=None):\n        self.x = x\n"
         "        self.y = y if y is not None else list()\n"),
        ("a.keys() - b.keys()", "set(a.keys()) - set(b.keys())\n"),
        ("isinstance(x, int | str)", "isinstance(x, (int, str))\n"),
    ],
)  # fmt: skip
def test_python_in_the_words_of_micropython(text, expected):
    assert rewritten(text) == expected


def test_only_what_is_wanted_is_kept():
    text = "import a\nfrom b import c, d\ndef f(): return g(c)\ndef g(x): return x\ndef h(): return a.d"
    assert rewritten(text, ("f",)) == "from b import c\n\ndef f():\n    return g(c)\n\ndef g(x):\n    return x\n"


def test_the_page_is_small_and_asks_for_nothing(fetched):
    text = page.page(fetched)
    assert len(text.encode()) <= 2_000_000
    assert "Permission is hereby granted" in text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy.replace("wasm-unsafe-eval", "")


def test_without_npm_the_page_is_left_out_and_said_to_be(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(places, "SOURCES", tmp_path)
    monkeypatch.setattr(libraries.shutil, "which", lambda name: None)
    monkeypatch.setattr(page, "fetched", libraries.fetched.__wrapped__)
    page.write_all()
    assert list(tmp_path.rglob("*.html")) == []
    assert capsys.readouterr().err == "docs: run-it-here.html is left out: npm is missing: apt-get install npm\n"
    assert "`npm` was missing" in page.link("linear")
