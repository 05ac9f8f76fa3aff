"""What a federated analysis is: the model, its columns, the sites, and how they work together."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_type_hints

import numpy as np

from ..errors import DataError
from ..priors import Laplace, Normal, Prior
from ..select import CrossValidation
from .protocol import Ask
from .typed import refuse_type

__all__ = ["LEAST_SITES", "PER_SITE", "FederatedPlan", "Method", "Model"]

Model = Literal["linear", "logistic", "poisson", "cox", "fine_gray", "conditional", "sccs"]
Method = Literal["rounds", "odal", "odac", "adap", "profiles"]
WITHIN = ("conditional", "sccs")  # models that condition on strata within a site
UNCONDITIONAL = ("linear", "logistic", "poisson")
SURVIVAL = ("cox", "fine_gray")
LEAST_SITES = 3  # of a total of two, each site knows the other's part
RESERVED = ("all", "lead", "left", "plan", "request", "result", "rounds", "total")
PER_SITE: tuple[Ask, ...] = ("times", "estimate", "surrogate", "profile")  # asks answered in clear


@dataclass(frozen=True)
class FederatedPlan:
    """A federated analysis: all that a site has to know beside its data.

    Attributes
    ----------
    model : {"linear", "logistic", "poisson", "cox", "fine_gray", "conditional", "sccs"}
    columns : tuple of str
        Covariates, by the names that they have at each site.
    sites : tuple of str
        Names, such as ``("north", "south")``; letters, digits, ``-`` and ``_``.
    method : {"rounds", "odal", "odac", "adap", "profiles"}
        ``"rounds"`` (default): the estimate of the pooled rows, in some ten rounds. ``"odal"``,
        ``"odac"``, ``"adap"``: surrogate likelihoods of logistic, Cox and logistic lasso models.
        ``"profiles"``: profile likelihoods of ``parameters``, one round.
    baseline : {"site", "common"}
        Whether each site has its own intercept (of survival models its own baseline hazard, of
        Fine–Gray ones its own censoring distribution), default, or all share one. A site's own
        intercept is maximised over at the site and never leaves it. Conditional models and case
        series have none.
    outcome, event, entry, strata, weight, offset, exposure : str or None
        Columns of a site's table: the outcome (of Cox and Fine–Gray models the time), whether
        there was an event (of Fine–Gray models the cause, 0 where censored), the entry into
        observation, the matched set or person, row weights, offset, time at risk.
    cause : int
        Of Fine–Gray models: the code of the event of interest.
    ties : {"efron", "breslow", "exact"}
        Of Cox models; of conditional ones the method, ``"exact"`` by default.
    times : tuple of float
        Of survival models with a common baseline: the grid that times are rounded up to. Empty is
        the union of the sites' event times, which needs ``per_site``.
    prior : {"none", "laplace", "normal"}
    variance : float
        Of the prior, of each coefficient; with ``folds`` it is chosen.
    folds : int
        Parts of each site's rows by which rounds choose the variance, 0 for none. A site cuts
        its own, from ``seed`` and its place among the sites.
    repeats, search, rule : int, tuple of float, {"best", "one_standard_error"}
        As in `CrossValidation`; an empty ``search`` walks a path.
    groups : str or None
        Column whose rows with the same label stay in one fold, such as a person's.
    seed : int
        Of the folds.
    exclude : tuple of str
        Columns without a prior.
    parameters : tuple of str
        Of ``"profiles"``: whose profiles.
    lead : str
        Of surrogates: the site whose rows stand for all; default the first. ``"all"`` lets each
        site make an estimate, and weighs them together.
    order : {1, 2}
        Of surrogates: whether the others' Hessians are used (2, default), or their gradients
        alone.
    tol : float
        Largest KKT violation, in standard errors of the score or of λ.
    max_rounds : int
    per_site : bool
        Whether numbers of single sites are told, and not totals alone. Surrogates, profiles and a
        common baseline without ``times`` need it, and the consent of each owner besides.
    min_sites : int
        Fewer sites than this are never added up; three at least.
    min_cell : int
        Counts of fewer people are refused where a site's own rules allow less.

    Raises
    ------
    DataError
        Settings that do not go together.
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

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, f.name, value)
            refuse_type(f.name, value, hints[f.name])
        self._refuse_names()
        self._refuse_roles()
        self._refuse_settings()
        self._refuse_folds()
        self._refuse_disclosure()

    def _refuse_names(self) -> None:
        for what, names in (("columns", self.columns), ("sites", self.sites)):
            if not names:
                raise DataError(f"name the {what}")
            twice = sorted({n for n in names if names.count(n) > 1})
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
        m = self.model
        for name, models in (("event", SURVIVAL), ("entry", SURVIVAL), ("times", SURVIVAL),
                             ("exposure", ("poisson", "sccs")),
                             ("strata", (*SURVIVAL, *WITHIN)),
                             ("ties", ("cox", "conditional"))):  # fmt: skip
            if getattr(self, name) and m not in models:
                raise DataError(f"{name} has no meaning in a {m} model")
        for name, models in (("event", SURVIVAL), ("strata", WITHIN)):
            if m in models and getattr(self, name) is None:
                raise DataError(f"a {m} model needs {name}: the name of that column")
        if self.cause != 1 and m != "fine_gray":
            raise DataError(f"cause has no meaning in a {m} model")
        if self.cause < 1:
            raise DataError(f"cause must be a code from 1, not {self.cause}")
        if m == "sccs" and self.exposure is None and self.offset is None:
            raise DataError("a case series needs exposure: the column of the intervals' lengths")
        if self.ties == "exact" and m != "conditional":
            raise DataError("ties='exact' is of conditional models; use 'efron' or 'breslow'")
        common = m in SURVIVAL and self.baseline == "common"
        if self.times and not common:
            raise DataError("times are of survival models with baseline='common'")
        grid = np.asarray(self.times, float)
        if len(grid) and not (np.isfinite(grid).all() and (np.diff(grid) > 0).all()):
            raise DataError("times must be finite and ascending")
        if common and self.strata is not None:
            raise DataError("strata within sites go with baseline='site'")

    def _refuse_settings(self) -> None:
        needed = {"odal": "logistic", "odac": "cox", "adap": "logistic"}.get(self.method)
        if needed is not None and self.model != needed:
            raise DataError(f"method={self.method!r} is of {needed} models, not {self.model}")
        if self.method == "adap" and self.prior != "laplace":
            raise DataError("method='adap' needs prior='laplace' and its variance")
        if self.method in ("odal", "odac") and self.prior != "none":
            raise DataError(f"method={self.method!r} has no prior; 'adap' has")
        if self.method == "odac" and self.times:
            raise DataError("method='odac' is on the union of event times; leave times out")
        if self.method in ("odal", "adap") and self.baseline == "site":
            raise DataError(
                f"method={self.method!r} has one intercept for all sites: set baseline='common'"
            )
        if self.method == "profiles" and not self.parameters:
            raise DataError("method='profiles' needs parameters: the columns to profile")
        if self.method == "profiles" and self.baseline == "common" and self.model not in WITHIN:
            raise DataError("profiles are of each site by itself: leave baseline='site'")
        if self.lead is not None and self.lead not in (*self.sites, "all"):
            raise DataError(f"lead={self.lead!r} is not one of the sites")
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise DataError("variance must be a positive number")
        if not (0 < self.tol < 1) or self.max_rounds < 2:
            raise DataError("tol must be between 0 and 1, and max_rounds at least 2")

    def _refuse_folds(self) -> None:
        if not self.folds:
            for name, none in (("repeats", 1), ("search", ()), ("rule", "best"), ("groups", None),
                               ("seed", 0)):  # fmt: skip
                if getattr(self, name) != none:
                    raise DataError(f"{name} has no meaning without folds")
            return
        if self.method != "rounds":
            raise DataError("folds choose the variance of method='rounds'")
        if self.prior == "none":
            raise DataError("folds choose the variance of a prior: set prior='laplace' or 'normal'")
        if self.variance != 1.0:
            raise DataError("variance is what folds choose; leave one of them out")
        if self.seed < 0:
            raise DataError(f"seed must be a whole number from 0, not {self.seed}")
        self.chooser(0).check()

    def _refuse_disclosure(self) -> None:
        """Refuse totals of too few sites, and numbers of single sites that are not announced."""
        if self.min_sites < LEAST_SITES:
            raise DataError(
                f"min_sites must be at least {LEAST_SITES}: of a total of two, each site knows the "
                "other's part"
            )
        if self.min_cell < 0:
            raise DataError(f"min_cell must be a whole number from 0, not {self.min_cell}")
        summed = any(ask not in PER_SITE for ask in self.asks)
        if summed and len(self.sites) < self.min_sites:
            raise DataError(
                f"a total needs at least {self.min_sites} sites, and the plan names "
                f"{len(self.sites)}; method='profiles' does without totals"
            )
        told = [ask for ask in self.asks if ask in PER_SITE]
        if told and not self.per_site:
            remedy = "give the plan a grid of times" if told == ["times"] else "use method='rounds'"
            raise DataError(
                f"this plan asks single sites for {', '.join(told)}, so that not only totals are "
                f"told: {remedy}, or set per_site=true, to which each site's owner must consent"
            )
        if self.per_site and not told:
            raise DataError("per_site=true, but the plan asks for totals alone: leave it out")

    def chooser(self, site: int) -> CrossValidation:
        """How the variance is chosen; the seed is that of a site's own folds."""
        return CrossValidation(
            self.folds, self.repeats, self.search if self.search else "auto", self.rule,
            random_state=[self.seed, site],
        )  # fmt: skip

    @property
    def _roles(self) -> tuple[str | None, ...]:
        return (
            self.outcome, self.event, self.entry, self.strata, self.weight, self.offset,
            self.exposure, self.groups,
        )  # fmt: skip

    @property
    def table_columns(self) -> list[str]:
        """All columns that a site's table must have."""
        return [*self.columns, *(r for r in self._roles if r is not None)]

    @property
    def intercepts(self) -> tuple[str, ...]:
        """The name of the intercept that all sites share; empty where there is none."""
        shared = self.model in UNCONDITIONAL and self.baseline == "common"
        return ("intercept",) if shared else ()

    @property
    def has_own_intercepts(self) -> bool:
        """Whether each site maximises over an intercept of its own."""
        return self.model in UNCONDITIONAL and self.baseline == "site"

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The kinds of request that the plan makes; sites answer no other."""
        if self.method == "profiles":
            return ("profile",)
        times: tuple[Ask, ...] = ("times",) if self.shares_risk_sets and not self.times else ()
        sums: Ask = "risk_sets" if self.shares_risk_sets else "evaluate"
        if self.method == "rounds":
            return (*times, "describe", sums)
        return (*times, "describe", "estimate", sums, "surrogate")

    @property
    def shares_risk_sets(self) -> bool:
        """Whether risk sets hold people of all sites."""
        return self.model in SURVIVAL and self.baseline == "common"

    @property
    def coefficient_prior(self) -> Prior | None:
        """The prior as the estimators know it."""
        if self.prior == "none":
            return None
        kind = Laplace if self.prior == "laplace" else Normal
        return kind(self.variance, exclude=self.exclude)

    @property
    def study(self) -> str:
        """Digest of the plan, which each message carries."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def disclosure(self) -> dict[str, Any]:
        """The rules under which results are released, as plain values for JSON."""
        told = "numbers of single sites, to which their owners consented"
        said = (
            f"{told if self.per_site else f'totals of {self.min_sites} sites or more'}. Each site "
            "answered only as its owner's rules allow, which can be stricter than the plan's."
        )
        return {
            "rules": "federated", "min_cell": self.min_cell, "min_sites": self.min_sites,
            "per_site": self.per_site, "description": f"Disclosure control: {said}",
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, given: Any, where: str = "the plan") -> FederatedPlan:
        """Read what `to_dict` made, or what a person wrote."""
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
