"""Whether the cause that a check names is the one that a person would name."""

#: The kinds of mistakes. A person would accept a diagnosis that names the kind as the true cause.
KINDS = {
    "sign": "a gradient, or a term of it, has the opposite sign",
    "factor": "a factor too many or too few: 2, 1/N, a size, one over a size",
    "missing term": "one term of a sum is missing",
    "extra term": "a term is added that should not be there, or is added in the wrong form",
    "missing factor": "an array is missing from a product: a weight, a mask, a derivative",
    "wrong factor": "another array is used instead, or the inverse",
    "transposed": "two axes, or two operands of a product, are exchanged",
    "reshaped": "elements are in the order of another axis, or shifted by a wrong amount",
    "summed axis": "a sum or mean is missing, runs over the wrong axis, or replaces the other",
    "zero": "it is zero where it should not be",
    "not accumulated": "only one of several contributions to the same element is kept",
    "swapped outputs": "gradients are returned in the wrong order",
    "wrong branch": "a condition, a mask or a choice is inverted or left out",
    "wrong place": "it is wrong in some places only: first, last, off by one, one head, masked",
    "wrong constant": "a constant of the formula has another value, or too few digits",
    "not finite": "it has NaN or infinite entries",
}
#: The kinds that each label of a cause stands for, if it is no kind itself.
FAMILIES = {
    "not zero": {"extra term"},
    "wrong at repeated tokens": {"not accumulated"},
    "wrong at masked positions": {"wrong branch", "wrong place"},
    "wrong at the first position": {"wrong place"},
    "wrong at the last position": {"wrong place"},
    "zero in places": {"zero", "wrong place"},
    "not zero in places": {"wrong branch", "wrong place", "extra term"},
    "wrong in a region": {"wrong branch", "wrong place"},
    "missing way": {"missing term"},
    "wrong factor of a way": {"factor", "wrong factor", "sign"},
    "shared memory": {"wrong place"},
    "wrong function": {"wrong factor"},
    "late binding": {"wrong factor"},
    "cut graph": {"missing term"},
    "undeclared estimator": {"extra term"},
    "other arguments": {"wrong factor"},
    "axis summed twice": {"summed axis"},
    "axes not summed": {"summed axis"},
    "right numbers in another shape": {"reshaped"},
    "term missing": {"missing term"},
    "ignored output": {"missing term"},  # all that comes by that output
    "heads exchanged": {"reshaped", "wrong place"},
    "heads merged wrongly": {"reshaped"},
    "extra factor": {"factor", "wrong factor"},
}


def cause_of(report):
    """The first cause that a report names, or ""."""
    return next((row.cause for row in report.rows if row.verdict == "WRONG" and row.cause not in ("", "unknown")), "")


def judged(cause, kinds):
    """Whether a cause names one of the true kinds: "right", "false", or "unknown" if it names nothing.

    Raises ValueError for a label that has no family.
    """
    if not cause:
        return "unknown"
    if not cause.startswith("scaled by ") and cause not in KINDS and cause not in FAMILIES:
        raise ValueError(f"cause: expected one of {', '.join(FAMILIES)}, got {cause!r}; name its family in FAMILIES")
    family = {"factor"} if cause.startswith("scaled by ") else FAMILIES.get(cause, {cause})
    return "right" if family & set(kinds) else "false"
