"""A training step, made for real and kept for questions: before and after, with a twin in float64.

The twin has the step's parameters, moments, options and dropout masks, and the plain kernels. ``look`` asks it for the
batch's loss and ``gradient`` for its gradient, at any values of the parameters: before the step, after it, between.

A step of a run is made again from the nearest checkpoint before it that was kept; the run's folder stays as it is.

One update of Adam, number by number: clipping, both moments, their corrections, and what each part moves.

    g ← g·c/max(n, c)                              n is the norm of all gradients, c the clip norm
    m ← β₁m + (1 − β₁)g      v ← β₂v + (1 − β₂)g²
    p ← p − lr·λ·p − lr·m̂/(√v̂ + ε)                m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)

m is a sum, so the change of p is one, too: what the past moves (β₁ times the old m), what this gradient moves
((1 − β₁)g), and the decay. √v̂ divides both. All is computed in float64 from the optimiser's state; nothing is updated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npformer._version import __version__
from npformer.errors import ConfigError, DataError, DivergedError
from npformer.io.terminal import fill
from npformer.layers import RandomKey
from npformer.models import build_model
from npformer.optim import Adam
from npformer.run.assemble import Assembled, assemble
from npformer.run.begin import saved_options
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, step_in
from npformer.run.directory import RunDirectory
from npformer.run.metrics import read
from npformer.run.model_arrays import copy_arrays, saved_arrays
from npformer.run.world import versions
from npformer.see.explain.text import number
from npformer.see.record.models import plain_backend
from npformer.training.descent import Shard, backpropagate, shards_of
from npformer.training.step import TrainStep
from npformer.typing import HostArray


class Update(NamedTuple):
    """An update: arrays (n,) over the arena, or the numbers of one entry."""

    t: int  # counts from 1
    betas: tuple[float, float]
    eps: float
    clip_norm: float | None
    norm: float  # of all trainable gradients, before clipping
    factor: float  # by which clipping multiplies them: 1 for nothing
    gradient: Any
    clipped: Any
    m_before: Any
    v_before: Any
    m: Any
    v: Any
    m_hat: Any
    v_hat: Any
    rate: Any  # 0 where nothing is trained
    before: Any  # the parameter
    by_past: Any
    by_gradient: Any
    decay: Any
    change: Any  # the sum of these three
    uncorrected: Any  # the change without decay, had m and v no corrections

    def at(self, place: int) -> Update:
        """The numbers of one entry of the arena."""
        numbers: dict[str, Any] = {n: float(x[place]) for n, x in self._asdict().items() if isinstance(x, np.ndarray)}
        return self._replace(**numbers)


def update_of(adam: Adam, lr: float, clip_norm: float | None) -> Update:
    """The update that ``adam.step(lr)`` would make on the host after clipping, from the gradients in its arena."""
    arena, (beta1, beta2), t = adam.arena, adam.betas, adam.t + 1
    p, g, m_before, v_before = map(np.array, (arena.values, arena.grads, adam.m, adam.v))
    rate, decay, trained = np.zeros_like(p), np.zeros_like(p), np.zeros(p.shape, bool)
    for run in arena.runs():
        rate[run.where], trained[run.where] = lr * run.lr_scale, True
        decay[run.where] = -lr * run.lr_scale * adam.weight_decay * run.weight_decay * p[run.where]
    norm = math.sqrt(float(np.sum(g[trained] ** 2)))
    clip_norm = None if clip_norm == math.inf else clip_norm
    factor = 1.0 if clip_norm is None else clip_norm / max(norm, clip_norm)
    clipped = g * factor
    m, v = beta1 * m_before + (1 - beta1) * clipped, beta2 * v_before + (1 - beta2) * clipped**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    per_m = -rate / (1 - beta1**t) / (np.sqrt(v_hat) + adam.eps)
    by_past, by_gradient = per_m * beta1 * m_before, per_m * (1 - beta1) * clipped
    return Update(
        t, adam.betas, adam.eps, clip_norm, norm, factor, g, clipped, m_before, v_before, m, v, m_hat, v_hat, rate, p,
        by_past, by_gradient, decay, by_past + by_gradient + decay, -rate * m / (np.sqrt(v) + adam.eps),
    )  # fmt: skip


def row(name: str, text: str, width: int) -> str:
    """A paragraph beside the name of its section."""
    return fill(text, width, f"{name:12}", " " * 12)


def number_lines(update: Update, name: str, width: int) -> Iterator[str]:
    """One entry's way through an update, each line with its numbers."""
    (beta1, beta2), t, u = update.betas, update.t, update
    kept1, kept2 = 1 - beta1**t, 1 - beta2**t
    adaptive, root = u.by_past + u.by_gradient, f"({u.v_hat**0.5:.3e} + {u.eps:.0e})"
    g, m, clipped = number(u.gradient), number(u.m), number(u.clipped)
    most = max(u.norm, u.clip_norm or 0)
    for title, text in (
        ("number", f"{name} = {u.before:.8g}, at update {t}"),
        ("gradient", f"g = {g}; the norm of all gradients is n = {u.norm:.4g}"),
        ("clipping", f"g ← g·c/max(n, c) = {g}·{u.clip_norm:.4g}/{most:.4g} = {clipped}" if u.clip_norm else "none"),
        ("mean", f"m ← β₁m + (1 − β₁)g = {beta1:g}·({number(u.m_before)}) + {1 - beta1:.3g}·({clipped}) = {m}"),
        ("square", f"v ← β₂v + (1 − β₂)g² = {beta2:g}·{u.v_before:.3e} + {1 - beta2:.3g}·({clipped})² = {u.v:.3e}"),
        ("corrected", f"m̂ = m/(1 − {beta1:g}^{t}) = {m}/{kept1:.4g} = {number(u.m_hat)}"),
        ("", f"v̂ = v/(1 − {beta2:g}^{t}) = {u.v:.3e}/{kept2:.4g} = {u.v_hat:.3e}"),
        ("step", f"−lr·m̂/(√v̂ + ε) = −{u.rate:.3g}·({number(u.m_hat)})/{root} = {number(adaptive)}, "
                 f"{lengths(u, adaptive)}"),
        ("decay", f"−lr·λ·w = {number(u.decay)}" if u.decay else "none"),
        ("parts", f"past gradients {number(u.by_past)}, this one {number(u.by_gradient)}"),
        ("then", f"{u.before:.8g} {number(u.change)} → {u.before + u.change:.8g}"),
    ):  # fmt: skip
        yield row(title, text, width)


