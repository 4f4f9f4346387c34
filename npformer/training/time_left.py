"""How long a run will still take: its steps, its evaluations and its checkpoints.

Steps take what those before took, the last half counted most; the first one, which compiles and allocates, is left
out. An evaluation takes its last time per example. Before the first one it is guessed from the steps, by a factor that
was measured on two CPU cores with the tasks reverse and pairs (translating, whose outputs are generated token by token)
and lm. So is a checkpoint.
"""

from __future__ import annotations

from npformer.run.options import TrainingOptions

#: Steps' time per example that an example of an evaluation takes: with outputs that are generated, and without.
GENERATED, READ = 4.0, 0.5
#: Steps that a checkpoint takes.
SAVED = 2.0
_PLAIN = 100  # so many steps count alike


class TimeLeft:
    """Counts what was made; ``seconds`` says how long the rest will take.

    held_out: the examples of the last evaluation; generates: whether evaluations generate outputs.
    """

    def __init__(self, options: TrainingOptions, held_out: int, generates: bool) -> None:
        self._options, self._held_out, self._made = options, held_out, 0
        self._factor = (GENERATED if generates else READ) / options.batch_size
        self._step: float | None = None  # seconds
        self._example: float | None = None
        self._save: float | None = None

    def stepped(self, seconds: float) -> None:
        """A step was made."""
        self._made += 1
        share = 1.0 if self._made < 3 else max(1 / (self._made - 1), 2 / (self._made + _PLAIN))
        self._step = seconds if self._step is None else self._step + (seconds - self._step) * share

    def evaluated(self, seconds: float, examples: int) -> None:
        """An evaluation was made."""
        self._example = seconds / max(1, examples)

    def saved(self, seconds: float) -> None:
        """A checkpoint was saved."""
        self._save = seconds

    def seconds(self, step: int) -> float:
        """The time after this step, which was just made, until the end."""
        options, every, one = self._options, self._options.every, self._step or 0.0
        if step >= options.steps:
            return 0.0
        example = one * self._factor if self._example is None else self._example
        save = one * SAVED if self._save is None else self._save
        evaluations, saves = (_times(step, options.steps, often) for often in (every.evaluate, every.save))
        examples = evaluations * min(options.eval_examples, self._held_out) + self._held_out
        return (options.steps - step) * one + examples * example + (saves + 1) * save


def _times(step: int, steps: int, often: int) -> int:
    """How often something is due after this step and before the last one."""
    return (steps - 1) // often - step // often
