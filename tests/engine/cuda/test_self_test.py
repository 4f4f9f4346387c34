"""What is tried on each GPU: a product, a kernel, a capture and a replay; the first that fails is told."""

import pytest

from npformer.engine.cupy.cupy_runtime import CupyRuntime
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.engine.cupy.self_test import self_test


def test_a_sound_gpu(cupy):
    assert self_test(0) == "ok"
    assert (cupy.machine.records, cupy.machine.launches) == (1, 2)


def fails(*inputs, **options):
    raise RuntimeError("no kernel image\nis available")


def wrong(*inputs, **options):
    inputs[-1][...] = 1
    return True


@pytest.mark.parametrize(
    ("owner", "name", "does", "told"),
    [
        (CupyDriver, "__init__", fails, "making a backend fails: RuntimeError: no kernel image is available"),
        (CupyRuntime, "biased_product", fails, "a product fails: RuntimeError: no kernel image is available"),
        (CupyRuntime, "biased_product", wrong, "a product fails: ArithmeticError: expected what NumPy computes, got"),
        (CupyRuntime, "launch", fails, "a kernel fails: RuntimeError: no kernel image is available"),
        (CupyDriver, "record", fails, "a capture fails: RuntimeError: "),
        (CupyDriver, "launch", fails, "a capture fails: RuntimeError: no kernel image is available"),
    ],
)
def test_the_first_that_fails(owner, name, does, told, cupy, monkeypatch):
    monkeypatch.setattr(owner, name, does)
    assert self_test(0).startswith(told)


def test_a_replay_that_repeats_an_older_result(cupy, monkeypatch):
    launches, real = [], CupyDriver.launch

    def launch(driver, graph):
        launches.append(graph)
        if len(launches) == 1:
            real(driver, graph)

    monkeypatch.setattr(CupyDriver, "launch", launch)
    assert self_test(0).startswith("a replay fails: ArithmeticError: expected what NumPy computes")