def lengths(update: Update, change: float) -> str:
    """A change in learning rates."""
    return f"{abs(change) / update.rate:.2f} of the rate" if update.rate else "since the rate is 0 here"


def course_lines(course: Sequence[Update], width: int) -> Iterator[str]:
    """What became of one entry in many updates; and why the first steps are as large as they are."""
    yield "  t       gradient        clipped             m̂           √v̂    step/lr   without corrections"
    for u in course:
        cells = f"{u.t:3}{u.gradient:+15.3e}{u.clipped:+15.3e}{u.m_hat:+15.3e}{u.v_hat**0.5:14.3e}"
        yield f"{cells}{u.change / (u.rate or 1):+11.3f}{u.uncorrected / (u.rate or 1):+13.3f}"
    (beta1, beta2), first = course[0].betas, course[0]
    alike = [(1 - beta1**t) / (1 - beta2**t) ** 0.5 for t in range(1, 2000)]
    most = max(range(len(alike)), key=alike.__getitem__)
    yield "\n" + fill(
        f"The first step is {lengths(first, first.change)}: after one update m̂ = g and √v̂ = |g|, whatever the size of "
        "g. So at first every number moves by the rate, against the sign of its gradient, and clipping changes "
        "nothing. Later steps are shorter where gradients change their sign: m̂ is their mean, √v̂ their size. Why "
        "the rate is warmed up: docs/start-here.md.",
        width,
    )
    yield fill(
        f"Without corrections, gradients that are all alike would move a number by {alike[0]:.2f} of the rate at t = 1 "
        f"and by {alike[most]:.2f} at t = {most + 1}, since β₁ = {beta1:g} and β₂ = {beta2:g} forget 0, with which m "
        "and v begin, at different speeds.",
        width,
    )


class TokenLoss(NamedTuple):
    """A target that counts, at one look."""

    row: int
    place: int
    target: int
    loss: float  # its own, in nats
    answer: int  # the likeliest class
    confidence: float  # the probability of that


class BatchLook(NamedTuple):
    """The batch at some values of the parameters."""

    loss: float
    tokens: list[TokenLoss]


