"""A lesson, and the eight lessons: the source of ``npformer lessons`` and of docs/lessons.md."""

from __future__ import annotations

from dataclasses import dataclass

from npformer.errors import ConfigError


@dataclass(frozen=True)
class LessonStep:
    """Something to do: a command, and what to look for in it. Without a command the text says what to do."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Lesson:
    """One lesson; commands begin with npformer."""

    number: int
    title: str
    idea: str  # what one knows afterwards
    read: tuple[LessonStep, ...]
    exercises: tuple[str, ...]  # names, in their order
    bug: str  # id of the museum's bug to meet
    meet: str  # what to look for in it
    see: tuple[LessonStep, ...]
    before: tuple[LessonStep, ...] = ()  # what to do before the exercises
    file: str = ""  # a file that the lesson brings in place of the exercise's template

    @property
    def write(self) -> tuple[LessonStep, ...]:
        """The steps that write and grade the exercises."""
        steps = list(self.before)
        for name in self.exercises:
            if not self.file:
                steps.append(LessonStep(f"Write {name}_backward.", f"npformer grade --template {name}"))
            path = self.file or f"{name}.py"
            steps.append(LessonStep("Grade it.", f"npformer grade {path}"))
        return tuple(steps)

    @property
    def parts(self) -> tuple[tuple[str, tuple[LessonStep, ...]], ...]:
        """The four parts with their titles, without empty ones."""
        meet = LessonStep(self.meet, f"npformer museum show {self.bug}")
        parts = (("Read", self.read), ("Write", self.write), ("Meet a bug", (meet,)), ("See", self.see))
        return tuple((title, steps) for title, steps in parts if steps)

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands, in order."""
        return tuple(step.command for _, steps in self.parts for step in steps if step.command)


BROKEN_FILE = "broken_layer.py"
COMPARE = "The derivation, beside yours: npformer/functional/{}.py."

