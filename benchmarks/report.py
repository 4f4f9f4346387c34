"""Numbers and tables for people, and JSON for machines."""

import json
import sys

from npformer.io.percent import percent


def table(columns, rows):
    """Rows under columns; the first column is aligned to the left, the others to the right."""
    cells = [list(columns), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def milliseconds(seconds):
    """Seconds as milliseconds with three digits or more."""
    value = seconds * 1e3
    digits = 4 if value < 0.1 else 3 if value < 1 else 2 if value < 100 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f}"


def digits(value):
    """Three digits, or all before the point; a dash for an unknown value."""
    if value is None:
        return "–"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def megabytes(count):
    """Bytes as MB, 10⁶."""
    return f"{count / 1e6:,.0f}"


def share(value):
    """A share in percent, or a dash."""
    return percent(value, 0) if value else "–"


def ratio(values):
    """ "2.10 (2.05 … 2.14)", or a dash."""
    return "–" if values is None else f"{values['median']:.2f} ({values['low']:.2f} … {values['high']:.2f})"


def say(text, quiet):
    """Print a part of the report at once."""
    if not quiet:
        print(text, flush=True)


def progress(text):
    """Show progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def finish(document, args, shown):
    """Print the document as --json says, or as shown([document]); write it as --save says."""
    name = args.save.name if args.save else "not saved"
    print(json.dumps(document, indent=1) if args.json else shown([{"file": name, **document}]))
    keep(document, args.save)


def finish_rows(head, rows, args):
    """Print and save a document, if requested, with each of its rows on a line of its own."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    document = json.dumps(head, indent=1)[:-2] + f',\n "results": [\n{lines}\n]}}'
    if args.json:
        print(document)
    if args.save is not None:
        args.save.write_text(document + "\n", encoding="utf-8")


def keep(document, path):
    """Write a document to the file of --save, if given; an older measurement in it is replaced."""
    if path is not None:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
