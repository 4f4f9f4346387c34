"""The judge of kernels: what each kind of cheat, crash and mistake is called, and what is called right beside them."""

import pytest

from npformer.check.kernels import judging, process
from npformer.check.kernels.files import tasks_of
from npformer.check.kernels.judging import judged
from npformer.check.kernels.process import KernelEnded, KernelProcess
from npformer.errors import ConfigError, DataError
from npformer.io.child_process import Limits
from npformer.io.seconds import now

LIMITS = Limits(seconds=600.0)
REFERENCE = """
import numpy as np
REGIMES, SIZES = (), ()
def inputs(rng):
    return rng.normal(size=(3, 8)), 1 + rng.random(8)
def forward(x, w):
    return x * x * w, (x, w)
def backward(dy, cache):
    x, w = cache
    return 2 * dy * x * w, (dy * x * x).sum(0)
"""
RIGHT = """
import ctypes, os, sys
import numpy as np
state = {}
def f(x, w):
    return x * x * w
def of_w(dy, x):
    return (dy * x * x).sum(0)
def forward(x, w):
    return f(x, w), (x, w)
def backward(dy, cache):
    x, w = cache
    return 2 * dy * x * w, of_w(dy, x)
"""
#: Its backward, then what is said of it.
BACKWARDS = {
    "zeros": ("return 0 * x, of_w(dy, x)", "the gradient of x is zero everywhere"),
    "a constant": ("return 2 * dy * x * w, np.ones_like(w)", "the gradient of w is a constant"),
    "no dy": ("return 2 * x * w, of_w(dy, x)", "ignores dy: the gradient of x is the same for another dy"),
    "random": ("return 2 * dy * x * w * np.random.rand(), of_w(dy, x)", "is another at each call: the gradient of x"),
    "one term": ("return dy * x * w, of_w(dy, x)", "the gradient of x is wrong: in float32, 0.5"),
    "by address": (
        "old = state.setdefault(x.ctypes.data, x.copy())\n    return 2 * dy * old * w, of_w(dy, x)",
        "depends on earlier calls: the gradient of x differs",
    ),
    "unwritten": (
        "dx = np.empty_like(x)\n    dx[:2] = 2 * (dy * x * w)[:2]\n    return dx, of_w(dy, x)",
        "does not write 8 of 24 entries of the gradient of x",
    ),
    "added up in unwritten memory": (
        "dw = np.empty(8, x.dtype)\n    dw += of_w(dy, x)\n    return 2 * dy * x * w, dw",
        "reads memory before it is written: the gradient of w",
    ),
    "the same object": (
        "dx = state.setdefault('dx', np.zeros_like(x))\n    dx[...] = 2 * dy * x * w\n    return dx, of_w(dy, x)",
        "backward writes into an array that an earlier call returned",
    ),
    "into its input": (
        "dx, dw = 2 * dy * x * w, of_w(dy, x)\n    x *= 0\n    return dx, dw",
        "backward changes its input x, which other code still needs",
    ),
    "into dy": (
        "dw = of_w(dy, x)\n    dx = 2 * dy * x * w\n    dy += 1\n    return dx, dw",
        "backward changes dy, which other code still needs",
    ),
    "differences of the forward": (
        "x = x.astype('f8')\n    return dy * (forward(x + 1e-5, w)[0] - forward(x - 1e-5, w)[0]) / 2e-5, of_w(dy, x)",
        "backward measures slopes: it calls forward near its numbers",
    ),
    "differences of a part": (
        "x = x.astype('f8')\n    return dy * (f(x + 1e-5, w) - f(x, w)) / 1e-5, of_w(dy, x)",
        "backward measures slopes: it calls forward near its numbers",
    ),
    "one number after another": (
        "dx, x = np.zeros(x.shape), x.astype('f8')\n    for i in np.ndindex(x.shape):\n        up = x.copy()\n"
        "        up[i] += 1e-6\n        dx[i] = (dy * (up * up * w - x * x * w).sum() / 1e-6)[i]\n"
        "    return dx, of_w(dy, x)",
        "backward measures slopes: it moves one number of an input after another",
    ),
    "a complex step": (
        "return dy * f(x + 1e-30j, w).imag / 1e-30, of_w(dy, x)",
        "backward measures slopes: it takes a complex step",
    ),
    "no watching": (
        "sys.setprofile(None)\n    return 2 * dy * x * w, of_w(dy, x)",
        "backward takes away what watches its calls",
    ),
}
REFUSED = {
    "an exception": ("raise ValueError('no such size')", "ValueError: no such size (line 13)"),
    "another shape": ("return (2 * dy * x * w).T, of_w(dy, x)", "gradient of x: expected (3, 8), got (8, 3)"),
    "no numbers": ("return 'dx', 'dw'", "TypeError: expected arrays of numbers, got a tuple of 2"),
    "it crashes": ("return ctypes.string_at(0)", "its process ended in its backward (SIGSEGV)"),
    "much memory": ("return np.ones((1 << 17, 1 << 17))", "MemoryError: Unable to allocate 128. GiB"),
}
RIGHT_TOO = {
    "it prints": "os.write(1, b'dx\\n' * 99)\n    print(dy, input)\n    return 2 * dy * x * w, of_w(dy, x)",
    "the forward again": "y, _ = forward(x, w)\n    return 2 * dy * y / x, (dy * f(x, w) / w).sum(0)",
    "memory that is written": "dx = np.empty_like(x)\n    dx[:] = 2 * dy * x * w\n    return [dx, of_w(dy, x)]",
    "complex numbers": "z = (x + 1j * w) * dy\n    return 2 * (z.real * w), (z.real * x).sum(0)",
}