class ReplayedStep(NamedTuple):
    """A step that was made."""

    number: int  # counts from 1
    twin: TrainStep
    shards: list[Shard]
    update: Update  # as it follows in float64
    before: HostArray  # (n,) of the twin's arena
    after: HostArray  # as the run's own step left them
    loss: float  # as the run's own step returned it
    logged: str = ""  # how the run's log compares

    def gradient(self, values: HostArray) -> tuple[float, HostArray]:
        """The batch's loss, and its gradient (n,), at these values (n,)."""
        model = self.twin.model
        model.arena.values[...] = values
        model.arena.zero_grad()
        settings = self.twin.settings()
        loss = sum(float(s.share) * float(backpropagate(model, settings, s, None)) for s in self.shards)
        return loss, np.array(model.arena.grads)

    def look(self, values: HostArray) -> BatchLook:
        """The loss at these values (n,), and that of every target."""
        self.twin.model.arena.values[...] = values
        tokens: list[TokenLoss] = []
        first = 0
        for shard in self.shards:
            tokens += self._tokens(shard, first)
            first += shard.rows.stop - shard.rows.start
        return BatchLook(math.fsum(token.loss for token in tokens) / max(1, len(tokens)), tokens)

    def _tokens(self, shard: Shard, first: int) -> Iterator[TokenLoss]:
        model, settings = self.twin.model, self.twin.settings()
        *inputs, targets = shard.batch
        key = RandomKey(settings.seed, shard.number, shard.micro, first_row=shard.rows.start)
        logits = np.asarray(model.forward(*inputs, key=key, checked=True)[0])
        logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        smoothing = settings.label_smoothing
        for row, *place in np.argwhere(np.asarray(targets) != model.config.pad_id).tolist():
            own, target = logs[(row, *place)], int(targets[(row, *place)])
            answer = int(np.argmax(own))
            loss = (smoothing - 1) * float(own[target]) - (smoothing * float(np.mean(own)) if smoothing else 0.0)
            yield TokenLoss(first + row, place[0] if place else 0, target, loss, answer, math.exp(own[answer]))

    def by_parameter(self, flat: HostArray) -> dict[str, HostArray]:
        """Name -> its entries, in its shape, of an array (n,) over the arena."""
        model = self.twin.model
        model.arena.grads[...] = flat
        return {name: np.array(p.grad) for name, p in model.named_parameters()}


def replay_step(step: TrainStep, batch: Sequence[Any]) -> ReplayedStep:
    """Make the step on this batch, and keep what it did. The step's model is trained by it."""
    twin, number, learning_rate = twin_of(step), step.step_number, step.learning_rate
    shards = [shard for (shard,) in shards_of(twin._inputs_of(batch, number), twin.model.backend)]
    before = np.array(twin.model.arena.values)
    one = ReplayedStep(number + 1, twin, shards, None, before, before, 0.0)  # type: ignore[arg-type]
    one.gradient(before)
    update = update_of(twin.optimizer, learning_rate, step.clip_norm)
    loss = float(step(*batch))
    _copy(step, twin)
    after = np.array(twin.model.arena.values)
    if not np.isfinite(after).all():
        raise DivergedError(f"step {number + 1}: expected finite parameters after it, got others; try a step before it")
    return one._replace(update=update, after=after, loss=loss)


def twin_of(step: TrainStep) -> TrainStep:
    """The same step in float64 with the plain kernels."""
    source, old = step.model, step.optimizer
    model = build_model(source.config, backend=plain_backend())
    model.arena.settings = source.arena.settings
    adam = type(old)(model.arena, old.lr, old.betas, old.eps)
    adam.weight_decay, adam.t = old.weight_decay, old.t
    twin = TrainStep(
        model, adam, seed=step.seed, label_smoothing=step.label_smoothing, clip_norm=step.clip_norm,
        schedule=step.schedule, accumulate=step.accumulate,
    )  # fmt: skip
    _copy(step, twin)
    return twin


def _copy(step: TrainStep, twin: TrainStep) -> None:
    """Parameters, moments and buffers, in float64."""
    arrays = saved_arrays(step.model, step.optimizer)
    wide = {name: step.model.backend.host(x).astype(np.float64) for name, x in arrays.items()}
    copy_arrays(saved_arrays(twin.model, twin.optimizer), wide, twin.model.backend, "the step")


