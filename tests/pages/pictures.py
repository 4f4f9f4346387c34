"""Draws the page of a trace for README, light and dark: python -m tests.pages.pictures

The page is the one of ``npformer explain transformer --at PLACE --html page.html``, as it opens in a browser.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from npformer.cli.main import main
from tests.browser import Browser

PLACE = "decoder.layers.0.self_attention.query.weight[3,2]"
SIZE = (1280, 720)
COLOURS = 256  # a third of the bytes of all colours, and no eye sees it
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def draw(folder: Path = FOLDER) -> None:
    """Write trace-light.png and trace-dark.png."""
    browser = Browser()
    try:
        with TemporaryDirectory() as made:
            page = Path(made) / "page.html"
            main(["explain", "transformer", "--at", PLACE, "--html", str(page)])
            for name in ("light", "dark"):
                path = folder / f"trace-{name}.png"
                browser.look(SIZE, dark=name == "dark")
                browser.open(page)
                browser.wait("document.documentElement.dataset.ready === 'yes'")
                browser.picture(path)
                with Image.open(path) as drawn:
                    few = drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                few.save(path, optimize=True)
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    draw()
