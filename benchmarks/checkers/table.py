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
        for name, said in SAID.items():
            rows = [line for line in (cells(document["results"], checker, name) for checker in CHECKERS) if line]
            lines += [[f"**{said}**", *[""] * len(COLUMNS)]] if rows else []
            lines += [[f"`{one[0]}`", *one[1:]] for one in rows]
    text = measured(sources, ("", *COLUMNS), lines, "checkers --save benchmarks/results/checkers.json")
    used = [", ".join(dict.fromkeys(", ".join(document["versions"].values()).split(", "))) for document in sources]
    return text + "".join(f"- versions: {one}\n" for one in used)
