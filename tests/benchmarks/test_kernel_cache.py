"""The benchmark of damaged kernel files: no fault with the digest check, and faults without it."""

import pytest

pytest.importorskip("numba")
from benchmarks.faults import kernel_cache
from benchmarks.faults.kernel_cache import KERNELS, Case, Outcome, tried


def test_damage_costs_a_compilation_and_is_fatal_without_the_digest(call):
    document = call(kernel_cache.main, "--count 6 --json").fine().document
    *kinds, everything = document["results"]
    assert [row["damage"] for row in kinds] == list(kernel_cache.DAMAGES)
    assert everything == {"damage": "all", "files": 6, "noticed": 6, "right": 6, "wrong": 0, "error": 0, "crash": 0}
    ended = call(kernel_cache.main, "--count 6 --unchecked")
    assert ended.code == 1
    rows = {line[:18].strip(): line.split()[-6:] for line in ended.lines}
    assert rows["emptied"] == rows["cut short"] == ["1", "0", "0", "0", "1", "0"]  # an error


def test_a_process_that_ends_is_a_crash_and_the_next_case_goes_on(tmp_path):
    cases = [Case("whole", kernel, tmp_path) for kernel in ("no.such", KERNELS[0], "no.such")]
    assert list(tried(cases, unchecked=False)) == [
        Outcome(False, "crash"),
        Outcome(True, "right"),
        Outcome(False, "crash"),
    ]
