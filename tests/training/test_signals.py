"""A first signal is noted, a second one obeyed, and what was before comes back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from npformer.training.signals import HeldInterrupt, StopRequest, stop_on_signals

BOTH = (signal.SIGINT, signal.SIGTERM)


class Obeyed(Exception):
    """What the handler that was there before raises."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A handler of our own for both signals, and then the ones of pytest again."""

    def obey(number: int, frame: object) -> None:
        raise Obeyed(number)

    before = {number: signal.signal(number, obey) for number in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_is_noted_and_the_second_obeyed(number: int) -> None:
    with stop_on_signals() as stop:
        assert stop.number is None
        signal.raise_signal(number)
        assert stop.number == number
        for second in BOTH:
            with pytest.raises(Obeyed):
                signal.raise_signal(second)


@pytest.mark.parametrize("asked", [False, True])
def test_handlers_come_back(asked: bool) -> None:
    before = [signal.getsignal(number) for number in BOTH]
    with suppress(KeyError), stop_on_signals():
        if asked:
            signal.raise_signal(signal.SIGTERM)
        raise KeyError
    assert [signal.getsignal(number) for number in BOTH] == before


def test_what_is_ignored_stays_ignored() -> None:
    """A shell starts background jobs so; Ctrl-C is not meant for them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.number is None
        signal.raise_signal(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_in_another_thread_nothing_is_noted_and_nothing_breaks() -> None:
    found: list[StopRequest] = []
    before = [signal.getsignal(number) for number in BOTH]

    def work() -> None:
        with stop_on_signals() as stop:
            found.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [stop.number for stop in found] == [None]
    assert [signal.getsignal(number) for number in BOTH] == before


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_held_to_the_end_of_what_it_would_tear() -> None:
    handler, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(Obeyed), HeldInterrupt():
        press()
        done.append("all")
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_one_that_was_noted_is_obeyed_before_anything_lasting_is_begun() -> None:
    held, done = HeldInterrupt(), []
    with pytest.raises(Obeyed), held:
        press()
        with held.firmly():
            done.append("update")
    assert done == []


def test_firmly_holds_a_second_one_and_is_obeyed_after() -> None:
    held, done = HeldInterrupt(), []
    with pytest.raises(Obeyed), held, held.firmly():
        with held.firmly():
            press()
        press()
        done.append("update")
    assert done == ["update"]


def test_a_second_one_is_obeyed_at_once_elsewhere() -> None:
    done = []
    with pytest.raises(Obeyed), HeldInterrupt():
        press()
        done.append("first")
        press()
        done.append("second")
    assert done == ["first"]


def test_a_handler_that_only_notes_is_told_and_nothing_is_left() -> None:
    told: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    held, done = HeldInterrupt(), []
    with held:
        press()
        with held.firmly():
            done.append(len(told))
            press()
        done.append(len(told))
    assert (done, len(told)) == ([1, 1], 2)


def test_an_ignored_interrupt_is_not_held() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with HeldInterrupt():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        press()
