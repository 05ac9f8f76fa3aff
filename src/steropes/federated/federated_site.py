"""A site of a federated analysis, which keeps its rows and answers verified requests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..backends.blas_threads import single_threaded_blas
from ..data.html_representations import TextInHtml
from ..errors import DataError, SeparationError
from .answer_layout import layout, masked, pack
from .data_owner import Owner
from .federated_plan import PER_SITE, FederatedPlan
from .fixed_point_sums import BYTES
from .message_exchange import Round
from .messages import Kind, Message, Value
from .owner_rules import OwnerRules
from .pooled_censoring import leaving_times
from .request_admission import Admission, RefusedError
from .request_verification import refuse_dishonest
from .resumable_lead_program import HonestRequests
from .single_site_fits import local_estimate, local_profiles
from .site_description import description
from .site_keys import PublicKeys
from .site_risk_set_answers import risk_set_arrays
from .site_risk_set_sums import event_times
from .site_rows import SiteData, SiteRows, read_rows, read_table
from .site_sums import linear_predictor, pack_lower, sums_at
from .surrogate_likelihood import fit_surrogate

__all__ = ["FederatedSite"]

Values = dict[str, Value]
Arrays = dict[str, np.ndarray]


class FederatedSite(TextInHtml):
    """A site with its data, which answers the requests of a plan.

    Answers that will be added are masked, so that only the total over all sites can be read. A
    request is answered only if it is that of an honest lead, and only as the owner's rules allow.
    `steropes.studies.federation.federate` has an example.

    Parameters
    ----------
    name : str
        Name of the site in the plan.
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        Table with the plan's columns. A dict has ``"X"``, which is anything that estimators accept
        as X with the plan's columns, and vectors by the names of their columns. Data are not
        modified.
    owner : Owner or OwnerRules, optional
        The owner's rules, keys and ledger. If only rules, or none, are given, the site has new keys
        and a ledger in memory, for analyses with all sites in one process.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.studies.federation import FederatedSite, OwnerRules
    >>> rows = pd.DataFrame({"x": [0.0, 1.0, 0.0, 1.0], "y": [0, 0, 1, 1]})
    >>> FederatedSite("north", rows, OwnerRules(least=10))
    FederatedSite('north')
    """

    def __init__(self, name: str, data: SiteData, owner: Owner | OwnerRules | None = None) -> None:
        self.name, self._data = name, data
        self.owner = owner if isinstance(owner, Owner) else Owner(owner)
        self.honest = HonestRequests()
        self._admissions: dict[str, Admission] = {}

    def __repr__(self) -> str:
        """Return a text without the data."""
        return f"FederatedSite({self.name!r})"

    def meet(self, others: Mapping[str, PublicKeys]) -> None:
        """Add public keys of other sites in the same process; known ones are kept.

        Parameters
        ----------
        others : mapping of str to PublicKeys
            Keys by the name of the site.
        """
        self.owner.peers = {**others, **self.owner.peers}

    def answer(
        self, plan: FederatedPlan, request: Message, earlier: Sequence[Round] = (), place: str = ""
    ) -> Message:
        """Answer or refuse a request.

        Parameters
        ----------
        plan : FederatedPlan
            The plan.
        request : Message
            The request of the lead.
        earlier : sequence of Round
            All finished rounds, with the signed answers of all sites.
        place : str
            Place where messages are exchanged, such as a folder; each place has one plan.

        Returns
        -------
        Message
            The signed answer or refusal. A refusal names the counts that are too small, or the rule
            that forbids an answer.

        Raises
        ------
        DataError
            An honest lead would not make the request, or the model cannot use the data. The error
            may mention rows; it is not sent.
        """
        try:
            with self._named(), single_threaded_blas():
                refuse_dishonest(self.name, plan, request, earlier, self.owner, self.honest)
                admission = self._admission(plan)
                with admission.record_answer(request, place) as held:
                    values, arrays, sums = self._content(admission.rows, plan, request)
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
        """Withdraw from a plan, stating that this site has not answered the request.

        The other sites can then repeat the round without it.

        Parameters
        ----------
        plan : FederatedPlan
            The plan.
        request : Message
            The request that the site has not answered.
        place : str
            Place where messages are exchanged, such as a folder.
        consent : bool, default False
            Consent that this site's own sums can be computed from totals of earlier rounds, which
            contain them, and of later rounds. Required once a total is known.

        Returns
        -------
        Message
            The signed withdrawal.

        Raises
        ------
        DataError
            The site has answered the request, or a total with its sums is known without
            consent.
        """
        with self._named():
            self._admission(plan).withdraw(request, place, consent)
        self.owner.note(f"withdrew from {_named(plan, request)}")
        return self._signed(request, "withdrawal")

    def _signed(self, request: Message, kind: Kind, **content: object) -> Message:
        """Create a signed reply to a request."""
        message = request.reply(kind, self.name, **content)
        return replace(message, signature=self.owner.keys.sign(message.digest))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the site's name to errors, which may mention rows and stay at the site."""
        try:
            yield
        except DataError as error:
            raise DataError(f"site {self.name!r}: {error}") from None

    def _admission(self, plan: FederatedPlan) -> Admission:
        """Read the rows according to a plan, or return those of the previous call."""
        if plan.study not in self._admissions:
            data, name = read_table(self._data), self.name

            # Without a reference to the site, which would then be garbage of a cycle.
            def read(plan: FederatedPlan, replaced: Mapping[str, np.ndarray]) -> SiteRows:
                return read_rows(data, plan, plan.sites.index(name), replaced)

            self._admissions = {plan.study: Admission(plan, read, self.owner)}
        return self._admissions[plan.study]

    def folds(self, plan: FederatedPlan) -> np.ndarray:
        """Return the rows that each fold of a plan leaves out.

        They are for comparisons at the site and are not sent.

        Parameters
        ----------
        plan : FederatedPlan
            The plan.

        Returns
        -------
        (n, folds · repeats) bool array
            True for rows that the fold leaves out.

        Raises
        ------
        DataError
            The plan has no folds.
        """
        with self._named():
            held_out = self._admission(plan).rows.held_out
        if held_out is None:
            raise DataError("the plan has no folds")
        return held_out.copy()

    # -- answers ---------------------------------------------------------------------------------

    def _content(
        self, rows: SiteRows, plan: FederatedPlan, request: Message
    ) -> tuple[Values, Arrays, bytes]:
        """Compute the values, arrays and masked sums of an answer."""
        if request.ask in PER_SITE:
            ask: dict[str, Callable[[SiteRows, FederatedPlan, Message], tuple[Values, Arrays]]] = {
                "times": _times, "estimate": _estimate, "surrogate": _surrogate,
                "profile": _profile,
            }  # fmt: skip
            return *ask[request.ask](rows, plan, request), b""
        if request.ask == "describe":
            if plan.own_intercept is not None:
                plan.own_intercept.refuse_infinite(rows.y, rows.problem.weights, "here")
            found = {k: np.asarray(x) for k, x in description(rows, plan, request).items()}
        else:
            found = _sums(rows, plan, request, self.owner.rules.predictor)
        sums = pack(layout(plan, request), found)
        others = {s: self.owner.public_keys_of(s) for s in request.sites if s != self.name}
        context = hashlib.sha256(f"{plan.study}\n{request.id}".encode()).digest()
        mask = self.owner.keys.mask(self.name, others, context, len(sums))
        return {}, {}, masked(sums, mask)


