"""The tour of a trace's page, in a browser: from the loss through one gradient to one weight, and what changes it."""

import re

import numpy as np
import pytest

import npformer as npf
from npformer.functional import cross_entropy_forward
from npformer.see.page import write_trace_page
from npformer.see.record.models import PIECES, showcase_model
from tests.chromium import NARROW
from tests.see.page.test_manners import BOX
from tests.see.page.test_web import STEP, text

pytestmark = pytest.mark.browser
BUTTON = "#tour p:last-child > button:first-child"


@pytest.fixture(scope="module")
def page(shown, tmp_path_factory):
    path = tmp_path_factory.mktemp("tour") / "page.html"
    write_trace_page(shown, path)
    return path


def changed_loss(name, index, step):
    """The loss of the showcase with one parameter's number changed."""
    model, inputs, targets, _ = showcase_model()
    dict(model.named_parameters())[name].data[index] += step
    return float(cross_entropy_forward(model(*inputs), targets, 0)[0])


def number(shown_text):
    return float(shown_text.replace("\N{MINUS SIGN}", "-"))


def test_it_goes_from_the_loss_to_one_weight_whose_change_lowers_the_loss_as_predicted(browser, page, shown):
    model, inputs, targets, _ = showcase_model()
    logits = model(*inputs)
    p = np.exp(logits) / np.sum(np.exp(logits), axis=-1, keepdims=True)
    given = np.where(targets > 0, np.take_along_axis(p, targets[..., None], axis=-1)[..., 0], 1)
    batch, place = np.unravel_index(np.argmin(given), given.shape)
    target = int(targets[batch, place])

    browser.show(page)
    assert browser.run(STEP)[1:] == ["backward", "loss"]
    assert text(browser, "#tour").startswith("Which letter was wrong, and by how much?")
    browser.click(BUTTON)
    said = text(browser, "#tour")
    assert "it has read “[BOS] t o b”, the target is “[EOS]”, the end of the text." in said
    assert PIECES[target] == "[EOS]"
    assert f"would have written “{PIECES[int(np.argmax(logits[batch, place]))]}”" in said
    assert f"the lowest probability: {given.min():.3g}." in said
    assert text(browser, "#entry h3").startswith(f"dlogits[{batch},{place},{target}] = ")
    assert text(browser, "#entry .tokens") == "row “b”, column “[EOS]”"

    browser.click(BUTTON)
    assert browser.run(STEP)[1:] == ["backward", "generator.linear"]
    name, row, column, gradient = re.search(
        r"That of ([\w.]+)\[(\d+),(\d+)\] is (\S+)\.$", text(browser, "#tour p")
    ).groups()
    assert re.search(rf"dweight\[\d,{target}\] = ", text(browser, "#entry h3"))
    assert "✓ the gradient" in text(browser, "#entry .sum")
    assert number(browser.find("#entry .sum").get_attribute("data-value")) == pytest.approx(number(gradient), rel=5e-3)

    browser.click(BUTTON)
    raised, step, predicted = re.search(
        r"(raise|lower) \S+ by (\S+)\. .* changes by .* = (\S+)\.$", text(browser, "#tour p")
    ).groups()
    assert "measured" not in text(browser, "#tour")
    assert text(browser, BUTTON) == f"{raised} it by {step}"
    assert f"{raised.title()} weight[" in text(browser, "#entry .means"), "the same direction in both"
    browser.click(BUTTON)
    shown_again, measured, before, after = re.search(
        r"Predicted (\S+), measured (\S+) by .* The loss falls from (\S+) to (\S+)\. ", text(browser, "#tour p")
    ).groups()
    assert shown_again == predicted
    loss = changed_loss(name, (int(row), int(column)), number(step) if raised == "raise" else -number(step))
    assert number(before) == pytest.approx(shown.document["loss"], abs=1e-5)
    assert number(after) == pytest.approx(loss, abs=1e-5)
    assert number(after) < number(before)
    assert number(measured) == pytest.approx(loss - shown.document["loss"], rel=5e-3)
    assert number(predicted) == pytest.approx(number(measured), rel=0.1)


def test_it_ends_with_a_number_for_each_question_begins_again_and_closes(browser, page):
    browser.show(page)
    for _ in range(4):
        browser.click(BUTTON)
    shown_numbers = []
    for at in range(3):
        asked = browser.driver.find_elements("css selector", "#tour button.link")[at]
        question = asked.text
        asked.click()
        assert text(browser, "#tour").startswith(question)
        assert "lower" not in text(browser, "#tour")
        if at == 1:
            assert "factor counted is 0" in text(browser, "#tour")
            assert "counted[1,3,0]" in text(browser, "#entry .product"), "the factor that is 0 stands there"
        shown_numbers.append(
            browser.run(
                "return [npformerPage.step.call.type, document.querySelector(arguments[0])"
                ".closest('figure').spec.name, npformerPage.pinned.flat]",
                "#arrays .pinned",
            )
        )
    assert [each[:2] for each in shown_numbers] == [
        ["attention", "dk"], ["cross_entropy", "dlogits"], ["embedding", "dtable"],
    ]  # fmt: skip
    assert shown_numbers[1][2] == 7 * len(PIECES), "the last row of the second word is padding"
    assert shown_numbers[2][2] == 4 * PIECES.index("t")
    assert text(browser, BUTTON) == "again"
    browser.click(BUTTON)
    assert text(browser, BUTTON) == "show me"
    browser.click("#tour [aria-label='close the tour']")
    assert not browser.find("#tour").is_displayed()


def test_on_a_narrow_page_each_number_stands_between_the_tour_and_its_sheet(browser, page):
    browser.look(NARROW)
    browser.show(page)
    for _ in range(4):
        browser.click(BUTTON)
        tour, cell, sheet = (browser.run(BOX, each) for each in ("#tour", "#arrays .pinned", "#entrybox"))
        assert tour["bottom"] <= cell["top"] < cell["bottom"] <= sheet["top"]


def test_a_page_without_a_loss_has_no_tour(browser, tmp_path):
    write_trace_page(npf.trace("relu"), tmp_path / "page.html")
    browser.show(tmp_path / "page.html")
    assert not browser.find("#tour").is_displayed()
