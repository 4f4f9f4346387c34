"""A kernel's repository that checks its gradients with npformer loads NumPy, and of npformer the check alone."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import npformer
from npformer.check import gradcheck
from tests.markdown import blocks, text_of

START = """
import numpy as np
import npformer as npf

x = np.random.default_rng(0).normal(size=(3, 4))

def tanh(x):
    return np.tanh(x), x

def backward(dy, x):
    return dy * (1 - np.tanh(x)**2)

def wrong(dy, x):
    return dy * (1 - np.tanh(x))

class Dense:
    def __init__(self):
        self.W = np.random.default_rng(1).normal(size=(4, 2))

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, dy):
        self.dW = self.x.T @ dy
        return dy @ self.W.T

"""
#: Kernels in few digits load more of npformer.
CHECKS = {
    "in float64": """
assert npf.gradcheck((tanh, backward), x).ok
assert 'should be' in str(npf.gradcheck((tanh, wrong), x))
assert npf.gradcheck((tanh, backward), x, regimes='all', sizes=(33,)).ok
assert npf.gradcheck(npf.from_object(Dense()), x).ok
npf.from_torch, npf.from_jax
""",
    "in few digits": "assert npf.gradcheck((tanh, backward), x.astype('float32'), reference=(tanh, backward)).ok",
}
#: Parts of npformer that a check may load.
LIGHT = {"_version", "backend", "check", "errors", "extras", "functional", "interop", "io", "late", "typing"}
#: 92 modules of npformer for a first check, 12 more for kernels in few digits, when this was written.
MOST = 110
REPORT = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"


#: Every folder that is made, process that is started and file that is opened to be written ends it.
NO_TRACE = """
import os, sys

def hook(event, arguments):
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in ("os.mkdir", "subprocess.Popen"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(hook)
"""


def run(tmp_path, *arguments):
    """What a new process prints. It knows nothing of the pytest that runs here, and has an empty home."""
    ours = ("PYTEST", "NUMBA", "XDG")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def loaded(code, tmp_path):
    """The modules in a new process after this code, which a file holds: a cause is looked for in its source."""
    file = tmp_path / "own.py"
    file.write_text(code + REPORT, encoding="utf-8")
    return json.loads(run(tmp_path, str(file)).splitlines()[-1])


def packages(modules):
    """The packages that modules belong to, without the standard library and what an editable install adds."""
    names = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"__main__", "__mp_main__"}
    return {name for name in names if not name.startswith(("__editable__", "_cython_", "cython_runtime", "_distutils"))}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_check_loads_numpy_alone_and_leaves_nothing_behind(check, tmp_path):
    before = packages(loaded("import numpy", tmp_path))
    modules = loaded(NO_TRACE + START + check, tmp_path)
    assert packages(modules) - before == {"npformer"}
    ours = [name for name in modules if name.startswith("npformer.")]
    assert {name.split(".")[1] for name in ours} <= LIGHT
    assert len(ours) < MOST


def test_the_fixture_loads_no_more(tmp_path):
    file = tmp_path / "test_kernel.py"
    told = "\n    import json, sys; open('modules.json', 'w').write(json.dumps(sorted(sys.modules)))\n"
    (three_lines,) = [block for block in blocks("python", text_of("README.md")) if "(gradcheck)" in block]
    test = three_lines.replace("my_forward", "tanh").replace("my_backward", "backward")
    assert len(test.splitlines()) == 3
    file.write_text(START + test.rstrip() + told, encoding="utf-8")
    plugins = [] if _is_installed() else ["-p", "npformer.pytest_plugin"]
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, "-c", os.devnull, str(file))
    modules = json.loads((tmp_path / "modules.json").read_text(encoding="utf-8"))
    assert not packages(modules) & {"array_api_compat", "safetensors", "tqdm", "matplotlib", "torch", "jax"}
    assert {name.split(".")[1] for name in modules if name.startswith("npformer.")} <= LIGHT | {"pytest_plugin"}


def _is_installed():
    return any(point.value == "npformer.pytest_plugin" for point in entry_points(group="pytest11"))


def gone_through(call):
    """The files of npformer whose functions run in a call, by their path in the package."""
    root, files = Path(npformer.__file__).parent, set()

    def enter(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(before)
    return {path.relative_to(root).as_posix() for path in map(Path, files) if path.is_relative_to(root)}


def product(x, w):
    y = np.tanh(x @ w)
    return y, (x, w, y)


def product_backward(dy, cache):
    x, w, y = cache
    d = dy * (1 - y**2)
    return d @ w.T, x.T @ d


def without_a_square(dy, cache):
    x, w, y = cache
    d = dy * (1 - y)
    return d @ w.T, x.T @ d


@pytest.mark.parametrize(
    ("backward", "is_right", "most"), [(product_backward, True, 24), (without_a_square, False, 40)]
)
def test_a_strangers_pair_goes_through_few_files(backward, is_right, most):
    x, w = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(4, 5))
    reports = []
    files = gone_through(lambda: reports.append(gradcheck((product, backward), x, w)))
    assert reports[0].ok == is_right
    assert is_right or "`y` should be `y ** 2`" in reports[0].rows[0].diagnosis
    assert len(files) <= most, sorted(files)
    assert not [name for name in files if name.startswith(("functional/", "lab/", "layers/"))]
