"""An owner's rules: the conditions under which a site answers, which a plan can only tighten."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from .federated_plan import LEAST_SITES, FederatedPlan, Method, RareRows
from .field_type_checks import read_fields
from .message_files import read_bytes
from .messages import Ask

__all__ = ["OwnerRules"]


@dataclass(frozen=True)
class OwnerRules(FieldsInHtml):
    """The conditions under which a site answers requests.

    Attributes
    ----------
    least : int, default=5
        Smallest number of people in a cell that may be disclosed. With 0 or 1, cells are not
        examined and answers are not counted, which is only for public or synthetic data.
    sites : int, default=3
        Smallest number of sites over which sums are added; at least three.
    methods : tuple of str
        Methods of plans that are answered.
    per_site : tuple of {"times", "estimate", "surrogate", "profile"}
        Requests for numbers of this site alone to which the owner consents; none by default.
    parameters_per_row : float, default=0.33
        Largest number of coefficients of a plan per person of this site (DataSHIELD's
        ``nfilter.glm``).
    answers_per_cell : float, default=0.33
        Largest number of disclosed numbers, over all plans, per distinct combination of values
        among this site's people. With more numbers, the sizes of single cells could be computed.
    rare_rows : {"group", "refuse"}, default="group"
        Treatment of people with a combination of values that fewer than ``least`` share. With
        ``"group"`` they are grouped with similar people before any answer, and each group gets one
        combination of values. With ``"refuse"`` a plan is refused if its totals could disclose
        such a combination.
    levels : int, default=20
        Columns with up to this many values are treated as tables, and all their cells are
        examined. From totals in double precision at the coefficients of a fit, the counts of 15
        evenly spaced values can be computed to 0.01, those of 20 values only at the ends, and
        those of 30 values not at all.
    predictor : float, default=30.0
        Largest absolute linear predictor, with the offset, at which non-linear models are
        evaluated. With larger ones the sums become step functions of single people.
    points : int, default=1000
        Largest number of points in a request.
    rounds : int, default=60
        Largest number of rounds of a plan.
    gone : tuple of str
        Other sites that no longer answer, according to information that is not from the lead.

    Examples
    --------
    >>> from steropes.federated import FederatedPlan, OwnerRules
    >>> rules = OwnerRules(least=10, per_site=("profile",))
    >>> plan = FederatedPlan("cox", ("drug",), ("a", "b", "c"), event="died", min_cell=20)
    >>> rules.with_plan(plan).least
    20
    """

    least: int = 5
    sites: int = LEAST_SITES
    methods: tuple[Method, ...] = ("rounds", "odal", "odac", "adap", "profiles")
    per_site: tuple[Ask, ...] = ()
    parameters_per_row: float = 0.33
    answers_per_cell: float = 0.33
    rare_rows: RareRows = "group"
    levels: int = 20
    predictor: float = 30.0
    points: int = 1000
    rounds: int = 60
    gone: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the settings."""
        read_fields(self)
        if self.sites < LEAST_SITES:
            raise DataError(
                f"sites must be at least {LEAST_SITES}: in a total of two, each site knows the "
                "other's part"
            )
        for name, least in (("least", 0), ("levels", 2), ("points", 1), ("rounds", 1)):
            if getattr(self, name) < least:
                raise DataError(f"{name} must be a whole number from {least}")
        for name in ("parameters_per_row", "answers_per_cell", "predictor"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise DataError(f"{name} must be a positive number, not {value!r}")

    @property
    def groups_rare_rows(self) -> bool:
        """Whether people with rare combinations of values are grouped."""
        return self.rare_rows == "group" and self.least > 1

    def small(self, count: int) -> bool:
        """Check whether a cell has too few people to be disclosed; an empty cell may be.

        Parameters
        ----------
        count : int
            Number of people.

        Returns
        -------
        bool
            True if the cell is too small.
        """
        return 0 < count < self.least

    def with_plan(self, plan: FederatedPlan) -> OwnerRules:
        """Return the rules for a plan, which can be stricter than the owner's but not weaker.

        Parameters
        ----------
        plan : FederatedPlan
            The plan.

        Returns
        -------
        OwnerRules
            The stricter rules.
        """
        return replace(
            self,
            least=max(self.least, plan.min_cell),
            sites=max(self.sites, plan.min_sites),
            rounds=min(self.rounds, plan.max_rounds),
            rare_rows="refuse" if plan.rare_rows == "refuse" else self.rare_rows,
        )

    @classmethod
    def read(cls, path: Path) -> OwnerRules:
        """Read rules from a TOML file.

        Parameters
        ----------
        path : Path
            A TOML file.

        Returns
        -------
        OwnerRules
            The rules.

        Raises
        ------
        DataError
            The file cannot be read, or a rule is unknown or invalid.
        """
        try:
            given = tomllib.loads(read_bytes(path).decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise DataError(f"{path} is not a TOML file: {error}") from None
        known = [f.name for f in fields(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise DataError(f"{path} has no rule {unknown[0]!r}; there are {', '.join(known)}")
        try:
            return cls(**given)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
