"""npformer gradcheck: the table, the JSON, and exit 1 when a backward is wrong."""

import dataclasses
import re

import pytest

from npformer.backend import Pair, get_backend
from npformer.check import catalogue
from npformer.cli import common

COLUMNS = ["tensor", "shape", "elem", "error", "worst", "analytic", "numeric", "ratio", "verdict"]


@pytest.fixture
def wrong_table(monkeypatch):
    """A backend whose gradient of the learned positions' table is 1.5 times too large."""

    def backend(name, dtype, kernels):
        right = get_backend("numpy", dtype=dtype, kernels=kernels)
        forward, backward = right.ops.learned_positions

        def wrong(dy, cache):
            dx, dtable = backward(dy, cache)
            return dx, 1.5 * dtable

        return dataclasses.replace(right, ops=dataclasses.replace(right.ops, learned_positions=Pair(forward, wrong)))

    monkeypatch.setattr(common, "get_backend", backend)


def test_the_table(cli):
    done = cli("gradcheck --only 'linear: one'").quiet()
    lines = done.lines
    assert "gradients with numpy (plain) on CPU, float64" in lines[0]
    assert lines[1].split() == COLUMNS
    names = [line for line in lines[2:-1] if not line.startswith(" ")]
    assert names == [case.name for case in catalogue("linear: one")]
    rows = [line.split() for line in lines[2:-1] if line.startswith(" ")]
    assert [row[0] for row in rows[:3]] == ["x", "weight", "bias"]
    assert all(len(row) == len(COLUMNS) and row[-1] == "right" for row in rows)
    assert all(float(row[3]) < 1e-10 and float(row[7]) == pytest.approx(1) for row in rows)
    assert re.fullmatch(
        rf"all {len(rows)} gradients of {len(names)} check are right; largest error .* \(\d+ s\)", lines[-1]
    )


def test_only_chooses_by_a_part_of_the_name(cli):
    document = cli("gradcheck --only layer_nor --json").document
    names = [check["name"] for check in document["checks"]]
    assert names == [case.name for case in catalogue() if "layer_norm" in case.name]
    assert 0 < len(names) < len(catalogue())


def test_only_means_an_operation_by_its_name():
    """Linear is the layer. Neither is linear_attention; a part of a name is in all of these."""
    assert {case.name.partition(":")[0] for case in catalogue("linear")} == {"linear"}
    assert {case.name.partition(":")[0] for case in catalogue("Linear")} == {"Linear"}
    assert {"linear", "Linear", "linear_attention"} < {case.name.partition(":")[0] for case in catalogue("linea")}


def test_only_with_no_match_is_refused(cli):
    for name in ("atention", "zzz"):
        cli("gradcheck --only", name).refused("--only: expected a part of a check's name", f"got {name!r}")


def test_json_holds_every_number(cli):
    done = cli("gradcheck --only softmax --json")
    document = done.document
    assert (done.code, document["ok"]) == (0, True)
    assert "float64" in document["backend"]
    tensor = document["checks"][0]["tensors"][0]
    assert {"tensor", "shape", "elements", "scaled_error", "analytic", "numeric", "ratio", "verdict"} <= tensor.keys()


def test_a_wrong_gradient(cli, wrong_table):
    done = cli("gradcheck --only _positions")
    assert done.code == 1
    row = next(line for line in done.lines if line.startswith("  table "))
    assert row.split()[-2:] == ["1.5", "WRONG"]
    assert re.search(r"^1 of 3 gradients are not right \(\d+ s\):\n  learned_positions: table$", done.out, re.M)
    done = cli("gradcheck --only _positions --json")
    assert (done.code, done.document["ok"]) == (1, False)
    assert [check["name"] for check in done.document["checks"] if not check["ok"]] == ["learned_positions"]


def test_models_are_folded_to_the_worst_tensor_unless_asked(cli):
    name = "one layer, length 1"
    folded, full = (cli("gradcheck --only", name, *more).lines for more in ([], ["--full"]))
    count = int(re.search(r"worst of (\d+) tensors", folded[2])[1])  # type: ignore[index]
    verdicts = [[line for line in lines if line.endswith("right")] for lines in (folded, full)]
    assert [len(lines) for lines in verdicts] == [1, count]
    assert verdicts[0][0] in verdicts[1]
    assert "dir " in verdicts[0][0]
