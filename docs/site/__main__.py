"""python -m docs.site: write all pages of the site.

Exit code: 0 done; 1 Sphinx found something wrong, and each warning counts; 2 a package is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from docs.site.places import BUILD, SITE, SOURCES, written
from npformer.io.progress_bar import show_bars
from npformer.io.terminal import is_terminal

NEEDED = ("sphinx", "myst_parser", "furo", "ziamath")


def main() -> int:
    """Write the sources, and make HTML of them."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.site",
        description="Write the site: open build/site/index.html, with or without a network.",
        epilog="example: python -m docs.site --out /tmp/site",
    )
    parser.add_argument("--out", type=Path, default=SITE, metavar="FOLDER", help="where to (build/site)")
    parser.add_argument("--jobs", default="auto", help="how many processes (auto: one for each core)")
    args = parser.parse_args()
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"docs: expected {', '.join(NEEDED)}; {missing[0]} is missing: pip install -e '.[docs]'", file=sys.stderr)
        return 2
    from sphinx.cmd.build import build_main

    from docs.site import assemble

    with show_bars():
        assemble.write_all()
    print(f"{len(written)} sources are in {os.path.relpath(SOURCES)}; Sphinx makes pages of them", flush=True)
    made = BUILD / "site-doctrees" / "environment.pickle"
    code = max(path.stat().st_mtime for path in Path(__file__).parent.glob("*.py"))
    if made.exists() and made.stat().st_mtime < code:
        made.unlink()  # what makes the pages has changed: Sphinx reads all of them again
    log = () if is_terminal(sys.stdout) else ("-q",)  # Sphinx's own progress is for a terminal
    words = [*log, "-W", "--keep-going", "-j", args.jobs, "-c", str(Path(__file__).parent), "-d"]
    failed = build_main([*words, str(BUILD / "site-doctrees"), str(SOURCES), str(args.out)])
    if not failed:
        print(f"{os.path.relpath(args.out)}/index.html")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
