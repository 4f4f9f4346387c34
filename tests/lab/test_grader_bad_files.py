"""Files that are wrong in other ways than a wrong gradient: each ends soon, harms nothing, and is told clearly."""

import pytest

from npformer.errors import DataError
from npformer.lab.grader import find, report
from npformer.lab.grader.templates import pair_source
from tests.lab.learner import each, graded, said

FORWARD = "import numpy as np\ndef relu_forward(x): return np.where(x > 0, x, 0.0), x > 0\n"
BACKWARD = "def relu_backward(dy, cache): return np.where(cache, dy, 0.0)\n"
RIGHT = FORWARD + BACKWARD


def backward(body):
    return f"{FORWARD}def relu_backward(dy, cache):\n    {body}\n"


#: What cannot be graded at all: (text, words of the message)
REFUSED = {
    "a syntax error": ("def relu_forward(x):\n    return (x +\n", ["Python cannot read it", "line 2", "^"]),
    "a null byte": ("x = 1\0", ["Python cannot read it"]),
    "no exercise": ("def my_function(): pass\n", ["got my_function", "--list"]),
    "a misspelt name": ("def sofmax_forward(x): pass\n", ["did you mean `softmax_forward`?"]),
    "half a pair": (FORWARD, ["got no relu_backward"]),
    "half a pair, misspelt": (FORWARD + "def relu_bakward(dy, cache): pass\n", ["is `relu_bakward` meant to be it?"]),
    "a wrong signature": (FORWARD + "def relu_backward(dy): return dy\n", ["expected (dy, cache)", "got (dy)"]),
    "a forward's wrong signature": ("def relu_forward(): pass\n" + BACKWARD, ["relu_forward: expected (x)", "got ()"]),
    "not a function": ("relu_forward = relu_backward = 3\n", ["not a function"]),
    "npformer imported": (RIGHT + "import npformer.functional as F\n", ["imports npformer", "NumPy only", "line 4"]),
    "from npformer": ("from npformer.functional import relu_forward, relu_backward\n", ["imports npformer", "line 1"]),
    "torch imported": ("import torch\n" + RIGHT, ["imports torch"]),
    "imported by name": (backward("return __import__('jax').nn.relu(dy)"), ["imports jax", "line 4"]),
    "imported in disguise": (backward("return __import__('npf' + 'ormer').functional"), ["imports npformer", "line 4"]),
    "imported and hushed up": (
        backward("try: __import__('tor' + 'ch')\n    except ImportError: pass\n    return np.where(cache, dy, 0)"),
        ["imports torch"],
    ),
    "a later part": ("from parts import softmax_backward\n" + RIGHT, ["does not load", "parts that come before"]),
    "an error while loading": ("1 / 0\n" + RIGHT, ["ZeroDivisionError", "line 1: 1 / 0"]),
    "another program": (backward("import subprocess; subprocess.run(['true'])"), ["starts another program"]),
    "a fork": (backward("import os; os.fork()"), ["starts another program"]),
    "the network": (backward("import socket; socket.create_connection(('localhost', 1))"), ["network"]),
}


@each(("text", "words"), REFUSED)
def test_what_cannot_be_graded_is_refused_with_a_reason(tmp_path, text, words):
    with pytest.raises(DataError) as refused:
        graded(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "mine.py"))
    for word in words:
        assert word in message


#: What is graded and is wrong: (text, words of the report)
FAULTS = {
    "an exception": (backward("return undefined"), ["stops with NameError", "line 4: return undefined", "x (2, 3, 5)"]),
    "no cache returned": ("import numpy as np\ndef relu_forward(x): return x\n" + BACKWARD, ["(y, cache)"]),
    "two gradients": (backward("return dy, dy"), ["one gradient, dx", "a tuple of 2"]),
    "no return": (backward("dx = dy * cache"), ["got None (is a `return` missing?)"]),
    "a wrong shape": (backward("return dy.sum(0)"), ["has the shape (3, 5), expected (2, 3, 5)"]),
    "NaN": (backward("return dy * np.nan"), ["NaN or infinite"]),
    "float32": (
        backward("return (dy * cache).astype(np.float32)"),
        ["dx is not precise", "is right, but computed in float32; expected float64 precision"]),
    "float32 on the way": (
        backward("return (dy * cache).astype(np.float32).astype(float)"),
        ["dx is not precise", "is right, but computed in float32; expected float64 precision"]),
    "float32 in between": (
        backward("return dy * cache * (np.float32(3) * np.float32(1 / 3) - np.float32(1e-7))"),
        ["dx is not precise", "is right, but not to float64 precision", "computed in float32, or measured"]),
    "a forward in float32": (
        RIGHT.replace("x, 0.0), x > 0", "x, 0.0).astype(np.float32), x > 0"),
        ["the forward is not precise", "y is right, but computed in float32; expected float64 precision",
         "dx is right"]),
    "rows of nine alone": (
        backward("d = np.zeros_like(dy); d[..., :9] = np.where(cache, dy, 0)[..., :9]; return d"),
        ["dx is not right", "only on “long rows”"]),
    "complex": (backward("return dy * 1j"), ["expected an array (2, 3, 5)", "complex128"]),
    "an input changed": (
        "def relu_forward(x):\n    is_open = x > 0; x[~is_open] = 0\n    return x, is_open\n"
        "def relu_backward(dy, cache): return dy * cache\n", ["writes into its inputs: x"]),
    "dy changed": (backward("dy *= cache; return dy"), ["writes into its inputs: the incoming gradient"]),
    "the cache changed": (
        "import numpy as np\ndef relu_forward(x): return np.where(x > 0, x, 0.0), np.where(x > 0, 1.0, 0.0)\n"
        "def relu_backward(dy, cache):\n    cache *= dy\n    return cache\n", ["writes into the cache"]),
    "measured, not derived": (
        backward("d = np.zeros(dy.shape)\n    for i in np.ndindex(d.shape): d[i] = relu_forward(dy)[0].ravel()[0]\n"
                 "    return np.where(cache, dy, 0)"), ["derived here, not measured"]),
    "sys.exit": (backward("import sys; sys.exit('enough')"), ["SystemExit", "enough"]),
    "os._exit": (backward("import os; os._exit(0)"), ["ended the whole process"]),
    "too much memory": (backward("return np.ones(1 << 36)"), ["MemoryError"]),
    "endless recursion": (backward("return relu_backward(dy, cache)"), ["RecursionError"]),
    "input()": (backward("return input()"), ["EOFError"]),
    "another forward": (
        "import numpy as np\ndef relu_forward(x): return np.where(x > 0, x, 0.01 * x), x > 0\n"
        "def relu_backward(dy, cache): return np.where(cache, dy, 0.01 * dy)\n",
        ["does not compute the exercise's y", "dx is the derivative of your own forward"]),
    "another forward, and its backward wrong": (
        "import numpy as np\ndef relu_forward(x): return abs(x), x > 0\n"
        "def relu_backward(dy, cache): return np.where(cache, dy, 0.0)\n",
        ["does not compute the exercise's y", "is not the derivative of your own forward (measured)"]),
}  # fmt: skip


