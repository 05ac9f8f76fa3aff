"""A site: rows that stay where they are, and answers to the requests of an honest lead."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..backends.blas_threads import single_threaded_blas
from ..errors import DataError, SeparationError
from .admission import Admission, RefusedError
from .censoring import leaving_times
from .contents import layout, masked, pack
from .description import description
from .exchange import Round
from .fixed_point import BYTES
from .keys import PublicKeys
from .local_fits import local_estimate, local_profiles
from .own_intercept import refuse_no_intercept
from .owner import Owner
from .plan import PER_SITE, SURVIVAL, FederatedPlan
from .program import HonestRequests
from .protocol import Kind, Message, Value
from .risk_set_answers import risk_set_arrays
from .risk_set_sums import event_times
from .rows import SiteRows, read_rows
from .rules import OwnerRules
from .site_sums import linear_predictor, packed, sums_at
from .surrogate import fit_surrogate
from .verification import refuse_dishonest

__all__ = ["FederatedSite"]

Values = dict[str, Value]
Arrays = dict[str, np.ndarray]


class FederatedSite:
    """Rows of one site, which answer the requests of a plan.

    Answers that are added up are masked, so that nobody can read them but in the total of all
    sites. A request is answered only if it is the one that an honest lead makes, and only as the
    owner's rules allow.

    Parameters
    ----------
    name : str
        As in the plan.
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        With the plan's columns. A dict has ``"X"``, anything that estimators accept with the
        plan's columns, and vectors by the names of their columns. Nothing is modified.
    owner : Owner or OwnerRules, optional
        The owner's rules, keys and ledger. Rules alone, or the default ones, come with new keys
        and a ledger in memory, for sites that are all in one process.
    """

    def __init__(self, name: str, data: Any, owner: Owner | OwnerRules | None = None) -> None:
        self.name, self._data = name, data
        self.owner = owner if isinstance(owner, Owner) else Owner(owner)
        self.honest = HonestRequests()
        self._read: dict[str, tuple[SiteRows, Admission]] = {}

    def __repr__(self) -> str:
        return f"FederatedSite({self.name!r})"

    def meet(self, others: Mapping[str, PublicKeys]) -> None:
        """Learn public keys of other sites of the same process; known ones are kept."""
        self.owner.peers = {**others, **self.owner.peers}

    def answer(
        self, plan: FederatedPlan, request: Message, earlier: Sequence[Round] = (), place: str = ""
    ) -> Message:
        """Answer a request, or refuse it.

        Parameters
        ----------
        plan : FederatedPlan
        request : Message
        earlier : sequence of Round
            All finished rounds, with the signed answers of all sites.
        place : str
            Where the messages are exchanged, such as a folder: one plan at one place.

        Returns
        -------
        Message
            Signed. A refusal says which counts are too small, or which rule forbids an answer.

        Raises
        ------
        DataError
            A request that an honest lead does not make, or data that the model cannot use. What
            the error says of rows stays here: nothing is sent.
        """
        try:
            with self._named(), single_threaded_blas():
                refuse_dishonest(self.name, plan, request, earlier, self.owner, self.honest)
                rows, admission = self._rows(plan)
                with admission.of(request, place) as held:
                    values, arrays, sums = self._content(rows, plan, request)
                    numbers = len(sums) // BYTES + sum(x.size for x in arrays.values())
                    held.append(numbers)
        except RefusedError as refused:
            self.owner.note(f"refused {_named(plan, request)}: {refused}")
            return self._signed(request, "refusal", reasons=tuple(refused.reasons))
        except DataError as error:
            self.owner.note(f"did not answer {_named(plan, request)}: {error}")
            raise
        how = "in clear" if request.ask in PER_SITE else f"masked, with {', '.join(request.sites)}"
        self.owner.note(f"answered {_named(plan, request)}: {numbers} numbers {how}")
        return self._signed(request, "answer", values=values, arrays=arrays, sums=sums)

    def withdraw(
        self, plan: FederatedPlan, request: Message, place: str = "", consent: bool = False
    ) -> Message:
        """State that this site has not answered a request and takes no further part.

        The other sites can then repeat the round without it.

        Parameters
        ----------
        consent : bool, default False
            Consent that this site's own sums can be computed from the totals of earlier rounds,
            which hold them, and those of later ones. Needed from the second total on.

        Raises
        ------
        DataError
            The site has answered the request, or a total with its sums is known and there is no
            consent.
        """
        with self._named():
            self._rows(plan)[1].withdraw(request, place, consent)
        self.owner.note(f"withdrew from {_named(plan, request)}")
        return self._signed(request, "withdrawal")

    def _signed(self, request: Message, kind: Kind, **content: Any) -> Message:
        message = request.reply(kind, self.name, **content)
        return replace(message, signature=self.owner.keys.sign(message.digest))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors by the site's name; they may tell of a row, and stay at the site."""
        try:
            yield
        except DataError as error:
            raise DataError(f"site {self.name!r}: {error}") from None

    def _rows(self, plan: FederatedPlan) -> tuple[SiteRows, Admission]:
        if plan.study not in self._read:
            read = partial(read_rows, self._data, site=plan.sites.index(self.name))
            rows = read(plan)
            self._read = {plan.study: (rows, Admission(plan, rows, self.owner, read))}
        return self._read[plan.study]

    def folds(self, plan: FederatedPlan) -> np.ndarray:
        """The rows that each of a plan's folds leaves out, (n, folds · repeats) bool.

        They stay here: for comparisons, and for whoever wants to see how rows were cut.
        """
        with self._named():
            held_out = self._rows(plan)[0].held_out
        if held_out is None:
            raise DataError("the plan has no folds")
        return held_out.copy()

    # -- answers ---------------------------------------------------------------------------------

    def _content(
        self, rows: SiteRows, plan: FederatedPlan, request: Message
    ) -> tuple[Values, Arrays, bytes]:
        if request.ask in PER_SITE:
            ask: dict[str, Callable[[SiteRows, FederatedPlan, Message], tuple[Values, Arrays]]] = {
                "times": _times, "estimate": _estimate, "surrogate": _surrogate,
                "profile": _profile,
            }  # fmt: skip
            return *ask[request.ask](rows, plan, request), b""
        if request.ask == "describe":
            if plan.has_own_intercepts:
                refuse_no_intercept(plan, rows.y, rows.problem.weights, "here")
            found = {k: np.asarray(x) for k, x in description(rows, plan, request).items()}
        else:
            found = _sums(rows, plan, request, self.owner.rules.predictor)
        sums = pack(layout(plan, request), found)
        others = {s: self.owner.public_keys_of(s) for s in request.sites if s != self.name}
        context = hashlib.sha256(f"{plan.study}\n{request.id}".encode()).digest()
        mask = self.owner.keys.mask(self.name, others, context, len(sums))
        return {}, {}, masked(sums, mask)


