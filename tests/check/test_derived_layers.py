"""A user's layer that derives from npformer's: the line that is named is the user's own."""

from npformer.check import gradcheck
from npformer.layers import EncoderLayer, LayerNorm
from tests.check.functions import normals
from tests.check.own_code import line_of
from tests.check.small_models import NoSkip

X = normals()(2, 3, 5)


class Doubled(LayerNorm):
    def backward(self, dy, cache):
        return 2 * super().backward(dy, cache)


def test_a_layer_derived_from_npformers(numpy64):
    layer = NoSkip(4, 2, 6, backend=numpy64)
    report = gradcheck(layer, X[..., :4])
    wrong = [row for row in report.rows if not row.ok]
    assert {row.tensor for row in wrong} >= {"x", "norm1.gamma", "self_attention.query.weight"}
    assert {row.cause for row in wrong} == {"missing term"}
    assert all(row.diagnosis.startswith("missing term: small_models.py, line ") for row in wrong)
    assert not [name for name in vars(layer) if "backward" in name]


def test_a_derived_layer_inside_another(numpy64):
    layer = EncoderLayer(4, 2, 6, backend=numpy64)
    layer.norm1 = Doubled(4, backend=numpy64)
    wrong = [row for row in gradcheck(layer, X[..., :4]).rows if not row.ok]
    (text,) = {row.diagnosis for row in wrong}
    place = f"test_derived_layers.py, line {line_of(Doubled.backward, '2 * ')}, in backward: "
    wrong, right = "`2 * super().backward(dy, cache)`", "`super().backward(dy, cache)`"
    assert text == f"it is 2 times too large everywhere: {place}{wrong} should be {right}"
