"""The values after each line: of loops, blocks, long statements, helpers, and of a museum bug's changed text."""

import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import npformer as npf
from npformer.functional import OPERATIONS
from npformer.see.record.lines import plain_function, tracing_lines
from npformer.see.record.trace import trace


def helped(x):
    return x + 1


def looped(x, times):
    total = np.zeros_like(x)
    for i in range(times):
        total += x * i
    if times > 1:
        total = (
            helped(total)
            * 2
        )  # fmt: skip
    elif times < 0:
        total = total - 1
    [y, z] = (helped(part) for part in (x, total))
    return y + z


def frame_of(function, *inputs):
    with tracing_lines([function]) as tracer:
        function(*inputs)
    (frame,) = tracer.frames
    return frame


def source_of(line):
    return Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1].strip()


def test_each_statement_with_the_names_that_it_changes():
    frame = frame_of(looped, np.array([1.0, 2.0]), 3)
    steps = [
        (source_of(step.line), {name: np.array(x).tolist() for name, x in step.values.items()}) for step in frame.steps
    ]
    head = "for i in range(times):"
    assert steps == [
        ("total = np.zeros_like(x)", {"total": [0, 0]}),
        (head, {"i": 0}), ("total += x * i", {"total": [0, 0]}),
        (head, {"i": 1}), ("total += x * i", {"total": [1, 2]}),
        (head, {"i": 2}), ("total += x * i", {"total": [3, 6]}),
        (head, {"i": 2}),
        ("if times > 1:", {}),
        ("total = (", {"total": [8, 14]}),
        ("[y, z] = (helped(part) for part in (x, total))", {"y": [2, 3], "z": [9, 15]}),
        ("return y + z", {"return": [11, 18]}),
    ]  # fmt: skip
    assert frame.arguments["times"] == 3
    assert frame.returned.tolist() == [11, 18]


def gone(x):
    y = x * np.nan
    return y + 1


def test_an_array_that_is_not_a_number_has_not_changed_for_that():
    first, last = frame_of(gone, np.array([1.0, 2.0])).steps
    assert (list(first.values), list(last.values)) == (["y"], ["return"])
    assert last.before["y"] is first.values["y"]


OWN = """
from npformer.layers import Layer

class Double(Layer):
    def forward(self, x):
        y, cache = self.ops.relu.forward(x)
        return 2 * y, cache

    def backward(self, dy, cache):
        return self.ops.relu.backward(2 * dy, cache)
"""


