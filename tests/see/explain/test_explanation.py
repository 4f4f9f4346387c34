"""Sections of an explanation: terms, why, the walk to the loss, tokens; for each kind of model and of number.

And as text, in every width.
"""

import itertools
import shlex
from dataclasses import replace

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.layers import Layer
from npformer.see.explain import Setting, explanation, lines, session, to_dict
from npformer.see.explain.explanation import Group, Product, ProductSums, Share
from npformer.see.explain.paths import PAST, THROUGH, Paths, ResidualPath, ResidualSum
from npformer.see.explain.text import number, share
from npformer.see.record.models import NAMES, model_setting
from tests.check.functions import normal
from tests.check.own_code import Scaled

QUERY = "decoder.layers.0.self_attention.query.weight[3,1]"


def test_the_terms_name_the_tokens_and_the_gradient_that_a_reader_knows(explained):
    (group,) = explained.terms.groups
    assert (group.operation, group.line.file) == ("linear", "functional/linear.py")
    assert {(each.place, each.up) for each in group.sorted} <= {
        (f"b{b} t{t}", f"dQ[{b},{t},1]") for b in range(2) for t in range(4)
    }
    assert sum(product.value for product in group.products) == pytest.approx(explained.value.analytic, rel=1e-13)


def test_a_sum_begins_at_zero_only_where_a_loop_adds_to_it():
    def zeros(name, at):
        with session(model_setting(name)) as opened:
            explained = explanation(opened, at)
        groups = (*explained.terms.groups, *(explained.why.groups if explained.why else ()))
        return {product.zero for group in groups for product in group.products if product.value == 0}

    assert "where the sum begins" in zeros("local", "encoder.layers.0.self_attention.query.weight[0,0]")
    assert zeros("GRU: padding", "bias[0]") == {"its gradient is 0"}


def test_why_is_the_line_of_attention_that_computes_dq(explained):
    (group,) = explained.why.groups
    assert group.line.code == "dq = xp.matmul(dscores, k) * scale"
    assert any("the mask" in product.zero for product in group.products)


@pytest.mark.parametrize("at", ["src_embedding.weight[0,1]", "encoder.layers.0.feed_forward.up.bias[0]"])
def test_a_sum_of_zeros_whose_reasons_are_told_has_no_why(opened, at):
    """Padding, or another token; a closed gate. The gradients in its products need not be 0, and explain nothing."""
    one = explanation(opened, at)
    assert (one.value.analytic, one.why) == (0, None)
    assert all(product.zero for group in one.terms.groups for product in group.products)


def test_why_is_asked_of_the_largest_product_whatever_its_sign(opened):
    """Of every entry of a bias: some largest products are negative."""
    signs = set()
    for i in range(4):
        one = explanation(opened, f"decoder.layers.0.cross_attention.query.bias[{i}]")
        largest = max(
            (product for group in one.terms.groups for product in group.products), key=lambda each: abs(each.value)
        )
        assert one.why.name == largest.up
        assert one.why.value == pytest.approx(largest.value, rel=1e-12), "a bias has one factor"
        signs.add(largest.value > 0)
    assert signs == {False, True}


def test_a_walk_leads_to_the_loss(explained):
    names = [step.name.partition("[")[0] for step in explained.up]
    assert names[:2] == ["dQ", "dscores"]
    assert len(names) == 9
    assert all(step.groups or step.begins for step in explained.up)


def test_a_walk_goes_on_by_a_name(opened, explained):
    name = explained.terms.groups[0].sorted[1].up
    assert name != explained.why.name
    assert explanation(opened, QUERY, [name]).up[0].name == name
    with pytest.raises(ConfigError, match="--up: expected a gradient that the last step names, such as dQ"):
        explanation(opened, QUERY, ["dZ[0]"])


def test_what_comes_next_can_be_typed(opened):
    up = ()
    for _ in range(5):
        following = list(lines(explanation(opened, QUERY, up), 160))[-1]
        words = shlex.split(following.removeprefix("next"))
        up = tuple(word for before, word in itertools.pairwise(words) if before == "--up")
        assert up
    assert len(up) == 5


def test_tokens_that_do_not_count_give_nothing(explained):
    by_name = {token.name: token.value for token in explained.tokens}
    assert by_name["[PAD] at b1 t3"] == 0
    assert by_name["[EOS] at b1 t2"] != 0


def test_a_tied_table_has_a_term_for_each_use():
    with session(model_setting("transformer-tied")) as tied:
        explained = explanation(tied, "src_embedding.weight[4,2]")
    assert [group.operation for group in explained.terms.groups] == ["linear", "embedding", "embedding"]
    assert "tied: also" in explained.what
    assert {product.zero for group in explained.terms.groups for product in group.products} >= {
        "another token stands there"
    }


def test_what_a_users_layer_adds_itself_is_said_to_be_its_own(numpy64):
    with session(Setting("mine", Scaled(numpy64), (normal(4, 3),))) as mine:
        explained = explanation(mine, "scale[1]")
    assert explained.value.verdict == "right"
    (group,) = explained.terms.groups
    assert group.products[0].text.endswith("its own code")
    assert group.value == pytest.approx(explained.value.analytic, rel=1e-12)


class Negated(Layer):
    """GELU of the negative of a ReLU."""

    def forward(self, x):
        y, first = self.ops.relu.forward(x)
        z, second = self.ops.gelu.forward(-y)
        return z, (first, second)

    def backward(self, dz, cache):
        return self.ops.relu.backward(-self.ops.gelu.backward(dz, cache[1]), cache[0])


