"""The walk: one batch through the whole Transformer, forward and back: the page of its trace, and its operations."""

from __future__ import annotations

from itertools import groupby

from docs.site import operations, recordings, traces
from docs.site.places import write
from npformer.see.record.models import PIECES, WORDS


def write_all() -> None:
    """The page."""
    write("walk.md", page())


def page() -> str:
    """The trace, then its operations in their order."""
    walked = recordings.right(recordings.model(recordings.SHOWCASE))
    calls = [dict(call) for call in walked.calls]
    names = {call["id"]: str(call["name"] or walked.document["target"]) for call in calls}
    steps = [(names.get(call["parent"], "loss"), call["type"]) for call in calls if call["kind"] == "operation"]
    rows = "\n".join(
        f"| `{layer}` | {', '.join(link(name) for _, name in group)} |"
        for layer, group in groupby(steps, key=lambda step: step[0])
    )
    return f"""# The walk: one batch, forward and back

{{.lead}}
A Transformer of one encoder layer and one decoder layer reads the words {" and ".join(f"“{word}”" for word in WORDS)}
and is to write them backwards. It is so small that each of its numbers fits on a page.

There are {len(PIECES)} tokens ({", ".join(f"`{piece}`" for piece in PIECES)}), the model is 4 numbers wide and has 2
heads. Backward begins at the loss, {walked.document["loss"]:.4f} nats per token, with its gradient with respect to
itself, 1. Each step gets the gradient of its output and returns those of its inputs. Where a value was used twice, its
gradients add up.

{traces.frame(recordings.model(recordings.SHOWCASE), "")}

## Its operations

The forward goes down this list, the backward up.

{{.wide}}
| layer | operations |
|---|---|
{rows}
"""


def link(name: str) -> str:
    """The page of an operation."""
    return f"[{name.replace('_', ' ')}](operations/{operations.file_of(name)}.md)"
