"""What a bug leaves as it is, is not asked again: checks and cases that do not run it."""

from importlib import import_module

import pytest

from npformer.check import catalogue
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.checks import Check, Program
from npformer.lab.museum.detections import examine, prepared

BACKWARD = bug("attention-dk-no-transpose")


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls of a function: count(module, name) is a list that grows by one at each."""

    def count(module, name):
        calls = []
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args: (calls.append(args), function(*args))[1])
        return calls

    return count


def test_all_proofs_share_the_layers_that_they_are_about(counted):
    """Each case is built for the proofs once, for its gradient once, and a few times by those that need more."""
    prepared()
    built = counted(import_module("npformer.check.cases.case"), "shaken")
    examine(BACKWARD)
    layers = len([case for case in catalogue() if case.group != "op"])
    assert 0 < len(built) <= 2 * layers


def test_only_parts_that_run_what_is_changed_are_run():
    prepared_checks = prepared()
    for check, parts in prepared_checks.concerned(BACKWARD):
        assert 0 < len(parts) <= len(check.parts)
        assert all(prepared_checks.reached[check.name][part] & BACKWARD.targets for part in parts)
    few = {check.name: (len(parts), len(check.parts)) for check, parts in prepared_checks.concerned(BACKWARD)}
    some, of = few["invariant: determinism"]
    assert 0 < some < of / 2


def test_a_check_ends_with_the_first_part_that_finds_a_problem(numpy64):
    asked = []

    def part(number):
        return lambda program: (asked.append(number), [f"{number}"] if number in (2, 3) else [])[1]

    check = Check("c", "m", tuple(map(part, range(5))))
    assert check(Program(numpy64)) == ["2"]
    assert check(Program(numpy64), [1, 3, 4]) == ["3"]
    assert check(Program(numpy64), [0, 4]) == []
    assert asked == [0, 1, 2, 1, 3, 0, 4]


def test_whoever_uses_what_is_shared_counts_as_running_what_made_it(numpy64):
    ran, times = {"before"}, []
    program = Program(numpy64, ran)

    def make():
        times.append(1)
        ran.add("f")
        return [1, 2]

    first = program.shared("x", make)
    assert ran == {"before", "f"}
    ran.clear()
    assert program.shared("x", make) is first
    assert (ran, len(times)) == ({"f"}, 1)
    assert Program(numpy64).shared("x", make) is not first, "a bug may have left something in it"
