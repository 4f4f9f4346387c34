"""The complete list: 40 bugs that are right at normal inputs, each with its right twin."""

from benchmarks.regimes import bugs_ids, bugs_rounding, bugs_saturated, bugs_sizes, bugs_zeros

THEMES = (bugs_saturated, bugs_rounding, bugs_zeros, bugs_ids, bugs_sizes)
BUGS = tuple(bug for theme in THEMES for bug in theme.BUGS)
