"""Bugs in updates that use right gradients."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

ADAM = "npformer.optim.adam:Adam."
CLIP = "npformer.optim.clip:"
DESCENT, STEP = "npformer.training.descent:", "npformer.training.step:TrainStep."
CATEGORY = "optimiser"

BUGS = (
    Bug(
        "adam-t-per-tensor", "Adam's t counts tensors instead of steps",
        edit(ADAM + "step", "self.t += 1", "")
        + edit(
            ADAM + "step",
            "for run in self.arena.runs(decaying=self.weight_decay > 0):\n"
            "    ...",
            "for run in self.arena.runs():\n"
            "    self.t += 1\n"
            "    ...",
        ),
        "t = number of updates", "t grows by one per tensor, t = index of the layer",
        "The counter was increased inside the loop over parameters. Each tensor gets another bias correction, and "
        "after one step t is already in the hundreds: the hats are gone before they were needed. The first step of all "
        "tensors but the first is too short, down to 0.46 of its length, with β of 0.9 and 0.98; with β₂ = 0.999 that "
        "of tensors far down the list is too long, up to three times.",
        sources=(27,),
    ),
    Bug(
        "adam-t-zero", "Adam's t starts at 0",
        edit(ADAM + "step", "self.t += 1", "")
        + edit(
            ADAM + "step",
            "for run in self.arena.runs(decaying=self.weight_decay > 0):\n"
            "    ...",
            "for run in self.arena.runs(decaying=self.weight_decay > 0):\n"
            "    ...\n"
            "self.t += 1",
        ),
        "m̂ = m/(1 − β₁ᵗ), t from 1", "t from 0: m/(1 − 1) = m/0",
        "In the first step the correction divides by 0. Here the program ends there. Others avoid the crash by an ε "
        "in the denominator, and then the first step is enormous and everything that initialisation had arranged is "
        "gone.",
        sources=(27,),
    ),
    Bug(
        "adam-t-thirty", "Adam's t starts at 30",
        edit(ADAM + "__init__", "self.t = 0", "self.t = 30"),
        "t = 1 at the first update", "t = 31 at the first update",
        "A remedy for the bug before: with t = 30 there is no division by 0, and nearly no correction. At the "
        "first step m̂ is then a tenth of what it should be and the root of v̂ a fifth, with β = (0.9, 0.98): a step of "
        "half the length. Whoever treats a symptom gets another one.",
        sources=(27,),
    ),
    Bug(
        "adam-v-with-beta1", "the second moment built with 1 − β₁",
        edit(
            ADAM + "_update",
            "m += (1 - beta1) * g\n"
            "v *= beta2\n"
            "v += (1 - beta2) * (g * g)",
            "m += (1 - beta1) * g\n"
            "v *= beta2\n"
            "v += (1 - beta1) * (g * g)",
        ),
        "v ← β₂v + (1 − β₂)g²", "v ← β₂v + (1 − β₁)g²",
        "A line copied from the one above, with one index changed in place of two. With β = (0.9, 0.98), v is five "
        "times too large and every step √5 times too small: exactly a smaller learning rate, and that is how it "
        "survives.",
        sources=(27,),
    ),
    Bug(
        "adam-eps-inside", "Adam's ε inside the root",
        edit(
            ADAM + "_update",
            "namespace(v).sqrt(v * (1 / (1 - beta2**self.t)))",
            "namespace(v).sqrt(v * (1 / (1 - beta2**self.t)) + self.eps)",
        )
        + edit(ADAM + "_update", "root + self.eps", "root"),
        "m̂/(√v̂ + ε)", "m̂/√(v̂ + ε)",
        "√(v + ε) with ε = 1e-9 behaves like an ε of 3e-5 outside. A parameter whose gradient is smaller than that, "
        "and in a large model there are many, moves far less than Adam promises.",
        sources=(27,), run={"eps": 1e-4},
    ),
    Bug(
        "adam-no-correction", "Adam without bias correction",
        edit(ADAM + "_update", "v * (1 / (1 - beta2**self.t))", "v * 1")
        + edit(ADAM + "_update", "lr / (1 - beta1**self.t)", "lr"),
        "m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ)", "m and v as they are",
        "Both averages start at 0 and are too small at first, m by 1 − β₁, v by 1 − β₂. The root of the second "
        "matters more: for a steady gradient, step t has (1 − β₁ᵗ)/√(1 − β₂ᵗ) of its length. With (0.9, 0.999) the "
        "first is 3.2 times too long, the twelfth 6.6 times. With the (0.9, 0.98) used here the first two are too "
        "short and all others too long, at most 1.55 times, at step 14. A warm-up hides it, and was perhaps brought "
        "in for it.",
        sources=(27,),
    ),
    Bug(
        "adamw-into-gradient", "weight decay added to the gradient in an “AdamW”",
        edit(
            ADAM + "_update",
            "p, g = self.arena.values[where], self.arena.grads[where]\n"
            "...\n"
            "if decay:\n"
            "    p *= 1 - decay\n"
            "...\n"
            "p -= (lr / (1 - beta1**self.t)) * m / (root + self.eps)",
            "p, g = self.arena.values[where], self.arena.grads[where]\n"
            "g = g + decay / lr * p if decay else g\n"
            "...\n"
            "...\n"
            "p -= (lr / (1 - beta1**self.t)) * m / (root + self.eps)",
        ),
        "p ← p − lr·λ·p, apart from the gradient", "g ← g + λ·p, then Adam",
        "Added to the gradient, the decay is divided by √v̂ like everything else: parameters with large gradients are "
        "hardly decayed, those with small ones are decayed to nothing. Taking the decay out of that division is the "
        "whole difference between Adam with L2 and AdamW.",
        seen=SEVERAL, sources=(27,), run={"weight_decay": 0.3},
    ),
    Bug(
        "adamw-no-rate", "weight decay not multiplied by the learning rate",
        edit(ADAM + "step", "rate * self.weight_decay * run.weight_decay", "self.weight_decay * run.weight_decay"),
        "p ← p·(1 − lr·λ)", "p ← p·(1 − λ)",
        "λ = 0.01 then means: lose one per cent of every weight at every step, and half of it in seventy. The schedule "
        "does not touch it, so towards the end of training decay is all that is left.",
        seen=OURS, run={"weight_decay": 0.3},
    ),
    Bug(
        "adamw-decays-vectors", "biases and gains decayed too",
        edit(
            "npformer.backend.arena:Arena.__init__",
            "decay = 1.0 if parameter.data.ndim > 1 else 0.0",
            "decay = 1.0",
        ),
        "decay for matrices, none for b, γ, β", "decay for all",
        "Decay pulls towards 0. For a matrix that means smaller features; for γ, whose resting place is 1, it means to "
        "switch the layer off. The effect is small and steady, and usually blamed on something else.",
        seen=OURS, run={"weight_decay": 0.3},
    ),
    Bug(
        "noam-max", "Noam's schedule with max for min",
        edit(
            "npformer.optim.schedules:Noam.__call__",
            "min(step**-0.5, step * self.warmup_steps**-1.5)",
            "max(step**-0.5, step * self.warmup_steps**-1.5)",
        ),
        "min(t^−1/2, t·w^−3/2)", "max(t^−1/2, t·w^−3/2)",
        "The two curves cross at the warm-up's end, and the schedule takes the upper one: enormous at first, falling, "
        "then rising without end. Plot a schedule before you train with it; three numbers of it make a test.",
        seen=OURS, run={"schedule": "noam"},
    ),
    Bug(
        "noam-per-tensor", "Noam counts one step per tensor",
        edit(STEP + "_rate_of", "self.schedule(step)", "self.schedule(step * len(self.model.arena.segments))"),
        "t = number of updates", "t = updates × tensors",
        "The schedule's own counter was advanced where each tensor is updated. In a model of a hundred tensors a "
        "warm-up of 4,000 steps is over after forty, and up to there the rate is a hundred times what was planned. It "
        "meets the plan near step 862, and from step 4,000 on it is √100 = 10 times too small, for good.",
        sources=(28,), run={"schedule": "noam"},
    ),
    Bug(
        "schedule-from-zero", "the schedule counted from 0",
        edit(STEP + "_rate_of", "self.schedule(step)", "self.schedule(step - 1)"),
        "t = 1 at the first update", "t = 0 at the first update",
        "The first update has a rate of 0 and is lost. Later it is a shift by one step and does not matter. Off-by-one "
        "errors live at the ends: test the first step.",
        seen=OURS, run={"schedule": "noam"},
    ),
    Bug(
        "clip-per-tensor", "clipping each tensor by its own norm",
        edit(
            CLIP + "clip_by_global_norm",
            "xp = namespace(norm)\n"
            "...\n"
            "for run in arena.runs(decaying=False):\n"
            "    gradient = arena.grads[run.where]\n"
            "    gradient *= clip_norm / longest",
            "xp = namespace(norm)\n"
            "...\n"
            "for part in arena.segments:\n"
            "    gradient = arena.grads[part.start : part.stop]\n"
            "    own = xp.sqrt(xp.sum(gradient * gradient))\n"
            "    gradient *= clip_norm / xp.where(own > clip_norm, own, xp.full_like(own, clip_norm))",
        ),
        "g ← g·c/max(‖all g‖, c)", "g_i ← g_i·c/max(‖g_i‖, c) for each",
        "One factor for all keeps the direction of the step and shortens it. One factor each turns the step, and lets "
        "through a norm of up to √(number of tensors)·c: each tensor may have c.",
        sources=(28,), run={"clip_norm": 0.1},
    ),
    Bug(
        "clip-stretches", "short gradients stretched to the clipping norm",
        edit(CLIP + "clip_by_global_norm", "xp.where(norm > clip_norm, norm, xp.full_like(norm, clip_norm))", "norm"),
        "shorten if longer than c", "always scale to c",
        "Without the maximum, clipping is normalising: near the end, where gradients ought to fade, every batch's "
        "noise is blown up to full length. A test with large gradients only passes.",
        seen=OURS, run={"clip_norm": 1.0},
    ),
    Bug(
        "clip-squared", "the norm without its root",
        edit(
            CLIP + "global_norm",
            "xp.sqrt(xp.asarray(total, dtype=arena.grads.dtype))",
            "xp.asarray(total, dtype=arena.grads.dtype)",
        ),
        "n = √Σ g²", "n = Σ g²",
        "With c = 1, the value that everybody uses, both agree on what is clipped, but not on how much: a gradient of "
        "norm n > 1 comes out with norm 1/n. With a smaller c, norms between c and 1 are clipped too little or not at "
        "all; with a larger one, norms from √c to c are clipped that should not be.",
        seen=OURS, run={"clip_norm": 0.1},
    ),
    Bug(
        "clip-after-update", "clipping after the update",
        edit(
            DESCENT + "update",
            "if clip_norm is not None:\n"
            "    ...\n"
            "optimizer.step(rates.lr)",
            "optimizer.step(rates.lr)\n"
            "if clip_norm is not None:\n"
            "    ...",
        ),
        "backward, clip, update", "backward, update, clip",
        "The gradients are clipped, the log shows it, and nobody uses them any more: the next step zeroes them first. "
        "The order of two lines, and neither fails.",
        seen=OURS, run={"clip_norm": 0.1},
    ),
)  # fmt: skip
