"""A site: rows that stay where they are, and answers to what a lead asks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends.blas import single_threaded_blas
from ..errors import DataError, SeparationError
from .cells import CellRules, small_folds, small_pairs, small_sets, small_times
from .censoring import leaving
from .local_fits import local_estimate, local_profiles
from .plan import FederatedPlan
from .protocol import Message, Value
from .risk_set_answers import risk_set_arrays
from .risk_set_sums import event_times
from .rows import SiteRows, read_rows
from .site_sums import column_moments, packed, sums_at
from .surrogate import fit_surrogate

__all__ = ["FederatedSite"]

Content = tuple[dict[str, Value], dict[str, np.ndarray]]


class RefusedError(Exception):
    """A site does not let a message out; ``reasons`` are sentences."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class FederatedSite:
    """Rows of one site, which answer requests with sums.

    Parameters
    ----------
    name : str
        As in the plan.
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        With the plan's columns. A dict has ``"X"``, anything that estimators accept with the
        plan's columns, and vectors by the names of their columns. Nothing is modified.
    rules : CellRules, optional
        What the site does not let out: by default counts of one to four people.
    """

    def __init__(self, name: str, data: Any, rules: CellRules | None = None) -> None:
        self.name, self._data = name, data
        self.rules = CellRules() if rules is None else rules
        self._read: tuple[str, SiteRows] | None = None

    def __repr__(self) -> str:
        return f"FederatedSite({self.name!r})"

    def answer(self, plan: FederatedPlan, request: Message) -> Message:
        """Answer a request, or refuse it.

        Returns
        -------
        Message
            A refusal says which counts are too small, or whose columns the site's own fit fails.

        Raises
        ------
        DataError
            A request that is not one of this plan, or makes no sense; or data that the model
            cannot use. What the error says of rows stays here: nothing is sent.
        """
        if self.name not in plan.sites:
            known = ", ".join(map(repr, plan.sites))
            raise DataError(f"the plan has no site {self.name!r}; it has {known}")
        self._refuse_request(plan, request)
        try:
            with self._named(), single_threaded_blas():
                values, arrays = self._content(plan, request)
        except RefusedError as refused:
            return request.refused(self.name, tuple(refused.reasons))
        return request.answered(self.name, values, arrays)

    def _refuse_request(self, plan: FederatedPlan, request: Message) -> None:
        """Refuse what is no request to this site of this plan, and say what to do."""
        if request.kind != "request":
            raise DataError(
                f"site {self.name!r} was given no request (kind {request.kind!r}): give it what "
                "the lead wrote"
            )
        if request.study != plan.study:
            raise DataError(
                f"site {self.name!r} was given a request of study {request.study!r}, which is no "
                f"request of its plan, {plan.study!r}: let the lead send the plan and the request "
                "that belong together"
            )
        if request.ask not in plan.asks:
            raise DataError(
                f"site {self.name!r} was asked for {request.ask!r}, which is no request of its "
                f"plan; there are {', '.join(plan.asks)}"
            )
        if not 0 <= request.round < plan.max_rounds:
            raise DataError(
                f"site {self.name!r} was asked in round {request.round}, but the plan's rounds are "
                f"0 to {plan.max_rounds - 1} (max_rounds)"
            )
        asked = request.values.get("sites", list(plan.sites))
        if not isinstance(asked, list) or self.name not in asked:
            raise DataError(f"round {request.round} asks nothing of site {self.name!r}")
        for name, x in request.arrays.items():
            if np.isnan(x).any():
                raise DataError(
                    f"site {self.name!r}: the request's {name!r} is NaN in places: do not answer it"
                )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors by the site's name; they may tell of a row, and stay at the site."""
        try:
            yield
        except DataError as error:
            raise DataError(f"site {self.name!r}: {error}") from None

    def _content(self, plan: FederatedPlan, request: Message) -> Content:
        rows = self._rows(plan)
        balanced = plan.model == "logistic"
        self._let_out(small_sets(rows, self.rules, balanced))
        ask: dict[str, Callable[[SiteRows, FederatedPlan, Message], Content]] = {
            "describe": self._describe,
            "evaluate": self._evaluate,
            "risk_sets": self._risk_sets,
            "estimate": self._estimate,
            "surrogate": self._surrogate,
            "profile": self._profile,
        }
        return ask[request.ask](rows, plan, request)

    def _rows(self, plan: FederatedPlan) -> SiteRows:
        if self._read is None or self._read[0] != plan.study:
            self._read = plan.study, read_rows(self._data, plan, plan.sites.index(self.name))
        return self._read[1]

    def description(self, plan: FederatedPlan) -> Content:
        """Values and arrays of the rows that the first round tells, for the site's own use."""
        with self._named(), single_threaded_blas():
            return _description(self._rows(plan), plan)

    def folds(self, plan: FederatedPlan) -> np.ndarray:
        """The rows that each of a plan's folds leaves out, (n, folds · repeats) bool.

        They stay here: for comparisons, and for whoever wants to see how rows were cut.
        """
        with self._named():
            held_out = self._rows(plan).held_out
        if held_out is None:
            raise DataError("the plan has no folds")
        return held_out.copy()

    def _let_out(self, small: list[str]) -> None:
        if small:
            raise RefusedError(small)

    # -- answers ---------------------------------------------------------------------------------

    def _describe(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        values, arrays = _description(rows, plan)
        self._let_out(small_folds(rows, self.rules))
        for name in ("leave_times", "times"):
            if name in arrays:
                self._let_out(small_times(rows, self.rules, arrays[name]))
        return values, arrays

    def _evaluate(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        points, center, columns = _points(request, plan)
        self._let_out(small_pairs(rows, self.rules, columns))
        intercepts = None
        if plan.intercepts:
            each = request.array("intercepts", (len(points), len(plan.intercepts)))
            at = plan.sites.index(self.name) if plan.baseline == "site" else 0
            intercepts = each[:, at]
        m = len(points)
        hessians = request.numbers("hessians", 0, m)
        folds = self._folds(rows, request, m)
        sums = sums_at(rows, points, intercepts, center, columns, hessians.tolist(), folds)
        arrays = {
            "loss": sums.loss, "gradient": sums.gradient, "hessian": packed(sums.hessian),
            "uncentred": sums.uncentred,
        }  # fmt: skip
        if sums.held_out is not None:
            arrays["held_out"] = sums.held_out
        return {}, arrays

    def _folds(self, rows: SiteRows, request: Message, m: int) -> np.ndarray | None:
        """The fold that each of m points leaves out."""
        if "folds" not in request.arrays:
            return None
        if rows.held_out is None:
            raise DataError("the request is about folds, but the plan has none")
        self._let_out(small_folds(rows, self.rules))
        folds = request.numbers("folds", -1, rows.held_out.shape[1])
        if len(folds) != m:
            raise DataError(f"the request's 'folds' must be {m}, one a point")
        return folds

    def _risk_sets(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        points, center, columns = _points(request, plan)
        times = request.arrays.get("times")
        if times is None:
            raise DataError("the request has no array 'times'")
        times = np.asarray(times, float)
        self._let_out(small_times(rows, self.rules, times))
        assert rows.event is not None
        cases = rows.y[rows.event & (rows.problem.weights > 0)]
        if not np.isin(cases, times).all():
            raise DataError("the request's times leave out events of this site")
        if "a" in request.arrays:
            self._let_out(small_pairs(rows, self.rules, columns))
        return {}, risk_set_arrays(rows, plan, request, times, points, center, columns)

    def _estimate(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        values, arrays = self._describe(rows, plan, request)
        found = local_estimate(rows, plan)
        values["usable"] = found.usable
        values["note"] = found.note
        return values, arrays | {"estimate": found.estimate, "variance_of_estimate": found.variance}

    def _surrogate(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        try:
            found = fit_surrogate(rows, plan, request)
        except SeparationError as error:
            raise RefusedError([str(error)]) from None
        return {"optimality": found.optimality}, {
            "estimate": found.estimate,
            "hessian": packed(found.hessian),
        }

    def _profile(self, rows: SiteRows, plan: FederatedPlan, request: Message) -> Content:
        try:
            profiles, notes = local_profiles(rows, plan)
        except SeparationError as error:
            raise RefusedError([f"the site's own fit failed: {error}"]) from None
        rows_counted = int((rows.problem.weights > 0).sum())
        return {"rows": rows_counted, "notes": list(notes)}, profiles


def _description(rows: SiteRows, plan: FederatedPlan) -> Content:
    problem, w = rows.problem, rows.problem.weights
    mean, variance, filled = column_moments(rows)
    total = float(w.sum())
    expected = w if problem.offset is None else w * np.exp(np.minimum(problem.offset, 600.0))
    values: dict[str, Value] = {
        "columns": list(plan.columns),
        "rows": int((w > 0).sum()),
        "people": len(np.unique(rows.unit[w > 0])),
        "weight": total,
        "constant": _constant(rows),
        "grouped": bool(problem.likelihood.shift_invariant),
    }
    if rows.event is not None:
        values["events"] = int((rows.event & (w > 0)).sum())
    if plan.intercepts:
        values["outcome"] = float(w @ rows.y)
        values["expected"] = float(expected.sum())
        middle = float(w @ rows.y) / total
        values["outcome_variance"] = float(w @ (rows.y - middle) ** 2) / total
    arrays = {"mean": mean, "variance": variance, "filled": filled}
    if rows.held_out is not None:
        arrays["fold_weight"] = w @ rows.held_out
    if plan.shares_risk_sets:  # of times, before there are coefficients
        arrays |= leaving(rows) if plan.model == "fine_gray" else {}
        arrays |= {} if plan.times else {"times": event_times(rows)}
    return values, arrays


def _points(request: Message, plan: FederatedPlan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p = len(plan.columns)
    points = request.arrays.get("points")
    if points is None or points.ndim != 2 or points.shape[1] != p or not len(points):
        raise DataError(f"the request's 'points' must be an array of some rows and {p} columns")
    columns = request.numbers("columns", 0, p)
    return np.asarray(points, float), np.asarray(request.array("center", (p,)), float), columns


def _constant(rows: SiteRows) -> float:
    likelihood = rows.problem.likelihood
    w = likelihood.backend.asarray(rows.problem.weights[:, None])
    return float(np.sum(likelihood.backend.to_host(likelihood.log_likelihood_constant(w))))