@pytest.fixture
def judge(tmp_path):
    """judge(source, reference): the verdict on a kernel's text."""

    def verdict(source, reference=REFERENCE, limits=LIMITS):
        (tmp_path / "kernel.py").write_text(source)
        (tmp_path / "reference.py").write_text(reference)
        (task,) = tasks_of([str(tmp_path / "kernel.py")], str(tmp_path / "reference.py"), "float32")
        return judged(task, limits)

    return verdict


def with_backward(body):
    """The right kernel with another end of its backward."""
    return RIGHT[: RIGHT.rindex("    return")] + f"    {body}\n"


@pytest.mark.parametrize("name", BACKWARDS)
def test_wrong(judge, name):
    body, said = BACKWARDS[name]
    found = judge(with_backward(body))
    assert found["verdict"] == "wrong"
    assert any(cause.startswith(said) for cause in found["causes"]), found["causes"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(judge, name):
    body, said = REFUSED[name]
    found = judge(with_backward(body))
    assert found["verdict"] == "refused"
    assert said in found["causes"][0]


@pytest.mark.parametrize("name", RIGHT_TOO)
def test_right_too(judge, name):
    found = judge(with_backward(RIGHT_TOO[name]))
    assert (found["verdict"], found["causes"]) == ("right", [])
    assert [row["tensor"] for row in found["tensors"]] == ["x", "w"]


def test_state_outside_of_the_cache(judge):
    source = RIGHT.replace("return f(x, w), (x, w)", "state['x'] = x\n    return f(x, w), w")
    found = judge(source.replace("x, w = cache", "x, w = state['x'], cache"))
    assert found["verdict"] == "wrong"
    assert found["causes"][0].startswith("keeps what belongs into the cache elsewhere: the gradient of x")


INTO_BUFFERS = """
import ctypes
def forward(x, w, out):
    out[0][...] = x * x * w
    return x, w
def backward(dy, cache, out):
    x, w = cache
    out[0][...], out[1][...] = 2 * dy * x * w, (dy * x * x).sum(0)
"""


def at(index):
    """Writes a number into the memory of the first gradient, or outside of it."""
    return f"    ctypes.cast(out[0].ctypes.data, ctypes.POINTER(ctypes.c_float))[{index}] = 0.0\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (INTO_BUFFERS + at(24), "backward writes past the end of the gradient of x"),
        (INTO_BUFFERS + at(-1), "backward writes before the start of the gradient of x"),
        (INTO_BUFFERS.replace("out[0][...] = x * x * w\n", "out[0][1:] = (x * x * w)[1:]\n"),
         "does not write 8 of 24 entries of output 0"),
    ],
)  # fmt: skip
def test_buffers(judge, source, said):
    found = judge(source)
    assert found["verdict"] == "wrong"
    assert said in found["causes"], found["causes"]


def test_a_kernel_that_does_not_return(judge):
    found = judge(with_backward("while True: pass"), limits=Limits(seconds=4.0))
    assert found["verdict"] == "refused"
    assert found["causes"][0].startswith("its backward had not returned after")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("backward = 3", "expected a function forward, got NoneType"),
        ("raise SystemExit(2)", "SystemExit: 2 (line 1)"),
    ],
)
def test_a_file_that_does_not_load(judge, source, said):
    found = judge(source)
    assert found["verdict"] == "refused"
    assert said in found["causes"][0]


def test_a_time_that_is_up_is_not_the_kernels(tmp_path):
    for name, text in (("kernel.py", RIGHT), ("reference.py", REFERENCE)):
        (tmp_path / name).write_text(text)
    (task,) = tasks_of([str(tmp_path / "kernel.py")], str(tmp_path / "reference.py"), "float32")
    with pytest.raises(KernelEnded) as ended, KernelProcess(task, LIMITS, now() - 1):
        pass
    assert not ended.value.is_its_own


