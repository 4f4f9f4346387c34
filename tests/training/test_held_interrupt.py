"""Ctrl-C waits until nothing is half done, a second one only until an update has ended."""

import signal

import pytest

from npformer.training.held_interrupt import HeldInterrupt


class Obeyed(Exception):
    """What the handler that was there before raises."""


@pytest.fixture(autouse=True)
def handler():
    """A handler of our own, and then that of pytest again."""

    def obey(number, frame):
        raise Obeyed(number)

    before = signal.signal(signal.SIGINT, obey)
    yield
    signal.signal(signal.SIGINT, before)


def press(count=1):
    for _ in range(count):
        signal.raise_signal(signal.SIGINT)


def update(held, done, before=0, within=0, after=0):
    """A step of three lines, with so many presses in each."""
    with held:
        press(before)
        done.append("gradients")
        with held.firmly():
            with held.firmly():
                press(within)
            done.append("update")
        press(after)
        done.append("end")


@pytest.mark.parametrize(
    ("presses", "reached"),
    [
        ({"before": 1}, ["gradients"]),
        ({"before": 2}, []),
        ({"within": 3}, ["gradients", "update", "end"]),
        ({"after": 1}, ["gradients", "update", "end"]),
        ({"after": 2}, ["gradients", "update"]),
    ],
)
def test_a_first_one_is_held_until_nothing_is_half_done_and_a_second_outside_of_updates_is_not(presses, reached):
    handler, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(Obeyed):
        update(HeldInterrupt(), done, **presses)
    assert done == reached
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_only_notes_is_told_each_time_and_nothing_is_left_out():
    told = []
    signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    held, done = HeldInterrupt(), []
    update(held, done, before=1, within=1)
    assert (done, len(told)) == (["gradients", "update", "end"], 2)


def test_an_ignored_interrupt_is_not_held():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with HeldInterrupt():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