def test_a_users_file_with_the_name_of_an_operations_has_sources_of_its_own(tmp_path, monkeypatch, numpy64):
    (tmp_path / "relu.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "relu.py")
    mine = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mine", mine)
    spec.loader.exec_module(mine)
    record = trace(mine.Double(numpy64), np.array([[1.0, -2.0]]))
    sources, (outer, inner) = record.document["sources"], record.calls
    files = {call["type"]: sources[call["forward"]["function"].partition(".")[0]]["file"] for call in (outer, inner)}
    assert files == {"Double": "relu.py", "relu": "npformer/functional/relu.py"}


def test_what_a_statement_calls_is_inside_it():
    frame = frame_of(looped, np.array([1.0]), 2)
    called = {
        source_of(step.line): [inner.function.name for inner in step.inside] for step in frame.steps if step.inside
    }
    assert called == {
        "total = (": ["helped"],
        "[y, z] = (helped(part) for part in (x, total))": ["helped"] * 2,
    }
    (inner,) = next(step for step in frame.steps if step.inside).inside
    assert inner.arguments["x"].tolist() == [1.0]
    assert inner.returned.tolist() == [2.0]


def test_the_locals_before_a_statement_are_as_they_were_then():
    frame = frame_of(looped, np.array([1.0, 2.0]), 3)
    additions = [step for step in frame.steps if source_of(step.line) == "total += x * i"]
    assert [step.before["total"].tolist() for step in additions] == [[0, 0], [0, 0], [1, 2]]
    assert type(additions[0].node).__name__ == "AugAssign"


@pytest.mark.parametrize("op", list(OPERATIONS))
def test_the_last_line_of_every_operation_returns_what_the_call_returned(op):
    record = trace(op)
    (call,) = record.calls
    assert call["type"] == op
    source = record.document["sources"]
    for way, expected in (("forward", call["outputs"]), ("backward", call["gradients"])):
        file, name = call[way]["function"].split(".")
        assert name == f"{op}_{way}"
        function = source[file]["functions"][name]
        assert f"def {name}(" in function["text"]
        lines = call[way]["lines"]
        last = function["first"] + function["text"].count("\n")
        assert all(function["first"] < line["line"] <= last for line in lines)
        returned = lines[-1]["values"]["return"]
        items = returned["items"][0] if way == "forward" else returned
        values = items["items"] if isinstance(items, dict) else [items]
        assert values == [one["value"] for one in expected]


def test_no_operation_leaves_a_function_of_its_file_unshown():
    """Helpers that compute are inside the line that calls them."""
    record = trace("attention")
    (call,) = record.calls
    inner = [frame["function"] for line in call["forward"]["lines"] for frame in line.get("inside", [])]
    assert inner == ["attention._weights", "dropout.dropout_forward"]
    back = [frame["function"] for line in call["backward"]["lines"] for frame in line.get("inside", [])]
    assert back == ["dropout.dropout_backward"] * 2 + ["softmax.softmax_backward"]


def test_a_tracer_that_was_there_before_is_there_again():
    def other(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        with tracing_lines():
            npf.functional.relu_forward(np.ones(2))
        assert sys.gettrace() is other
        with pytest.raises(TypeError), tracing_lines():
            npf.functional.relu_forward("no array")
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)


def gathered(x):
    parts, sums = [], {}
    for i in range(2):
        parts.append(x * i)
        sums[i] = parts
    parts[0] += 5
    return parts


def test_lists_and_dicts_are_kept_as_they_were_then():
    frame = frame_of(gathered, np.ones(1))
    values = [{name: str(x) for name, x in step.values.items() if name != "i"} for step in frame.steps]
    one, two, last = "[array([0.])]", "[array([0.]), array([1.])]", "[array([5.]), array([1.])]"
    assert [each for each in values if each] == [
        {"parts": "[]", "sums": "{}"},
        {"parts": one}, {"sums": f"{{0: {one}}}"},
        {"parts": two, "sums": f"{{0: {two}}}"}, {"sums": f"{{0: {two}, 1: {two}}}"},
        {"parts": last, "sums": f"{{0: {last}, 1: {last}}}"},
        {"return": last},
    ]  # fmt: skip


class WithMethod:
    def method(self, x):
        return x


def test_the_function_in_a_method_a_partial_and_a_wrapper():
    @functools.wraps(helped)
    def wrapper(x):
        return helped(x)

    assert plain_function(functools.partial(helped, 1)) is helped
    assert plain_function(wrapper) is helped
    assert plain_function(WithMethod().method) is WithMethod.method
    assert plain_function(np.add) is None
    assert plain_function(int) is None


def test_a_function_without_source_has_lines_without_text():
    names = {}
    exec("def typed_forward(x):\n    y = x * 2\n    return y, None\n", names)
    record = trace((names["typed_forward"], lambda dy, cache: (2 * dy,)), np.ones((2, 2)))
    (call,) = record.calls
    assert [sorted(line["values"]) for line in call["forward"]["lines"]] == [["y"], ["return"]]
    file, name = call["forward"]["function"].split(".")
    assert record.document["sources"][file]["functions"][name]["text"] is None


def test_no_lines_on_request():
    record = trace("linear", lines=False)
    assert record.document["sources"] == {}
    assert [record.calls[0][way]["lines"] for way in ("forward", "backward")] == [[], []]