def _named(plan: FederatedPlan, request: Message) -> str:
    return f"round {request.round} ({request.ask}) of plan {plan.study[:16]}"


def _sums(rows: SiteRows, plan: FederatedPlan, request: Message, predictor: float) -> Arrays:
    """Sums at the points of a request, over columns in the request's units.

    At points where linear predictors are too large nothing is told but that they are.
    """
    p = len(plan.columns)
    points = request.arrays.get("points")
    if points is None or points.ndim != 2 or points.shape[1] != p or not len(points):
        raise DataError(f"the request's 'points' must be an array of some rows and {p} columns")
    columns, center = request.numbers("columns", 0, p), request.array("center", (p,))
    scale = np.asarray(request.array("scale", (p,)), float)
    if not (scale > 0).all():
        raise DataError("the request's 'scale' must be positive")
    m = len(points)
    intercepts = request.array("intercepts", (m,)) if plan.intercepts else None
    shared = plan.shares_risk_sets or intercepts is not None
    too_far = np.zeros(m, bool)
    if plan.model != "linear":
        some = rows.problem.weights > 0
        for k, beta in enumerate(points):
            eta = linear_predictor(rows, beta, 0.0, center)[some, 0]
            eta = eta + (0.0 if intercepts is None else float(intercepts[k]))
            middle = 0.0 if shared else 0.5 * (eta.max() + eta.min())
            too_far[k] = not (np.abs(eta - middle) <= predictor).all()
    points = np.where(too_far[:, None], 0.0, points)
    if intercepts is not None:
        intercepts = np.where(too_far, 0.0, intercepts)
    size = np.concatenate([np.ones(len(plan.intercepts)), scale])
    if plan.shares_risk_sets:
        times = np.asarray(request.arrays.get("times", np.empty(0)), float)
        if not np.isin(event_times(rows), times).all():
            raise DataError("the request's times leave out events of this site")
        out = risk_set_arrays(rows, plan, request, times, points, center, columns)
        out |= {name: out[name] / scale for name in ("S1", "E1", "covariates")}
        if "second" in out:
            out["second"] = out["second"] / packed(scale[columns] * scale[columns][:, None])
        return _without(out, too_far, request.numbers("firsts", 0, m)) | {"too_far": 1.0 * too_far}
    hessians = request.numbers("hessians", 0, m)
    folds = None
    if "folds" in request.arrays:
        if rows.held_out is None:
            raise DataError("the request is about folds, but the plan has none")
        folds = request.numbers("folds", -1, rows.held_out.shape[1])
        if len(folds) != m:
            raise DataError(f"the request's 'folds' must be {m}, one a point")
    sums = sums_at(rows, plan, points, intercepts, center, columns, hessians.tolist(), folds)
    at = np.concatenate([np.ones(len(plan.intercepts)), scale[columns]])
    out = {
        "loss": sums.loss, "gradient": sums.gradient / size,
        "hessian": packed(sums.hessian / at / at[:, None]), "uncentred": sums.uncentred / at**2,
    }  # fmt: skip
    if sums.held_out is not None:
        out["held_out"] = sums.held_out
    for name, x in out.items():
        gone = too_far[hessians] if name in ("hessian", "uncentred") else too_far
        out[name] = np.where(gone.reshape(-1, *(1,) * (x.ndim - 1)), 0.0, x)
    return out | {"too_far": 1.0 * too_far}


