"""An invariant: a name, its claim in one line, and a function that looks for a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from npformer.backend import Device
from npformer.check.invariants.probe import Probe
from npformer.check.invariants.snapshot import restored
from npformer.check.invariants.violation import DoesNotApply, Violation
from npformer.check.report import FAILS, HOLDS, NOT_APPLICABLE, Claim

Judge = Callable[[Probe], Violation | None]


@dataclass(frozen=True)
class Invariant:
    """One invariant's check. Call it like ``gradcheck``; ``judged`` runs it on a Probe."""

    name: str
    meaning: str
    judge: Judge

    def __call__(self, target: Any, *inputs: Any, device: Device | None = None, seed: int = 0, **options: Any) -> Claim:
        """The check on a target at these inputs. An error of forward on them is raised."""
        with opened(target, inputs, options, device, seed) as probe:
            return self.judged(probe)

    def judged(self, probe: Probe) -> Claim:
        """The result on a probe; if the target raises an error, the claim does not hold."""
        try:
            violation = self.judge(probe)
        except DoesNotApply as reason:
            return Claim(self.name, self.meaning, NOT_APPLICABLE, str(reason))
        except Exception as error:
            return Claim(self.name, self.meaning, FAILS, f"raised {type(error).__name__}: {error}")
        return Claim(self.name, self.meaning, FAILS if violation else HOLDS, str(violation or ""))


def invariant(name: str, meaning: str) -> Callable[[Judge], Invariant]:
    """Make an Invariant from a judge: a function of a Probe that returns a Violation, None, or raises DoesNotApply."""
    return lambda judge: Invariant(name, meaning, judge)


@contextmanager
def opened(
    target: Any, inputs: tuple[Any, ...], options: dict[str, Any], device: Device | None, seed: int
) -> Iterator[Probe]:
    """A Probe whose forward has run once: unfit inputs are the caller's error, not a finding. Then all is restored."""
    parameters = [parameter for _, parameter in getattr(target, "named_parameters", list)()]  # none of a pair
    with restored(target, *parameters):
        probe = Probe(target, inputs, options, device, seed)
        probe.outputs()
        yield probe
