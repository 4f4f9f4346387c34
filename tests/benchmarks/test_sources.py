"""The list of mistakes in Triton, PyTorch and JAX code, and their counts. No framework is needed."""

import pytest

from benchmarks.foreign.pair import wrong
from benchmarks.sources.listed import CASES, TRITON
from benchmarks.sources.score import summary


def test_ten_kernels_with_ten_mistakes_each():
    assert [len(case.edits) for case in TRITON] == [10] * 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.framework} {case.name}")
def test_each_mistake_is_in_one_place(case):
    lines = case.text().splitlines()
    for edit in case.edits:
        assert case.text(edit) != case.text()
        assert 1 <= case.line(edit) <= len(lines)


def test_a_text_that_occurs_twice_is_refused():
    with pytest.raises(ValueError, match=r"once in triton_rows\.py, got it"):
        TRITON[0].text(wrong("twice", "mask=mask", "", "sign"))


def test_the_counts():
    right = {"framework": "triton", "mistake": None, "verdict": "right", "line": False, "cause_is": ""}
    found = {"framework": "triton", "mistake": "a sign", "verdict": "WRONG", "line": True, "cause_is": "right",
             "seconds": 2.0}  # fmt: skip
    raised = found | {"verdict": "raised", "line": False, "cause_is": ""}
    assert summary([right, found, raised])["triton"] == {
        "right": 1, "called_right": 1, "mistakes": 2, "found": 2, "raised": 1, "line": 1, "cause": 1,
        "most_seconds": 2.0,
    }  # fmt: skip
