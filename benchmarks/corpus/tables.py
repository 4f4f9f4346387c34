"""What the checks make of the corpus, as tables for the pages."""

from benchmarks.corpus.tolerances import PRECISIONS, counts
from benchmarks.page_tables import measured, of

SAVE = "corpus --jobs 2 --save benchmarks/results/corpus.json"
WHAT = {
    "foreign": "pairs in NumPy as other people write them", "verdicts": "programs that are hard to judge",
    "precision": "kernels in low precision, at five seeds", "regimes": "mistakes that show in a regime or at a size",
    "regimes, foreign": "right pairs in NumPy, in all regimes", "sources": "Triton, JAX and PyTorch",
    "judge": "kernels for `npformer judge`",
}  # fmt: skip
COLUMNS = {
    "right": "right", "called_right": "called right", "accused": "accused", "unsure": "cannot tell", "wrong": "wrong",
    "found": "found", "certified": "certified", "wrong_unsure": "cannot tell",
}  # fmt: skip
CAUSES = {"found": "found", "cause": "true cause named", "cause_false": "another one named", "line": "line named"}


def corpus(documents):
    """How each list is judged."""
    found = of(documents, "corpus")
    rows = [
        [what, *(str(document["summary"][which][column]) for column in COLUMNS)]
        for document in found for which, what in WHAT.items() if which in document["summary"]
    ]  # fmt: skip
    return measured(found, ("list", *COLUMNS.values()), rows, SAVE)


def causes_named(documents):
    """How often the cause and the line of a mistake are named, of those whose kind is listed."""
    found = of(documents, "corpus")
    rows = [
        [WHAT[which], *(str(document["summary"][which][column]) for column in CAUSES)]
        for document in found for which in ("foreign", "sources") if which in document["summary"]
    ]  # fmt: skip
    return measured(found, ("list", *CAUSES.values()), rows, SAVE)


def judge(documents):
    """How the judge fares."""
    found = of(documents, "corpus")
    rows = [
        [WHAT["judge"], *(str(document["summary"]["judge"][column]) for column in (*COLUMNS, "late"))]
        for document in found if "judge" in document["summary"]
    ]  # fmt: skip
    return measured(found, ("list", *COLUMNS.values(), "later than asked"), rows, SAVE)


def tolerance(documents):
    """How right kernels fared with measured tolerances, by precision."""
    found, rows = of(documents, "corpus"), []
    for document in found:
        tensors = [each for row in document["results"] for each in row.get("tensors", ())]
        for precision in PRECISIONS if tensors else ():
            one = counts([each for each in tensors if each["precision"] == precision])
            rows.append([
                precision, str(one["tolerances"]), f"{one['tests']:,}", str(one["failures"]),
                str(one["failures_without_sample"]), f"{one['middle_width']:.1f} and {one['widest']:.1f}",
                f"{one['prediction_off']:.1f}",
            ])  # fmt: skip
    head = (
        "precision", "tolerances", "tests of right kernels", "failures", "failures without `sample`",
        "allowed, of the largest error seen: middle and most", "visible error, predicted: off by a factor of at most",
    )  # fmt: skip
    return measured(found, head, rows, SAVE)
