"""The page of a trace in a real browser: what a reader sees, and what the keys and the pointer do."""

import re
from functools import partial

import numpy as np
import pytest

import npformer as npf
from npformer.see.explain import Setting, session
from npformer.see.explain.number import find
from npformer.see.page import write_trace_page
from npformer.see.page.bugs import bug_traces
from npformer.see.page.trace_writer import opening
from npformer.see.record.models import model_setting, showcase
from tests.check.own_code import Scaled, line_of
from tests.chromium import NARROW, READY, WIDE

pytestmark = pytest.mark.browser

STEP = "return [npformerPage.step.number, npformerPage.step.way, npformerPage.step.call.name]"


@pytest.fixture(scope="session")
def page(shown, bugs, tmp_path_factory):
    """The showcase's page, with ten bugs."""
    path = tmp_path_factory.mktemp("pages") / "showcase.html"
    write_trace_page(shown, path, bugs=bugs)
    return path


@pytest.fixture
def opened(browser, page):
    """A browser with the showcase's page."""
    browser.show(page)
    return browser


def go(browser, name):
    """Go to the backward of a call."""
    browser.run(
        "const app = npformerPage;"
        "app.go(app.model.steps.find((each) => each.call.name === arguments[0] && each.way === 'backward').number);",
        name,
    )


def mark(browser, what, name, flat, cell_id="cell"):
    """Give a number's cell an id."""
    browser.run(
        "const app = npformerPage;"
        "app.cellOf({call: app.step.call.id, what: arguments[0], name: arguments[1], flat: arguments[2]})"
        ".id = arguments[3];",
        what,
        name,
        flat,
        cell_id,
    )


def show(browser, folder, trace, step="", **options):
    """Open the page of a trace, at a step."""
    write_trace_page(trace, folder / "page.html", **options)
    browser.show(folder / "page.html", step)


def choose(browser, bug):
    """Switch a bug on; "" for none."""
    browser.run(
        "const select = document.getElementById('bug'); select.value = arguments[0];"
        "select.dispatchEvent(new Event('change'))",
        bug,
    )


def text(browser, selector):
    return browser.find(selector).text


def test_every_number_of_the_trace_is_on_the_page(opened, shown):
    arrays = opened.run(
        "return [...npformerPage.model.arrays].filter(([name]) => name.startsWith('a'))"
        ".map(([name, each]) => [name, each.shape, [...each.data].map(String)])"
    )
    assert {name for name, _, _ in arrays} == set(shown.arrays)
    for name, shape, numbers in arrays:
        assert tuple(shape) == shown.arrays[name].shape
        values = shown.arrays[name].reshape(-1).astype(float)
        assert np.array_equal(np.array(numbers, dtype=float), values, equal_nan=True)


def test_the_terms_of_every_number_add_up_to_it_on_the_page(opened):
    """Of operations the products of their lines, of layers and of what arrives the uses: by the page's own numbers."""
    worst, entries, inside, without = opened.run(
        """
        const {model} = npformerPage;
        let [worst, entries, inside, without] = [0, 0, 0, []];
        const check = (entry, way, label) => entry.array.data.forEach((number, flat) => {
          npformerPage.step = {way};
          const split = npformerPage.split({...entry, flat});
          if (split === null) { without.push(label); return; }
          const total = split.list.reduce((sum, each) => sum + each.term, 0);
          const most = Math.max(Math.abs(split.total), ...split.list.map((each) => Math.abs(each.term)), 1e-300);
          if (total !== split.total) worst = Math.max(worst, Math.abs(total - split.total) / most);
          entries += 1;
        });
        for (const call of model.calls) {
          for (const what of ["gradients", "upstream"]) {
            for (const {name, value} of call[what])
              check({call: call.id, what, name, array: model.arrays.get(value)}, "backward", `${call.name} ${name}`);
          }
          for (const [way, told] of Object.entries(model.sums[call.id] || {}))
            for (const name of Object.keys(told)) {
              const before = entries;
              check({call: call.id, what: "line", name, array: model.arrays.get(name)}, way, `${call.name} inside`);
              inside += entries - before;
            }
        }
        return [worst, entries, inside, [...new Set(without)]];
        """
    )
    assert worst <= 1e-12
    assert entries > 8000
    assert inside > 5000
    assert without == ["loss dy"]  # nothing comes after the loss


