"""A lesson: what to read, what to write and have graded, which bug to meet, and what to see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Something to do: a command, and what to look for in it. Without a command the text says what to do."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Lesson:
    """One lesson; commands begin with npformer."""

    number: int
    title: str
    idea: str  # what one knows afterwards
    read: tuple[Step, ...]
    exercises: tuple[str, ...]  # names, in their order
    bug: str  # id of the museum's bug to meet
    meet: str  # what to look for in it
    see: tuple[Step, ...]
    before: tuple[Step, ...] = ()  # what to do before the exercises
    file: str = ""  # a file that the lesson brings in place of the exercise's template

    @property
    def write(self) -> tuple[Step, ...]:
        """The steps that write and grade the exercises."""
        steps = list(self.before)
        for name in self.exercises:
            if not self.file:
                steps.append(Step(f"Write {name}_backward in {name}.py.", f"npformer grade --template {name}"))
            path = self.file or f"{name}.py"
            steps.append(Step("Grade it, with more of a hint at --hint 2 and 3.", f"npformer grade {path}"))
        return tuple(steps)

    @property
    def parts(self) -> tuple[tuple[str, tuple[Step, ...]], ...]:
        """The four parts with their titles, without empty ones."""
        meet = Step(self.meet, f"npformer museum show {self.bug}")
        parts = (("Read", self.read), ("Write", self.write), ("Meet a bug", (meet,)), ("See", self.see))
        return tuple((title, steps) for title, steps in parts if steps)

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands, in order."""
        return tuple(step.command for _, steps in self.parts for step in steps if step.command)
