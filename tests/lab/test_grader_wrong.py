"""Typical wrong answers: each must be refused, and the learner told what it is, and not before it is asked for."""

import sys
import types

import numpy as np
import pytest

from npformer.lab.grader import EXERCISES, find, grade, report
from npformer.lab.grader.cases import cases_of
from npformer.lab.grader.child.values import decode, encode
from npformer.lab.grader.diagnosis import _agree, mistaken
from npformer.lab.grader.runner import Run
from npformer.lab.grader.templates import pair_source, parts_source
from npformer.lab.grader.tree import named
from tests.lab.learner import graded, said

LN = "x_hat, r, gamma = cache; g = dy * gamma; tokens = tuple(range(dy.ndim - 1))\n"
LN += "    m = lambda z: z.mean(-1, keepdims=True)\n    "
LN_SUMS = "(dy * x_hat).sum(tokens), dy.sum(tokens)"
CE = "p, q, counted, n = cache\n    "
AT = (
    "q, k, v, w, d = cache; s = q.shape[-1] ** -0.5; t = np.matrix_transpose; drop = dropout_backward\n"
    "    dv = t(drop(w, d)) @ dout; dw = drop(dout @ t(v), d); ds = softmax_backward(dw, w)\n    "
)
FF = (
    "up, relu, drop, down = cache\n    dd, dw2, db2 = linear_backward(dy, down)\n"
    "    da = dropout_backward(dd, drop); dh = relu_backward(da, relu)\n    "
)
FF_END = "\n    dx, dw1, db1 = linear_backward(dh, up)\n    return dx, dw1, db1, dw2, db2"
MH = (
    "qc, kc, vc, ac, oc, H = cache\n    d, dwo, dbo = linear_backward(dy, oc)\n"
    "    dq, dk, dv = attention_backward(split_heads(d, H), ac)\n    m = merge_heads\n"
)
MH_END = (
    "    from_v, dwv, dbv = linear_backward(m(dv), vc)\n    from_k, dwk, dbk = linear_backward(m(dk), kc)\n"
    "    dx, dwq, dbq = linear_backward(m(dq), qc)\n    dmemory = {}\n"
    "    return dx, dmemory, dict(wq=dwq, bq=dbq, wk=dwk, bk=dbk, wv=dwv, bv=dbv, wo=dwo, bo=dbo)"
)
ENC = (
    "ac, n1, fc, n2 = cache\n    d, df, g2, b2 = post_norm_backward(dy, n2)\n"
    "    dff, dw1, db1, dw2, db2x = feed_forward_backward(df, fc)\n"
    "    dx, df, g1, b1 = post_norm_backward({}, n1)\n    a, b, da = multi_head_attention_backward(df, ac)\n"
    "    return {}, dict(attention=da, norm1=dict(gamma=g1, beta=b1), norm2=dict(gamma=g2, beta=b2), "
    "feed_forward=dict(w1=dw1, b1=db1, w2=dw2, b2=db2x))"
)
PRE = (
    "n1, ac, n2, fc, rc = cache\n    s, df = residual_backward(dy, rc)\n"
    "    dn, dw1, db1, dw2, db2x = feed_forward_backward(df, fc)\n"
    "    s, df, g2, b2 = add_norm_backward(({}, dn), n2)\n    a, b, da = multi_head_attention_backward(df, ac)\n"
    "    dn, g1, b1 = layer_norm_backward({}, n1)\n"
    "    return {}, dict(attention=da, norm1=dict(gamma=g1, beta=b1), norm2=dict(gamma=g2, beta=b2), "
    "feed_forward=dict(w1=dw1, b1=db1, w2=dw2, b2=db2x))"
)
DEC = (
    "sc, n1, cc, n2, fc, n3 = cache\n    d, df, g3, b3 = post_norm_backward(dy, n3)\n"
    "    dff, dw1, db1, dw2, db2 = feed_forward_backward(df, fc)\n"
    "    d, df, g2, b2 = post_norm_backward({}, n2)\n    a, dm, dc = multi_head_attention_backward(df, cc)\n"
    "    d, df, g1, b1 = post_norm_backward({}, n1)\n    a, b, ds = multi_head_attention_backward(df, sc)\n"
    "    return {}, {}, dict(self_attention=ds, cross_attention=dc, norm1=dict(gamma=g1, beta=b1), "
    "norm2=dict(gamma=g2, beta=b2), norm3=dict(gamma=g3, beta=b3), feed_forward=dict(w1=dw1, b1=db1, w2=dw2, b2=db2))"
)

