"""A pool's jobs run at the same time, all of them end, and errors reach the caller."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from weakref import ref

import numpy as np
import pytest

from npformer.backend.numpy.blas import blas_threads
from npformer.engine import thread_pool as module
from npformer.engine.thread_pool import ThreadPool

PATIENCE = 600  # seconds until a test gives up on what would never happen


@pytest.fixture
def in_time(monkeypatch):
    """in_time(f): f() in a thread that is given up if it hangs, without a turn that would block all other tests."""
    monkeypatch.setattr(module, "_turn", threading.Lock())

    def run(action):
        ends = []

        def tried():
            try:
                action()
                ends.append(None)
            except BaseException as error:
                ends.append(error)

        thread = threading.Thread(target=tried, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert ends, "it hangs"
        if ends[0] is not None:
            raise ends[0]

    return run


@pytest.fixture
def waited_for(monkeypatch):
    """Set once a caller begins to wait for a job: one that ends afterwards shows whether the caller stays."""
    begun, wait = threading.Event(), module._Task.wait

    def noted(task):
        begun.set()
        wait(task)

    monkeypatch.setattr(module._Task, "wait", noted)
    return begun


def failing(error):
    def job():
        raise error

    return job


@pytest.mark.parametrize("size", [2, 3, 5])
def test_jobs_run_at_the_same_time_the_first_on_the_callers_thread_each_on_the_same_as_before(size):
    meeting, pool, seen = threading.Barrier(size), ThreadPool(size), [{} for _ in range(5)]

    def job(places, i):
        meeting.wait(PATIENCE)
        places[i] = threading.get_ident()

    for places in seen:
        pool.run([partial(job, places, i) for i in range(size)])
    assert seen[0][0] == threading.get_ident()
    assert len(set(seen[0].values())) == size
    assert all(places == seen[0] for places in seen)


def test_fewer_jobs_than_threads_and_none():
    done = []
    pool, running = ThreadPool(4), threading.active_count()
    pool.run([])
    pool.run([lambda: done.append(0)])
    assert threading.active_count() == running  # one job needs no thread
    pool.run([lambda: done.append(1), lambda: done.append(2)])
    assert threading.active_count() == running + 1
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_any_job_reaches_the_caller_after_all_have_ended(error, bad, waited_for):
    pool, ended = ThreadPool(3), []
    meeting = threading.Barrier(3)

    def job(i):
        meeting.wait(PATIENCE)
        if i == bad:
            raise error(f"job {i}")
        if i > 0:  # the first is the caller's own
            assert waited_for.wait(PATIENCE)
        ended.append(i)

    with pytest.raises(error, match=f"job {bad}"):
        pool.run([partial(job, i) for i in range(3)])
    assert sorted(ended) == [i for i in range(3) if i != bad]
    pool.run([meeting.wait] * 3)  # and the pool works on


def test_the_first_of_several_errors_is_raised():
    third_has_begun = threading.Event()

    def second():
        third_has_begun.wait(PATIENCE)
        raise ValueError("second")

    def third():
        third_has_begun.set()
        raise KeyError("third")

    with pytest.raises(ValueError, match="second"):
        ThreadPool(3).run([time.time, second, third])
    with pytest.raises(SystemExit):  # not an Exception, and not lost on a thread
        ThreadPool(2).run([time.time, failing(SystemExit(3))])


def test_an_error_keeps_nothing_of_the_batch_alive():
    pool, arrays = ThreadPool(2), []

    def job():
        array = np.ones(3)
        arrays.append(ref(array))
        raise MemoryError

    gc.disable()
    try:
        with pytest.raises(MemoryError) as caught:
            pool.run([time.time, job])
        assert arrays[0]() is not None
        del caught
        assert arrays[0]() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs a signal to one thread")
def test_an_interrupt_while_waiting_for_the_others_arrives_when_they_have_ended(waited_for):
    ended, pressed, caller = [], threading.Event(), threading.get_ident()

    def press(*_):
        if not pressed.is_set():
            pressed.set()
            raise KeyboardInterrupt

    def other():
        assert waited_for.wait(PATIENCE)
        while not pressed.is_set():  # a signal between Python's last look for one and its wait ends no wait
            signal.pthread_kill(caller, signal.SIGUSR1)
            pressed.wait(0.01)
        ended.append(True)

    previous = signal.signal(signal.SIGUSR1, press)
    try:
        with pytest.raises(KeyboardInterrupt):
            ThreadPool(2).run([time.time, other])
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert ended == [True]


def test_an_interrupt_at_any_line_waits_for_what_has_begun():
    """A second Ctrl-C is passed on at once, where the first one finds the caller clearing up, too."""
    for line in itertools.count():
        inside, lines, begun = [], [], threading.Event()

        def other(inside=inside, begun=begun):
            inside.append(1)
            begun.set()
            time.sleep(0.02)
            inside.clear()

        def own(begun=begun):
            assert begun.wait(PATIENCE)

        def trace(frame, event, _, lines=lines, line=line):
            if frame.f_code.co_filename != module.__file__ or frame.f_code is ThreadPool.run.__code__:
                return None
            if event == "line":
                lines.append(frame.f_lineno)
                if len(lines) == line + 1:
                    raise KeyboardInterrupt
            return trace

        pool = ThreadPool(2)
        sys.settrace(trace)
        try:
            pool.run([own, other])
        except KeyboardInterrupt:
            assert not inside, f"line {lines[-1]}"
            assert not module._here.busy, f"line {lines[-1]}"
        else:
            assert line > 10
            return
        finally:
            sys.settrace(None)


def test_waiting_has_no_lines_of_python_between_which_an_interrupt_tears_a_lock():
    """Within threading.Event.wait one does: the other thread then dies of releasing a lock twice, and nobody ends."""
    task, files = module._Task(lambda: None), set()

    def trace(frame, event, _):
        files.add(frame.f_code.co_filename)
        return trace

    other = threading.Thread(target=task.do)
    other.start()
    sys.settrace(trace)
    try:
        task.wait()
        task.wait()
    finally:
        sys.settrace(None)
    other.join()
    assert files == {module.__file__}


def test_jobs_not_begun_when_the_caller_fails_are_never_run(in_time):
    """An interrupt between two hand-overs: what was not handed over will not be waited for."""
    pool, done = ThreadPool(3), []
    pool.run([time.time] * 3)
    put = pool._inboxes[1]

    class Interrupted:
        def put(self, task):
            raise KeyboardInterrupt

    pool._inboxes[1] = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        in_time(lambda: pool.run([lambda: done.append(0), time.time, lambda: done.append(2)]))
    assert done == []
    pool._inboxes[1] = put
    pool.run([lambda: done.append(0), lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("moment", range(6))
def test_a_second_interrupt_at_any_moment_of_dropping_hangs_nothing(moment, in_time, waited_for, monkeypatch):
    """Before or after each of three tasks is dropped."""
    drop, calls = module._Task.drop, []

    def interrupted(task):
        calls.append(1)
        if len(calls) == moment // 2 + 1 and moment % 2 == 0:
            raise KeyboardInterrupt
        result = drop(task)
        if len(calls) == moment // 2 + 1 and moment % 2 == 1:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(module._Task, "drop", interrupted)
    pool, done, begun = ThreadPool(4), [], threading.Event()

    def other():
        begun.set()
        assert waited_for.wait(PATIENCE)
        done.append(1)

    def interrupted():
        begun.wait(PATIENCE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_time(lambda: pool.run([interrupted, other, other, other]))
    ended = len(done)
    assert len(calls) >= 3
    assert 1 <= ended <= 3
    pool.run([lambda: done.append(2)] * 4)
    assert done[ended:] == [2] * 4  # nothing of the first run came later


def test_callers_take_turns_even_with_pools_of_different_sizes(monkeypatch):
    busy, most, asked, callers_are_here = [], [0], [], threading.Event()
    turn, meeting = module._turn, threading.Barrier(2)

    class Turn:
        """The lock, which notes who asks for it."""

        def __enter__(self):
            asked.append(1)
            if len(asked) == 6:
                callers_are_here.set()
            turn.acquire()

        def __exit__(self, *_):
            turn.release()

    def job():
        assert callers_are_here.wait(PATIENCE)
        busy.append(1)
        most[0] = max(most[0], len(busy))
        meeting.wait(PATIENCE)
        busy.pop()
        meeting.wait(PATIENCE)

    monkeypatch.setattr(module, "_turn", Turn())
    before, pools = blas_threads(), [ThreadPool(2), ThreadPool(3)]
    callers = [threading.Thread(target=pools[i % 2].run, args=([job, job],)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
        assert not caller.is_alive()
    assert most[0] == 2
    assert blas_threads() == before  # two overlapping limits would leave the second one's "before": 1


def test_a_job_may_give_jobs_to_a_pool_itself(in_time):
    pool, done = ThreadPool(2), []

    def outer(name):
        pool.run([lambda: done.append(name + "0"), lambda: done.append(name + "1")])

    in_time(lambda: pool.run([lambda: outer("a"), lambda: outer("b")]))
    assert sorted(done) == ["a0", "a1", "b0", "b1"]


def test_products_stay_on_their_thread_meanwhile():
    before, seen = blas_threads(), []
    ThreadPool(2).run([lambda: seen.append(blas_threads()), lambda: seen.append(blas_threads())])
    assert seen == [None if before is None else 1] * 2
    assert blas_threads() == before


def test_threads_do_not_keep_a_program_alive():
    program = (
        "import threading, time; from npformer.engine.thread_pool import ThreadPool; "
        "ThreadPool(3).run([time.time] * 3); print(threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split() == ["3"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")  # of a program with threads: that is what is tried
@pytest.mark.parametrize("in_a_job", [False, True])
def test_a_forked_child_has_its_own_threads(in_a_job):
    pool = ThreadPool(2)
    pool.run([time.time] * 2)
    children, meeting, met = [], threading.Barrier(2), []

    def meet():
        meeting.wait(PATIENCE)
        met.append(True)

    def fork():
        children.append(os.fork())
        if children[-1] == 0:
            signal.alarm(PATIENCE)  # ends it if it waits for threads that only its parent has
            try:
                pool.run([meet, meet])
            finally:
                os._exit(0 if len(met) == 2 else 1)

    pool.run([fork, time.time]) if in_a_job else fork()
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0
    pool.run([time.time] * 2)


def test_a_job_that_has_ended_is_held_by_no_thread():
    """Its arrays go with the caller's last reference, however late the thread is to take its next task."""

    class Ended:
        def release(self):
            held.append(job())

    held = []
    task = module._Task(partial(int))
    job = ref(task._job)
    task._running = Ended()
    task.do()
    assert held == [None]
