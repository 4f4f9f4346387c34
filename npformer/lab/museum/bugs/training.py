"""Bugs in the training loop around a correct model."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

STEP = "npformer.training.step:TrainStep."
BACKPROPAGATE, RUNNER = "npformer.training.descent:backpropagate", "npformer.engine.runner:"
TRAINER = "npformer.training.trainer:Trainer."
CATEGORY = "training"
UNBROKEN = "A run that is never interrupted is right to the last bit, so its curve shows nothing. "

BUGS = (
    Bug(
        "gradients-not-zeroed", "gradients are never zeroed",
        edit(STEP + "_make", "self.model.arena.zero_grad()", "pass")
        + edit(RUNNER + "_loss", "step.model.arena.zero_grad()", "pass"),
        "grad = 0 before each batch", "grad = the sum over all batches so far",
        "Since gradients are added, somebody has to start them at 0. Without it each step follows the sum of the "
        "whole past: a momentum that never fades. Adam divides by an equally swollen √v̂, so it does not explode; it "
        "runs on past every valley and learns nothing.",
        seen=OURS,
    ),
    Bug(
        "accumulate-means", "micro-batches averaged as batches, not as tokens",
        edit(
            STEP + "_shares",
            "[[(rows, self._count(targets[rows]) / total) for rows in some] for some in parts]",
            "[[(rows, 1 / (len(parts) * len(some))) for rows in some] for some in parts]",
        ),
        "loss = Σ_i (n_i/N)·loss_i", "loss = Σ_i loss_i/k",
        "Each micro-batch's loss is a mean over its own tokens. Averaging those means lets a token in a micro-batch "
        "full of padding weigh more than one in a full one. With equal lengths, as in most tests, both are equal: a "
        "widely used training library had this one for years.",
        sources=(28,), run={"accumulate": 4},
    ),
    Bug(
        "accumulate-sums", "micro-batches summed",
        edit(STEP + "_shares", "self._count(targets[rows]) / total", "1.0"),
        "loss = Σ_i (n_i/N)·loss_i", "loss = Σ_i loss_i",
        "k micro-batches give k times the gradient: the effective learning rate follows a setting that should only "
        "save memory. A batch in one part and in three must give the same gradient; that is one line of test.",
        seen=OURS, run={"accumulate": 4},
    ),
    Bug(
        "same-mask-every-step", "the same dropout mask at every step",
        edit(
            BACKPROPAGATE,
            "RandomKey(settings.seed, shard.number, shard.micro, first_row=shard.rows.start)",
            "RandomKey(settings.seed, 0, shard.micro, first_row=shard.rows.start)",
        ),
        "mask = function of (seed, step, place)", "mask = function of (seed, place)",
        "The generator is seeded anew in each step, for the sake of reproducibility. The same units are missing for "
        "the whole of training: a smaller network is trained, and at the end, with nothing dropped, another one is "
        "used.",
        seen=OURS, run={"dropout": 0.1},
    ),
    Bug(
        "same-mask-every-micro-batch", "the same dropout mask in every micro-batch",
        edit(
            BACKPROPAGATE,
            "RandomKey(settings.seed, shard.number, shard.micro, first_row=shard.rows.start)",
            "RandomKey(settings.seed, shard.number, 0, first_row=shard.rows.start)",
        ),
        "each micro-batch draws its own", "all draw the first one's",
        "Splitting a batch must not change what is computed. Here the first rows of every part share their masks, so a "
        "batch of 64 in eight parts has the masks of 8 rows: more noise in the gradient, and nothing to see.",
        seen=OURS, run={"accumulate": 4, "dropout": 0.1},
    ),
    Bug(
        "resume-replays-data", "a resumed run reads the same batches again",
        edit(
            TRAINER + "_one_step",
            "batch = self.task.batch(number, options.batch_size)",
            "self._drawn = getattr(self, '_drawn', 0) + 1\n"
            "batch = self.task.batch(self._drawn, options.batch_size)",
        ),
        "batch = function of (seed, step)", "batch = the next one since the program started",
        "The order of the data lives in an iterator that starts from its seed with the process. A run resumed ten "
        "times sees the first batches ten times and the last ones never. " + UNBROKEN +
        "Only stopping and going on, compared with not stopping, bit by bit, shows it.",
        seen=SEVERAL, sources=(29,), run=None,
        instead=UNBROKEN + "After a resume, the loss falls oddly fast: it knows these batches.",
    ),
    Bug(
        "resume-loses-moments", "Adam's moments are not saved",
        edit("npformer.run.model_arrays:saved_arrays", "parameters | moments", "parameters"),
        "checkpoint = parameters, moments, step", "checkpoint = parameters",
        "After a resume m and v start at 0 again while t, and with it the bias correction, is far along: v̂ is too "
        "small for long. With β = (0.9, 0.999) and a steady gradient the first step is 3.2 times too long, the twelfth "
        "6.6 times. The loss jumps at "
        "every resume and heals; people learn to expect it.",
        seen=SEVERAL, sources=(29,), run=None,
        instead=UNBROKEN + "At each resume the loss jumps up and takes a while to come back.",
    ),
    Bug(
        "resume-restarts-schedule", "the step counter is not restored",
        edit(
            TRAINER + "restore",
            "self.step.optimizer.t = self._saved_at = self._finite_at = checkpoint.step",
            "self._saved_at = self._finite_at = checkpoint.step",
        ),
        "t continues", "t starts from 0",
        "Warm-up again, Adam's correction again, and the whole number of steps again on top. The learning rate's curve "
        "in the log has a second beginning.",
        seen=SEVERAL, sources=(29,), run=None, instead=UNBROKEN + "The learning rate's curve shows a second warm-up.",
    ),
    Bug(
        "resume-redraws-dropout", "dropout continues from a generator that was not saved",
        edit(
            STEP + "_inputs_of",
            "return StepInputs(number, rates, self._shares(inputs, targets), tuple(inputs), targets)",
            "self._made = getattr(self, '_made', -1) + 1\n"
            "return StepInputs(self._made, rates, self._shares(inputs, targets), tuple(inputs), targets)",
        ),
        "mask = function of (seed, step, place)", "mask = next output of a generator in memory",
        "Random state that lives in memory is lost with the process. The resumed run is as good as the other, but it "
        "is another run: no bug found in it can be reproduced from its checkpoint.",
        sources=(29,), run=None, instead=UNBROKEN,
    ),
    Bug(
        "resume-repeats-a-step", "a checkpoint that does not know when it was made",
        edit(
            TRAINER + "save",
            "number, backend = self.step.step_number, self.step.model.backend",
            "number, backend = self.step.step_number - 1, self.step.model.backend",
        ),
        "checkpoint of step n holds the state after step n", "it says n − 1",
        "The counter was saved before it was increased. A resumed run repeats one step on parameters that have made it "
        "already: one update twice, per resume. As small as a bug can be, and bit-exact comparison finds it.",
        seen=OURS, run=None, instead=UNBROKEN,
    ),
)  # fmt: skip