#: exercise → (body of the backward, the gradient that the hint speaks of, the cause it finds)
WRONG = {
    "linear": [
        ("x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"
         "    return dy @ W.T, X.T @ D / len(D), D.sum(0)", "dweight", "averaged over tokens"),
        ("x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"
         "    return dy @ W.T, X.T @ D / len(x), D.sum(0)", "dweight", "averaged over the batch"),
        ("x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"
         "    return dy @ W.T, X.T @ D, D.mean(0)", "dbias", "averaged over tokens"),
        ("x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"
         "    return dy @ W.T, X.T @ D, dy.sum(0)", "dbias", "axes not summed"),
        ("x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"
         "    return dy @ W.T, D.T @ X, D.sum(0)", "dweight", "transposed"),
        ("x, W = cache; return dy @ W, x, dy", "", "ValueError"),
    ],
    "relu": [
        ("return np.where(dy > 0, dy, 0)", "dx", "gate from dy"),
        ("return dy", "dx", "gate left out"),
        ("return 1.0 * cache", "dx", "dy left out"),
        ("return -dy * cache", "dx", "scaled by −1"),
    ],
    "gelu": [
        ("x, P = cache; return dy * P", "dx", "product rule"),
        ("x, P = cache; return dy * (P + x * np.exp(-x * x / 2))", "dx", "density without its constant"),
        ("x, P = cache; return dy * (P - x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))", "dx", "change a sign"),
        ("x, P = cache; t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))\n    return dy * (0.5 * (1 + t)"
         " + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x ** 2))", "dx",
         "derivative of the tanh form"),
    ],
    "softmax": [
        ("return cache * dy", "dx", "shared term missing"),
        ("return cache * (1 - cache) * dy", "dx", "diagonal alone"),
        ("return cache * (dy - (dy * cache).sum(0, keepdims=True))", "dx", "sum over the wrong axis"),
        ("return cache * (dy - (dy * cache).sum())", "dx", "sum over everything"),
        ("return cache * (dy - dy.sum(-1, keepdims=True))", "dx", "sum without weights"),
        ("return cache * (dy - (dy * cache).sum(-1, keepdims=True)) / len(dy)", "dx", "divided by batch"),
        ("return cache * (dy + (dy * cache).sum(-1, keepdims=True))", "dx", "change a sign"),
        ("return 2 * cache * (dy - (dy * cache).sum(-1, keepdims=True))", "dx", "scaled by 2"),
    ],
    "dropout": [
        ("keep, s = cache; return np.where(keep, dy, 0)", "dx", "scale left out"),
        ("keep, s = cache; return dy * s", "dx", "mask left out"),
        ("keep, s = cache; return np.where(keep, dy / s, 0)", "dx", "divided by scale"),
    ],
    "embedding": [
        ("t, V, s = cache; d = np.zeros((V, dy.shape[-1])); d[t] = s * dy; return d", "dtable",
         "assigned instead of added"),
        ("t, V, s = cache; d = np.zeros((V, dy.shape[-1])); d[t] += s * dy; return d", "dtable",
         "assigned instead of added"),
        ("t, V, s = cache; d = np.zeros((V, dy.shape[-1])); np.add.at(d, t, dy); return d", "dtable",
         "scale left out"),
        ("t, V, s = cache; d = np.zeros((V, dy.shape[-1])); np.add.at(d, t, s * dy); d[0] = 0; return d",
         "dtable", "padding row zeroed"),
    ],
    "learned_positions": [
        ("o, P = cache; d = np.zeros((P, dy.shape[-1])); d[:dy.shape[1]] = dy.sum(0); return dy, d",
         "dtable", "offset left out"),
        ("o, P = cache; d = np.zeros((P, dy.shape[-1])); d[o:o + dy.shape[1]] = dy.mean(0)\n"
         "    return dy, d", "dtable", "averaged over the batch"),
        ("o, P = cache; return dy, dy", "dtable", "axes not summed"),
    ],
    "layer_norm": [
        (LN + "return r * (g - x_hat * m(g * x_hat)), " + LN_SUMS, "dx", "no mean of g"),
        (LN + "return r * (g - m(g)), " + LN_SUMS, "dx", "no x_hat term"),
        (LN + "return r * g, " + LN_SUMS, "dx", "statistics as constants"),
        (LN + "return gamma * r * (dy - m(dy) - x_hat * m(dy * x_hat)), " + LN_SUMS, "dx",
         "gamma outside the means"),
        (LN + "return g - m(g) - x_hat * m(g * x_hat), " + LN_SUMS, "dx", "r left out"),
        (LN + "return r * (g - m(g) - x_hat * m(g * x_hat)), dy.sum(tokens), dy.sum(tokens)", "dgamma",
         "x_hat left out of dgamma"),
        (LN + "return r * (g - m(g) - x_hat * m(g * x_hat)), (dy * x_hat).sum(tokens), dy.sum(0)", "dbeta",
         "axes not summed"),
    ],
    "residual": [
        ("return 0 * dy, dropout_backward(dy, cache)", "dx", "stream cut off"),
        ("d = dropout_backward(dy, cache); return d, d", "dx", "dropout on the stream"),
        ("return dy, dy", "df", "dropout left out"),
    ],
    "post_norm": [
        ("r, n = cache; t, g, b = layer_norm_backward(dy, n); x, f = residual_backward(t, r)\n"
         "    return dy, f, g, b", "dx", "routed past the norm"),
        ("r, n = cache; t, g, b = layer_norm_backward(dy, n); x, f = residual_backward(t, r)\n"
         "    return x + dy, f, g, b", "dx", "added past the norm"),
        ("r, n = cache; t, g, b = layer_norm_backward(dy, n); return t, t, g, b", "df", "dropout left out"),
    ],
    "add_norm": [
        ("r, n = cache; t, g, b = layer_norm_backward(dy[1], n); x, f = residual_backward(t, r)\n"
         "    return x, f, g, b", "df", "stream cut off"),
        ("r, n = cache; t, g, b = layer_norm_backward(dy[1], n); x, f = residual_backward(dy[0], r)\n"
         "    return x, f, g, b", "df", "norm's share left out"),
        ("r, n = cache; t, g, b = layer_norm_backward(dy[1], n); t = t + dy[0]; return t, t, g, b", "df",
         "dropout left out"),
    ],
    "feed_forward": [
        (FF + "dh = np.where(da > 0, da, 0)" + FF_END, "db1", "gate from the gradient"),
        (FF + "dh = da" + FF_END, "db1", "activation left out"),
        (FF + "dh = relu_backward(dd, relu)" + FF_END, "db1", "dropout left out"),
    ],
    "cross_entropy": [
        (CE + "return (p - q) * np.where(counted, dloss / counted.size, 0)", "dlogits",
         "mean over all tokens"),
        (CE + "return (p - q) * np.where(counted, dloss / len(counted), 0)", "dlogits",
         "divided by the batch"),
        (CE + "return (p - q) * dloss / n", "dlogits", "padding counts"),
        (CE + "return (p - q) * np.where(counted, 1 / n, 0)", "dlogits", "dloss left out"),
        (CE + "return (q - p) * np.where(counted, dloss / n, 0)", "dlogits", "sign"),
    ],
    "attention": [
        (AT + "return ds @ k, t(ds) @ q, dv", "dk", "scale left out"),
        (AT + "return ds @ k * s * s, t(ds) @ q * s * s, dv", "dk", "scale twice"),
        (AT + "return dw @ k * s, t(dw) @ q * s, dv", "dk", "softmax left out"),
        (AT + "ds = w * dw; return ds @ k * s, t(ds) @ q * s, dv", "dk", "shared term of the softmax missing"),
        (AT + "return ds @ k * s, t(ds) @ q * s, w @ dout", "", "ValueError"),
        (AT + "return t(ds) @ q * s, ds @ k * s, dv", "", "order"),
        (AT + "return ds @ k * s, t(ds) @ q * s, t(w) @ dout", "dv", "weights before dropout"),
        (AT + "return ds @ k * s / len(q), t(ds) @ q * s / len(q), dv", "dk", "scaled by 1/B"),
        (AT + "return ds @ k * s / 2, t(ds) @ q * s / 2, dv", "dk", "scaled by 1/2"),
    ],
    "multi_head_attention": [
        (MH + "    dq = dq.reshape(dy.shape).reshape(dy.shape)\n    m2 = m\n"
         + MH_END.format("from_k + from_v").replace("m(dq)", "dq"), "dparams.bq",
         "heads merged without moving their axis"),
        (MH + MH_END.format("from_v"), "dmemory", "keys' share left out"),
        (MH + MH_END.format("from_k"), "dmemory", "values' share left out"),
    ],
    "encoder_layer_post": [
        (ENC.format("d + dff", "dx + a"), "dx", "drop a term"),
        (ENC.format("d + dff", "a + b"), "dx", "drop a term"),
        (ENC.format("d", "dx + a + b"), "dparams.norm1.beta", "drop a term"),
    ],
    "encoder_layer_pre": [
        (PRE.format("s", "a", "s + dn"), "dparams.norm1.beta", "drop a term"),
        (PRE.format("s", "a + b", "dn"), "dx", "drop a term"),
        (PRE.format("0 * s", "a + b", "s + dn"), "dparams.attention.bo", "unknown"),
    ],
    "decoder_layer": [
        (DEC.format("d + dff", "d + a", "d + a", "dm"), "dx", "drop a term"),
        (DEC.format("d + dff", "d", "d + a + b", "dm"), "dparams.norm1.beta", "drop a term"),
        (DEC.format("d + dff", "d + a", "d + a + b", "2 * dm"), "dmemory", "scaled by 2"),
    ],
}  # fmt: skip