def _without(out: Arrays, too_far: np.ndarray, firsts: np.ndarray) -> Arrays:
    """Sums of risk sets with zeros for points that are too far."""
    fit = too_far[firsts]
    for name, x in out.items():
        if name in ("count", "weight", "held_count", "held_weight", "second"):
            continue  # of no point, or of a fit whose shares are then zero
        gone = too_far if name in ("S", "E", "linear") else fit
        out[name] = np.where(gone.reshape(-1, *(1,) * (x.ndim - 1)), 0.0, x)
    return out


def _times(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    out = {"times": event_times(rows)}
    if plan.model == "fine_gray":
        out["leave_times"] = leaving_times(rows)
    return {}, out


def _estimate(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    found = local_estimate(rows, plan)
    values: Values = {"usable": found.usable, "note": found.note}
    return values, {"estimate": found.estimate, "variance_of_estimate": found.variance}


def _surrogate(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    try:
        found = fit_surrogate(rows, plan, request)
    except SeparationError as error:
        raise RefusedError([str(error)]) from None
    return {"optimality": found.optimality}, {
        "estimate": found.estimate, "hessian": packed(found.hessian),
    }  # fmt: skip


def _profile(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    assert plan.model not in SURVIVAL or plan.baseline == "site"
    try:
        profiles, notes = local_profiles(rows, plan)
    except SeparationError as error:
        raise RefusedError([f"the site's own fit failed: {error}"]) from None
    rows_counted = int((rows.problem.weights > 0).sum())
    return {"rows": rows_counted, "notes": list(notes)}, profiles