def test_a_gradient_that_a_layer_negates_has_a_minus(numpy64):
    """Its products are those of the operation, times −1."""
    with session(Setting("negated", Negated(numpy64), (np.array([[1.0, 2.0]]),))) as opened:
        explained, above = explanation(opened, "relu@output[0,1]"), explanation(opened, "gelu@x[0,1]")
    ((product,),) = (group.products for group in explained.terms.groups)
    ((plain,),) = (group.products for group in above.terms.groups)
    assert product.text == f"−{plain.text}"
    assert product.value == -plain.value == pytest.approx(explained.value.analytic, rel=1e-14)
    assert f" −{plain.text} " in "\n".join(lines(explained, 160))


def test_the_json_holds_every_section(explained):
    document = to_dict(explained)
    assert (document["format"], document["version"]) == ("npformer-explanation", 1)
    sections = ("value", "what", "terms", "why", "up", "paths", "tokens", "means")
    assert all(document[name] for name in sections)


def test_every_small_model_can_be_asked_for_and_others_are_refused():
    assert len(NAMES) >= 20
    assert not set(NAMES) & set(OPERATIONS), "an operation would hide a model of its name"
    assert model_setting("Transformer").name == "transformer"
    with pytest.raises(ConfigError, match="did you mean transformer"):
        model_setting("transfomer")
    with pytest.raises(ConfigError, match="of one check of npformer gradcheck alone, got 'EncoderLayer'"):
        model_setting("EncoderLayer")


@pytest.mark.parametrize("width", [40, 60, 79, 100, 160, 400])
def test_no_line_is_wider_than_the_terminal(explained, width):
    text = list(lines(explained, width))
    assert max(map(len, text)) <= max(60, min(width, 160))
    assert not any(line != line.rstrip() for line in text)


def test_the_sections_come_in_order(explained):
    names = [line.split()[0] for line in lines(explained) if line[:1].isalpha()]
    assert names[0] == "w"
    assert [name for name in names if name in ("what", "terms", "why", "up", "paths", "tokens", "means", "next")] == [
        "what", "terms", *["up"] * 9, "paths", "tokens", "means", "next",
    ]  # fmt: skip


def told(explained, **changes):
    """The text of an explanation with other parts."""
    return "\n".join(lines(replace(explained, why=None, up=(), **changes), 160))


@pytest.mark.parametrize(("count", "rest"), [(6, ""), (7, ""), (8, "2 more +3.000e+00; "), (9, "3 more +6.000e+00; ")])
def test_the_largest_products_are_shown_and_the_rest_is_summed(explained, count, rest):
    """Six of them; a seventh has the line that would say so."""
    products = tuple(Product("", f"p{n}", (float(n),), float(n), "", "") for n in range(1, count + 1))
    total = sum(product.value for product in products)
    text = told(explained, terms=ProductSums("the number", total, (Group("linear", "linear", None, products, total),)))
    shown = [n for n in range(1, count + 1) if f" p{n} " in text]
    assert shown == [*range(1, count + 1)][-(count if count < 8 else 6) :]
    assert f"        {rest}sum {number(total)}\n" in text


def test_the_largest_shares_of_tokens_are_shown_and_the_rest_is_summed(explained):
    parts = tuple(Share(f"t{n}", float(n)) for n in range(12))
    text = " ".join(told(explained, tokens=parts).split())
    assert "from the loss at t11 +1.100e+01, t10 +1.000e+01, " in text
    assert "t4 +4.000e+00, 3 more +6.000e+00; 1 exactly 0" in text


def test_the_strongest_ways_are_shown_and_the_rest_is_summed(explained):
    call = explained.terms.groups[0].call
    ways = tuple(
        ResidualPath(((0, THROUGH if n % 2 else PAST),), value) for n, value in enumerate((8.0, -4.0, 3.0, 2.0, -1.5))
    )
    value = replace(explained, value=explained.value._replace(analytic=7.5)).value
    text = told(explained, value=value, paths=Paths((ResidualSum(call, "decoder", 4.0, 3.5, 0.0),), ways, 0.0, True))
    assert "5 ways in all, the strongest first:" in text
    assert "+3.000e+00 (40 %)  past decoder\n" in text
    assert "+5.000e-01 (7 %)  2 more\n" in text
    assert "+2.000e+00" not in text


def test_numbers_and_shares():
    assert (number(-0.0123456), number(0.0)) == ("-1.235e-02", "0")
    assert (share(1.0, 4.0), share(-1e-20, -4.0)) == ("25 %", "0 %")


@pytest.mark.parametrize(
    ("through", "past", "words"),
    [(4.0, 3.5, "decoder: through 53 %, past 47 %"), (-4.0, 11.5, "decoder: through -4.000e+00, past +1.150e+01")],
)
def test_parts_that_cancel_have_no_shares(explained, through, past, words):
    value = replace(explained, value=explained.value._replace(analytic=7.5)).value
    sums = (ResidualSum(explained.terms.groups[0].call, "decoder", through, past, 0.0),)
    ways = tuple(ResidualPath(((0, way),), part) for way, part in ((THROUGH, through), (PAST, past)))
    text = told(explained, value=value, paths=Paths(sums, ways, 0.0, True))
    assert words in text
    assert ("%" in text) == (through > 0)