@each(("text", "words"), FAULTS)
def test_what_goes_wrong_is_told(tmp_path, text, words):
    found = graded(tmp_path, text)
    assert found.status == "wrong"
    assert max(map(len, report.report(found, 1, "npformer grade mine.py").splitlines())) <= 80
    for word in words:
        assert word in said(found)


@pytest.mark.parametrize(
    ("body", "words", "gradient"),
    [
        ("y = cache\n    return y * (dy - (dy * y).sum(axis=-1))",
         "stops with ValueError; so on “three axes”, “a matrix with gaps”, “saturated scores”, “hidden entries”, “a "
         "row of nothing”, “long rows”, not so on “rows of length 1”", "has the shape (3, 3), expected (3, 1)"),
        ("return (dy, dy) if dy.shape[-1] > 1 else 2 + dy",
         "got a tuple of 2; so on “three axes”, “a matrix with gaps”, “saturated scores”, “hidden entries”, “a row of "
         "nothing”, “long rows”, not so on “rows of length 1”", "is not the derivative; off by"),
    ],
    ids=["an exception", "two gradients"],
)  # fmt: skip
def test_an_input_on_which_a_gradient_is_wrong_is_not_said_to_be_right(tmp_path, body, words, gradient):
    found = {f.name: f.text for f in graded(tmp_path, pair_source(find("softmax"), body), "softmax").findings}
    assert words in found["backward"]
    assert found["dx"].startswith(gradient)


def test_an_endless_loop_is_stopped_and_its_line_named(tmp_path):
    """The solution itself lets the clock strike, in the midst of its loop."""
    found = graded(tmp_path, backward("import signal\n    while True: signal.raise_signal(signal.SIGALRM)"))
    assert "relu_backward did not come back within 120 s" in said(found)
    assert "line 5: while True: signal" in said(found)


def test_a_loop_that_catches_everything_is_stopped_all_the_same(tmp_path):
    loop = "while True:\n        try:\n            while True: list(range(9))\n        except BaseException: pass"
    found = graded(tmp_path, backward(loop), seconds=3)
    assert "relu_backward did not come back within 3 s" in said(found)


def test_an_endless_loop_at_the_top_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"did not come to an end within 3 s\n  line 1: while True"):
        graded(tmp_path, "while True: pass\n" + RIGHT, seconds=3)


def test_prints_disturb_nothing_and_are_shown_shortened(tmp_path):
    noise = 'import os\nfor i in range(20000): print(i, \'{"event": "end"}\')\nos.write(1, b"raw\\n")\n'
    found = graded(tmp_path, RIGHT + noise)
    assert found.ok
    shown = report.report(found, 1, "")
    assert "Your code printed\n    0 {" in shown
    assert "… and more" in shown
    assert len(shown) < 1500


def test_a_print_in_backward_is_shown_once_per_input(tmp_path):
    assert graded(tmp_path, backward("print('here'); return np.where(cache, dy, 0)")).printed == "here\n" * 4


def test_a_warning_is_shown_with_its_line(tmp_path):
    found = graded(tmp_path, backward("np.log(0.0)\n    return np.where(cache, dy, 0)"))
    assert found.ok
    assert "divide by zero encountered in log (line 4)" in said(found)


def test_a_part_cannot_be_borrowed_from_another_exercise_in_the_file(tmp_path):
    two = (
        "import parts\nfrom parts import softmax_forward as given\n"
        "def softmax_forward(x, visible): return given(x, visible)\n"
        "def softmax_backward(dy, cache): return parts.softmax_backward(dy, cache)\n"
        "def attention_forward(q, k, v, visible): pass\ndef attention_backward(dout, cache): pass\n"
    )
    with pytest.raises(DataError, match="calls softmax_backward of parts, which this exercise does not offer"):
        graded(tmp_path, two)


def test_a_helper_beside_the_file_may_be_imported_a_false_numpy_not(tmp_path):
    (tmp_path / "helper.py").write_text("def gate(x): return x > 0\n")
    (tmp_path / "numpy.py").write_text("1 / 0\n")
    text = RIGHT.replace("x > 0\n", "helper.gate(x)\n").replace("import numpy", "import helper, numpy")
    assert graded(tmp_path, text).ok


def test_a_program_below_main_is_not_run(tmp_path):
    assert graded(tmp_path, RIGHT + "if __name__ == '__main__':\n    import os; os._exit(3)\n").ok
