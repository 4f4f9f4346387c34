"""Whether a run ended too soon: its held-out loss was still falling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npformer.io.printable import shell_words
from npformer.run.directory import RunDirectory
from npformer.training.evaluation import Evaluation

#: The loss fell by this share in the last two intervals between evaluations; at the end the rate is near 0.
FELL = 0.05
#: Nearly all sequences right: a loss that falls on changes little.
ENOUGH = 0.99
#: So many times the steps are proposed.
LONGER = 4


def suggest_more_steps(run: RunDirectory, records: Sequence[Mapping[str, Any]], found: Evaluation, steps: int) -> str:
    """The command with which a run goes on whose held-out loss was still falling at its end; "" if it was not.

    records: the lines of metrics.jsonl; found: the last evaluation; steps: those of the run, all made.
    """
    losses = [float(record["loss"]) for record in records if record.get("kind") == "eval"]
    if len(losses) < 3 or losses[-1] > min(losses) or losses[-1] > (1 - FELL) * losses[-3]:
        return ""
    if found.measures.get("exact_match", found.measures.get("accuracy", 0.0)) >= ENOUGH:
        return ""
    return shell_words("npformer", "train", "--resume", run.path, "--set", f"steps={LONGER * steps}")