@pytest.fixture
def in_process(monkeypatch):
    """Grade without the other process (tests of their own run that): the same events, from plain calls."""

    def run(exercise, source, beside, cases, limits, oracle):
        parts = types.ModuleType("parts")
        exec(parts_source(exercise.available), parts.__dict__)
        monkeypatch.setitem(sys.modules, "parts", parts)
        names = {}
        exec(compile(source.text, str(source.path), "exec"), names)
        found = Run()

        def say(event, case=None, **more):
            found.events.append({"event": event, "case": case, **more})

        say("loaded", signatures=[None, None])
        for i, case in enumerate(cases):
            y, cache = names[f"{exercise.name}_forward"](*decode(encode(case.arguments)))
            say("forward", i, result=encode((y, None)), changed=[])
            try:
                gradients = names[f"{exercise.name}_backward"](decode(encode(case.upstream)), cache)
                say("backward", i, result=encode(gradients), changed=[], stable=True, measuring=[], lines={})
            except Exception as error:
                say("failed", i, step="backward", line=1, message=str(error), type=type(error).__name__)
        say("end", warnings=[])
        return found

    monkeypatch.setattr(grade, "run", run)


def answer(folder, name, body):
    """The grade of an exercise with this body of the backward."""
    return graded(folder, pair_source(find(name), body), name)