class Prepared(NamedTuple):
    """A run at a checkpoint, or at its beginning, from which a later step can be made."""

    assembled: Assembled
    number: int  # of the step that is asked for
    begins: int  # the steps that are already made
    logged: dict[int, dict[str, Any]]  # the lines of training by step
    loss_sum: Any  # () since the last of these lines
    loss_count: int
    changed: str  # what is not as it was when the run was trained; "" if nothing is

    @property
    def pieces(self) -> tuple[str, ...]:
        """The names of targets, by id."""
        return tuple(self.assembled.task.classes) or tuple(self.assembled.task.vocabulary.pieces)

    @property
    def ends(self) -> int:
        """The last step to make again: the first from the one asked for on that has a line in the log."""
        return min((step for step in self.logged if step >= self.number), default=self.number)

    def replay(self) -> ReplayedStep:
        """Make the steps up to the next line of the log. Raises DataError if a line says something else."""
        made = [(one, told) for _, _, one, told in self.steps(self.ends)]
        (one,) = (one for one, _ in made if one is not None)
        return one._replace(logged=made[-1][1] or "the run's log has no line after this step")

    def steps(self, last: int) -> Iterator[tuple[int, Any, ReplayedStep | None, str]]:
        """Make the steps to the last: number, loss (), what is kept of the one asked for, and how the log compares."""
        step, size = self.assembled.step, self.assembled.options.training.batch_size
        total, count = self.loss_sum, self.loss_count
        while (number := step.step_number + 1) <= last:
            rate, batch = step.learning_rate, self.assembled.task.batch(number, size)
            one = replay_step(step, batch) if number == self.number else None
            loss, told = step(*batch) if one is None else one.loss, ""
            total, count = total + loss, count + 1
            if line := self.logged.get(number):
                made = {"learning_rate": rate, "loss": float(total) / count}
                norm = {} if step.grad_norm is None else {"grad_norm": float(step.grad_norm)}
                told = self._compared(line, made | norm, count)
                total, count = 0 * self.loss_sum, 0
            yield number, loss, one, told

    def _compared(self, line: dict[str, Any], made: dict[str, float], count: int) -> str:
        """How a line of the log compares with the steps made again; count: those of which its loss is the mean."""
        limit, number, farthest = CHANGED if self.changed else SAME, int(line["step"]), 0.0
        of = f", the mean of steps {number - count + 1} to {number}" if count > 1 else ""
        for name, value in made.items():
            logged = float(line.get(name, value))
            off = (
                0.0 if repr(value) == repr(logged) else abs(value - logged) / max(abs(logged), 1e-300)
            )  # NaN is NaN again
            if not off <= limit:
                raise DataError(
                    f"step {number}: expected the {name} {logged:.6g} that the run logged{of * (name == 'loss')}, got "
                    f"{value:.6g} when it was made again: the step that the run made cannot be explained. "
                    f"{self.changed or REASONS[name]}"
                )
            farthest = max(farthest, off)
        again = f"the same but for rounding, {farthest:.0e} of it" if farthest else "the same"
        return f"the run logged {line['loss']:.6g} at step {number}{of}; made again it is {again}"


#: Relative differences between a step and the same step made again: with the same versions on the same machine (sums of
#: float32 in another order), and elsewhere (the same, grown over steps).
SAME, CHANGED = 1e-6, 1e-3
#: Why what a step made again may differ from the log, where versions and machine are the same.
REASONS = {
    "learning_rate": "Options were changed: learning_rate, schedule, warmup_steps or steps.",
    "loss": "Likely reasons: the data or npformer's code changed, an option in config.toml was edited, or the program "
    "that trained the run changed the model, the batches or the step from Python.",
    "grad_norm": "The loss is the same, so weights and data are: the code of a backward changed, or the program that "
    "trained the run froze parts or changed the step from Python.",
}


def prepare_step(path: Path, number: int) -> Prepared:
    """The run in a folder, before this step. Raises ConfigError, and what resuming a run raises."""
    begun = prepare(path, number)
    last = max([*begun.logged, *map(step_in, list_checkpoints(RunDirectory.open(path).checkpoints))], default=0)
    if not 1 <= number <= last:
        raise ConfigError(f"--step: expected a step that {path} has made, 1 to {last}, got {number}")
    return begun


def prepare(path: Path, number: int, begin: float = math.inf) -> Prepared:
    """The same for any step, from a checkpoint of at most begin steps."""
    run = RunDirectory.open(path)
    kept, lines = list_checkpoints(run.checkpoints), read(run.metrics_path)
    before, after = ([each for each in kept if (step_in(each) < number) == is_before] for is_before in (True, False))
    before = [each for each in before if step_in(each) <= begin]
    checkpoint = load_checkpoint(before[-1]) if before else None
    later = load_checkpoint(after[0]) if after else None
    assembled = assemble(saved_options(run, later), checkpoint)  # those with which the step was made
    known, step = later or checkpoint, assembled.step
    about = known.state if known else {}
    total, count = step.model.backend.zeros(()), 0
    if checkpoint is not None:
        arrays = saved_arrays(step.model, step.optimizer) | {"loss_sum": total}
        copy_arrays(arrays, checkpoint.arrays, step.model.backend, str(checkpoint.path))
        step.optimizer.t, count = checkpoint.step, checkpoint.state["loss_count"]
    step.model.arena.settings = about.get("settings", step.model.arena.settings)
    here = {"npformer": __version__} | versions(step.model.backend)
    then = next(iter(lines), {}) | about.get("versions", here)
    odd = [f"{name} {then[name]}, now {here[name]}" for name in here if then.get(name, here[name]) != here[name]]
    changed = f"The run was trained with {'; '.join(odd)}." if odd else ""
    logged = {int(line["step"]): line for line in lines if line.get("kind") == "train"}
    return Prepared(assembled, number, step.step_number, logged, total, count, changed)