LESSONS: tuple[Lesson, ...] = (
    Lesson(
        1,
        "A linear map",
        "The gradient of an array says how the loss changes with each of its entries, so it has the array's shape. A "
        "backward gets dy, the gradient of the output, and returns those of the inputs. In y = x W + b every token "
        "uses each entry of W, so its gradient is a sum over the tokens.",
        (
            LessonStep(
                "One operation, read whole: its derivation, and each line with its numbers. The code is "
                "npformer/functional/linear.py.",
                "npformer explain linear",
            ),
        ),
        ("linear",),
        "linear-bias-mean",
        "A mean in place of a sum. Which gradient is wrong, by which factor, and does training tell?",
        (
            LessonStep(
                "Each row compares a gradient with slopes measured on the forward. An error of 1e-16 is rounding.",
                "npformer gradcheck --only linear",
            ),
        ),
    ),
    Lesson(
        2,
        "Softmax",
        "Each output of a softmax depends on every input of its row, so the gradient of one input collects from all "
        "outputs. The matrix of all these derivatives is never built: its product with dy is one sum a row.",
        (
            LessonStep(
                "The forward alone. Derive the backward from it.",
                "npformer explain softmax --forward",
            ),
        ),
        ("softmax",),
        "softmax-no-shared",
        "The term that is missing is the sum that all entries of a row share.",
        (
            LessonStep(COMPARE.format("softmax"), "npformer explain softmax"),
            LessonStep("Masked entries are among the rows: their gradient is 0.", "npformer gradcheck --only softmax"),
            LessonStep("Print dx.sum(axis=-1) in your backward: the grader shows it. Then take the shared term out."),
        ),
    ),
    Lesson(
        3,
        "Layer normalisation",
        "x reaches y by three ways: directly, through the mean, and through the variance. Each way gives dx a term. "
        "Without one of them the loss still falls, and the mistake stays.",
        (LessonStep("Derive the backward, as before.", "npformer explain layer_norm --forward"),),
        ("layer_norm",),
        "layer-norm-no-variance",
        "Compare the two loss curves: would you have noticed?",
        (
            LessonStep(COMPARE.format("layer_norm"), "npformer explain layer_norm"),
            LessonStep(
                "A shift or a scale of x changes no y. So dx has no part along 1 and none along x̂: these are the two "
                "terms that are taken off.",
                "npformer gradcheck --only layer_norm",
            ),
        ),
    ),
    Lesson(
        4,
        "Attention",
        "Two matrix products with a softmax between them: lessons 1 and 2. Undo the last line first. The factor 1/√D "
        "of the scores comes back, once for q and once for k.",
        (
            LessonStep(
                "Write the shape under scores, weights and output.",
                "npformer explain attention --forward",
            ),
        ),
        ("attention",),
        "attention-no-scale",
        "Adam divides by the gradient's size. What does that do to a wrong factor?",
        (
            LessonStep(COMPARE.format("attention"), "npformer explain attention"),
            LessonStep(
                "A causal mask and padding hide keys from a query, and a hidden key passes it no gradient.",
                'npformer gradcheck --only "attention: causal"',
            ),
        ),
    ),
    Lesson(
        5,
        "A layer",
        "A layer's backward calls the backwards of its parts in the opposite order, each with its own cache. One "
        "rule is new: a value that is used twice gets two gradients, and they are added. Every residual sum needs it.",
        (
            LessonStep("A sum and a norm as one operation, the end of each sub-layer.", "npformer explain post_norm"),
            LessonStep("npformer/layers/residual.py has the sum, npformer/layers/encoder_layer.py the layer."),
            LessonStep("docs/architecture.md follows a batch and its gradient through a model."),
        ),
        ("feed_forward", "encoder_layer_post"),
        "residual-omitted",
        "The short way takes the gradient past the sub-layer. Is its loss seen in the curve?",
        (
            LessonStep(
                "One number of a gradient: the ways through the sub-layers and past them, under paths, add up to it.",
                "npformer explain transformer --at 'src_embedding.weight[3,2]'",
            ),
            LessonStep(
                "One row for x and one for each parameter of the layer. A mistake in one line spoils many rows.",
                'npformer gradcheck --only "EncoderLayer: post, relu"',
            ),
        ),
    ),
    Lesson(
        6,
        "Training",
        "The backward begins at the loss: softmax minus one-hot, divided by the number of tokens that count. "
        "Gradients are added to what is there, so each step begins with zeros.",
        (
            LessonStep("The loss, where the backward begins.", "npformer explain cross_entropy --forward"),
            LessonStep("npformer/training/step.py is the step, examples/train_by_hand.py all of it in one short file."),
        ),
        ("cross_entropy",),
        "gradients-not-zeroed",
        "The sum over all batches so far. Why does the loss not explode?",
        (
            LessonStep(COMPARE.format("cross_entropy"), "npformer explain cross_entropy"),
            LessonStep(
                "In attention.svg the strong cells run from top right to bottom left: the decoder reads the word from "
                "its end.",
                "npformer train reverse",
            ),
        ),
    ),
    Lesson(
        7,
        "Break it",
        "A check is worth what it finds. Break right code, say beforehand which gradient will be wrong, and see "
        "whether the check agrees. Then meet a bug that no gradient check can find.",
        (LessonStep("docs/proof.md says what each check sees, and what it cannot see."),),
        (),
        "causal-off",
        "Every gradient is right: it is the right gradient of another function. Which check finds it, and how?",
        (
            LessonStep("A copy of your layer_norm.py with one term of dx deleted: read the hint, and mend it again."),
            LessonStep(
                "npformer's own backwards, each with one small mistake: a mutant. Which of them needs a check to be "
                "found?",
                "npformer museum mutants --sample 20",
            ),
            LessonStep(
                "Causality is an invariant: later tokens must not change earlier outputs.",
                'npformer certify --only "Transformer: post, relu, untied"',
            ),
        ),
    ),
    Lesson(
        8,
        "Find it",
        "A layer has a wrong gradient, and you do not know where. Gradients that come out before the fault are right, "
        "so read them in the order of the backward: the fault stands just before the first wrong one.",
        (LessonStep("docs/check_your_own_kernel.md explains gradcheck's table."),),
        ("encoder_layer_pre",),
        "pre-norm-stream-dropped",
        "A fault of the same layer, in another line. Which gradients does it spoil, and which not?",
        (
            LessonStep("What the file imports.", "npformer grade parts.py --template parts"),
            LessonStep(
                "Mended, all rows are right. Break it again: below the table stands the line.",
                f"npformer gradcheck --model {BROKEN_FILE}",
            ),
        ),
        before=(
            LessonStep(
                "The layer with the fault. Name the line of the backward before you ask for a larger hint; then mend "
                "it.",
                f"npformer lessons 8 --file {BROKEN_FILE}",
            ),
        ),
        file=BROKEN_FILE,
    ),
)


def next_step(exercise: str) -> tuple[Lesson, str] | None:
    """The lesson that has this exercise, and its command after the one that grades it; None if no lesson has it."""
    for each in LESSONS:
        if exercise in each.exercises:
            graded = f"npformer grade {each.file or f'{exercise}.py'}"
            return each, each.commands[each.commands.index(graded) + 1]
    return None


def lesson(number: int) -> Lesson:
    """The lesson with this number. Raises ConfigError if there is none."""
    if not 1 <= number <= len(LESSONS):
        raise ConfigError(
            f"lesson: expected a number from 1 to {len(LESSONS)}, got {number}; `npformer lessons` lists them"
        )
    return LESSONS[number - 1]
