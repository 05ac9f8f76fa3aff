"""The result of a federated analysis, its traffic, and what the messages disclosed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..models.coefficient_tables import coefficient_table
from .exchange import RoundRecord
from .plan import FederatedPlan

__all__ = ["FederatedResult"]

TELLS = {
    "times": "the distinct times of each site at which someone has the event (in Fine-Gray models "
    "also those at which someone leaves or enters)",
    "describe": "over all sites together, the numbers of rows, people and events, and of each "
    "column the mean, the variance and the share of values that are not zero",
    "leave": "how much weight leaves and is censored at each time",
    "enter": "how much enters at each time, and how much leaves with the event of interest",
    "fold_weight": "the weight of each fold's rows",
    "evaluate": "over all sites together, the log-likelihood and its first derivatives at each "
    "point, and its second derivatives at the first",
    "held_out": "the same of the rows without a fold, whose log-likelihood is told too",
    "risk_sets": "over all sites together, at each time of the grid the number of events and sums "
    "over those at risk",
    "held_S": "the same without a fold, and of the fold's rows alone",
    "estimate": "each site's own coefficients and their variances",
    "surrogate": "the lead site's estimate under the surrogate likelihood, and its Hessian",
    "profile": "each site's profile log-likelihood of the parameters",
}
ALSO = ("leave", "enter", "fold_weight", "held_out", "held_S")


@dataclass(frozen=True)
class FederatedResult:
    """An estimate from sums of sites.

    Attributes
    ----------
    plan : FederatedPlan
    names : list of str
        Of the coefficients, behind the intercept at columns of zero where sites share one.
    coef : (q,) array
    vcov : (q, q) array or None
        None where a Laplace prior acts.
    log_likelihood, optimality : float
        NaN where the method has none.
    converged : bool
    records : list of RoundRecord
        The messages of each round.
    rows, people : int
        Of all sites.
    events : int or None
        Of all sites; None for linear models.
    notes : list of str
    degrees : float or None
        Of t statistics, for linear models.
    variance : float or None
        Of the prior, where folds chose it.
    cv_results : DataFrame or None
        Then the variances that were tried, with the scores of the folds.
    """

    plan: FederatedPlan
    names: list[str]
    coef: np.ndarray
    vcov: np.ndarray | None
    log_likelihood: float
    optimality: float
    converged: bool
    records: list[RoundRecord]
    rows: int
    people: int
    events: int | None
    notes: list[str] = field(default_factory=list)
    degrees: float | None = None
    variance: float | None = None
    cv_results: pd.DataFrame | None = None

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"FederatedResult({self.plan.model}, {self.plan.method}, {len(self.plan.sites)} sites, "
            f"{self.rounds} rounds, {state})"
        )

    @property
    def rounds(self) -> int:
        """Messages to each site."""
        return len(self.records)

    @property
    def bytes(self) -> int:
        """Sent to all sites and received from them."""
        return int(sum(r.sent * len(r.received) + sum(r.received.values()) for r in self.records))

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Coefficients with Wald tests and limits; NaN where there are no standard errors."""
        q = len(self.names)
        se = np.full(q, np.nan) if self.vcov is None else np.sqrt(np.diag(self.vcov))
        ratio = self.plan.model != "linear"
        return coefficient_table(self.coef, se, self.names, level, self.degrees, ratio)

    def traffic(self) -> pd.DataFrame:
        """A row a round and site: ``round``, ``ask``, ``site``, ``sent``, ``received`` (bytes)."""
        lines = [
            {"round": r.round, "ask": r.ask, "site": site, "sent": r.sent, "received": size}
            for r in self.records
            for site, size in r.received.items()
        ]
        return pd.DataFrame(lines, columns=["round", "ask", "site", "sent", "received"])

    def revealed(self) -> pd.DataFrame:
        """What became known: ``round``, ``ask``, ``numbers`` (how many) and ``tells``."""
        lines = []
        for r in self.records:
            tells = "; ".join([TELLS[r.ask], *(TELLS[k] for k in ALSO if k in r.told)])
            if r.left:
                tells = f"nothing, as {', '.join(r.left)} left"
            lines.append({"round": r.round, "ask": r.ask, "numbers": r.numbers, "tells": tells})
        return pd.DataFrame(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what there is not is None."""
        table = self.summary().reset_index(names="name")
        return {
            "plan": self.plan.to_dict(),
            "disclosure": self.plan.disclosure(),
            "coefficients": [
                {str(k): _number(v) for k, v in line.items()} for line in table.to_dict("records")
            ],
            "vcov": None if self.vcov is None else self.vcov.tolist(),
            "log_likelihood": _number(self.log_likelihood),
            "optimality": _number(self.optimality),
            "converged": self.converged,
            "variance": self.variance,
            "cv_results": _lines(self.cv_results),
            "rounds": self.rounds,
            "bytes": self.bytes,
            "traffic": self.traffic().to_dict("records"),
            "revealed": self.revealed().to_dict("records"),
            "rows": self.rows,
            "people": self.people,
            "events": self.events,
            "notes": self.notes,
        }

    def write(self, path: str | Path) -> Path:
        """Write it as JSON; returns the path."""
        path = Path(path)
        path.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        return path


def _lines(table: pd.DataFrame | None) -> Any:
    if table is None:
        return None
    return [{str(k): _number(v) for k, v in line.items()} for line in table.to_dict("records")]


def _number(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
