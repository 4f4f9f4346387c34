"""Write the dates data set: dates as people write them in eight languages, and in ISO 8601 form.

    5 de março de 1987<TAB>1987-03-05

Months are always names, so that day and month cannot be confused. Each date is written
in its language's long form, or with the abbreviated month; years run from 1950 to 2049.
No source occurs twice; the lines are in random order.

examples/data/dates.tsv was written with Babel 2.18.0 (Unicode CLDR 47) and the default
seed; with the same CLDR this script writes the same bytes again.

    python examples/make_dates.py --out dates.tsv
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

try:
    from babel.dates import format_date, format_skeleton
except ImportError:
    sys.exit("make_dates: expected Babel to be installed; try: pip install -e '.[data]'")

CLDR_VERSION = "47"
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pt", "sv")
FIRST_DAY = datetime.date(1950, 1, 1)
LAST_DAY = datetime.date(2049, 12, 31)
DEFAULT_OUT = Path(__file__).parent / "data" / "dates.tsv"


def make_lines(count: int, seed: int) -> list[str]:
    """`count` lines source<TAB>target, each source once."""
    # Python promises the same numbers in every version only for random().
    draw = random.Random(seed).random
    days = (LAST_DAY - FIRST_DAY).days + 1
    targets: dict[str, str] = {}
    while len(targets) < count:
        day = FIRST_DAY + datetime.timedelta(days=int(draw() * days))
        language = LANGUAGES[int(draw() * len(LANGUAGES))]
        source = write_date(day, language, abbreviated=draw() < 0.5)
        # Languages share spellings ("5 mar 1987"), but never with two meanings.
        if targets.setdefault(source, day.isoformat()) != day.isoformat():
            raise RuntimeError(f"{source!r} would mean both {targets[source]} and {day.isoformat()}")
    return [f"{source}\t{target}" for source, target in targets.items()]


def write_date(day: datetime.date, language: str, *, abbreviated: bool) -> str:
    """The date in words, in CLDR's form for the language."""
    if abbreviated:
        return format_skeleton("yMMMd", day, locale=language)
    return format_date(day, "long", locale=language)


def write_new(path: Path, content: str, *, force: bool) -> None:
    """Write everything or nothing; an existing file is replaced only with `force`."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; choose another --out, or replace it with --force")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(content.encode())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when the file is written, 2 when it cannot be."""
    parser = argparse.ArgumentParser(
        description="Write dates in eight languages and their ISO form, one pair per line.",
        epilog="example: python examples/make_dates.py --out dates.tsv",
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="file to write (%(default)s)")
    parser.add_argument("--count", type=int, default=12_000, help="lines, at most 100000 (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random dates (%(default)s)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    options = parser.parse_args(argv)
    if not 1 <= options.count <= 100_000:
        parser.error(f"--count: expected 1 to 100000, got {options.count}")
    lines = make_lines(options.count, options.seed)
    try:
        write_new(options.out, "".join(f"{line}\n" for line in lines), force=options.force)
    except OSError as error:
        print(f"make_dates: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
