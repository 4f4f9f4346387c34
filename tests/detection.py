"""Does the sample of the tests notice what all of them notice? Every bug of the museum and every mutant, put in.

    python -m tests.detection                 each of 123 bugs and 760 mutants
    python -m tests.detection --sample 60     each bug and some of the mutants

One test, ``test_all_checks_hold_on_the_correct_program``, runs every check of the museum on the program as it is. It
has one case, so it is in every sample, and it fails if one check finds a problem: what a check notices, the sample
notices. About what no check notices the tests are asked, in a process of their own in which the fault was put in:
first those of the sample beside the function, then the sample, then all. Exit 1 if only the last notice it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import pytest

from npformer import functional
from npformer.backend import get_backend
from npformer.lab.museum.bug import Bug, Edit
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.checks import Program, all_checks
from npformer.lab.museum.detections import prepare
from npformer.lab.museum.patch import _exchanged, changed_functions, function_at
from npformer.lab.mutation_testing import defendants

ROOT = Path(__file__).parents[1]
#: Names the fault that a process of tests is to run with.
VARIABLE = "NPFORMER_FAULT"


@dataclass(frozen=True)
class Fault:
    """Something wrong that can be put into the program: other functions in the place of some."""

    name: str
    wrong: dict[str, FunctionType]  # target -> what stands in for it

    @property
    def bug(self):
        """As the museum knows it: by the functions that it changes."""
        edits = tuple(Edit(target, "", "") for target in self.wrong)
        return Bug(self.name, "", edits, "", "", "")

    @contextmanager
    def put_in(self):
        """While in the context, whoever calls the function, under whatever name, runs the wrong one."""
        with _exchanged([(function_at(target), wrong) for target, wrong in self.wrong.items()]):
            yield


def faults():
    """All bugs, then all mutants."""
    found = []
    for one in BUGS:
        targets = dict.fromkeys(edit.target for edit in one.edits)
        found.append(Fault(f"bug {one.id}", dict(zip(targets, changed_functions(one.edits), strict=True))))
    return found + [_as_fault(number, one) for number, one in enumerate(defendants())]


def _as_fault(number, one):
    right = getattr(functional, f"{one.op}_backward") if one.op else getattr(one.owner, one.mutant.function)
    wrong = one.mutant.build
    assert isinstance(wrong, FunctionType)
    return Fault(f"mutant {number}, {one.mutant.describe()}", {f"{right.__module__}:{right.__qualname__}": wrong})


def noticing_check(fault, prepared):
    """The name of a check that finds a problem, those of gradients first; "" if none does."""
    backend = get_backend("numpy", dtype="float64", kernels="plain", threads=1)
    concerned = sorted(prepared.concerned(fault.bug), key=lambda found: not found[0].name.startswith("gradient"))
    program = Program(backend)
    with fault.put_in():
        return next((check.name for check, parts in concerned if check(program, parts)), "")


def noticing_tests(fault):
    """Which tests fail: those beside the function, the sample, only all of them; "" if none do."""
    beside = [place for place in map(_tests_of, fault.wrong) if (ROOT / place).exists()]
    for tests, words in (
        ("its own tests", beside),
        ("the sample", ["tests"]),
        ("NO SAMPLED TEST", ["tests", "--full"]),
    ):
        if words and _fail(fault, words):
            return tests
    return ""


def _tests_of(target):
    """tests/functional/test_softmax.py of "npformer.functional.softmax:softmax_backward": the folders are mirrored."""
    *folders, module = target.partition(":")[0].split(".")[1:]
    return "/".join(["tests", *folders, f"test_{module}.py"])


def _fail(fault, words):
    """Whether a test fails with the fault in the program, and passes without it."""
    always = []
    while True:
        failing = _first_failing([*words, *(word for test in always for word in ("--deselect", test))], fault.name)
        if not failing or not _first_failing([failing], ""):
            return bool(failing)
        always.append(failing)


def _first_failing(words, fault):
    """The node id of the first test that fails, in a process of its own; "" if all pass."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.detection", "-p", "no:cacheprovider", "-x", "-q", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {VARIABLE: fault})
    found = re.findall(r"^(?:FAILED|ERROR) (\S+::[^\[\s]+(?:\[.*?\](?= - |$))?)", done.stdout, re.M)
    if (done.returncode, len(found)) not in ((pytest.ExitCode.OK, 0), (pytest.ExitCode.TESTS_FAILED, 1)):
        raise RuntimeError(f"{fault}: expected tests that pass or fail, got:\n{done.stdout}{done.stderr}")
    return found[0] if found else ""


_in_force = ExitStack()


def pytest_collection_finish(session):
    """In a process of tests that was started from here: everything is imported, so put the fault in."""
    name = os.environ.get(VARIABLE)
    if name:
        (fault,) = (fault for fault in faults() if fault.name == name)
        _in_force.enter_context(fault.put_in())


def main(arguments):
    """Print what no check notices, and who notices it instead; 1 if that is no test of the sample."""
    parser = argparse.ArgumentParser(prog="python -m tests.detection", description=str(__doc__).splitlines()[0])
    parser.add_argument("--sample", type=int, metavar="N", help="so many of the mutants, drawn at random")
    number, start, chosen = parser.parse_args(arguments).sample, time.perf_counter(), faults()
    if number is not None:
        mutants = chosen[len(BUGS) :]
        chosen = chosen[: len(BUGS)] + random.Random(0).sample(mutants, min(number, len(mutants)))
    prepared = prepare(all_checks(), [fault.bug for fault in chosen])
    left = [fault for fault in chosen if not noticing_check(fault, prepared)]
    print(f"{len(chosen) - len(left)} of {len(chosen)} are noticed by {all_checks_test()} itself", flush=True)
    ways = []
    for fault in left:
        ways.append(noticing_tests(fault))
        print(f"  by {ways[-1] or 'no test at all'}: {fault.name}", flush=True)
    holes = ways.count("NO SAMPLED TEST")
    print(f"{holes} of {len(chosen)} by all tests, but not by the sample ({time.perf_counter() - start:.0f} s)")
    return 1 if holes else 0


def all_checks_test():
    """The test that runs every check."""
    return "tests/lab/test_museum_detections.py::test_all_checks_hold_on_the_correct_program"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