@pytest.mark.parametrize(
    ("name", "body", "about", "cause"),
    [pytest.param(name, *row, id=f"{name}-{row[2]}") for name, rows in WRONG.items() for row in rows],
)
def test_a_typical_mistake_is_seen_and_named(in_process, tmp_path, name, body, about, cause):
    found = answer(tmp_path, name, body)
    assert found.status == "wrong"
    fault, *others = found.faults
    assert not others or cause == "ValueError", "what other cases say beside an exception"
    assert ("".join(fault.gradients[-1:]), fault.cause) == (about, cause)
    assert len(set(fault.hints)) == 3
    assert all(hint.strip() for hint in fault.hints)
    for level in (1, 2, 3):
        text = report.report(found, level, f"npformer grade {name}.py")
        assert max(map(len, text.splitlines())) <= 80
        others = [h for i, h in enumerate(fault.hints, 1) if i != level]
        assert not any(h in " ".join(text.split()) for h in others), "a hint that was not asked for"


def test_an_input_on_which_alone_it_fails_is_named(in_process, tmp_path):
    body = WRONG["embedding"][0][0]
    text = said(answer(tmp_path, "embedding", body))
    assert "wrong on “repeated tokens”, “one sequence with gaps”, “long rows”, right on “no token twice”" in text


def test_the_report_shows_expected_and_given_numbers(in_process, tmp_path):
    text = report.report(answer(tmp_path, "linear", "x, W = cache; return 2 * dy @ W.T, 0, 0"), 1, "")
    expected, yours = (
        [float(number) for number in line.split()[1:]]
        for line in text.splitlines()
        if line.split()[:1] in (["expected"], ["yours"])
    )
    assert yours == pytest.approx([2 * number for number in expected], rel=1e-3)


LINEAR = "x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"


def faults(found):
    return [(fault.gradients, fault.cause) for fault in found.faults]


def test_of_several_mistakes_each_gets_its_hint(in_process, tmp_path):
    found = answer(tmp_path, "linear", LINEAR + "    return 2 * dy @ W.T, X.T @ D / len(x), D.mean(0)")
    assert report.verdict(found) == "linear: not yet; dx, dweight and dbias are not right."
    assert faults(found) == [
        (("dbias",), "averaged over tokens"),
        (("dweight",), "averaged over the batch"),
        (("dx",), "scaled by 2"),
    ]
    text = said(found)
    assert all(f"Hint 1 of 3 on {name}" in text for name in ("dbias", "dweight", "dx"))
    assert text.count("More: npformer grade mine.py --hint 2") == 1
    assert [fault["gradients"] for fault in report.to_dict(found, 3)["faults"]] == [["dbias"], ["dweight"], ["dx"]]


