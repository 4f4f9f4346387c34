"""What the checkers found, as the table of a page."""

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


def verdicts(results, checker, name):
    """(whether it is right, verdict, seconds) of each pair of a list that a checker was asked about."""
    return [
        (one["is_right"], *one["by"][checker][:2]) for one in results if one["list"] == name and checker in one["by"]
    ]


def cells(results, checker, name):
    """A checker's row for a list: its name and COLUMNS."""
    asked, causes = (verdicts(results, each, name) for each in (checker, "npformer cause"))
    found, alarms = (
        f"{sum(verdict in FAILS for right, verdict, _ in asked if right is kind)}/"
        f"{sum(right is kind for right, _, _ in asked)}"
        for kind in (False, True)
    )
    unclear = sum(verdict == "cannot tell" for _, verdict, _ in asked)
    named = f"{sum(verdict == 'right' for _, verdict, _ in causes)}/{len(causes)}"
    cause = named if checker == "npformer" and causes else "–"
    seconds = f"{sum(seconds for _, _, seconds in asked):,.0f}"
    return [f"`{CHECKERS[checker][0]}`", found, alarms, str(unclear), cause, seconds]


def checkers(documents):
    """The part of a page: a table for each list, all checkers down."""
    sources, lines = of(documents, "checkers"), []
    for document in sources:
        results = document["results"]
        for name, said in SAID.items():
            asked = [one for one in CHECKERS if one != "npformer cause" and verdicts(results, one, name)]
            lines += [[f"**{said}**", *[""] * len(COLUMNS)]] if asked else []
            lines += [cells(results, checker, name) for checker in asked]
    text = measured(sources, ("", *COLUMNS), lines, "checkers --save benchmarks/results/checkers.json")
    used = [", ".join(dict.fromkeys(", ".join(document["versions"].values()).split(", "))) for document in sources]
    return text + "".join(f"- versions: {one}\n" for one in used)
