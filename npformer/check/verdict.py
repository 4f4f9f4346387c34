"""Turns errors into a verdict, one tensor at a time.

    right           the witnesses agree with the analytic gradient, entry by entry
    WRONG           the witnesses agree with each other and not with the gradient
    KINK HERE       the slopes to the left and to the right of this point differ: there is no gradient
    CANNOT TELL     the witnesses do not settle the slope: too little precision for a verdict
    PROVES NOTHING  the check could not have failed (``vacuity.py``)

At doubtful places ``sweep.py`` and ``plateaus.py`` are asked. Afterwards a regime may change a verdict
(``look.rows_of``, ``rounding/float64.py``), and runs that differ take it away (``look.without_verdict``); kernels in
float32 and less have rules of their own (``rounding/low_precision.py``).

Only *right* passes. An entry a_i, with the witness's value n_i, is right if both rules hold:

    of the tensor   |a_i − n_i| ≤ τ·S + 8(s_i + t_i)          S = max(max|n|, 1e-3·largest entry of the check)
    of the entry    |a_i − n_i| ≤ τ·A_i + 8(s_i + t_i) + φ    A_i = Σ_j |r_j ∂y_j/∂x_i|, the entry's reach

The second rule is needed because a large entry hides a small one from the first. An error relative to the entry itself
would be too strict: its terms may cancel, and then only their rounding is left. So the error is relative to the sum of
their sizes, the reach. The reach does not include rounding inside the forward and the backward:

    s_i, t_i   the changes of witness and claim if inputs and upstream gradients move by at most 2 units in the last
               place; measured where an entry is in doubt. t_i counts at most τ·S: a noisy claim is no excuse
    φ          64u·max(max|n|, Σ|r·y| / rms x): the resolution of the precision next to the largest entry, or to
               the terms of L; 512u where differences alone decide, whose first step is 2e-3 of x: u/2e-3 is 500u.
               An entry with no larger reach is not judged by itself; the row counts such entries

Along a random direction the first rule holds alone, with the slope, the claim and their s and t along it.

So ratios beyond about 1e13 stay hidden in float64. WRONG by the second rule alone requires that the entry fails again
for three new upstream gradients.

With the complex step as witness that is all. Without it, the error estimate e_i of the extrapolated differences is
added, eight times, to both. Before anything is called WRONG, the two witnesses must be nearer to each other, and
differences more exact, than a third of their distance to the claim; where differences are too coarse for that, the
complex step decides alone if the forward was observed to be analytic (``fitness.py``). Differences alone accuse only a
claim with which no plateau agrees (``plateaus.py``): neither what stands still at tiny steps, nor what is averaged
away at wide ones. Of a forward that answers in steps no error below what these make of a slope is judged.

Where entries of a tensor are equal, as in a maximum, there may be no gradient though each slope exists; then the sum of
their claims is judged along all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check import plateaus
from npformer.check.measures import NEGLIGIBLE, U, max_abs, rms, terms, worst_at
from npformer.check.oracles import SAME, Evidence, Oracle, unit
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG, Row
from npformer.check.rounding.float64 import Jitter
from npformer.check.sweep import STEPS, sweep, sweeps
from npformer.typing import HostArray

Place = tuple[Any, ...]

TOLERANCE = 1e-10
#: Relative to a tensor's scale: less precise differences leave a doubt.
CENTRAL_TOLERANCE = 2 * SAME  # 1e-7
#: Forwards spent on the doubtful places of a tensor, and how many numbers cost as much as calling one; if more places
#: are in doubt, the tensor is.
MOST_FORWARDS, NUMBERS = 40_000, 2_000
#: Times the slope of a step of 0.1: that of 1e-11, where there is no end to it.
STEEP = 100.0
SWEEP, PLATEAUS = 2 * len(STEPS), plateaus.POINTS * len(plateaus.WIDTHS)  # forwards
MOST_REFUTED = 3
MOST_ENTRIES = 64
FRESH = 3
#: Relative to a tensor's scale: a larger error is not due to rounding, so rounding is not measured.
MOST_ROUNDING = 1e-4


class _Case(NamedTuple):
    """One tensor: arrays (K, *places), a place being an element or a direction."""

    tensor: str
    claimed: HostArray
    evidence: Evidence
    directions: Sequence[HostArray] | None
    scale: HostArray  # (K, 1, …)
    floor: HostArray  # φ, alike
    reach: HostArray
    error: HostArray

    def scale_at(self, place: Place) -> float:
        """The scale of its upstream gradient."""
        return float(self.scale[place[0]].item())

    @property
    def worth(self) -> HostArray:
        """The term added to both rules: 0, or the error estimate of differences."""
        return 8 * self.evidence.central_error if self.evidence.by_complex is None else np.zeros_like(self.error)


class _Verdict(NamedTuple):
    place: Place
    verdict: str
    note: str = ""
    by_entry: bool = False
    slope: float | None = None  # the witness's, if it is another than the evidence's


class Judge:
    """Judges the tensors of one check; largest (K,): the largest gradient entry of the whole check.

    is_analytic(): no call in the forward loses or flips an imaginary part.
    """

    def __init__(
        self,
        oracle: Oracle,
        largest: HostArray,
        tolerance: float,
        is_analytic: Callable[[], bool],
        seed: int = 0,
    ) -> None:
        self._oracle, self._largest, self._tolerance = oracle, largest, tolerance
        self._is_analytic = is_analytic
        self._central_tolerance = max(CENTRAL_TOLERANCE, tolerance)
        self._jitter = Jitter(oracle, seed)
        self._terms = [terms(upstream, self._jitter.outputs) for upstream in oracle.upstreams]
        self._numbers = sum(x.size for x in (*self._jitter.outputs, *oracle.subject.tensors.values()))
        self._spent, self._seen = 0, dict[Any, list[Any]]()

    def row(self, tensor: str, claimed: HostArray, evidence: Evidence, directions: Sequence[HostArray] | None) -> Row:
        """Compare the claim with the witnesses, (K, *places), and name the worst place."""
        case, self._spent = self._case(tensor, claimed, evidence, directions), 0
        verdict = (self._by_differences if evidence.by_complex is None else self._by_both)(case)
        verdict = self._beside_ties(case, verdict)
        verdict = self._beside_jumps(case, verdict)
        x, place = self._oracle.subject.tensors[tensor], verdict.place
        scale = float(case.reach[place] + case.floor[place[0]].item()) if verdict.by_entry else case.scale_at(place)
        central = np.where(self._unsettled(case), 0.0, np.abs(claimed - evidence.by_central) / case.scale)
        numeric = float(evidence.truth[place]) if verdict.slope is None else verdict.slope
        hidden = np.all(case.reach <= case.floor + case.worth, axis=0)
        error = abs(float(claimed[place]) - numeric) / (scale or 1.0)
        return Row(
            tensor, x.shape, x.size, error, float(np.max(central, initial=0.0)),
            tuple(int(i) for i in place[1:]), float(claimed[place]), numeric, scale,
            verdict.verdict, verdict.note, by_direction=directions is not None, upstream=int(place[0]),
            unjudged=int(np.sum(hidden)) if directions is None and not hidden.all() else 0,
        )  # fmt: skip

    def _case(
        self, tensor: str, claimed: HostArray, evidence: Evidence, directions: Sequence[HostArray] | None
    ) -> _Case:
        x, truth = self._oracle.subject.tensors[tensor], evidence.truth
        per_k = (len(truth), *(1 for _ in truth.shape[1:]))
        largest = np.array([max_abs(n) for n in truth])
        scale = np.maximum(largest, NEGLIGIBLE * self._largest)
        units = 64 if evidence.by_complex is not None else 512
        sizes = np.maximum(largest, np.array(self._terms) / (rms(x) or 1.0))
        at_0 = np.array([max(map(max_abs, upstream)) for upstream in self._oracle.upstreams])
        # a forward that underflows to 0 had larger numbers inside
        floor = units * U * np.where(sizes == 0, at_0, sizes)
        return _Case(
            tensor, claimed, evidence, directions, np.where(scale == 0, 1.0, scale).reshape(per_k),
            floor.reshape(per_k), evidence.reach, np.abs(claimed - truth),
        )  # fmt: skip

    def _unsettled(self, case: _Case) -> HostArray:
        """Where differences leave a doubt."""
        return np.asarray(~(case.evidence.central_error <= self._central_tolerance * case.scale))

    def _failing(self, case: _Case) -> tuple[HostArray, HostArray]:
        """Where the tensor's rule fails, and where only the entry's rule fails; NaN fails."""
        by_tensor = self._unexplained(case, ~(case.error <= self._tolerance * case.scale + case.worth))
        by_entry = ~(case.error <= self._tolerance * case.reach + case.worth + case.floor)
        return by_tensor, by_entry & ~by_tensor

    def _unexplained(self, case: _Case, failing: HostArray) -> HostArray:
        """The failing places that rounding does not explain; stops at the worst one."""
        left = failing.copy()
        for place in _by_size(case.error / case.scale, failing)[:MOST_ENTRIES]:
            scale = case.scale_at(place)
            if not case.error[place] <= MOST_ROUNDING * scale:
                return left
            if case.error[place] > self._tolerance * scale + case.worth[place] + 8 * self._noise(case, place):
                return left
            left[place] = False
        return np.zeros_like(failing)

    def _noise(self, case: _Case, place: Place) -> float:
        """s_i + t_i, the latter up to its cap."""
        true, claimed = case.evidence.truth[:, *place[1:]], case.claimed[:, *place[1:]]
        cap = self._tolerance * case.scale_at(place)
        return float(self._jitter.noise(case.tensor, self._direction(case, place), true, claimed, cap)[place[0]])

    def _direction(self, case: _Case, place: Place) -> HostArray:
        """The direction at a place, of its tensor's shape: one of the check's, or the unit of an element."""
        if case.directions is not None:
            return case.directions[int(place[1])]
        return unit(self._oracle.subject.tensors[case.tensor].shape, place[1:])

    def _by_both(self, case: _Case) -> _Verdict:
        """The complex step decides, and differences confirm."""
        _, by_central, worth, _ = case.evidence
        unsettled, apart = self._unsettled(case), np.abs(case.evidence.truth - by_central)
        contradiction = ~unsettled & ~(apart <= 8 * worth + self._central_tolerance * case.scale)
        if any(self._is_refuted(case, place) for place in _by_size(apart, contradiction)[:MOST_REFUTED]):
            return self._by_differences(self._without_complex(case))
        by_tensor, by_entry = self._failing(case)
        if not by_tensor.any():
            note = "central differences cannot tell here" if (unsettled | contradiction).any() else ""
            right = _Verdict(worst_at(case.error / case.scale), RIGHT, note)
            return self._beyond_rounding(case, by_entry) or right
        place = worst_at(np.where(by_tensor, case.error / case.scale, -1.0))
        gap = case.error[place]
        if np.isinf(case.claimed[place]):
            return self._looked_at(case, place)
        if not np.isfinite(gap) or max(apart[place], worth[place]) <= gap / 3:
            return _Verdict(place, WRONG)
        looked = self._looked_at(case, place)
        if looked.verdict in (KINK, WRONG):
            return looked
        if self._is_analytic():
            return _Verdict(place, WRONG)
        return _Verdict(place, UNCLEAR, "by the complex step alone it is wrong, and that may be unfit here")

    def _is_refuted(self, case: _Case, place: Place) -> bool:
        """Whether slopes settle at a place, and none of them is that of the complex step."""
        scale = case.scale_at(place)
        truth = float(case.evidence.truth[place])
        return plateaus.verdict(self._plateaus(case, place), truth, scale, self._central_tolerance) == WRONG

    def _without_complex(self, case: _Case) -> _Case:
        """The same tensor, judged again without the complex step."""
        oracle = Oracle(self._oracle.subject, self._oracle.upstreams, use_complex=False)
        evidence = oracle.evidence(case.tensor, case.directions)
        return self._case(case.tensor, case.claimed, evidence, case.directions)

    def _by_differences(self, case: _Case) -> _Verdict:
        """Extrapolated differences alone: each doubtful place is examined, the worst first."""
        by_tensor, by_entry = self._failing(case)
        doubtful = by_tensor | self._unsettled(case)
        places = _by_size(case.error / case.scale, doubtful)
        if not places:
            return self._beyond_rounding(case, by_entry) or _Verdict(worst_at(case.error / case.scale), RIGHT)
        verdicts = []
        for place in places:
            verdicts.append(self._looked_at(case, place))
            if verdicts[-1].verdict == WRONG or self._spent * (1 + self._numbers / NUMBERS) > MOST_FORWARDS:
                break
        worst = min(verdicts, key=lambda verdict: _GRAVITY.index(verdict.verdict))
        if worst.verdict == RIGHT and (hidden := self._beyond_rounding(case, by_entry)) is not None:
            return hidden
        if worst.verdict == RIGHT and len(places) > len(verdicts):
            note = f"differences are unsettled at {len(places)} places, of which {len(verdicts)} were looked at"
            return _Verdict(places[len(verdicts)], UNCLEAR, note)
        return worst

    def _looked_at(self, case: _Case, place: Place) -> _Verdict:
        """Sweep the step size at a doubtful place: is there a gradient, can it be determined, does any slope agree?"""
        scale, claimed, k = case.scale_at(place), float(case.claimed[place]), int(place[0])
        swept = self._once(case, place, "sweep", sweeps, SWEEP)[k]
        found = swept.verdict(claimed, scale, self._central_tolerance)
        note, slope = f"by a sweep of h, which settles to {swept.noise / scale:.0e}", swept.slope
        apart, worth = abs(claimed - case.evidence.by_central[place]), 8 * case.evidence.central_error[place]
        is_settled = not self._unsettled(case)[place] and apart > self._tolerance * scale + worth
        if np.isinf(claimed) and abs(swept.central[-1]) > STEEP * max(abs(swept.central[0]), scale / STEEP):
            return _Verdict(place, UNCLEAR, "slopes grow without bound as h goes to 0", slope=slope)
        if (found == RIGHT and not is_settled) or not np.isfinite(claimed):
            return _Verdict(place, found, note, slope=slope)
        every = self._plateaus(case, place)
        judged, seen = plateaus.verdict(every, claimed, scale, self._central_tolerance), plateaus.counting(every, scale)
        if judged == RIGHT and is_settled and seen[0].agrees(float(case.evidence.by_central[place])):
            judged = WRONG  # differences are more exact than a plateau with which both agree
        if judged == UNCLEAR and found == KINK:
            return _Verdict(place, KINK, note)
        if seen:
            note, slope = f"slopes over widths of h settle to {seen[0].error / scale:.0e}", seen[0].slope
        return _Verdict(place, judged) if judged == WRONG and is_settled else _Verdict(place, judged, note, slope=slope)

    def _plateaus(self, case: _Case, place: Place) -> list[plateaus.Plateau]:
        seen: list[list[plateaus.Plateau]] = self._once(case, place, "plateaus", plateaus.plateaus, PLATEAUS)
        return seen[int(place[0])]

    def _once(self, case: _Case, place: Place, what: str, look: Callable[..., list[Any]], forwards: int) -> list[Any]:
        """What is seen at a place, for every upstream gradient."""
        key = (what, case.tensor, place[1:])
        if key not in self._seen:
            self._seen[key] = look(
                self._oracle.subject, case.tensor, self._direction(case, place), self._oracle.upstreams
            )
            self._spent += forwards
        return self._seen[key]

    def _beside_ties(self, case: _Case, verdict: _Verdict) -> _Verdict:
        """The verdict, if other entries equal that at its place: by the slope along all of them, if it exists."""
        x, (k, *index) = self._oracle.subject.tensors[case.tensor], verdict.place
        if verdict.verdict not in (WRONG, KINK) or case.directions is not None or not np.isfinite(case.error[k]).all():
            return verdict
        tied = x == x[tuple(index)]
        if np.sum(tied) < 2:
            return verdict
        swept = sweep(self._oracle.subject, case.tensor, tied * 1.0, self._oracle.upstreams[k])
        scale = case.scale[k].item() * np.sum(tied)
        claimed, alone = (float(np.sum(part[k][tied])) for part in (case.claimed, case.evidence.truth))
        of_claim, of_witness = (swept.verdict(slope, scale, self._central_tolerance) for slope in (claimed, alone))
        if of_claim == WRONG and verdict.verdict == KINK:
            return _Verdict(verdict.place, WRONG, TIED)
        return _Verdict(verdict.place, KINK, TIED) if of_claim == RIGHT and of_witness == WRONG else verdict

    def _beside_jumps(self, case: _Case, verdict: _Verdict) -> _Verdict:
        """The verdict; right where a forward answers in steps that explain so small an error."""
        place = verdict.place
        k, error = int(place[0]), float(case.error[place])
        if verdict.verdict != WRONG or not error <= MOST_ROUNDING * case.scale[k].item():
            return verdict
        slack = plateaus.slack_of(self._oracle.subject, case.tensor, self._oracle.upstreams[k])
        if case.directions is not None:
            slack *= float(np.linalg.norm(self._direction(case, place)))
        if error > slack:
            return verdict
        note = (
            "forward answers in steps, as an iteration does that stops at a tolerance: an error of "
            f"{error / case.scale[k].item():.0e} is within what these make of a slope; tolerance= judges beside it"
        )
        return _Verdict(place, RIGHT, note)

    def _beyond_rounding(self, case: _Case, failing: HostArray) -> _Verdict | None:
        """WRONG at the worst entry that repeatedly fails its own rule by more than rounding; None if there is none."""
        if case.directions is not None:
            return None
        limit = self._tolerance * case.reach + case.worth + case.floor
        for place in _by_size(case.error / np.where(limit == 0, 1.0, limit), failing)[:MOST_ENTRIES]:
            noise = self._noise(case, place)
            if case.error[place] > limit[place] + 8 * noise and self._holds_again(case, place, noise):
                return _Verdict(place, WRONG, _HIDDEN, by_entry=True)
        return None

    def _holds_again(self, case: _Case, place: Place, noise: float) -> bool:
        """Whether the entry also fails for each of several new upstream gradients."""
        error, reach, worth = self._jitter.fresh(case.tensor, self._direction(case, place), FRESH)
        return bool(np.all(error > self._tolerance * reach + 8 * (noise + worth) + case.floor.max()))


TIED = "equal entries: the slopes of single ones do not add up to that along all of them"
_HIDDEN = "hidden behind larger entries of the tensor; the error is of the entry's own terms"
_GRAVITY = (WRONG, KINK, UNCLEAR, RIGHT)


def _by_size(error: HostArray, chosen: HostArray) -> list[Place]:
    """The chosen places, the one with the largest error first; NaN counts as larger than all."""
    places = [tuple(place) for place in np.argwhere(chosen)]
    return sorted(places, key=lambda place: -np.nan_to_num(error[place], nan=np.inf))
