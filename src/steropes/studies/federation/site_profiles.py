"""Fixed and random effects from profile likelihoods of sites, in one round."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.evidence import (
    Combined,
    Profile,
    combine_normal,
    combine_profiles,
    random_effects,
)
from steropes.errors import DataError
from steropes.federated import FederatedPlan, Message, RoundRecord
from steropes.federated.federated_result import TELLS, ResultOfRounds
from steropes.federated.resumable_lead_program import Profiles

__all__ = ["FederatedProfiles", "combine_site_profiles"]

Line = dict[str, Any]

# Relative error of a profile, whose points are fits of their own, above its tangents.
CONCAVE = 1e-4


@dataclass(frozen=True)
class FederatedProfiles(ResultOfRounds):
    """Effects combined from the profile likelihoods of sites.

    Attributes
    ----------
    plan : FederatedPlan
        The plan.
    table : DataFrame
        One row per parameter and ``method``: "fixed, profile" (the sum of the profiles), "fixed,
        normal", "random, normal" and "random, Bayesian"; ``sites`` (the number taking part),
        ``coef``, ``se``, ``lower``, ``upper``, ``i_squared``, ``tau``, ``predicted_lower`` and
        ``predicted_upper`` (for a further site, of random effects) and ``note``.
    profiles : dict
        By parameter, a DataFrame of ``site``, ``point``, ``log_likelihood`` (minus its maximum)
        and ``gradient``.
    records : list of RoundRecord
        The traffic of each round.
    notes : list of str
        Notes of the sites.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from steropes.studies.federation import FederatedPlan, FederatedSite, OwnerRules, federate
    >>> rng = np.random.default_rng(1)
    >>> def site(n):
    ...     x = rng.normal(size=n)
    ...     return pd.DataFrame({"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)})
    >>> plan = FederatedPlan("logistic", ("x",), ("north", "south", "west"), method="profiles",
    ...                      parameters=("x",), per_site=True)
    >>> rules = OwnerRules(per_site=("profile",))
    >>> found = federate(plan, {s: FederatedSite(s, site(400), rules) for s in plan.sites})
    >>> found.summary()["method"].tolist()
    ['fixed, profile', 'fixed, normal', 'random, normal', 'random, Bayesian']
    """

    plan: FederatedPlan
    table: pd.DataFrame
    profiles: dict[str, pd.DataFrame]
    records: list[RoundRecord]
    notes: list[str]

    def __repr__(self) -> str:
        return f"FederatedProfiles({', '.join(self.plan.parameters)}, {len(self.plan.sites)} sites)"

    def summary(self) -> pd.DataFrame:
        """Return the combined effects.

        Returns
        -------
        DataFrame
            A copy of ``table``.
        """
        return self.table.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values.

        Returns
        -------
        dict
            Values that can be written as JSON; missing numbers are None.
        """
        return {
            "plan": self.plan.to_dict(),
            "disclosure": self.plan.disclosure(),
            "combined": [_plain(line) for line in self.table.to_dict("records")],
            "profiles": {k: t.to_dict("records") for k, t in self.profiles.items()},
            "rounds": self.rounds,
            "bytes": self.bytes,
            "revealed": TELLS["profile"],
            "notes": self.notes,
        }


def _plain(line: dict[Any, Any]) -> Line:
    """Replace numbers that are not finite by None."""
    return {
        str(k): None if isinstance(v, float) and not math.isfinite(v) else v
        for k, v in line.items()
    }


def combine_site_profiles(found: Profiles) -> FederatedProfiles:
    """Combine the profiles of all sites."""
    plan, answers = found.exchange.plan, found.answers
    lines: list[Line] = []
    tables = {}
    for name in plan.parameters:
        parts = {a.site: _points(a, name, plan.model) for a in answers}
        lines += [{"parameter": name, **line} for line in _combined(parts)]
        tables[name] = pd.concat(
            [pd.DataFrame(x, columns=["point", "log_likelihood", "gradient"]).assign(site=s)
             for s, x in parts.items()], ignore_index=True,
        )[["site", "point", "log_likelihood", "gradient"]]  # fmt: skip
    notes = [f"site {a.site!r}: {note}" for a in answers for note in _notes(a)]
    if plan.weight is not None:
        notes.append(
            f"the profiles are of rows weighted by {plan.weight!r}, as if weights were numbers of "
            "rows: with other weights they are not likelihoods, and the limits are too narrow"
        )
    return FederatedProfiles(plan, pd.DataFrame(lines), tables, found.exchange.records, notes)


def _notes(answer: Message) -> list[str]:
    """Read the notes of a site's answer."""
    given = answer.values.get("notes", [])
    return [str(note) for note in given] if isinstance(given, list) else []


def _points(answer: Message, name: str, model: str) -> np.ndarray:
    """Read the points of a site's profile; raise if no likelihood has such a profile.

    Log-likelihoods are concave, so that a profile lies below all of its tangents; that of a linear
    model need not, because the variance is profiled out too.
    """
    x = answer.arrays.get(name)
    if x is None or x.ndim != 2 or x.shape[1] != 3 or len(x) < 2:
        raise DataError(f"the answer of site {answer.site!r} has no profile of {name!r}, (m, 3)")
    at, value, slope = np.asarray(x, float).T
    tangents = value + slope * (at[:, None] - at)
    above = value[:, None] - tangents
    slack = np.inf if model == "linear" else CONCAVE * (1.0 + np.ptp(value))
    if not (np.isfinite(above) & (above <= slack)).all():
        raise DataError(
            f"the profile of {name!r} of site {answer.site!r} is impossible: a log-likelihood is "
            "finite and below its tangents. Ask the site for its version and table"
        )
    return np.asarray(x, float)


def _combined(parts: dict[str, np.ndarray]) -> list[Line]:
    """Combine the profiles by each method, one line per method."""
    profiles = [Profile(*x.T, name=f"site {site!r}") for site, x in parts.items()]
    methods: list[tuple[str, Callable[[], Any]]] = [
        ("fixed, profile", lambda: combine_profiles(profiles)),
        ("fixed, normal", lambda: _normal(profiles, random=False)),
        ("random, normal", lambda: _normal(profiles, random=True)),
        ("random, Bayesian", lambda: random_effects(profiles)),
    ]
    lines = []
    for method, make in methods:
        line: Line = {
            "method": method, "sites": 0, "coef": math.nan, "se": math.nan, "lower": math.nan,
            "upper": math.nan, "i_squared": math.nan, "tau": math.nan,
            "predicted_lower": math.nan, "predicted_upper": math.nan, "note": "",
        }  # fmt: skip
        try:
            found = make()
        except DataError as error:
            line["note"] = str(error)
        else:
            line |= {
                "sites": found.databases, "coef": found.log_rr, "se": found.se,
                "lower": found.lower, "upper": found.upper, "tau": found.tau,
                "predicted_lower": found.predicted_lower, "predicted_upper": found.predicted_upper,
            }  # fmt: skip
            if method.endswith("normal"):
                line["i_squared"] = found.i_squared
        lines.append(line)
    return lines


def _normal(profiles: list[Profile], *, random: bool) -> Combined:
    """Combine the estimates of sites; a single site keeps the interval of its profile."""
    own = []
    for profile in profiles:
        with contextlib.suppress(DataError):  # The profile of a site may be uninformative.
            own.append(combine_profiles([profile]))
    if len(profiles) == 1 and own:
        return own[0]
    return combine_normal([c.log_rr for c in own], [c.se for c in own], random=random)