def test_a_regime_and_the_smallest_input(judge):
    reference = REFERENCE.replace("REGIMES, SIZES = (), ()", "REGIMES, SIZES = {'x': 'zeros'}, ()")
    wrong = with_backward("return 2 * dy * x * w + (x == 0), of_w(dy, x)")
    assert judge(wrong)["verdict"] == "right"
    found = judge(wrong, reference)
    assert found["verdict"] == "wrong"
    assert found["causes"][0].startswith("WRONG in zeros, x: the gradient of x")
    assert found["causes"][1].startswith("the smallest input found at which it is: x = [")
    assert [(tried["regime"], tried["verdict"]) for tried in found["regimes"]] == [("zeros", "WRONG")]


BY_POINTER = """
import ctypes
def forward(x, w, out):
    out[0][...] = x * x * w
    return x
def backward(dy, x, out):
    at = ctypes.cast(out[0].ctypes.data, ctypes.POINTER(ctypes.c_float))
    for i, g in enumerate((dy * x * x).sum(0)):
        at[i] = g
"""


def test_sizes_that_the_reference_does_not_take_accuse_nobody(judge):
    """A constant keeps its size, so a single w broadcasts in both forwards, and no gradient of its shape comes back."""
    reference = REFERENCE.replace("REGIMES, SIZES = (), ()", "CONSTANT, REGIMES, SIZES = ('x',), (), (1,)")
    found = judge(BY_POINTER, reference.replace("2 * dy * x * w,", "None,"))
    assert (found["verdict"], found["causes"]) == ("right", [])
    assert [tried["verdict"] for tried in found["regimes"]] == ["not tried"]


def test_a_constant(judge):
    reference = REFERENCE.replace("REGIMES", "CONSTANT = ('x',)\nREGIMES").replace(
        "return 2 * dy * x * w,", "return None,"
    )
    assert judge(RIGHT, reference)["verdict"] == "right"
    assert judge(with_backward("return of_w(dy, x)"), reference)["verdict"] == "right"


def test_results_of_another_shape_at_each_call(judge):
    odd = "state['n'] = state.get('n', 2) + 1\n    return w[:state['n']], (x, w)"
    found = judge(RIGHT.replace("return f(x, w), (x, w)", odd).replace("2 * dy * x * w, of_w(dy, x)", "x, w"))
    assert found["verdict"] == "refused"
    assert found["causes"][0].startswith("reference: expected outputs of the kernel's shapes")


def test_an_odd_failure_of_the_check_ends_no_run(judge, monkeypatch):
    monkeypatch.setattr(judging, "gradcheck", lambda *given, **options: 1 / 0)
    found = judge(RIGHT)
    assert found["verdict"] == "cannot tell"
    assert found["causes"] == ["the check itself failed, ZeroDivisionError: division by zero"]


def test_references_that_are_refused(judge):
    with pytest.raises(DataError, match="its own gradient of x is not right"):
        judge(RIGHT, REFERENCE.replace("return 2 *", "return 3 *"))
    with pytest.raises(DataError, match="expected a function inputs in a reference, got none"):
        judge(RIGHT, RIGHT)
    with pytest.raises(DataError, match="line 1: expected a file that runs, got ZeroDivisionError"):
        judge(RIGHT, "1 / 0")


def test_names_choose_reference_and_precision(tmp_path):
    for name in ("square.py", "square--one--bfloat16.py", "square--two.py", "_part.py"):
        (tmp_path / name).write_text(RIGHT)
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "square.py").write_text(REFERENCE)
    tasks = tasks_of([str(tmp_path)], str(tmp_path / "of"), "tf32")
    assert [(task.path.name, task.precision) for task in tasks] == [
        ("square--one--bfloat16.py", "bfloat16"), ("square--two.py", "tf32"), ("square.py", "tf32"),
    ]  # fmt: skip
    assert len({task.key for task in tasks}) == 2, "two are the same text in the same precision"
    (tmp_path / "other.py").write_text(RIGHT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"expected a reference of other.py, got .*other.py; there is no such file"):
        tasks_of([str(tmp_path)], str(tmp_path / "of"), "tf32")
    with pytest.raises(ConfigError, match="expected Python files in"):
        tasks_of([str(tmp_path / "empty")], str(tmp_path / "of"), "tf32")


def test_no_process_is_left(judge, monkeypatch):
    begun = []
    started = process.python_child
    monkeypatch.setattr(process, "python_child", lambda folder: begun.append(started(folder)) or begun[-1])
    judge(RIGHT)
    judge("1 / 0")
    assert [one._process.poll() is not None for one in begun] == [True] * 3
