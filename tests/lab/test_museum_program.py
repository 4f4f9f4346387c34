"""What a bug leaves as it is, is not computed again: cases that do not run it, targets, slopes of a right forward."""

from importlib import import_module

import pytest

from npformer.lab.museum.bugs import bug
from npformer.lab.museum.checks import Check, Program, gradients
from npformer.lab.museum.detections import examine, prepared
from npformer.lab.museum.patch import patched
from npformer.proof import catalogue

BACKWARD, FORWARD = bug("attention-dk-no-transpose"), bug("attention-scale-d")


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls of a function: count(module, name) is a list that grows by one at each."""

    def count(module, name):
        calls = []
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: (calls.append(given), own(*given))[1])
        return calls

    return count


def test_all_proofs_share_the_layers_that_they_are_about(counted):
    """Each case is built for the proofs once, for its gradient once, and a few times by those that need more."""
    prepared()
    built = counted(import_module("npformer.proof.case"), "shaken")
    examine(BACKWARD)
    layers = len([case for case in catalogue() if case.group != "op"])
    assert 0 < len(built) <= 2 * layers


@pytest.mark.parametrize(("one", "computed"), [(BACKWARD, False), (FORWARD, True)], ids=["backward", "forward"])
def test_slopes_are_those_of_the_right_program_as_long_as_no_forward_changes(counted, one, computed):
    check, parts = next(each for each in prepared().concerned(one) if each[0].name == "gradient of attention")
    slopes = counted(gradients, "_slopes")
    with patched(one.edits) as backend:
        assert bool(check(prepared().program(one, backend), parts)) is not computed
    assert bool(slopes) is computed


def test_only_parts_that_run_what_is_changed_are_run():
    found = prepared()
    for check, parts in found.concerned(BACKWARD):
        assert 0 < len(parts) <= len(check.parts)
        assert all(found.reached[check.name][part] & BACKWARD.targets for part in parts)
    few = {check.name: (len(parts), len(check.parts)) for check, parts in found.concerned(BACKWARD)}
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


class Noted:
    """A right program in which asking for "x" runs "f", and what comes from it."""

    def __init__(self, backend):
        self.backend, self.ran, self.times = backend, set[str](), 0
        self.right = Program(backend, ran=self.ran)

    def find(self):
        self.times += 1
        self.ran.add("f")
        yield from (1, 2)

    def wrong(self, *changed):
        return Program(self.backend, frozenset(changed), self.right)


def test_what_is_known_holds_while_nothing_that_ran_for_it_is_changed(numpy64):
    noted = Noted(numpy64)
    noted.ran.add("before")
    assert tuple(noted.right.known("x", noted.find)) == (1, 2)
    assert noted.ran == {"before", "f"}
    assert tuple(noted.wrong("before", "g").known("x", noted.find)) == (1, 2)
    assert noted.times == 1
    assert tuple(noted.wrong("g", "f").known("x", noted.find)) == (1, 2)
    assert noted.times == 2


def test_whoever_uses_what_is_shared_counts_as_running_what_made_it(numpy64):
    noted = Noted(numpy64)
    first = noted.right.shared("x", lambda: [*noted.find()])
    noted.ran.clear()
    assert noted.right.shared("x", lambda: [*noted.find()]) is first
    assert (noted.ran, noted.times) == ({"f"}, 1)
    wrong = noted.wrong("g")
    own = wrong.shared("x", lambda: [*noted.find()])
    assert own is not first, "a bug may have left something in it"
    assert wrong.shared("x", lambda: [*noted.find()]) is own