def test_a_number_inside_an_operation_shows_the_factors_of_its_line(opened):
    go(opened, "decoder.layers.0.self_attention.attention")
    for name, line in (("dscores", "y * (dy - shared)"), ("dk", "xp.matmul(xp.matrix_transpose(dscores), q) * scale")):
        array = "[...document.querySelectorAll('td')].filter((td) => td.entry?.name === arguments[0])"
        opened.run(f"const td = {array}[5]; npformerPage.pin(td, true)", name)
        assert line in text(opened, "#entry .madeof")
        assert "✓" in text(opened, "#entry .sum")
    assert re.search(r"dscores\[\d,\d,\d,\d\]\s*·\s*q\[\d,\d,\d,\d\]\s*·\s*scale", text(opened, "#entry .bars"))
    opened.click("#entry .bars .term")
    assert opened.run("return npformerPage.pinned.name") == "dscores"
    opened.click("#entry .bars .term")
    assert opened.run("return npformerPage.pinned.name") != "dscores", "one of the numbers that its line read"


def test_what_a_function_of_a_sum_made_shows_the_sum_and_the_function(opened):
    opened.run("npformerPage.goCall(npformerPage.model.calls.find((one) => one.type === 'post_norm').id, 'forward')")
    opened.run(
        "const td = [...document.querySelectorAll('td')].find((one) => one.entry?.name === 'r');"
        "npformerPage.pin(td, true)"
    )
    line = line_of(npf.functional.layer_norm_forward, "r = 1 / xp.sqrt")
    assert text(opened, "#entry .madeof").startswith(f"is 1 / sqrt(sum), of the sum of 5 terms, by line {line}: ")
    assert "1 / sqrt(sum) = " in text(opened, "#entry")


@pytest.mark.parametrize(
    ("at", "step", "line"),
    [
        ("decoder.layers.0.self_attention.value.weight[3,1]", "decoder.layers.0.self_attention.linear", "dweight ="),
        ("decoder.layers.0.self_attention.key.bias[2]", "decoder.layers.0.self_attention.linear", "dbias ="),
        ("decoder.layers.0@output[0,2,3]", "decoder.layers.0", None),
        ("decoder.layers.0.cross_attention.linear#2@output[0,1,0]", "decoder.layers.0.cross_attention.linear", None),
        ("decoder.layers.0.norm1.post_norm@f[0,1,2]", "decoder.layers.0.norm1.post_norm", "return r * (g"),
        ("src_embedding.weight[4,2]", "", None),
        ("scale[1]", "", None),  # what a layer's own code adds
    ],
)
def test_a_page_opens_at_the_number_that_is_asked(browser, tmp_path, monkeypatch, numpy64, at, step, line):
    """Its array, and those of its terms, are too large for the page; they are on the showcase's in other tests."""
    scaled_setting = Setting("scaled", Scaled(numpy64), (np.random.default_rng(0).normal(size=(2, 3)),))
    setting = scaled_setting if at == "scale[1]" else model_setting("transformer-tied")
    trace = npf.trace(setting.target, *setting.inputs, targets=setting.targets, **setting.options)
    with session(setting) as asked:
        place = find(asked, at)
        value = place.gradient(asked)
    monkeypatch.setattr("npformer.see.page.trace_writer.MOST_NUMBERS", 4)
    browser.look(NARROW)
    show(browser, tmp_path, trace, opens=opening(trace, place))
    assert browser.run(STEP)[1:] == ["backward", step]
    assert line is None or line in text(browser, "#source li.lit")
    assert browser.run("return document.activeElement.entry === npformerPage.pinned")
    sum_line = browser.find("#entry .sum")
    assert "✓" in sum_line.text
    assert "NaN" not in text(browser, "#entry")
    if at.startswith("decoder.layers.0.self_attention.value"):  # of three that stand side by side
        assert "of decoder.layers.0.self_attention.value.weight" in text(browser, "#entry .what")
    assert float(sum_line.get_attribute("data-value")) == pytest.approx(value, rel=1e-12)


