"""Text on the page of a trace has a contrast of at least 4.5: every colour of a cell, every state, both themes."""

import pytest

from npformer.see.page.document import web_file

LEAST = 4.5
CSS = web_file("trace.css")
#: The contrast of each pair of colours, as the browser mixes them; first that of black on white.
CONTRASTS = """
const node = document.body.appendChild(document.createElement("p"));
const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const luminance = (colour) => {
  node.style.color = colour;
  brush.fillStyle = getComputedStyle(node).color;
  brush.fillRect(0, 0, 1, 1);
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = [...brush.getImageData(0, 0, 1, 1).data].map((x) => linear(x / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
return [["#000", "#fff"], ...arguments[0]].map((pair) => {
  const [dim, bright] = pair.map(luminance).sort((a, b) => a - b);
  return (bright + 0.05) / (dim + 0.05);
});
"""


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(browser, tmp_path, dark):
    (tmp_path / "page.html").write_text(f"<!doctype html><style>{CSS}</style>", encoding="utf-8")
    browser.look(dark=dark)
    browser.open(tmp_path / "page.html")
    pairs = [(text, ground) for text in ("ink", "quiet") for ground in ("paper", "panel", "raised")]
    pairs += [("ink", "lit"), ("up", "paper"), ("down", "paper"), ("pos", "paper"), ("neg", "paper"), ("neg", "panel"),
              ("bug", "paper"), ("bug", "panel"), ("up", "panel")]  # fmt: skip
    asked = [(f"var(--{text})", f"var(--{ground})") for text, ground in pairs]
    for share in range(101):
        cells = [("number", sign, "zero", share) for sign in ("pos-cell", "neg-cell")]
        for text, colour, ground, part in (*cells, ("ink", "bug", "raised", 0.45 * share)):
            asked.append((f"var(--{text})", f"color-mix(in oklab, var(--{colour}) {part}%, var(--{ground}))"))
    black, *contrasts = browser.run(CONTRASTS, asked)
    assert black == pytest.approx(21)
    assert {pair: found for pair, found in zip(asked, contrasts, strict=True) if found < LEAST} == {}
    assert len({*contrasts}) > 200, "mixed by the browser"


def test_no_text_is_faded():
    faded = [line for line in CSS.splitlines() if "opacity" in line and "disabled" not in line]
    assert faded == []
