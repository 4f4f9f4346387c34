"""The page in which an exercise is written and judged, in Chromium: its size, and the first verdict on each exercise.

    python -m benchmarks.run_here       measure

A round opens the page anew for each exercise, with the right answer in it. Two times are taken from the opening: until
it can judge, and until the verdict.

exit code: 0 all within their limits, 1 one is not, 2 there is no browser or no npm, or bad input
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import report
from benchmarks.browser import LIMIT, Browser, browser_problem
from benchmarks.options import at_least_1, bare_parser
from benchmarks.trace_page import _row
from docs.site.here.libraries import fetched
from docs.site.here.page import page
from npformer.lab.grader import EXERCISES
from npformer.lab.grader.templates import pair_source

MEGABYTES, VERDICT = 2.0, 2000.0  # the limits; the time in milliseconds
#: [milliseconds until the page can judge, until the verdict, its words], of the answer that is given.
JUDGED = """
const [text, done] = arguments;
const judge = document.getElementById("judge");
const enabled = () => new Promise(go => {
  const look = () => (judge.disabled ? setTimeout(look, 5) : go());
  look();
});
(async () => {
  await enabled();
  const ready = performance.now();
  document.getElementById("code").value = text;
  judge.click();
  await enabled();
  done([ready, performance.now(), document.getElementById("verdict").textContent]);
})();
"""


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("run_here", __doc__.partition("\n")[0], json=False)
    parser.add_argument("--rounds", type=at_least_1, default=3, help="how often each is opened (default: 3)")
    args = parser.parse_args()
    libraries = fetched()
    problem = browser_problem() or (libraries if isinstance(libraries, str) else None)
    if problem:
        parser.error(problem)
    browser = Browser()
    try:
        with TemporaryDirectory() as made:
            path = Path(made) / "page.html"
            path.write_text(page(libraries), encoding="utf-8")
            rows = measured(browser, path, args.rounds)
    finally:
        browser.driver.quit()
    print(report.table(("of the page", "unit", "middle", "largest", "limit", "verdict"), rows))
    return 0 if all(row[-1] == "ok" for row in rows) else 1


def measured(browser, path, rounds, exercises=EXERCISES):
    """The rows of the table: size, and both times. Raises AssertionError at a wrong verdict."""
    browser.driver.set_script_timeout(LIMIT)
    times = []
    for exercise in exercises:
        for _ in range(rounds):
            browser.begin()
            browser.driver.get(f"{path.resolve().as_uri()}?exercise={exercise.name}")
            *taken, words = browser.driver.execute_async_script(JUDGED, pair_source(exercise))
            assert words == f"{exercise.name}: right.", words
            times.append(taken)
    ready, verdict = zip(*times, strict=True)
    return [
        _row("size", "MB", [path.stat().st_size / 1e6], MEGABYTES),
        _row("can judge", "ms", ready, VERDICT),
        _row("first verdict", "ms", verdict, VERDICT),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