def test_of_too_many_factors_the_number_that_was_asked_has_its_terms_and_witnesses(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("npformer.see.page.trace_writer.MOST_TERMS", 50)
    monkeypatch.setattr("npformer.see.explain.products.MOST_FACTORS", 5)
    layer = npf.layers.EncoderLayer(4, 2, 6, backend=npf.get_backend("numpy", kernels="plain"))
    trace = npf.trace(layer, np.random.default_rng(0).normal(size=(1, 3, 4)))
    show(browser, tmp_path, trace, opens={"call": 8, "what": "gradients", "name": "dw1", "flat": 1})
    assert "✓ the gradient" in text(browser, "#entry .sum")
    assert text(browser, ".witnesses").count("✓") == 2
    browser.run("npformerPage.pin(npformerPage.cellOf({...npformerPage.pinned, flat: 2}), true)")
    assert "npformer explain … --at NAME[INDEX]" in text(browser, "#entry .missing")


def test_keys_walk_through_the_steps_and_lines(opened, shown):
    steps = 2 * len(shown.calls)
    assert opened.run(STEP)[2] == "loss", "it opens at the loss"
    opened.press("Home")
    opened.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert opened.run(STEP)[0] == 1
    opened.press("End")
    assert opened.run(STEP) == [steps - 1, "backward", ""]
    opened.press("l")
    assert opened.run(STEP) == [steps // 2, "backward", "loss"]
    assert opened.find("#timeline").get_attribute("aria-valuetext") == f"backward {steps // 2} of {steps // 2}: loss"
    assert "step 46 of 90 · backward 45" in text(opened, "#where")
    opened.press("ArrowUp")
    assert "p, q, counted, num_counted" in text(opened, "#source li.lit")
    opened.press("ArrowDown", "ArrowDown")
    assert opened.run(STEP)[0] == steps // 2 + 1
    opened.press("Home")
    assert opened.run(STEP)[0] == 0


def test_pointing_at_a_number_shows_what_it_is_made_of(opened):
    go(opened, "decoder.layers.0.norm3.post_norm")
    mark(opened, "gradients", "dx", 5)
    opened.hover("#cell")
    value = opened.run("return document.getElementById('cell').entry.array.data[5]")
    sum_line = opened.find("#entry .sum")
    total, shown_value, scale = (float(sum_line.get_attribute(f"data-{name}")) for name in ("sum", "value", "scale"))
    assert shown_value == value
    assert abs(total - value) <= 1e-12 * scale
    assert "✓ the gradient" in sum_line.text
    assert len(opened.driver.find_elements("css selector", "#entry .bars li")) == 3, "r·g, r·mean g, r·x̂·mean"
    shown_text = text(opened, ".witnesses")
    assert "complex step" in shown_text
    assert "central difference" in shown_text
    assert shown_text.count("✓") == 2


def test_a_term_leads_to_the_number_it_came_from_up_to_the_loss(opened):
    go(opened, "generator.linear")
    mark(opened, "gradients", "dx", 0)
    opened.click("#cell")
    opened.click("#entry .bars .term")
    assert opened.run("return npformerPage.pinned.name") == "dy"
    opened.click("#entry .bars .term")
    assert opened.run(STEP)[1:] == ["backward", "loss"]
    assert opened.run("return npformerPage.pinned.name") == "dlogits"
    opened.press("Escape")
    assert opened.run("return npformerPage.pinned") is None


def test_the_keyboard_alone_reaches_a_number(opened):
    go(opened, "decoder.layers.0.norm3.post_norm")
    opened.run("document.getElementById('arrays').querySelector('td[tabindex=\"0\"]').focus()")
    opened.press("ArrowRight", "ArrowDown", "Enter")
    assert opened.run("return npformerPage.pinned.flat") == 5
    assert opened.run(STEP)[2] == "decoder.layers.0.norm3.post_norm"  # arrows moved in the array, not in time
    label = opened.run("return document.activeElement.getAttribute('aria-label')")
    assert label.startswith("y[0,1,1] = ")
    opened.press("Escape", "ArrowRight")
    assert opened.run(STEP)[2] != "decoder.layers.0.norm3.post_norm"


def test_each_bug_opens_at_its_first_place_and_spreads_from_there(opened, shown, bugs):
    for one in bugs:
        choose(opened, one.bug.id)
        assert opened.run(STEP)[1:] == [one.first.way, shown.calls[one.first.call]["name"]], one.bug.id
        ticks = opened.run("return npformerPage.ticks.map((tick) => Number(tick.style.getPropertyValue('--size')))")
        first = opened.run("return npformerPage.ticks.findIndex((tick) => tick.classList.contains('first'))")
        assert opened.run(STEP)[0] == first
        earliest = next(number for number, size in enumerate(ticks) if size > 0)
        assert earliest == first or one.first.handed is not None
        assert one.bug.title in text(opened, "#bugtext")
    choose(opened, "")
    assert opened.run("return npformerPage.ticks.every((tick) => Number(tick.style.getPropertyValue('--size')) === 0)")


def test_the_address_switches_a_bug_on(browser, page, bugs):
    """With ?bug=… it opens at the first place that differs, or at the step after #; another name changes nothing."""
    one = bugs[3]
    for query, number in ((f"?bug={one.bug.id}", None), (f"?bug={one.bug.id}#12", 11), ("?bug=none-of-these", 45)):
        browser.driver.get("about:blank")
        browser.driver.get(f"{page.as_uri()}{query}")
        browser.wait(READY)
        first = browser.run("return npformerPage.ticks.findIndex((tick) => tick.classList.contains('first'))")
        assert browser.run(STEP)[0] == (first if number is None else number), query
        assert browser.run("return document.getElementById('bug').value") == ("" if number == 45 else one.bug.id)
        assert browser.find("#bugtext").is_displayed() == (number != 45)
        assert browser.find("#verdict").is_displayed() == (number == 45), "it is about the right code"


def test_what_a_layer_itself_adds_with_a_bug_is_shown(browser, tmp_path):
    record = partial(showcase, tie_embeddings=True)
    right = record()
    write_trace_page(right, tmp_path / "page.html", bugs=bug_traces(record, right, ["tied-overwritten"]))
    browser.driver.get(f"{(tmp_path / 'page.html').as_uri()}?bug=tied-overwritten")
    browser.wait(READY)
    assert browser.run(STEP)[1:] == ["backward", "src_embedding"]
    shown = browser.run(
        "return [...document.querySelectorAll('#arrays figure.card.differs')].map((card) => card.spec.name)"
    )
    assert shown == ["src_embedding.weight"]
    browser.run("document.querySelector('#arrays figure.card.differs td').click()")
    assert "minus what it adds without" in text(browser, "#entry")


def test_a_bugs_line_shows_its_difference(opened):
    choose(opened, "layer-norm-no-mean")
    assert "x_hat * along_x_hat" in text(opened, "#source li.changed")
    cards = opened.run(
        "return [...document.querySelectorAll('#arrays figure.card.differs')].map((card) => card.spec.name)"
    )
    assert cards == ["dtotal", "dx", "df"]


def test_predicting_hides_numbers_and_judges_what_is_typed(opened):
    go(opened, "generator.linear")
    opened.click("#predict")
    mark(opened, "gradients", "dx", 1)
    assert text(opened, "#cell") == "?"
    value = opened.run("return document.getElementById('cell').entry.array.data[1]")
    opened.click("#cell")
    assert str(abs(value))[:5] not in text(opened, "#entry")
    guess = opened.find("#guess")
    for typed, reply in (("", "Type a number"), (repr(-value), "the sign is not"), (repr(2 * value), "factor of 2")):
        guess.clear()
        guess.send_keys(typed)
        opened.click("form.guess button")
        assert reply in text(opened, "#entry .verdict")
    guess.clear()
    guess.send_keys(repr(value).replace(".", ","))
    opened.click("form.guess button")
    assert "Right" in text(opened, "#entry .verdict")
    assert text(opened, "#score") == "1 right of 3"
    mark(opened, "gradients", "dx", 1)
    assert text(opened, "#cell") != "?"
    mark(opened, "gradients", "dx", 2, "other")
    assert text(opened, "#other") == "?"


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_nothing_is_wider_than_the_window(opened, size):
    opened.look(size)
    for name in ("src_embedding.embedding", "decoder.layers.0.cross_attention.attention", "loss", ""):
        go(opened, name)
        assert opened.run("return document.documentElement.scrollWidth") <= size[0]


def test_what_can_be_operated_has_a_name(opened):
    nameless = opened.run(
        "const kinds = 'button, select, input, [role=slider], [role=tree], [role=grid], [role=img]';"
        "return [...document.querySelectorAll(kinds)]"
        ".filter((each) => !each.textContent.trim() && !each.getAttribute('aria-label')).map((each) => each.outerHTML)"
    )
    assert nameless == []


def test_a_large_array_is_a_picture_whose_numbers_can_be_chosen(browser, tmp_path):
    rng = np.random.default_rng(0)
    record = npf.trace("linear", rng.normal(size=(1, 3, 30)), rng.normal(size=(30, 40)), rng.normal(size=40))
    show(browser, tmp_path, record, "2")
    browser.run(
        "[...document.querySelectorAll('figure.card')].find((card) => card.spec.name === 'dweight')"
        ".querySelector('canvas').focus()"
    )
    browser.press("ArrowRight", "ArrowDown", "ArrowDown")
    dweight = record.arrays[record.calls[0]["gradients"][1]["value"]]
    label = browser.run("return document.activeElement.getAttribute('aria-label')")
    assert label == f"dweight[2,1] = {dweight[2, 1]:+.3f}".replace("-", "\u2212")
    assert text(browser, "#entry h3").startswith("dweight[2,1]")
    browser.press("Enter")
    assert browser.run("return npformerPage.pinned.flat") == 81
    browser.click("#theme")
    assert browser.run("return npformerPage.pinned.flat") == 81


def test_the_gradient_of_a_parameter_is_the_sum_over_all_its_uses(browser, tmp_path):
    tied = showcase(tie_embeddings=True)
    show(browser, tmp_path, tied, str(2 * len(tied.calls)))
    mark(browser, "parameter", "src_embedding.weight", 13)
    browser.hover("#cell")
    sum_line = browser.find("#entry .sum")
    (gradient,) = (each["gradient"] for each in tied.document["parameters"] if each["name"] == "src_embedding.weight")
    assert float(sum_line.get_attribute("data-value")) == tied.arrays[gradient].reshape(-1)[13]
    assert "✓" in sum_line.text
    assert len(browser.driver.find_elements("css selector", "#entry .bars li")) == 3
    browser.click("#entry .bars .term")
    assert browser.run(STEP)[1] == "backward"


def test_text_of_a_user_is_text(browser, tmp_path):
    hostile = "<img src=x onerror=\"document.title='broken in'\"></script><script>document.title='broken in'</script>"
    sample = showcase()
    document = sample.document | {
        "title": hostile,
        "tokens": {name: [[hostile, *row[1:]] for row in rows] for name, rows in sample.document["tokens"].items()},
    }
    show(browser, tmp_path, npf.Trace(document, sample.arrays, sample.recording), "1")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert text(browser, "#title") == hostile
    assert hostile in browser.run(
        "return document.querySelector('#arrays th, #arrays td').closest('table').textContent"
    )
    assert browser.driver.title != "broken in"


def test_the_policy_stops_any_other_script(chromium, page):
    chromium.begin()
    chromium.show(page)
    chromium.run(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true';"
        "document.body.append(script)"
    )
    assert chromium.run("return window.ran") is None
    assert any("Content Security Policy" in line for line in chromium.errors())
    chromium.begin()


def test_the_page_of_an_operation_and_of_a_trace_read_from_json(browser, tmp_path):
    read = npf.Trace.from_json(npf.trace("linear").to_json())
    for record in (npf.trace("gru"), npf.trace("add_norm"), read):
        show(browser, tmp_path, record)
        browser.driver.refresh()
        browser.wait(READY)
        for _ in range(2):
            browser.press("ArrowRight")
        assert browser.run("return npformerPage.step.way") == "backward"
