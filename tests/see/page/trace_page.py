"""The page of a trace in Chromium: its size, its first paint, and the time of a step; and its pictures for README.

    python -m tests.see.page.trace_page               measure
    python -m tests.see.page.trace_page --pictures    draw docs/pictures/trace-light.png and trace-dark.png

The page is the one of ``npformer trace transformer --html page.html --bugs usual``, which has ten. A round loads it
anew and makes every step once. Of each step two times are taken: until script and layout have ended, and until the
frame is drawn, which waits for the next of the sixty frames a second. A step's time is its median over the rounds; the
table has the middle and the largest of all steps.

exit code: 0 all within their limits, 1 one is not, 2 there is no browser, or bad input
"""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import report
from benchmarks.options import at_least_1, bare_parser
from benchmarks.pages import printed
from tests.chromium import LIMIT, Browser, browser_problem

MEGABYTES, PAINT, STEP = 3.0, 1000.0, 50.0  # the limits; times in milliseconds
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
#: Two times in milliseconds of each step after the first. A message is delivered after the frame that is under way.
STEPS = """
const done = arguments[arguments.length - 1];
const drawn = () => new Promise((go) => requestAnimationFrame(() => {
  const {port1, port2} = new MessageChannel();
  port1.onmessage = go;
  port2.postMessage(0);
}));
(async () => {
  const [app, times] = [npformerPage, []];
  for (let number = 1; number < app.model.steps.length; number += 1) {
    await drawn();
    const began = performance.now();
    app.go(number);
    document.body.getBoundingClientRect();
    const laidOut = performance.now();
    await drawn();
    times.push([laidOut - began, performance.now() - began]);
  }
  done(times);
})();
"""

PLACE = "decoder.layers.0.self_attention.query.weight[3,2]"
SIZE = (1280, 720)
COLOURS = 256  # a third of the bytes of all colours, and no eye sees it
FOLDER = Path(__file__).parents[3] / "docs" / "pictures"


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("trace_page", __doc__.partition("\n")[0], json=False)
    parser.prog = "python -m tests.see.page.trace_page"
    parser.add_argument("--rounds", type=at_least_1, default=9, help="how often the page is loaded (default: 9)")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures, measure nothing")
    args = parser.parse_args()
    if problem := browser_problem():
        parser.error(problem)
    browser = Browser()
    try:
        with TemporaryDirectory() as made:
            page = Path(made) / "page.html"
            if args.pictures:
                draw(browser, page, FOLDER)
                return 0
            printed(("trace", "transformer", "--html", str(page), "--bugs", "usual"))
            rows = measured(browser, page, args.rounds)
    finally:
        browser.driver.quit()
    print(report.table(("of the page", "unit", "middle", "largest", "limit", "verdict"), rows))
    return 0 if all(row[-1] == "ok" for row in rows) else 1


def measured(browser, page, rounds):
    """The rows of the table: size, first paint, and both times of a step."""
    browser.driver.set_script_timeout(LIMIT)
    paints = []
    steps = []
    for _ in range(rounds):
        browser.begin()
        browser.show(page)
        paints.append(float(browser.wait(PAINTED)))
        steps.append([tuple(each) for each in browser.driver.execute_async_script(STEPS)])
        browser.expect_silence()
    size = page.stat().st_size / 1e6
    each = [[statistics.median(times[kind] for times in step) for step in zip(*steps, strict=True)] for kind in (0, 1)]
    count = f"of {len(each[0])} steps"
    return [
        _row("size", "MB", [size], MEGABYTES),
        _row("first paint", "ms", paints, PAINT),
        _row(f"script and layout, {count}", "ms", each[0], STEP),
        _row(f"until the frame is drawn, {count}", "ms", each[1], STEP),
    ]


def _row(name, unit, row, limit):
    numbers = [f"{number:.4g}" for number in (statistics.median(row), max(row), limit)]
    return [name, unit, *numbers, "ok" if max(row) <= limit else "OVER"]


def draw(browser, page, folder):
    """Write trace-light.png and trace-dark.png: the page, as it opens at one number of a gradient."""
    from PIL import Image  # of the extra browser

    printed(("explain", "transformer", "--at", PLACE, "--html", str(page)))
    for name in ("light", "dark"):
        path = folder / f"trace-{name}.png"
        browser.look(SIZE, dark=name == "dark")
        browser.show(page)
        browser.expect_silence()
        browser.picture(path)
        with Image.open(path) as drawn:
            few = drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
