"""Every experiment runs in its small setting, writes its picture, and confirms its text."""

import importlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from examples.experiments import (
    beside_pytorch,
    common,
    cost_and_length,
    dropout_place,
    embeddings,
    first_token,
    heads,
    norm_order,
    norms,
    step_time,
)
from examples.experiments.tagger import Tagger
from npformer.data import Example
from npformer.layers import BatchNorm, LayerNorm

FOLDER = Path(common.__file__).parent
HELPERS = {"__init__", "common", "rivals", "similarity", "tagger"}
NAMES = sorted({path.stem for path in FOLDER.glob("*.py")} - HELPERS)


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_small_setting_a_table_and_a_picture(name, tmp_path, capsys):
    if name == "beside_pytorch":
        pytest.importorskip("torch")
    module = importlib.import_module(f"examples.experiments.{name}")
    assert module.main(["--small", "--out", str(tmp_path / "picture.svg")]) == 0
    assert (tmp_path / "picture.svg").read_bytes().startswith(b"<svg ")
    printed = capsys.readouterr().out
    assert "  --" in printed, "the line under a table's headings"
    assert "nan" not in printed


def test_memory_grows_as_the_text_says():
    lengths = (256, 512, 1024)  # in shorter ones, the arrays that are not T × T weigh more
    measured = cost_and_length.measure(cost_and_length.SMALL._replace(lengths=lengths, rounds=1))
    exponents = {name: cost.memory_exponent for name, cost in measured.items()}
    assert exponents.pop("full attention") > 1.8
    assert max(exponents.values()) < 1.15


def test_the_gradient_of_a_recurrent_net_dies_out_and_a_transformers_does_not():
    measured = first_token.measure(first_token.SMALL)
    assert measured["GRU"][-1] < 1e-6 * measured["GRU"][0]
    assert measured["Transformer"][-1] > 1e-2 * measured["Transformer"][0]
    beyond = [d > 2 * first_token.SMALL.convolutions for d in first_token.SMALL.distances]
    assert [share == 0 for share in measured["convolution"]] == beyond


def test_padding_moves_batch_norm_alone_and_only_if_it_is_counted():
    moved = norms.moved_by_padding((0.0, 0.5), 8)
    assert moved[norms.LAYER] == [0, 0]
    assert moved[norms.COUNTING][0] == 0
    assert moved[norms.COUNTING][1] > 0.1
    assert max(moved[norms.MASKED]) < 1e-12


def test_batch_norm_remembers_each_step_once(numpy64):
    model = Tagger(5, 8, 1, norm=partial(BatchNorm, 8, backend=numpy64), backend=numpy64)
    tokens = np.array([[1, 2, 3, 4], [2, 2, 1, 3]])
    first = model.layers[0].norm
    seen = model.positions(model.embedding(tokens)).mean(axis=(0, 1))
    common.fit(model, [(tokens, tokens)], lr=0.01)
    np.testing.assert_allclose(first.running_mean.data, 0.1 * seen, rtol=1e-12)


def test_dropout_after_the_sum_costs_the_stream():
    left = dropout_place.surviving(dropout_place.SMALL)
    assert left["before the sum"][-1] > 0.9
    assert left["after the sum"][-1] < 0.85
    assert left["before the sum"][0] == pytest.approx(1.0)


def test_post_norm_starts_with_larger_gradients_in_its_last_layer():
    sizes = norm_order.gradients(norm_order.SMALL._replace(depths=(8,)))
    assert sizes["post-LN"][-1] > 2 * sizes["pre-LN"][-1]


def test_warm_up_ends_at_the_peak():
    rate = norm_order.WarmUp(2.0, 4)
    assert [rate(step) for step in (1, 2, 4, 9)] == [0.5, 1.0, 2.0, 2.0]


def test_only_the_recurrent_chain_grows_with_length():
    short, long = (step_time.chain(step_time.SMALL, length) for length in (16, 64))
    assert {name for name in short if long[name] > short[name]} == {"GRU"}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("5 de março de 1987", ("1987", "março", "5")),
        ("September 29, 2012", ("2012", "September", "29")),
        ("1. Mai 1950", ("1950", "Mai", "1")),
    ],
)
def test_fields_of_a_date_are_found(source, parts):
    places = heads.source_fields(source)
    assert tuple(source[places[field]] for field in ("year", "month", "day")) == parts


def test_weights_are_counted_where_they_fall():
    example = Example("1. Mai 1950", "1950-05-01")
    cross, self_weights = np.zeros((1, 2, 11, 12)), np.zeros((1, 2, 12, 12))
    cross[0, 0, :4, 7:11] = 1 / 4  # head 1 attends to the year while it is written,
    cross[0, 0, 5:7, 3:6] = 1 / 3  # to the month likewise,
    cross[0, 0, 8:10, 0] = 0.5, 1.0  # and to the day
    cross[0, 1, :, 3] = 1.0  # head 2 always attends to the a of Mai
    self_weights[0, 0, 1:, :-1] = np.eye(11)  # head 1 attends to the previous character, head 2 to its own field
    for field in heads.source_fields(example.source).values():
        self_weights[0, 1, field, field] = 1 / (field.stop - field.start)
    shares = heads.shares_of([example], {"decoder.layers.0.cross_attention": cross, "encoder.layers.0": self_weights})
    first, second = shares.values()
    assert first == {"year": [1.0, 0.0], "month": [1.0, 1.0], "day": [0.75, 0.0]}
    assert (second["one before"][0], second["itself"][0], second["one behind"][0]) == (1, 0, 0)
    assert second[heads.OWN] == pytest.approx([(3 / 4 + 2 / 3 + 0) / 3, 1.0])


def test_names_of_months_are_told_from_other_words():
    dates = embeddings.read_dates()
    assert {dates.month_of[word] for word in ("March", "março", "mars", "März")} == {2}
    assert len(set(dates.month_of.values())) == 12
    assert "de" not in dates.month_of
    row = dates.src[0]
    assert " ".join(dates.words[i] for i in row[row != 0]) == "11 de jun. de 2034"
    src, tgt_in, tgt_out = embeddings.shifted(dates, np.arange(1))
    assert "".join(dates.characters[i] for i in tgt_out[0]) == "2034-06-11"
    np.testing.assert_array_equal(tgt_in[0, 1:], tgt_out[0, :-1])
    assert src.shape[0] == 1


def test_both_libraries_find_the_same_losses():
    pytest.importorskip("torch")
    losses = beside_pytorch.measure(beside_pytorch.SMALL).losses
    np.testing.assert_allclose(losses["npformer"], losses["PyTorch"], rtol=1e-12)


def test_tables_are_straight(capsys):
    common.print_table(["", 16, "b"], [("name", 0.123456, 7), ("n", 12.0, "x")])
    assert capsys.readouterr().out.splitlines() == [
        "         16  b",
        "----  -----  -",
        "name  0.123  7",
        "n        12  x",
    ]


def test_a_fit_learns(numpy64):
    model = Tagger(5, 8, 1, norm=partial(LayerNorm, 8, backend=numpy64), backend=numpy64)
    tokens = np.array([[1, 2, 3, 4, 0]])
    losses = common.fit(model, [(tokens, tokens)] * 30, lr=0.03)
    assert losses[-1] < 0.1 < 1.0 < losses[0]
    assert common.accuracy(model(tokens), tokens) == 1
    assert common.accuracy(np.roll(model(tokens), 1, axis=-1), tokens) == 0
