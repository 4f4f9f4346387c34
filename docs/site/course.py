"""The course: the exercises of the grader in their order, a page for each."""

from __future__ import annotations

import inspect

from docs.site.formulas import FORMULAS
from docs.site.here.page import link
from docs.site.links import lesson_with
from docs.site.operations import contents, display, sentences
from docs.site.places import address, write
from npformer.check.derivations import TEMPLATES
from npformer.lab.grader import EXERCISES, Exercise
from npformer.lab.grader.parts import TEXTS


def write_all() -> None:
    """The pages of all exercises, and the first page."""
    for exercise in EXERCISES:
        write(f"course/{exercise.name}.md", page(exercise))
    write("course/index.md", index())


def index() -> str:
    """What the course is, and its exercises."""
    rows = "\n".join(
        f"| {i} | [{each.title}]({each.name}.md) | `{' '.join(each.formula.split())}` | {parts(each)} |"
        for i, each in enumerate(EXERCISES, 1)
    )
    return f"""# Course: write every backward yourself

{{.lead}}
{len(EXERCISES)} exercises lead from a linear map to a decoder layer. You get a forward, and write its backward.

The grader runs your file, says which of your gradients are right, and why the others are wrong. Hints come in three
levels: a question that leads to the idea, the missing part, and almost the line of code. You need NumPy and the chain
rule.

{link()}

```sh
npformer grade --list                  # the exercises, and which you have solved
npformer grade --template linear       # writes linear.py: a forward, and an empty backward
npformer grade linear.py               # what is right, what is wrong, and a hint
npformer grade linear.py --hint 3      # a hint that is almost the answer
npformer grade linear.py --answer      # the derivation and the code
```

A later exercise may call the pairs of earlier ones, so each is a few lines long.

{{.wide}}
| | exercise | forward | may call |
|---|---|---|---|
{rows}

{contents([each.name for each in EXERCISES])}"""


def parts(exercise: Exercise) -> str:
    """The earlier exercises whose pairs a solution may call, as links."""
    names = dict.fromkeys(name.removesuffix("_forward").removesuffix("_backward") for name in exercise.parts)
    titles = {each.name: each.title for each in EXERCISES}
    return ", ".join(f"[{titles[name]}]({name}.md)" for name in names if name in titles)


def page(exercise: Exercise) -> str:
    """One exercise."""
    number = EXERCISES.index(exercise) + 1
    backward = inspect.getdoc(exercise.backward) or ""
    may_call = f"You may call the pairs of {parts(exercise)}." if parts(exercise) else ""
    return f"""# {number}. {exercise.title}

{formula(exercise)}

## The forward

```python
{TEXTS[f"{exercise.name}_forward"]}
```

## The backward that you write

`{exercise.name}_backward`, the derivative of exactly that forward. {may_call}

```text
{backward}
```

{{.think}}
**Think first.** {sentences(exercise.hint)}

## Begin

{link(exercise.name)}

```sh
npformer grade --template {exercise.name}      # writes {exercise.name}.py
npformer grade {exercise.name}.py
```
{on_paper(exercise)}
## When you have solved it

{afterwards(exercise)}

{lesson_with(exercise.name)}
"""


def on_paper(exercise: Exercise) -> str:
    """How to have the derivation checked before there is code, if there is a template for it."""
    command = f"npformer derive --template {exercise.name}"
    return f"\nOn paper first: `{command}`. [Each line is checked](/derive.md).\n" if exercise.name in TEMPLATES else ""


def formula(exercise: Exercise) -> str:
    """The forward, typeset if it is an operation, else as the grader prints it."""
    if exercise.name in FORMULAS:
        shown = display(FORMULAS[exercise.name].forward)
        return f"::::{{container}} formulas\n:::{{container}} forward\n{shown}\n:::\n::::"
    return f"```text\n{exercise.formula}\n```"


def afterwards(exercise: Exercise) -> str:
    """Where npformer derives and computes the same."""
    paths = [f"{name.replace('.', '/')}.py" for name in exercise.docs.split()]
    return "\n".join(f"- [{path}]({address(path)}) derives the gradient and has npformer's own code." for path in paths)
