"""Other people's operators: their cases are made, judged and counted; a planted mistake is found."""

import pytest

from benchmarks.operators.__main__ import main
from npformer.check.report import RIGHT, WRONG

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'npformer[torch]'")


def test_operators_of_pytorchs_database(capsys):
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")
    assert main(["op_db", "--only", "nn.functional.selu"]) == 0
    counts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("right"))
    assert counts == {"right": "2"}


def test_a_planted_mistake_is_found():
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")
    from benchmarks.operators import op_db, planted
    from benchmarks.operators.case import Case, outcome

    (case,) = [one for one in op_db.cases()[0] if one.name == "nn.functional.selu first"]
    assert outcome(case)["verdict"] == RIGHT
    for strength, place in ((1.01, "everywhere"), (0.0, "one entry")):
        spoiled = planted._spoiled(case.make.args, strength, place, 0)
        assert outcome(Case("spoiled", lambda spoiled=spoiled: spoiled))["verdict"] == WRONG


@pytest.mark.parametrize(
    ("kind", "package", "name"), [("autograd_vjps", "autograd", "tanh"), ("thinc_pairs", "thinc", "relu")]
)
def test_pairs_of_other_packages(kind, package, name, capsys):
    pytest.importorskip(package, reason=f"{package} is not installed")
    assert main([kind, "--only", name]) == 0
    assert "WRONG            0" in capsys.readouterr().out
