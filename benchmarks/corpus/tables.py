"""What the checks make of the corpus, as tables for the pages."""

from benchmarks.corpus.tolerances import PRECISIONS, counts
from benchmarks.page_tables import part

WHAT = {
    "foreign": "pairs in NumPy as other people write them", "verdicts": "programs that are hard to judge",
    "precision": "kernels in low precision, at five seeds", "regimes": "mistakes that show in a regime or at a size",
    "regimes, foreign": "right pairs in NumPy, in all regimes", "sources": "Triton, JAX and PyTorch",
    "judge": "kernels for the judge", "derivations": "derivations on paper",
    "people": "programs with mistakes that people reported", "people_blind": "the same, written blind and scored once",
}  # fmt: skip
VERDICTS = ("right", "called_right", "accused", "unsure", "wrong", "found", "certified", "wrong_unsure")
HEAD = "list | right | called right | accused | cannot tell | wrong | found | certified | cannot tell"
SAVE = "corpus --jobs 2"


def rows(document, lists, columns):
    """A row for each of these lists that the document has."""
    for which in lists:
        if which in document["summary"]:
            yield [WHAT[which], *(str(document["summary"][which][column]) for column in columns)]


@part("corpus", HEAD, SAVE)
def corpus(document):
    """How each list is judged."""
    return rows(document, [which for which in WHAT if which != "derivations"], VERDICTS)


@part("corpus", "list | found | true cause named | another one named | line named", SAVE, with_origin=False)
def causes_named(document):
    """How often the cause and the line of a mistake are named, of those whose kind is listed."""
    return rows(document, ("foreign", "sources"), ("found", "cause", "cause_false", "line"))


@part(
    "corpus",
    "list | wrong | found | told what mends it | told what is false | changes | of these, mend",
    SAVE,
    with_origin=False,
)
def people(document):
    """What an explanation is worth: a change is applied to the source, and has to mend it at all points."""
    columns = ("wrong", "found", "cause", "cause_false", "proposed", "applied")
    return rows(document, ("people", "people_blind"), columns)


@part("corpus", f"{HEAD} | later than asked", SAVE)
def judge(document):
    """How the judge fares."""
    return rows(document, ("judge",), (*VERDICTS, "late"))


@part("corpus", "list | right | called right | accused | wrong | found | first wrong line named", SAVE)
def on_paper(document):
    """How npformer derive fares."""
    return rows(document, ("derivations",), ("right", "called_right", "accused", "wrong", "found", "line"))


@part(
    "corpus",
    "precision | tolerances | tests of right kernels | failures | failures without `sample` | "
    "allowed, of the largest error seen: middle and most | visible error, predicted: off by a factor of at most",
    SAVE,
    with_origin=False,
)
def tolerance(document):
    """How right kernels fared with measured tolerances, by precision."""
    tensors = [each for row in document["results"] for each in row.get("tensors", ())]
    for precision in PRECISIONS if tensors else ():
        one = counts([each for each in tensors if each["precision"] == precision])
        yield [
            precision, str(one["tolerances"]), f"{one['tests']:,}", str(one["failures"]),
            str(one["failures_without_sample"]), f"{one['middle_width']:.1f} and {one['widest']:.1f}",
            f"{one['prediction_off']:.1f}",
        ]  # fmt: skip