def _named(plan: FederatedPlan, request: Message) -> str:
    """Describe a request for the audit log."""
    return f"round {request.round} ({request.ask}) of plan {plan.study[:16]}"


def _sums(rows: SiteRows, plan: FederatedPlan, request: Message, predictor: float) -> Arrays:
    """Compute the sums at the points of a request, over columns in the request's units.

    At points with too large linear predictors only this fact is disclosed.
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
    if not plan.planned.quadratic:
        some = rows.problem.weights > 0
        for k, beta in enumerate(points):
            eta = linear_predictor(rows, beta, 0.0, center)[some, 0]
            eta = eta + (0.0 if intercepts is None else float(intercepts[k]))
            if rows.problem.offset is not None:
                eta = eta + rows.problem.offset[some]
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
            out["second"] = out["second"] / pack_lower(scale[columns] * scale[columns][:, None])
        return _without(out, too_far, request.numbers("firsts", 0, m)) | {"too_far": 1.0 * too_far}
    hessians = request.numbers("hessians", 0, m)
    folds = None
    if "folds" in request.arrays:
        if rows.held_out is None:
            raise DataError("the request is about folds, but the plan has none")
        folds = request.numbers("folds", -1, rows.held_out.shape[1])
        if len(folds) != m:
            raise DataError(f"the request's 'folds' must be {m}, one per point")
    sums = sums_at(rows, plan, points, intercepts, center, columns, hessians.tolist(), folds)
    at = np.concatenate([np.ones(len(plan.intercepts)), scale[columns]])
    out = {
        "loss": sums.loss, "gradient": sums.gradient / size,
        "hessian": pack_lower(sums.hessian / at / at[:, None]), "uncentred": sums.uncentred / at**2,
    }  # fmt: skip
    if sums.held_out is not None:
        out["held_out"] = sums.held_out
    for name, x in out.items():
        gone = too_far[hessians] if name in ("hessian", "uncentred") else too_far
        out[name] = np.where(gone.reshape(-1, *(1,) * (x.ndim - 1)), 0.0, x)
    return out | {"too_far": 1.0 * too_far}


def _without(out: Arrays, too_far: np.ndarray, firsts: np.ndarray) -> Arrays:
    """Set the sums of risk sets to zero at points with too large linear predictors."""
    fit = too_far[firsts]
    for name, x in out.items():
        if name in ("count", "weight", "held_count", "held_weight", "second"):
            continue  # independent of the points, or computed with weights that are then zero
        gone = too_far if name in ("S", "E", "linear") else fit
        out[name] = np.where(gone.reshape(-1, *(1,) * (x.ndim - 1)), 0.0, x)
    return out


def _times(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    """Answer a request for event times."""
    out = {"times": event_times(rows)}
    if plan.planned.has_competing_events:
        out["leave_times"] = leaving_times(rows)
    return {}, out


def _estimate(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    """Answer a request for the site's own estimate."""
    found = local_estimate(rows, plan)
    values: Values = {"usable": found.usable, "note": found.note}
    return values, {"estimate": found.estimate, "variance_of_estimate": found.variance}


def _surrogate(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    """Answer a request for a surrogate estimate."""
    try:
        found = fit_surrogate(rows, plan, request)
    except SeparationError as error:
        raise RefusedError([str(error)]) from None
    return {"optimality": found.optimality}, {
        "estimate": found.estimate, "hessian": pack_lower(found.hessian),
    }  # fmt: skip


def _profile(rows: SiteRows, plan: FederatedPlan, request: Message) -> tuple[Values, Arrays]:
    """Answer a request for profile likelihoods."""
    assert not plan.shares_risk_sets
    try:
        profiles, notes = local_profiles(rows, plan)
    except SeparationError as error:
        raise RefusedError([f"the site's own fit failed: {error}"]) from None
    if rows.rare:
        share = 100.0 * rows.rare / len(np.unique(rows.unit[rows.problem.weights > 0]))
        notes = [*notes, f"about {share:.0f} % of people had rare combinations of values, and were "
                 "grouped with similar ones"]  # fmt: skip
    rows_counted = int((rows.problem.weights > 0).sum())
    return {"rows": rows_counted, "notes": list(notes)}, profiles
