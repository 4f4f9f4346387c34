"""How the page of a trace behaves in a browser: keys, the way back, bugs that are counted, predictions, four widths."""

import numpy as np
import pytest

from npformer.see.page import trace_page
from npformer.see.record import Trace
from npformer.see.record.models import PIECES
from tests.chromium import NARROW, READY
from tests.see.page.test_web import STEP, choose, go, mark, text

pytestmark = pytest.mark.browser
OVERLAPS = """
const shown = [...document.querySelectorAll(arguments[0])].filter((one) => one.offsetWidth && one.offsetHeight);
const boxes = shown.map((one) => [one.id || one.className, one.getBoundingClientRect()]);
const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
const over = (a, i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b));
return boxes.flatMap(([name, a], i) => over(a, i).map(([other]) => [name, other]));
"""
BOX = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"


@pytest.fixture(scope="module")
def page(shown, bugs, tmp_path_factory):
    path = tmp_path_factory.mktemp("manners") / "page.html"
    long = Trace(shown.document | {"title": "reverse-001: " + "a long word, " * 9}, shown.arrays, shown.recording)
    path.write_text(trace_page(long, bugs=bugs[:2], links={"": "start.html"}), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, page):
    browser.show(page)
    return browser


def address(browser, ending):
    """Wait until the address ends so."""
    browser.wait(f"decodeURIComponent(location.hash) === '{ending}'")


def test_down_begins_at_the_first_line_and_ends_at_the_next_step(opened):
    go(opened, "loss")
    lines = opened.run("return npformerPage.run.moments.length")
    opened.press("ArrowDown")
    assert opened.run("return npformerPage.moment") == 0
    opened.press(*["ArrowDown"] * lines)
    assert opened.run(STEP)[2] == "generator.linear"


def test_the_way_back_leads_through_steps_and_numbers(opened):
    address(opened, "#46")
    go(opened, "generator.linear")
    number = opened.run(STEP)[0] + 1
    address(opened, f"#{number}")
    mark(opened, "gradients", "dx", 3)
    opened.click("#cell")
    address(opened, f"#{number}/gradients/dx/3")
    opened.click("#entry .bars .term")
    opened.wait("!location.hash.endsWith('dx/3')")
    opened.driver.back()
    opened.wait("npformerPage.pinned && npformerPage.pinned.name === 'dx' && npformerPage.pinned.flat === 3")
    opened.driver.back()
    opened.driver.back()
    opened.wait("npformerPage.step.number === 45")
    opened.driver.forward()
    opened.wait(f"npformerPage.step.number === {number - 1}")
    opened.run("location.hash = '#60'")
    opened.wait("npformerPage.step.number === 59")


def test_an_address_that_says_nothing_is_passed_over(browser, page):
    browser.show(page, "%")
    assert browser.run(STEP)[0] == 45
    browser.run("location.hash = '#%E0/x'")
    browser.wait("location.hash === '#%E0/x'")
    go(browser, "generator.linear")
    browser.expect_silence()


def test_after_a_bug_is_chosen_the_keys_step_and_the_wrong_gradients_are_counted(opened, shown, bugs):
    choose(opened, bugs[0].bug.id)
    before = opened.run(STEP)[0]
    opened.press("ArrowRight")
    assert opened.run(STEP)[0] == before + 1
    wrong = sum(
        int(np.sum(np.abs(array) > 1e-9 * np.max(np.abs(right_of(opened, call, name)))))
        for call, kinds in bugs[0].differences.items()
        for name, array in kinds.get("gradients", {}).items()
        if shown.calls[call]["kind"] == "operation"
    )
    assert text(opened, "#bugverdict").startswith(f"✗ {wrong} of ")
    assert not opened.find("#verdict").is_displayed()
    go(opened, "loss")
    opened.run(
        "const cells = [...document.querySelectorAll('.differs td')];"
        "npformerPage.pin(cells.find((td) => td.entry?.what === 'gradients'), true)"
    )
    assert text(opened, "#entry h3").startswith("right: ")
    assert text(opened, "#entry .bugline").startswith("wrong: ")
    assert "difference (wrong − right)" in text(opened, "#entry .bugline")


