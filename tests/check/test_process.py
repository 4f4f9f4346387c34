"""A kernel in another process: what it is asked, what it may answer, and what is said of one that does not."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npformer as npf
from npformer.errors import ConfigError, ProcessError

EXAMPLES = Path(__file__).parents[2] / "examples" / "other_languages"
X = np.random.default_rng(0).normal(size=(5, 4))
#: A kernel in Python: the way of answering is its argument.
START = """
import json, math, os, sys, time
import numpy as np

how = sys.argv[1]
read, write = sys.stdin.buffer, sys.stdout.buffer

def answer(*arrays, **more):
    line = {"dtypes": [str(x.dtype) for x in arrays], "shapes": [x.shape for x in arrays], **more}
    write.write(json.dumps(line).encode() + b"\\n" + b"".join(x.tobytes() for x in arrays))
    write.flush()

for line in read:
    asked = json.loads(line)
    parts = []
    for dtype, shape in zip(asked["dtypes"], asked["shapes"]):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        parts.append(np.frombuffer(read.read(size), dtype).reshape(shape))
    x, is_forward = parts[0], asked["ask"] == "forward"
"""
KERNELS = {
    "square": "    answer(x * x if is_forward else 2 * x * parts[-1])",
    "wrong": "    answer(x * x if is_forward else x * parts[-1])",
    "kept": """
    if is_forward:
        answer(np.sin(x), np.cos(x), outputs=1)
    else:
        assert asked["names"] == ["x", "y0", "y1", "dy0"], asked["names"]
        answer(parts[2] * parts[3])
""",
    "two outputs": """
    if is_forward:
        answer(x * x, 3 * x, names=["square", "triple"])
    else:
        assert asked["names"] == ["x", "square", "triple", "dsquare", "dtriple"], asked["names"]
        answer(2 * x * parts[3] + 3 * parts[4])
""",
    "options": """
    scale = asked["options"]["scale"] * parts[1].item()
    answer(scale * x if is_forward else scale * parts[-1])
