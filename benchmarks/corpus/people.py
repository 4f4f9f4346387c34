"""What a check says of a program with a mistake that people reported, and whether what it says mends it.

A change that is proposed is applied to the program's source, which then has to be right at the author's point, at three
more and at two other sizes, else it is false. A remark without a change has to name a line or a word of the answer,
which was written before the code; it is never counted as false.
"""

import re
from dataclasses import replace

import npformer as npf
from benchmarks.corpus.applied import applied, proposed
from benchmarks.corpus.pairs import loaded

#: (seed, size) of the points beside the author's; size 0 is the author's own.
POINTS = ((1, 0), (2, 0), (3, 0), (4, 1), (5, 2))
AUTHOR = {
    "point": "point(__import__('npformer'), np.random.default_rng(0), 0)", "check": "check(__import__('npformer'))",
}  # fmt: skip
MORE = {
    "point": "point(__import__('npformer'), np.random.default_rng([{0}, {1}, 7]), {1})", "check": "more({0}, {1})",
}  # fmt: skip


def of_person(pair, _):
    """Whether the program is judged as it deserves; if it is wrong, what the explanation is worth."""
    is_ok, said = told(pair)
    row = {"verdict": "right" if is_ok else "wrong", "said": said}
    if pair.deserves == "right" or is_ok:
        return row
    heals = healed(pair, said) if proposed(said) else None
    if heals is not None:
        return row | {"cause": "right" if heals else "false", "applied": heals}
    lines = {int(number) for number in re.findall(r"\bline (\d+)", said)}
    if lines & set(pair.lines) or any(word.lower() in said.lower() for word in pair.words):
        return row | {"cause": "right"}
    return row | {"cause": "unknown"}


def told(pair):
    """(whether it is right, what is said) at the author's point, as the author would ask."""
    with loaded(pair) as evaluate:
        try:
            inputs, options = evaluate(AUTHOR[pair.made])
            report = npf.gradcheck(*inputs, **options)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"
    return report.ok, "\n".join([*report.remarks(), *(row.note for row in report.wrong if row.note)])


def healed(pair, said):
    """Whether the program with the change that is proposed is right at all points; None if that is not told in full."""
    text = applied(pair.text, said)
    if text is None:
        return None
    with loaded(replace(pair, text=text)) as evaluate:
        try:
            inputs, options = evaluate(AUTHOR[pair.made])
            points = [(inputs, options)]
            for seed, size in POINTS:
                point = evaluate(MORE[pair.made].format(seed, size))
                is_whole = isinstance(point, tuple) and len(point) == 2 and isinstance(point[1], dict)
                points.append(point if is_whole else ((inputs[0], *point), options))
            return all(npf.gradcheck(*given, **how, explain=False).ok for given, how in points)
        except Exception:
            return False