def right_of(browser, call, name):
    return browser.run(
        "const call = npformerPage.model.calls[arguments[0]];"
        "const entry = call.gradients.find((one) => one.name === arguments[1]);"
        "return [...npformerPage.model.arrays.get(entry.value).data]",
        call,
        name,
    )


def test_predict_asks_a_gradient_says_what_to_do_and_has_three_hints(opened):
    opened.click("#predict")
    assert opened.run(STEP)[1:] == ["backward", "loss"]
    assert opened.run("return document.activeElement.id") == "guess"
    cell = opened.run("return document.querySelector('td.pinned').getBoundingClientRect().top")
    assert 0 < cell < 800
    shown_text = text(opened, "#entry")
    assert "Work one out, type it, press Enter" in shown_text
    hints = [one.text for one in opened.driver.find_elements("css selector", "#entry summary")]
    assert hints == ["a hint: what to add up", "a hint: with numbers", "a hint: sign and size"]


def test_operations_only_passes_over_the_layers(opened):
    opened.press("o")
    kinds = set()
    for _ in range(12):
        opened.press("ArrowRight")
        kinds.add(opened.run("return npformerPage.step.call.parts.length"))
    assert kinds == {0}


def test_a_cells_name_says_the_number_that_stands_in_it(opened):
    go(opened, "loss")
    shown_text, label, power = opened.run(
        "const td = document.querySelector('figure.card .power').closest('figure').querySelector('td[role=gridcell]');"
        "const power = td.closest('figure').querySelector('.power').textContent;"
        "return [td.textContent, td.getAttribute('aria-label'), power]"
    )
    assert label.endswith(f"= {shown_text} {power}")


def test_each_column_of_logits_and_each_row_of_a_table_has_its_letter(opened):
    go(opened, "loss")
    heads = "return [...arguments[0].querySelectorAll('th')].map((th) => th.textContent)"
    card = "return [...document.querySelectorAll('figure.card')].find((one) => one.spec.name === arguments[0])"
    logits = opened.run(heads, opened.run(f"{card}.querySelector('tr')", "dlogits"))
    assert logits == list(PIECES)
    go(opened, "src_embedding.embedding")
    assert opened.run(heads, opened.run(card, "dtable")) == list(PIECES)


def test_a_page_of_the_site_leads_back_and_to_the_page_of_each_operation(browser, shown, tmp_path):
    file = "npformer/functional/cross_entropy.py"
    page = trace_page(shown, links={"": "start.html", file: "cross_entropy.html"})
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    (tmp_path / "around.html").write_text('<!doctype html><iframe src="page.html"></iframe>', encoding="utf-8")
    browser.show(tmp_path / "page.html")
    assert browser.find("#home").get_attribute("href") == (tmp_path / "start.html").as_uri()
    assert browser.find("#formula a").get_attribute("href") == (tmp_path / "cross_entropy.html").as_uri()
    go(browser, "generator.linear")
    assert text(browser, "#formula .title code") == "npformer explain linear"
    browser.open(tmp_path / "around.html")
    browser.driver.switch_to.frame(0)
    browser.wait(READY)
    assert not browser.find("#home").is_displayed(), "the page around it has its own ways"
    browser.driver.switch_to.default_content()


@pytest.mark.parametrize("width", [390, 768, 1024, 1280])
def test_nothing_lies_over_anything_else(browser, page, width):
    browser.look((width, 900))
    browser.show(page)
    for bug in ("", "loss-by-batch"):
        choose(browser, bug)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        for bar, parts in (("header", "header > *"), ("footer .keys", "footer .keys > *")):
            assert browser.run(OVERLAPS, parts) == []
            assert width < 1024 or browser.run(BOX, bar)["height"] < 50, "each is one line"


def test_on_a_narrow_page_menu_and_last_column_are_whole_and_the_sheet_leaves_most(browser, page):
    browser.look(NARROW)
    browser.show(page, "46/gradients/dlogits/7")
    assert browser.run("return [npformerPage.pinned.name, npformerPage.pinned.flat]") == ["dlogits", 7]
    menu, pinned, sheet = (browser.run(BOX, each) for each in ("#bug", "#arrays .pinned", "#entrybox"))
    assert menu["width"] > 300
    assert menu["right"] <= NARROW[0]
    assert 0 <= pinned["left"] < pinned["right"] <= NARROW[0]
    assert sheet["height"] < 0.4 * NARROW[1]
