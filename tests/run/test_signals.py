"""A first signal is noted, a second one obeyed, and what was before comes back."""

import signal
import threading
from contextlib import suppress

import pytest

from npformer.run.signals import stop_on_signals

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Obeyed(Exception):
    """What the handler that was there before raises."""


@pytest.fixture(autouse=True)
def handlers():
    """A handler of our own for the signals, and then the ones of pytest again."""

    def obey(number, frame):
        raise Obeyed(number)

    before = {number: signal.signal(number, obey) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ALL)
def test_the_first_is_noted_and_the_second_obeyed(number):
    with stop_on_signals() as stop:
        assert stop.number is None
        signal.raise_signal(number)
        assert stop.number == number
        for second in ALL:
            with pytest.raises(Obeyed):
                signal.raise_signal(second)


@pytest.mark.parametrize("asked", [False, True])
def test_handlers_come_back(asked):
    before = [signal.getsignal(number) for number in ALL]
    with suppress(KeyError), stop_on_signals():
        if asked:
            signal.raise_signal(signal.SIGTERM)
        raise KeyError
    assert [signal.getsignal(number) for number in ALL] == before


def test_what_is_ignored_stays_ignored():
    """A shell starts background jobs so; Ctrl-C is not meant for them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.number is None
        signal.raise_signal(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_in_another_thread_nothing_is_noted_and_nothing_breaks():
    signals = []
    before = [signal.getsignal(number) for number in ALL]

    def work():
        with stop_on_signals() as stop:
            signals.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [stop.number for stop in signals] == [None]
    assert [signal.getsignal(number) for number in ALL] == before
