"""The judge's score, as Markdown for its page."""

from benchmarks.page_tables import measured, of

SAID = {
    "own right": "the list: right", "own wrong": "the list: wrong",
    "blind right": "written without sight of the judge: right",
    "blind wrong": "written without sight of the judge: wrong",
    "third right": "where inputs are seldom tried: right",
    "third wrong": "where inputs are seldom tried: wrong",
}  # fmt: skip
COLUMNS = ("kernels", "right", "wrong", "refused", "cannot tell", "late")


def table(documents):
    """How many kernels of each kind have each verdict."""
    found = of(documents, "judge")
    rows = [
        [SAID[kind], *(str(counts[column]) for column in COLUMNS)]
        for document in found
        for kind, counts in document["summary"].items()
    ]
    head = ("kernels", "number", "called right", "called wrong", "refused", "cannot tell", "later than asked")
    return measured(found, head, rows, "judge --save benchmarks/results/judge.json")
