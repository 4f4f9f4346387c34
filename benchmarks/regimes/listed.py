"""The complete list: 40 bugs that are right at normal inputs, each with its right twin."""

from benchmarks.regimes import bugs_ids, bugs_rounding, bugs_saturated, bugs_sizes, bugs_zeros

THEMES = (bugs_saturated, bugs_rounding, bugs_zeros, bugs_ids, bugs_sizes)
BUGS = tuple(bug for theme in THEMES for bug in theme.BUGS)

#: Foreign pairs that are not right in a regime, by name: the regime, and why their backward is no derivative there.
NOT_RIGHT = {
    "cumprod": {"zeros": "divides by x, so it is not finite where x is 0"},
    "determinant": {"zeros": "inverts a matrix that is singular there"},
    "layer norm, np.std": {
        "sizes": "divides by the standard deviation, so it is not finite in a row of one number",
        "zeros": "divides by the standard deviation, which is 0 in a row of zeros",
    },
    "p-norm": {"zeros": "divides by the norm, which is 0 in a row of zeros"},
    "product of rows": {"zeros": "divides by x, so it is not finite where x is 0"},
    "radial basis": dict.fromkeys(("saturated above", "saturated"), "multiplies 0 by an exp that overflows"),
}
