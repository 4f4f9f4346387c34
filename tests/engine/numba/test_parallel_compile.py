"""Several kernels are compiled at a time, in processes of their own, and a person sees how far it is."""

import io
import subprocess
import sys

import pytest

from npformer.engine.numba import parallel_compile

NAMES = ["add_and_compare.add", "add_and_compare.compare"]
#: Two small kernels; says which of them this process compiled itself.
PROGRAM = """
from npformer.engine.numba import compiling, add_and_compare, parallel_compile
compiled_here, before = [], compiling.Kernel.compile
compiling.Kernel.compile = lambda kernel, dtype: compiled_here.append(kernel.name) or before(kernel, dtype)
parallel_compile.cores = lambda: 2
BEFORE
missing = compiling.prepare([add_and_compare.add, add_and_compare.compare], "float32")
assert [kernel.name for kernel in missing] == ["add_and_compare.add", "add_and_compare.compare"]
assert all(kernel.is_ready("float32") for kernel in missing)
print(*compiled_here)
"""
DYING = """
def dying(*args):
    popen, python = parallel_compile.subprocess.Popen, parallel_compile.sys.executable
    return popen([python, "-c", ""], stdin=-1, stdout=-1, text=True)
parallel_compile._child = dying
"""


@pytest.fixture
def compiled(run_apart, tmp_path):
    """compiled(before): what a process compiled itself of PROGRAM with an empty folder, and what it said."""

    def run(before=""):
        program = PROGRAM.replace("BEFORE", before)
        out, stderr = run_apart(program, NUMBA_CACHE_DIR=str(tmp_path))
        return out.split(), stderr

    return run


def test_processes_compile_and_this_one_takes_what_they_kept(compiled):
    kernels, lines = compiled()
    assert kernels == []
    assert lines[0] == "npformer: compiling 2 kernels for float32, once ..."
    assert [line.partition(",")[0] for line in lines[1:3]] == ["npformer: 1 of 2", "npformer: 2 of 2"]
    assert sorted(line.partition(", ")[2] for line in lines[1:3]) == NAMES
    assert lines[3].startswith("npformer: compiled in ")
    assert len(lines) == 4


@pytest.mark.parametrize(
    "before",
    [DYING, "parallel_compile.sys.executable = None"],
    ids=["processes that die", "no program to start"],
)
def test_what_processes_do_not_bring_about_this_one_does(before, compiled):
    kernels, lines = compiled(before)
    assert kernels == NAMES
    assert [line.partition(", ")[2] for line in lines[1:3]] == NAMES
    assert len(lines) == 4


class Compilable:
    """A kernel that is there once it has been compiled."""

    def __init__(self, name):
        self.name, self.ready = name, False

    def load(self, dtype):
        return self.ready

    def compile(self, dtype):
        self.ready = True


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_it_is_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(parallel_compile, "cores", lambda: 1)
    parallel_compile.compile_several([Compilable(name) for name in "abc"], "float32")
    text = terminal.getvalue()
    assert "| 0/3" in text
    assert ", b" not in text
    assert text.splitlines()[-1].strip().startswith("npformer: compiled in ")


def compiled_one_by_one(monkeypatch):
    """What a terminal shows of the first check of a model: each operation compiles its kernel at its first call."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    for name in "abcdefghijklm":
        parallel_compile.compile_several([Compilable(name)], "float64")
    return shown.getvalue()


def test_kernels_that_are_compiled_one_by_one_leave_no_lines(monkeypatch):
    text = compiled_one_by_one(monkeypatch)
    assert text.count("npformer: compiling 1 kernel for float64 ") >= 13
    assert "\n" not in text
    assert text.endswith("\r")
    assert not text.split("\r")[-2].strip(), "what was shown is overwritten"


def test_a_notebook_shows_nothing_of_the_kernels_of_a_check(notebook, monkeypatch):
    assert compiled_one_by_one(monkeypatch) == ""


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["cell", "command"])
def test_a_notebook_shows_when_several_kernels_begin_and_end(notebook, stream, monkeypatch):
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(parallel_compile, "cores", lambda: 1)
    parallel_compile.compile_several([Compilable(name) for name in "abcdefg"], "float32")
    first, last, end = shown.getvalue().split("\n")
    assert (first, end) == ("npformer: compiling 7 kernels for float32, once ...", "")
    assert last.startswith("npformer: compiled in ")


def test_an_interrupt_ends_the_processes(monkeypatch):
    children = []

    def child(*_):
        program = "import time; time.sleep(600)"
        children.append(subprocess.Popen([sys.executable, "-c", program], text=True, stdin=-1, stdout=-1))
        return children[-1]

    class Thread(parallel_compile.threading.Thread):
        def join(self, timeout=None):
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel_compile, "cores", lambda: 2)
    monkeypatch.setattr(parallel_compile, "_child", child)
    monkeypatch.setattr(parallel_compile.threading, "Thread", Thread)
    with pytest.raises(KeyboardInterrupt):
        parallel_compile.compile_several([Compilable(name) for name in "abc"], "float32")
    assert [each.poll() is not None for each in children] == [True, True]