def test_one_mistake_in_two_gradients_gets_one_hint(in_process, tmp_path):
    found = answer(tmp_path, "attention", AT + "return ds @ k * s / 2, t(ds) @ q * s / 2, dv")
    assert faults(found) == [(("dq", "dk"), "scaled by 1/2")]
    assert "Hint 1 of 3 on dq and dk" in said(found)


def test_a_gradient_that_is_unpacked_as_a_tuple_is_told_so(tmp_path):
    """As npformer's own code has it, which `npformer explain attention` shows."""
    body = AT.replace("ds = softmax_backward(dw, w)", "\n    (ds,) = softmax_backward(dw, w)")
    told = said(answer(tmp_path, "attention", body + "return ds @ k * s, t(ds) @ q * s, dv"), 3)
    assert "ds = softmax_backward(…)" in told
    assert "in the order in which it was made" not in told


def test_a_mistake_and_numbers_that_nothing_explains(in_process, tmp_path):
    """linear has hints for each of its gradients, so both get theirs."""
    found = answer(tmp_path, "linear", LINEAR + "    return np.sin(dy @ W.T), X.T @ D, D.mean(0)")
    assert faults(found) == [(("dbias",), "averaged over tokens"), (("dx",), "unknown")]


def test_in_a_layer_what_follows_from_a_mistake_gets_no_hint_of_its_own(in_process, tmp_path):
    """A wrong gradient of the stream spoils everything that comes after it on the way back."""
    found = answer(tmp_path, "encoder_layer_post", ENC.format("np.sin(d) + dff", "d + a + b"))
    ((gradients, cause),) = faults(found)
    assert (gradients[-1], cause) == ("dparams.norm1.beta", "unknown")


@pytest.mark.parametrize(
    ("name", "returned", "words"),
    [
        ("linear", "X.T @ D, dy @ W.T, D.sum(0)",
         "these are right, in the order dweight, dx, dbias; return them in the order dx, dweight, dbias"),
        ("linear", "D.sum(0), dy @ W.T, X.T @ D",
         "these are right, in the order dbias, dx, dweight; return them in the order dx, dweight, dbias"),
        ("linear", "X.T @ D, dy @ W.T, D.mean(0)",
         "dweight and dx are right, in each other's places; the order is dx, dweight, dbias"),
    ],
)  # fmt: skip
def test_right_gradients_in_another_order_are_told_so(in_process, tmp_path, name, returned, words):
    found = answer(tmp_path, name, LINEAR + f"    return {returned}")
    assert "linear: not yet; its gradients are in another order" in report.verdict(found)
    assert words in said(found)
    assert "Hint 1 of 3 on the order" in said(found)
    assert "return dx, dweight, dbias" in said(found, 3)
    wrong = [finding.name for finding in found.findings if not finding.ok]
    assert wrong == ["order"] + ["dbias"] * ("mean" in returned)
    assert [cause for _, cause in faults(found)] == ["order"] + ["averaged over tokens"] * ("mean" in returned)


def test_gradients_of_another_structure_in_another_order(in_process, tmp_path):
    """A dict of parameters where an array belongs is no complaint about its keys."""
    body = ENC.format("d + dff", "0").replace("return 0, ", "return ") + ", dx + a + b"
    found = answer(tmp_path, "encoder_layer_post", body)
    assert "these are right, in the order dparams, dx; return them in the order dx, dparams" in said(found)
    assert faults(found) == [((), "order")]


def test_one_gradient_twice_is_no_order(in_process, tmp_path):
    found = answer(tmp_path, "linear", LINEAR + "    return dy @ W.T, X.T @ D, dy @ W.T")
    assert [finding.name for finding in found.findings if not finding.ok] == ["dbias"]


def test_conduct_gets_a_hint(tmp_path):
    """In the other process, which watches for it."""
    found = answer(tmp_path, "relu", "dy *= 2 * cache; return dy")
    assert [cause for _, cause in faults(found)] == ["scaled by 2", "inputs"]
    assert "+=, *=, x[…] = … and out= write into the array itself" in said(found, 2)


def test_every_typical_mistake_is_a_mistake():
    for exercise in EXERCISES:
        for mistake in exercise.mistakes:
            differs = False
            for case in cases_of(exercise):
                true = named(exercise.gradients, case.gradients)
                wrong = mistaken(exercise, case, mistake["wrong"])
                assert wrong.keys() <= true.keys(), (exercise.name, mistake["cause"])
                differs |= not all(_agree(np.asarray(wrong[name]), true[name]) for name in wrong)
            assert differs, (exercise.name, mistake["cause"])
