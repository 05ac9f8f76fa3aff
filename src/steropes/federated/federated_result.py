"""The result of a federated analysis, with its traffic and the disclosed numbers."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.html_representations import TextInHtml
from ..data.plottable_result_tables import ResultTable
from ..models.fitting.coefficient_tables import coefficient_table
from ..models.fitting.default_standard_errors import name_errors
from .federated_plan import FederatedPlan
from .message_exchange import RoundRecord

__all__ = ["TELLS", "FederatedResult", "ResultOfRounds"]

# The note of results with weights that are not whole.
FRACTIONAL = (
    "weights are not whole numbers, so that standard errors of the model, which take them as "
    "numbers of rows, are not valid; robust ones are not available from totals. Fit each site "
    "alone with robust errors and combine the estimates, or bootstrap the sites' rows"
)
# The note of other results with weights.
AS_COUNTS = "standard errors are those of the model, which takes weights as numbers of rows"
# Descriptions of the disclosed numbers, by the kind of request or the name of a field.
TELLS = {
    "times": "the distinct event times of each site (in Fine-Gray models also the times at which "
    "people leave or enter)",
    "describe": "totals over all sites: numbers of rows, people and events; mean, variance and "
    "share of nonzero values of each column",
    "rare": "the share of people whose values were replaced, in whole percent of each site",
    "leave": "the weights that leave and that are censored at each time",
    "enter": "the weights that enter, and that leave with the event of interest, at each time",
    "fold_weight": "the weight of each fold's rows",
    "evaluate": "totals over all sites: the log-likelihood and its first derivatives at each "
    "point, and its second derivatives at the first",
    "held_out": "the same without the rows of a fold, and the log-likelihood of these rows",
    "risk_sets": "totals over all sites: the number of events and sums over people at risk at each "
    "time of the grid",
    "held_S": "the same without the rows of a fold, and of these rows alone",
    "estimate": "each site's own coefficients and their variances",
    "surrogate": "the lead site's estimate under the surrogate likelihood, and its Hessian",
    "profile": "each site's profile log-likelihood of the parameters",
}
# Fields with descriptions that are added to those of the request.
ALSO = ("rare", "leave", "enter", "fold_weight", "held_out", "held_S")


class ResultOfRounds(TextInHtml):
    """A result with the records of its rounds."""

    records: list[RoundRecord]

    @property
    def rounds(self) -> int:
        """Number of rounds, each with one request to each site."""
        return len(self.records)

    @property
    def bytes(self) -> int:
        """Number of bytes sent to all sites and received from them."""
        return int(sum(r.sent * len(r.received) + sum(r.received.values()) for r in self.records))

    if TYPE_CHECKING:

        def to_dict(self) -> dict[str, Any]:
            """Return the result as plain values."""

    def write(self, path: str | Path) -> Path:
        """Write the result as JSON.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Path
            The path of the file.
        """
        path = Path(path)
        path.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True)
class FederatedResult(ResultOfRounds):
    """The result of a federated fit; `steropes.studies.federation.federate` has an example.

    Attributes
    ----------
    plan : FederatedPlan
        The plan.
    names : list of str
        Names of the coefficients, starting with the common intercept at X = 0, if any.
    coef : (q,) array
        Estimates.
    vcov : (q, q) array or None
        Covariance matrix; None under a Laplace prior.
    log_likelihood, optimality : float
        Log-likelihood at the estimate and certificate; NaN if the method has none.
    converged : bool
        Whether the fit has reached the plan's ``tol``.
    records : list of RoundRecord
        The traffic of each round.
    rows, people : int
        Numbers of rows and people of all sites.
    events : int or None
        Number of events of all sites; None for linear models.
    notes : list of str
        Remarks for the reader.
    degrees : float or None
        Degrees of freedom of t statistics, for linear models.
    variance : float or None
        Variance of the prior, if folds chose it.
    cv_results : DataFrame or None
        Variances that were tried with the scores of the folds, if folds chose it.
    fractional : bool
        Whether weights are known not to be whole numbers, from their total over all sites: it is
        no whole number, or smaller than the number of rows. Standard errors are those of the
        model, which takes a weight as a number of rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from steropes.studies.federation import FederatedPlan, FederatedSite, federate
    >>> rng = np.random.default_rng(1)
    >>> def site(n):
    ...     x = rng.normal(size=n)
    ...     return pd.DataFrame({"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)})
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> found = federate(plan, {s: FederatedSite(s, site(400)) for s in plan.sites})
    >>> found.rows, found.converged
    (1200, True)
    >>> found.revealed().columns.tolist()
    ['round', 'ask', 'numbers', 'tells']
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
    fractional: bool = False

    def __repr__(self) -> str:
        """Describe the model, the method and the rounds."""
        state = "converged" if self.converged else "not converged"
        return (
            f"FederatedResult({self.plan.model}, {self.plan.method}, {len(self.plan.sites)} sites, "
            f"{self.rounds} rounds, {state})"
        )

    def summary(self, level: float = 0.95) -> ResultTable:
        """Tabulate coefficients with Wald tests and confidence limits.

        Parameters
        ----------
        level : float
            Confidence level of the limits.

        Returns
        -------
        DataFrame
            Indexed by coefficient. Entries are NaN without standard errors. ``attrs["errors"]`` is
            "model", in print too if weights are not whole numbers.

        Warns
        -----
        UserWarning
            If weights are known not to be whole numbers. Errors of the model are then not valid.
        """
        if self.fractional and self.vcov is not None:
            warnings.warn(f"{FRACTIONAL}.", UserWarning, stacklevel=2)
        return self._table(level)

    def _table(self, level: float = 0.95) -> pd.DataFrame:
        """Tabulate coefficients, with their errors named."""
        q = len(self.names)
        se = np.full(q, np.nan) if self.vcov is None else np.sqrt(np.diag(self.vcov))
        ratio = self.plan.planned.family.ratio
        table = coefficient_table(self.coef, se, self.names, level, self.degrees, ratio)
        if self.vcov is None:
            table.attrs["note"] = "; ".join(self.notes)
            table.columns.name = "no errors; see notes"
            return table
        return name_errors(table, "model", self)

    def _describe_weights(self, total: float) -> FederatedResult:
        """Add a note about weights, given their total over all sites; return the result."""
        if self.plan.weight is None or self.vcov is None:
            return self
        rounding = 1e-9 * total
        fractional = abs(total - round(total)) > rounding or total < self.rows - rounding
        self.notes.append(FRACTIONAL if fractional else AS_COUNTS)
        return replace(self, fractional=bool(fractional))

    @property
    def _has_fractional_weights(self) -> bool:
        """Whether weights are not whole numbers, for `name_errors`."""
        return self.fractional

    def traffic(self) -> pd.DataFrame:
        """Tabulate the traffic.

        Returns
        -------
        DataFrame
            Bytes ``sent`` and ``received`` by ``round``, ``ask`` and ``site``.
        """
        lines = [
            {"round": r.round, "ask": r.ask, "site": site, "sent": r.sent, "received": size}
            for r in self.records
            for site, size in r.received.items()
        ]
        return pd.DataFrame(lines, columns=["round", "ask", "site", "sent", "received"])

    def revealed(self) -> pd.DataFrame:
        """Tabulate the disclosed numbers.

        Returns
        -------
        DataFrame
            The count ``numbers`` by ``round`` and ``ask``, with their description ``tells``.
        """
        lines = []
        for r in self.records:
            tells = "; ".join([TELLS[r.ask], *(TELLS[k] for k in ALSO if k in r.told)])
            if r.left:
                tells = f"nothing, as {', '.join(r.left)} left"
            lines.append({"round": r.round, "ask": r.ask, "numbers": r.numbers, "tells": tells})
        return pd.DataFrame(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values.

        Returns
        -------
        dict
            Values that can be written as JSON; missing values are None.
        """
        table = self._table().reset_index(names="name")
        return {
            "plan": self.plan.to_dict(),
            "disclosure": self.plan.disclosure(),
            "coefficients": [
                {str(k): _number(v) for k, v in line.items()} for line in table.to_dict("records")
            ],
            "vcov": None if self.vcov is None else self.vcov.tolist(),
            "errors": None if self.vcov is None else "model",
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


def _lines(table: pd.DataFrame | None) -> list[dict[str, object]] | None:
    """Convert a table to a list of rows for JSON."""
    if table is None:
        return None
    return [{str(k): _number(v) for k, v in line.items()} for line in table.to_dict("records")]


def _number(value: object) -> object:
    """Convert a value for JSON; numbers that are not finite become None."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
