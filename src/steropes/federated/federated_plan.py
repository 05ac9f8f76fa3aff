"""Plans of federated analyses: model, columns, sites and method."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from ..priors import Laplace, Normal, Prior
from ..select import CrossValidation
from .field_type_checks import read_fields
from .messages import Ask
from .planned_models import MODELS, PlannedModel
from .site_intercept import Intercept

__all__ = ["LEAST_SITES", "PER_SITE", "FederatedPlan", "Method", "Model", "RareRows"]

Model = Literal["linear", "logistic", "poisson", "cox", "fine_gray", "conditional", "sccs"]
Method = Literal["rounds", "odal", "odac", "adap", "profiles"]
RareRows = Literal["group", "refuse"]
# The smallest number of sites in a total; in a total of two, each site knows the other's part.
LEAST_SITES = 3
# Names that a site cannot have, because files or settings use them.
RESERVED = ("all", "lead", "left", "plan", "request", "result", "rounds", "total")
# The kinds of requests that single sites answer in clear.
PER_SITE: tuple[Ask, ...] = ("times", "estimate", "surrogate", "profile")


@dataclass(frozen=True)
class FederatedPlan(FieldsInHtml):
    """A federated analysis: all information that a site needs in addition to its data.

    Attributes
    ----------
    model : {"linear", "logistic", "poisson", "cox", "fine_gray", "conditional", "sccs"}
        Family of the model.
    columns : tuple of str
        Names of the covariates in the table of each site.
    sites : tuple of str
        Names of the sites, such as ``("north", "south")``; letters, digits, ``-`` and ``_``.
    method : {"rounds", "odal", "odac", "adap", "profiles"}, default="rounds"
        ``"rounds"``: the estimate of the pooled rows, in about ten rounds. ``"odal"``, ``"odac"``
        and ``"adap"``: surrogate likelihoods of logistic, Cox and logistic lasso models.
        ``"profiles"``: profile likelihoods of ``parameters``, in one round.
    baseline : {"site", "common"}, default="site"
        Whether each site has its own intercept, or all sites share one. In survival models this
        concerns the baseline hazard, and in Fine–Gray models the censoring distribution too. A
        site's own intercept is maximised over at the site and never leaves it. Conditional models
        and case series have no intercept.
    outcome, event, entry, strata, weight, offset, exposure : str or None
        Columns of a site's table: the outcome (the time in survival models), the event indicator
        (in Fine–Gray models the cause, 0 for censored), the entry into observation, the matched set
        or person, row weights, offset, and time at risk. The default of ``outcome`` is ``"y"``.
    cause : int, default=1
        Code of the event of interest in Fine–Gray models.
    ties : {"efron", "breslow", "exact"}, optional
        Treatment of ties in Cox models, by default Efron's; for conditional models the method, by
        default ``"exact"``.
    times : tuple of float, default=()
        Grid to which times are rounded up, in survival models with a common baseline. If empty, the
        union of the sites' event times is used, which requires ``per_site``.
    prior : {"none", "laplace", "normal"}, default="none"
        Prior of the coefficients.
    variance : float, default=1.0
        Variance of the prior of each coefficient, unless ``folds`` choose it.
    folds : int, default=0
        Number of folds of each site's rows that choose the variance; 0 for none. Each site draws
        its own folds, from ``seed`` and its position among the sites.
    repeats, search, rule : int, tuple of float, {"best", "one_standard_error"}
        See `CrossValidation`; an empty ``search`` follows a path.
    groups : str or None
        Column with labels, such as persons; rows with one label stay in one fold.
    seed : int, default=0
        Seed of the folds.
    exclude : tuple of str, default=()
        Columns without a prior.
    parameters : tuple of str, default=()
        Columns with coefficients that are profiled by ``"profiles"``.
    lead : str, optional
        The site with the rows that a surrogate uses; by default the first. With ``"all"`` each site
        computes an estimate, and these are averaged.
    order : {1, 2}, default=2
        Whether a surrogate uses the Hessians of other sites (2), or only their gradients.
    tol : float, default=1e-8
        Largest KKT violation, in standard errors of the score or in units of λ.
    max_rounds : int, default=60
        Largest number of rounds.
    per_site : bool, default=False
        Whether numbers of single sites are disclosed, and not only totals. Surrogates, profiles and
        a common baseline without ``times`` require it, and also the consent of each owner.
    min_sites : int, default=3
        Smallest number of sites in a total; at least three.
    min_cell : int, default=0
        Smallest number of people in a cell; a site's own rules can only be stricter.
    rare_rows : {"group", "refuse"}, default="group"
        Whether sites may group people with rare combinations of values before they answer, so that
        the estimate is that of the grouped tables, or whether they refuse the plan instead. A
        site's own rules can only be stricter, and conditional models and case series are refused.

    Raises
    ------
    DataError
        The settings are invalid or contradict each other.

    Examples
    --------
    >>> from steropes.federated import FederatedPlan
    >>> plan = FederatedPlan("logistic", ("drug", "age"), ("north", "south", "west"))
    >>> plan.asks
    ('describe', 'evaluate')
    >>> FederatedPlan.from_dict(plan.to_dict()) == plan
    True
    """

    model: Model
    columns: tuple[str, ...]
    sites: tuple[str, ...]
    method: Method = "rounds"
    baseline: Literal["site", "common"] = "site"
    outcome: str = "y"
    event: str | None = None
    entry: str | None = None
    strata: str | None = None
    weight: str | None = None
    offset: str | None = None
    exposure: str | None = None
    cause: int = 1
    ties: Literal["efron", "breslow", "exact"] | None = None
    times: tuple[float, ...] = ()
    prior: Literal["none", "laplace", "normal"] = "none"
    variance: float = 1.0
    folds: int = 0
    repeats: int = 1
    search: tuple[float, ...] = ()
    rule: Literal["best", "one_standard_error"] = "best"
    groups: str | None = None
    seed: int = 0
    exclude: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    lead: str | None = None
    order: Literal[1, 2] = 2
    tol: float = 1e-8
    max_rounds: int = 60
    per_site: bool = False
    min_sites: int = 3
    min_cell: int = 0
    rare_rows: RareRows = "group"

    def __post_init__(self) -> None:
        """Validate the settings."""
        read_fields(self)
        self._refuse_names()
        self._refuse_roles()
        self._refuse_settings()
        self._refuse_folds()
        self._refuse_disclosure()

    def _refuse_names(self) -> None:
        """Validate the names of columns and sites."""
        for what, names in (("columns", self.columns), ("sites", self.sites)):
            if not names:
                raise DataError(f"name the {what}")
            twice = sorted(name for name, times in Counter(names).items() if times > 1)
            if twice:
                raise DataError(f"{what} has {twice[0]!r} twice")
        for site in self.sites:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", site):
                raise DataError(
                    f"the site {site!r} needs a name of letters, digits, - and _, because its "
                    "answers are files of that name"
                )
            if site.lower() in RESERVED:
                raise DataError(f"the site {site!r} needs another name: this one is reserved")
        if len({site.lower() for site in self.sites}) < len(self.sites):
            raise DataError("two sites have names that differ only in their case")
        roles = [r for r in self._roles if r is not None]
        both = [c for c in self.columns if c in roles]
        if both:
            raise DataError(f"{both[0]!r} is a covariate and has another role")
        unknown = [n for n in (*self.exclude, *self.parameters) if n not in self.columns]
        if unknown:
            raise DataError(f"{unknown[0]!r} is not one of the columns")

    def _refuse_roles(self) -> None:
        """Validate the columns with roles against the model."""
        m, planned = self.model, self.planned
        for name in ("event", "entry", "times", "exposure", "strata", "ties"):
            if getattr(self, name) and name not in planned.takes:
                raise DataError(f"{name} has no meaning in a {m} model")
        for name in planned.needs:
            if getattr(self, name) is None:
                raise DataError(f"a {m} model needs {name}: the name of that column")
        if self.cause != 1 and "cause" not in planned.takes:
            raise DataError(f"cause has no meaning in a {m} model")
        if self.cause < 1:
            raise DataError(f"cause must be a code from 1, not {self.cause}")
        if planned.needs_exposure and self.exposure is None and self.offset is None:
            raise DataError("a case series needs exposure: the column of the intervals' lengths")
        if self.ties == "exact" and not planned.within_strata:
            raise DataError("ties='exact' is for conditional models; use 'efron' or 'breslow'")
        if self.times and not self.shares_risk_sets:
            raise DataError("times are for survival models with baseline='common'")
        grid = np.asarray(self.times, float)
        if len(grid) and not (np.isfinite(grid).all() and (np.diff(grid) > 0).all()):
            raise DataError("times must be finite and ascending")
        if self.shares_risk_sets and self.strata is not None:
            raise DataError("strata within sites require baseline='site'")

    def _refuse_settings(self) -> None:
        """Validate the settings of the method."""
        needed = {"odal": "logistic", "odac": "cox", "adap": "logistic"}.get(self.method)
        if needed is not None and self.model != needed:
            raise DataError(f"method={self.method!r} is for {needed} models, not {self.model}")
        if self.method == "adap" and self.prior != "laplace":
            raise DataError("method='adap' needs prior='laplace' and its variance")
        if self.method in ("odal", "odac") and self.prior != "none":
            raise DataError(f"method={self.method!r} has no prior; 'adap' has")
        if self.method == "odac" and self.times:
            raise DataError("method='odac' uses the union of event times; leave times out")
        if self.method in ("odal", "adap") and self.baseline == "site":
            raise DataError(
                f"method={self.method!r} has one intercept for all sites: set baseline='common'"
            )
        if self.method == "profiles" and not self.parameters:
            raise DataError("method='profiles' needs parameters: the columns to profile")
        common = self.baseline == "common" and not self.planned.within_strata
        if self.method == "profiles" and common:
            raise DataError("profiles are computed for each site alone: leave baseline='site'")
        if self.lead is not None and self.lead not in (*self.sites, "all"):
            raise DataError(f"lead={self.lead!r} is not one of the sites")
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise DataError("variance must be a positive number")
        if not (0 < self.tol < 1) or self.max_rounds < 2:
            raise DataError("tol must be between 0 and 1, and max_rounds at least 2")

    def _refuse_folds(self) -> None:
        """Validate the settings of folds."""
        if not self.folds:
            for name, none in (("repeats", 1), ("search", ()), ("rule", "best"), ("groups", None),
                               ("seed", 0)):  # fmt: skip
                if getattr(self, name) != none:
                    raise DataError(f"{name} has no meaning without folds")
            return
        if self.method != "rounds":
            raise DataError("folds are available for method='rounds' only")
        if self.prior == "none":
            raise DataError("folds choose the variance of a prior: set prior='laplace' or 'normal'")
        if self.variance != 1.0:
            raise DataError("folds choose the variance; leave one of them out")
        if self.seed < 0:
            raise DataError(f"seed must be a whole number from 0, not {self.seed}")
        self.chooser(0).check()

    def _refuse_disclosure(self) -> None:
        """Reject totals over too few sites, and numbers of single sites that are not announced."""
        if self.min_sites < LEAST_SITES:
            raise DataError(
                f"min_sites must be at least {LEAST_SITES}: in a total of two, each site knows the "
                "other's part"
            )
        if self.min_cell < 0:
            raise DataError(f"min_cell must be a whole number from 0, not {self.min_cell}")
        summed = any(ask not in PER_SITE for ask in self.asks)
        if summed and len(self.sites) < self.min_sites:
            raise DataError(
                f"a total needs at least {self.min_sites} sites, and the plan names "
                f"{len(self.sites)}; method='profiles' needs no totals"
            )
        told = [ask for ask in self.asks if ask in PER_SITE]
        if told and not self.per_site:
            remedy = "give the plan a grid of times" if told == ["times"] else "use method='rounds'"
            raise DataError(
                f"this plan asks single sites for {', '.join(told)}, so that not only totals are "
                f"disclosed: {remedy}, or set per_site=true, to which each owner must consent"
            )
        if self.per_site and not told:
            raise DataError("per_site=true, but the plan asks only for totals: leave it out")

    def chooser(self, site: int) -> CrossValidation:
        """Return the cross-validation that chooses the variance, with a site's own seed.

        Parameters
        ----------
        site : int
            Position of the site.

        Returns
        -------
        CrossValidation
            The cross-validation.
        """
        return CrossValidation(
            self.folds, self.repeats, self.search if self.search else "auto", self.rule,
            random_state=[self.seed, site],
        )  # fmt: skip

    @property
    def _roles(self) -> tuple[str | None, ...]:
        """The columns other than covariates."""
        return (
            self.outcome, self.event, self.entry, self.strata, self.weight, self.offset,
            self.exposure, self.groups,
        )  # fmt: skip

    @property
    def table_columns(self) -> list[str]:
        """All columns that a site's table must have."""
        return [*self.columns, *(r for r in self._roles if r is not None)]

    @property
    def planned(self) -> PlannedModel:
        """The declarations of the model."""
        return MODELS[self.model]

    @property
    def intercepts(self) -> tuple[str, ...]:
        """The name of the common intercept; empty if absent."""
        shared = self.planned.intercept is not None and self.baseline == "common"
        return ("intercept",) if shared else ()

    @property
    def own_intercept(self) -> Intercept | None:
        """The kind of intercept that each site has of its own; None if absent."""
        return self.planned.intercept if self.baseline == "site" else None

    @property
    def has_own_intercepts(self) -> bool:
        """Whether each site has its own intercept."""
        return self.own_intercept is not None

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The kinds of requests that the plan makes; sites answer no others."""
        if self.method == "profiles":
            return ("profile",)
        times: tuple[Ask, ...] = ("times",) if self.shares_risk_sets and not self.times else ()
        sums: Ask = "risk_sets" if self.shares_risk_sets else "evaluate"
        if self.method == "rounds":
            return (*times, "describe", sums)
        return (*times, "describe", "estimate", sums, "surrogate")

    @property
    def groups_rare_rows(self) -> bool:
        """Whether sites may group people with rare combinations of values.

        Models within strata compare the rows of a person, so that rows cannot get other values.
        """
        return self.rare_rows == "group" and not self.planned.within_strata

    @property
    def shares_risk_sets(self) -> bool:
        """Whether risk sets contain rows of all sites."""
        return self.planned.of_times and self.baseline == "common"

    @property
    def coefficient_prior(self) -> Prior | None:
        """The prior of the estimators; None if absent."""
        if self.prior == "none":
            return None
        kind = Laplace if self.prior == "laplace" else Normal
        return kind(self.variance, exclude=self.exclude)

    @cached_property
    def study(self) -> str:
        """Digest of the plan, which all messages contain."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def disclosure(self) -> dict[str, Any]:
        """Return the rules under which results are released, as plain values for JSON.

        Returns
        -------
        dict
            Plain values that can be written as JSON.
        """
        told = "numbers of single sites, to which their owners consented"
        said = (
            f"{told if self.per_site else f'totals of {self.min_sites} sites or more'}. Each site "
            "answered only as its owner's rules allow, which can be stricter than the plan's."
        )
        if self.groups_rare_rows:
            said += (
                " People with a rare combination of values may have been grouped with similar ones."
            )
        return {
            "rules": "federated", "min_cell": self.min_cell, "min_sites": self.min_sites,
            "per_site": self.per_site, "rare_rows": self.rare_rows,
            "description": f"Disclosure control: {said}",
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            Values that can be written as JSON.
        """
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, given: object, where: str = "the plan") -> FederatedPlan:
        """Create a plan from the result of `to_dict`, or from a file that a person wrote.

        Parameters
        ----------
        given : mapping
            The settings.
        where : str, default="the plan"
            Source of the settings, for messages.

        Returns
        -------
        FederatedPlan
            The plan.

        Raises
        ------
        DataError
            A setting is unknown, missing or invalid.
        """
        if not isinstance(given, Mapping):
            raise DataError(f"{where} must be a table of settings")
        known = [f.name for f in fields(cls)]
        unknown = [k for k in given if k not in known]
        if unknown:
            raise DataError(f"{where} has no setting {unknown[0]!r}; there are {', '.join(known)}")
        gone = [k for k in ("model", "columns", "sites") if k not in given]
        if gone:
            raise DataError(f"{where}: {gone[0]} is missing")
        try:
            return cls(**given)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
