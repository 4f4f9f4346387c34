"""What the checkers found, as tables: one for the terminal and one for the page."""

from benchmarks.checkers.checks import CHECKERS
from benchmarks.page_tables import measured, of

COLUMNS = ("found", "false alarms", "cannot tell", "cause named", "s")
#: What each list is called on the page.
SAID = {
    "foreign": "pairs in NumPy as other people write them, in float64",
    "museum": "bugs in the backwards of npformer's own operations and layers",
    "few digits": "kernels in float32, TF32, bfloat16 and float16",
    "regimes": "bugs that show in a regime alone, at ordinary inputs, in float64",
    "where it fails": "the same bugs, at inputs where they show",
    "regimes in few digits": "such bugs of kernels in float32 and bfloat16, at ordinary inputs",
    "where it fails in few digits": "the same bugs, at inputs where they show",
}
#: Verdicts that fail somebody's test.
FAILS = ("wrong", "raised")


def packed(rows):
    """Rows as they are kept: one for each pair, with [verdict, seconds, words] of each checker."""
    kept = {}
    for row in rows:
        key = row["list"], row["name"], row["is_right"]
        one = kept.setdefault(key, {"list": key[0], "name": key[1], "is_right": key[2], "by": {}})
        one["by"][row["checker"]] = [row["verdict"], row["seconds"], *([row["words"]] if "words" in row else [])]
    return list(kept.values())


def unpacked(results):
    """The rows again: one for each checker and pair."""
    return [
        {"checker": checker, "list": one["list"], "name": one["name"], "is_right": one["is_right"]}
        | dict(zip(("verdict", "seconds", "words"), told, strict=False))
        for one in results
        for checker, told in one["by"].items()
    ]


def cells(rows, checker, name):
    """A checker's row for a list: its name and COLUMNS; None if it was not asked."""
    asked = [row for row in rows if (row["checker"], row["list"]) == (checker, name)]
    wrong, right = ([row for row in asked if row["is_right"] is kind] for kind in (False, True))
    if not asked or checker == "npformer cause":
        return None
    found, alarms = (sum(row["verdict"] in FAILS for row in some) for some in (wrong, right))
    unclear = sum(row["verdict"] == "cannot tell" for row in asked)
    causes = [row for row in rows if (row["checker"], row["list"]) == ("npformer cause", name)]
    named = sum(row["verdict"] == "right" for row in causes)
    cause = f"{named} of {len(causes)}" if checker == "npformer" and causes else "–"
    seconds = f"{sum(row['seconds'] for row in asked):,.0f}"
    return [CHECKERS[checker][0], f"{found} of {len(wrong)}", f"{alarms} of {len(right)}", str(unclear), cause, seconds]


def checkers(documents):
    """The part of a page: a table for each list, all checkers down."""
    sources, lines = of(documents, "checkers"), []
    for document in sources:
        asked = unpacked(document["results"])
        for name, said in SAID.items():
            rows = [line for line in (cells(asked, checker, name) for checker in CHECKERS) if line]
            lines += [[f"**{said}**", *[""] * len(COLUMNS)]] if rows else []
            lines += [[f"`{one[0]}`", *one[1:]] for one in rows]
    text = measured(sources, ("", *COLUMNS), lines, "checkers --save benchmarks/results/checkers.json")
    used = [", ".join(dict.fromkeys(", ".join(document["versions"].values()).split(", "))) for document in sources]
    return text + "".join(f"- versions: {one}\n" for one in used)
