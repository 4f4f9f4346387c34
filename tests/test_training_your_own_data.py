"""The blocks of docs/training-your-own-data.md run one after the other, and their models learn."""

import re
from collections import Counter

import numpy as np
import pytest

from npformer.cli.main import main
from tests.markdown import names_after, text_of

PAGE = "docs/training-your-own-data.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The names after all blocks, which ran in a folder of their own."""
    folder = tmp_path_factory.mktemp("page")
    return names_after(PAGE, folder) | {"folder": folder}


def test_pairs(names):
    assert len((names["folder"] / "numerals.tsv").read_text(encoding="utf-8").splitlines()) == 3999
    assert names["losses"][-1] < 0.5 * names["losses"][0]
    assert names["roman"](1987) == "MCMLXXXVII"


def test_what_is_saved_comes_back(names):
    for name, parameter in names["again"].named_parameters():
        assert np.array_equal(parameter.data, dict(names["model"].named_parameters())[name].data)
    assert names["again"].tokenizer.decode(names["again"].tokenizer.encode("1987MCM")) == "1987MCM"


def test_labels(names):
    assert np.mean(names["found"] == names["batch"].targets) > 0.95


def test_a_long_text(names):
    """Better than knowing only how often each character comes."""
    counts = np.array(list(Counter(names["counted"]).values()))
    shares = counts / counts.sum()
    assert float(names["loss"]) < -np.sum(shares * np.log(shares))


def test_the_command_takes_the_file(names, monkeypatch, capsys):
    """As on the page, with fewer steps."""
    monkeypatch.chdir(names["folder"])
    train, decode, decode_file = re.findall(r"^npformer (.*)$", text_of(PAGE), re.M)
    small = ["steps=3", "final_examples=4", "eval_every=3", "eval_examples=4", "d_model=16"]
    assert main([*train.split(), *(word for option in small for word in ("--set", option))]) == 0
    assert main(decode.split()) == main(decode_file.split()) == 0
    assert capsys.readouterr().out