""",
    "echo": "    answer(x if is_forward else parts[-1], names=[asked['dtypes'][0]])",
    "refuses": '    write.write(b\'{"error": "expected float32"}\\n\'); write.flush()',
    "dies": "    print('no GPU here', file=sys.stderr); os._exit(3)",
    "hangs": "    print('waiting', file=sys.stderr, flush=True); time.sleep(1000)",
    "talks": "    print('loading weights', flush=True); answer(x)",
    "too little": '    write.write(b\'{"dtypes": ["float64"], "shapes": [[9]]}\\n12345\'); write.flush(); os._exit(0)',
    "too much": '    write.write(b\'{"dtypes": ["float64"], "shapes": [[1]]}\\n\' + bytes(24)); write.flush()',
    "negative": '    write.write(b\'{"dtypes": ["float64"], "shapes": [[-5, 4]]}\\n\'); write.flush()',
    "another type": '    write.write(b\'{"dtypes": ["quad"], "shapes": [[5]]}\\n\'); write.flush()',
}


@pytest.fixture
def kernel(tmp_path):
    """kernel(name): npf.from_process of this kernel of Python."""

    def make(name, **options):
        file = tmp_path / f"{name.replace(' ', '_')}.py"
        file.write_text(START + KERNELS[name], encoding="utf-8")
        return npf.from_process([sys.executable, str(file), name], **options)

    return make


def test_a_right_and_a_wrong_kernel(kernel):
    report = npf.gradcheck(kernel("square", names=["x"]), X)
    assert report.ok, report
    assert report.rows[0].tensor == "x"
    wrong = npf.gradcheck(kernel("wrong"), X)
    assert [(row.tensor, row.verdict, row.cause) for row in wrong.rows] == [("input0", "WRONG", "scaled by 1/2")]


@pytest.mark.parametrize("name", ["kept", "two outputs"])
def test_what_forward_keeps_and_several_outputs(kernel, name):
    assert npf.gradcheck(kernel(name, names=["x"]), X).ok


def test_numbers_and_options(kernel):
    scaled = kernel("options", names=["x", "scale"])
    assert npf.gradcheck(scaled, X, 3, scale=0.5).ok
    with pytest.raises(ConfigError, match=r"options: expected what JSON can say, got \{'scale': array"):
        npf.gradcheck(scaled, X, 3, scale=X)
    with pytest.raises(ConfigError, match=r"input1: expected an array of numbers or a number, got str; give"):
        kernel("square").forward(X, "mean")


def test_an_array_arrives_as_it_is(kernel):
    echo = kernel("echo")
    for dtype in ("float16", "float32", ">f8", "int32", "bool"):
        sent = np.arange(6).reshape(2, 3).astype(dtype).T  # with a gap between numbers of a row
        got, (names, _, _) = echo.forward(sent)
        assert (got.dtype, got.tolist()) == (np.dtype(dtype).newbyteorder("="), sent.tolist())
        assert names[1] == np.dtype(dtype).name
    assert [echo.forward(x)[0].shape for x in (2.5, np.zeros((0, 3)))] == [(), (0, 3)]


def test_low_precision_sends_float32(kernel):
    square = (lambda x: (x * x, x)), (lambda dy, x: 2 * dy * x)
    assert npf.gradcheck(kernel("square"), X.astype("float32"), reference=square).ok


FAILURES = {
    "dies": (ProcessError, r"forward: .* ended with exit code 3; its standard error: no GPU here$"),
    "hangs": (ProcessError, r"forward: .* expected an answer within 2 s, got none; seconds= .* error: waiting$"),
    "refuses": (ConfigError, r"expected an answer, but it refuses: expected float32$"),
    "talks": (ProcessError, r"expected a line such as .*, got b'loading weights\\n'; print other text elsewhere"),
    "too much": (ProcessError, r"expected no bytes beyond those of its shapes, got 16 or more"),
    "too little": (ProcessError, r"forward: .*(ended with exit code 0|an array \[9\] of float64, got 5 bytes)"),
    "negative": (ProcessError, r"expected a line such as"),
    "another type": (ProcessError, r"expected a line such as"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_goes_wrong_is_told(kernel, name):
    error, text = FAILURES[name]
    with pytest.raises(error, match=text):
        npf.gradcheck(kernel(name, seconds=2.0 if name == "hangs" else 600.0), X)


def test_a_program_that_cannot_be_started():
    with pytest.raises(ConfigError, match=r"no/such/kernel: expected a program that can be started"):
        npf.gradcheck(npf.from_process("no/such/kernel"), X)


def test_one_process_answers_all_questions_and_ends_with_its_pair(kernel, tmp_path):
    KERNELS_SEEN = tmp_path / "processes"
    file = tmp_path / "counted.py"
    note = f"open({str(KERNELS_SEEN)!r}, 'a').write(str(os.getpid()) + ' ')\n"
    file.write_text(START.replace("how =", note + "how =") + KERNELS["square"], encoding="utf-8")
    pair = npf.from_process([sys.executable, str(file), ""])
    assert not KERNELS_SEEN.exists(), "nothing is started before it is asked"
    assert npf.gradcheck(pair, X).ok
    assert npf.gradcheck(pair, 2 * X).ok
    (process,) = map(int, KERNELS_SEEN.read_text().split())
    os.kill(process, 0)
    del pair
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_that_failed_is_started_again(kernel, tmp_path):
    file = tmp_path / "once.py"
    once = f"    if not os.path.exists({str(tmp_path / 'was')!r}): open({str(tmp_path / 'was')!r}, 'w'); os._exit(1)\n"
    file.write_text(START + once + KERNELS["square"], encoding="utf-8")
    pair = npf.from_process([sys.executable, str(file), ""])
    with pytest.raises(ProcessError, match="exit code 1"):
        pair.forward(X)
    assert npf.gradcheck(pair, X).ok


BUILDS = {"softmax.c": ["cc", "-Wall", "-Werror", "-O2"], "softmax.rs": ["rustc", "--edition", "2021", "-O"]}


@pytest.mark.parametrize("name", BUILDS)
def test_the_templates(name, tmp_path):
    compiler, *flags = BUILDS[name]
    if shutil.which(compiler) is None or subprocess.run([compiler, "--version"], capture_output=True).returncode:
        pytest.skip(f"needs {compiler}")
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30
    right = "y[j] * (dy[j] - along)" if name.endswith("c") else "y * (row(2, i)[j] - along)"
    assert text.count(right) == 1
    for program, source in (("right", text), ("wrong", text.replace(right, right.replace(" - along", "")))):
        (tmp_path / name).write_text(source, encoding="utf-8")
        libraries = ["-lm"] if compiler == "cc" else []
        command = [compiler, *flags, "-o", program, name, *libraries]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        report = npf.gradcheck(npf.from_process(str(tmp_path / program), names=["x"]), X)
        assert report.ok == (program == "right"), report
