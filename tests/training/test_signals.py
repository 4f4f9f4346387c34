"""A first signal is noted, a second one obeyed, and what was before comes back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from npformer.training.signals import StopRequest, stop_on_signals

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
