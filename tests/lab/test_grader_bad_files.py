"""Files that are wrong in other ways than a wrong gradient: each ends soon, harms nothing, and is told clearly."""

import pytest

from npformer.errors import DataError
from npformer.lab.grader import find, report
from npformer.lab.grader.templates import pair_source
from tests.lab.learner import FILES, each, graded, said

FORWARD = "import numpy as np\ndef relu_forward(x): return np.where(x > 0, x, 0.0), x > 0\n"
BACKWARD = "def relu_backward(dy, cache): return np.where(cache, dy, 0.0)\n"
RIGHT = FORWARD + BACKWARD


def backward(body):
    return f"{FORWARD}def relu_backward(dy, cache):\n    {body}\n"


@each(("text", "words"), FILES["refused"])
def test_what_cannot_be_graded_is_refused_with_a_reason(tmp_path, text, words):
    with pytest.raises(DataError) as refused:
        graded(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "mine.py"))
    for word in words:
        assert word in message


@each(("text", "words"), FILES["faulty"])
def test_what_goes_wrong_is_told(tmp_path, text, words):
    found = graded(tmp_path, text)
    assert found.verdict == "WRONG"
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
    found = {f.name: f.reason for f in graded(tmp_path, pair_source(find("softmax"), body), "softmax").findings}
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
