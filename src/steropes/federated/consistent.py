"""Whether what a site said in all its rounds can be of the same rows.

Its losses are convex functions, of which the lead knows values and slopes at many points: each
value lies above the tangents at all others. So do the logarithms of its sums over those at risk;
what does not depend on coefficients is the same in every round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import DataError
from .plan import FederatedPlan
from .protocol import Message
from .site_sums import unpacked

__all__ = ["SiteHistory", "folds_of"]

ROUNDING = 1e-8  # of sums
STEEP = 1e-6  # of a loss: how far below a tangent rounding may bring it
NOISE = 1e-11  # of linear predictors, and so of losses
NEAR = 0.1  # change of a linear predictor within which curvature is nearly the same
TOLD = 1e-8  # of a mean weight: a change of slope along a step that is no rounding
RATIO = 2.0  # of curvatures there
SPREAD = 100.0  # of a mean row weight over the smallest that matters
HUGE = 1e200  # a loss from which on derivatives may be beyond doubles


KEPT = 2  # rounds whose sums over those at risk are kept
# A round, a point, and sums there with their slopes, by name.
_Moments = tuple[int, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]


def folds_of(request: Message) -> np.ndarray:
    """The fold that each point of an ``evaluate`` leaves out, −1 for none."""
    m = len(request.arrays["points"])
    return request.numbers("folds", -1, 10**9) if "folds" in request.arrays else np.full(m, -1)


@dataclass
class _Losses:
    """At some points, of the same rows."""

    theta: np.ndarray
    loss: np.ndarray
    gradient: np.ndarray
    round: np.ndarray
    noise: np.ndarray  # rounding of the losses, by the size of linear predictors

    def with_(self, more: _Losses) -> _Losses:
        return _Losses(
            np.vstack([self.theta, more.theta]), np.append(self.loss, more.loss),
            np.vstack([self.gradient, more.gradient]), np.append(self.round, more.round),
            np.append(self.noise, more.noise),
        )  # fmt: skip

    def below(self, new: int) -> tuple[int, int] | None:
        """Rounds of two points, one of the last ``new`` among them, that contradict each other."""
        n = len(self.loss)
        for j in range(n):
            own = np.arange(0 if j >= n - new else n - new, n)
            rise = (self.theta[own] - self.theta[j]) @ self.gradient[j]
            room = np.abs(self.loss[own]) + abs(self.loss[j]) + np.abs(rise)
            room = STEEP * room + self.noise[own] + self.noise[j]
            fine = self.loss[own] - self.loss[j] >= rise - room
            if not fine.all():
                return int(self.round[j]), int(self.round[own[np.argmin(fine)]])
        return None


@dataclass
class SiteHistory:
    """What a site has said; see the module.

    Attributes
    ----------
    first : Message
        Its answer of the first round.
    """

    first: Message
    _losses: dict[int, _Losses] = field(default_factory=dict)
    _hessians: dict[int, tuple[np.ndarray, np.ndarray, int]] = field(default_factory=dict)
    _moments: dict[int, list[_Moments]] = field(default_factory=dict)
    _same: dict[tuple[str, int], tuple[np.ndarray, int]] = field(default_factory=dict)

    def add(self, plan: FederatedPlan, request: Message, answer: Message) -> None:
        """Refuse an answer that contradicts itself or earlier ones, and remember it."""
        with np.errstate(all="ignore"):
            if request.ask == "evaluate":
                self._add_losses(plan, request, answer)
                if plan.model == "linear":
                    self._add_hessians(request, answer)
            elif request.ask == "risk_sets":
                self._add_risk_sets(request, answer)

    def _contradicts(self, answer: Message, fields: str, rounds: tuple[int, int]) -> DataError:
        low, high = sorted(rounds)
        where = f"rounds {low} and {high}" if low < high else f"round {high}"
        return DataError(
            f"the answers of site {answer.site!r} contradict each other: {fields} in {where} "
            f"({answer.ask}) cannot be of the same rows. Were its data changed, or a file?"
        )

    def _add_losses(self, plan: FederatedPlan, request: Message, a: Message) -> None:
        theta, folds = request.arrays["points"], folds_of(request)
        if plan.intercepts:
            place = plan.sites.index(a.site) if plan.baseline == "site" else 0
            theta = np.column_stack([request.arrays["intercepts"][:, place], theta])
        loss, g = a.arrays["loss"], a.arrays["gradient"]
        small = loss < HUGE
        width = self._size(request, 1.0)
        width = np.append(np.ones(theta.shape[1] - len(width)), width)
        noise = NOISE * self.first.number("weight") * (1 + np.abs(theta) @ width)
        for fold in np.unique(folds[small]).tolist():
            own = np.flatnonzero(small & (folds == fold))
            round_ = np.full(len(own), request.round)
            new = _Losses(theta[own], loss[own], g[own], round_, noise[own])
            known = self._losses.get(fold)
            both = new if known is None else known.with_(new)
            rounds = both.below(len(own))
            if rounds is not None:
                raise self._contradicts(a, "'loss' and 'gradient'", rounds)
            self._losses[fold] = both
            self._refuse_curvature(plan, request, a, theta, fold)

    def _refuse_curvature(
        self, plan: FederatedPlan, request: Message, a: Message, theta: np.ndarray, fold: int
    ) -> None:
        """Refuse Hessians that are not how slopes change nearby.

        No row is further from a column's centre c than √(n Σ(x − c)²/n), so that points can be
        told between which no linear predictor changes much.
        """
        own = 1 if plan.intercepts else 0
        mean, variance = self.first.arrays["mean"], self.first.arrays["variance"]
        rows, weight = self.first.number("rows"), self.first.number("weight")
        widest = rows * (1 if plan.weight is None else SPREAD)
        size = np.sqrt(widest * (variance + (mean - request.arrays["center"]) ** 2))
        size = np.append(np.ones(own), size)
        columns = np.append(np.arange(own), own + request.numbers("columns", 0, 10**9))
        columns = columns.astype(np.int64)
        known, at = self._losses[fold], request.numbers("hessians", 0, 10**9)
        every = unpacked(a.arrays["hessian"], len(columns))
        for m, H in zip(at, every, strict=True):
            if folds_of(request)[m] != fold or not a.arrays["loss"][m] < HUGE:
                continue
            step = known.theta - theta[m]
            change = np.sum(step * (known.gradient - a.arrays["gradient"][m]), axis=1)
            by = np.sum(step[:, columns] * (step[:, columns] @ H), axis=1)
            near = (np.abs(step) @ size <= NEAR) & (change > TOLD * weight / rows)
            near &= (np.delete(step, columns, axis=1) == 0).all(axis=1)
            off = near & ((by > RATIO * change) | (RATIO * by < change))
            if off.any():
                rounds = int(known.round[np.argmax(off)]), request.round
                raise self._contradicts(a, "'gradient' and 'hessian'", rounds)

    def _add_hessians(self, request: Message, a: Message) -> None:
        """Of linear models they are the same everywhere."""
        columns = np.append(0, 1 + request.numbers("columns", 0, 10**9))
        every = unpacked(a.arrays["hessian"], len(columns))
        at = request.numbers("hessians", 0, 10**9)
        for fold, H in zip(folds_of(request)[at].tolist(), every, strict=True):
            before, known, round_ = self._hessians.setdefault(fold, (columns, H, request.round))
            _, i, j = np.intersect1d(columns, before, return_indices=True)
            size = np.sqrt(np.diagonal(known)[j])
            off = np.abs(H[np.ix_(i, i)] - known[np.ix_(j, j)])
            if not (off <= ROUNDING * size[:, None] * size).all():
                raise self._contradicts(a, "'hessian'", (round_, request.round))

    def _add_risk_sets(self, request: Message, a: Message) -> None:
        m = len(request.arrays["points"])
        firsts = request.numbers("firsts", 0, m)
        several = len(firsts) > 0
        if not several:
            firsts = np.zeros(1, np.int64)
        folds = request.numbers("folds", -1, 10**9) if several else np.full(1, -1)
        for h, (start, fold) in enumerate(zip(firsts, folds.tolist(), strict=True)):
            fit = {n: a.arrays[n][h] if several else a.arrays[n]
                   for n in ("S1", "E1", "covariates", "count", "weight")}  # fmt: skip
            end = firsts[h + 1] if h + 1 < len(firsts) else m
            points, linear = request.arrays["points"][start:end], a.arrays["linear"][start:end]
            size = self._size(request, float(fit["weight"].sum()))
            fit["linear"] = linear - points @ fit["covariates"]  # what offsets add
            reach = np.abs(linear) + np.abs(points) @ (np.abs(fit["covariates"]) + size)
            for name, room in (
                ("count", 0.0), ("weight", ROUNDING * fit["weight"]), ("covariates", STEEP * size),
                ("linear", STEEP * reach),
            ):  # fmt: skip
                own = (fit[name][:1] if name == "linear" else fit[name], request.round)
                known, round_ = self._same.setdefault((name, fold), own)
                if not (np.abs(fit[name] - known) <= room).all():
                    raise self._contradicts(a, repr(name), (round_, request.round))
            self._refuse_moments(a, fit, points, slice(start, end))
            new = (request.round, points[0], {n: (a.arrays[n][start], fit[f"{n}1"]) for n in "SE"})
            for old in self._moments.get(fold, []):
                self._refuse_moved(a, old, new)
                self._refuse_moved(a, new, old)
            self._moments[fold] = [*self._moments.get(fold, []), new][-KEPT:]

    def _size(self, request: Message, weight: float) -> np.ndarray:
        """About how large sums of columns over events may be, (p,)."""
        mean, variance = self.first.arrays["mean"], self.first.arrays["variance"]
        return weight * np.sqrt(variance + (mean - request.arrays["center"]) ** 2)

    def _refuse_moved(self, a: Message, near: _Moments, far: _Moments) -> None:
        """One point's sums by the slopes of another round's."""
        step = far[1] - near[1]
        for name in ("S", "E"):
            (x, slope), (y, _) = near[2][name], far[2][name]
            odd = not step.any() and (np.isfinite(x) != np.isfinite(y)).any()
            if odd or _below(y[None], x, (slope @ step)[None] / x):
                raise self._contradicts(a, f"{name!r} and '{name}1'", (near[0], far[0]))

    def _refuse_moments(
        self, a: Message, fit: dict[str, np.ndarray], points: np.ndarray, own: slice
    ) -> None:
        """Sums over those at risk at several points by their slopes at the first."""
        step = points - points[0]
        for name, slope in (("S", fit["S1"]), ("E", fit["E1"])):
            x = a.arrays[name][own]
            if _below(x, x[0], (slope @ step.T).T / x[0]):
                raise self._contradicts(a, f"{name!r} and '{name}1'", (a.round, a.round))


def _below(x: np.ndarray, at: np.ndarray, rise: np.ndarray) -> bool:
    """Whether sums (m, T) are below what their logarithm's slope at one point says."""
    low = np.log(x / at) - rise < -STEEP * (1 + np.abs(rise))
    told = (at > ROUNDING * np.max(at, initial=0.0)) & np.isfinite(x) & np.isfinite(at)
    return bool((low & told).any())
