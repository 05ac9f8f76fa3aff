"""Checks of the proportional hazards assumption in words, with remedies."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...data.plottable_result_tables import drawn_by

__all__ = ["AssumptionCheck", "describe_changes"]


@dataclass(frozen=True, repr=False)
class AssumptionCheck:
    """The test of proportional hazards with its conclusion in words.

    Attributes
    ----------
    table : DataFrame
        The tests of `CoxRegression.checks.proportionality`, with ``early`` and ``late``: the
        coefficient in the first and in the second half of the events, estimated by the averages
        of scaled Schoenfeld residuals.
    doubtful : list of str
        Coefficients with a p-value below the threshold.
    advice : str
        The conclusion and possible remedies.

    See Also
    --------
    CoxRegression.checks.assumptions : Compute it.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 1))
    >>> y = steropes.Surv(rng.exponential(np.exp(-X[:, 0])), np.ones(100, int))
    >>> steropes.CoxRegression().fit(X, y).checks.assumptions().doubtful
    []
    """

    table: pd.DataFrame
    doubtful: list[str]
    advice: str

    def __repr__(self) -> str:
        """Print the table and the advice."""
        return f"{self.table.to_string(float_format='{:.4g}'.format)}\n\n{self.advice}"

    def plot(self, **options: Any) -> Any:
        """Draw the tests by `steropes.plots.hypothesis_tests`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return drawn_by("hypothesis_tests", self.table, **options)

    def _repr_html_(self) -> str:
        """Format the table and the advice as HTML for notebooks."""
        parts = self.advice.split("\n\n")
        paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in parts)
        return self.table.to_html(border=0, float_format="{:.4g}".format) + paragraphs


def describe_changes(
    tests: pd.DataFrame,
    residuals: pd.DataFrame,
    threshold: float,
    remedy: Callable[[str, float], str],
) -> AssumptionCheck:
    """Describe the tests of proportional hazards in words.

    Parameters
    ----------
    tests : DataFrame
        ``chisq``, ``df`` and ``p`` by coefficient, and GLOBAL in the last line.
    residuals : DataFrame
        Scaled Schoenfeld residuals, with a row for each event.
    threshold : float
        Level below which a p-value is doubtful.
    remedy : callable
        Returns the remedy for a coefficient, given its name and the median time of the events.
    """
    time = residuals.index.get_level_values("time").to_numpy(float)
    middle = float(np.median(time))
    names = [str(name) for name in residuals.columns]
    early = residuals[time <= middle].mean().to_numpy()
    late = residuals[time > middle].mean().to_numpy() if (time > middle).any() else early * np.nan
    table = tests.copy()
    table["early"] = [*early, np.nan]
    table["late"] = [*late, np.nan]
    p = tests["p"].to_numpy()[:-1]
    doubtful = [name for name, value in zip(names, p, strict=True) if value < threshold]
    whole = float(tests["p"].iloc[-1])
    if not doubtful:
        advice = (
            f"No coefficient changes with time by the tests at {threshold:g} (smallest p = "
            f"{p.min():.3g}, global p = {whole:.3g}). Small data can hide changes: look at "
            "plots.schoenfeld_residuals(model, name) for the effects of interest."
        )
        return AssumptionCheck(table, [], advice)
    expected = threshold * len(p)
    parts = [
        f"The hazard ratios of {len(doubtful)} of {len(p)} coefficients change with time by the "
        f"tests at {threshold:g} (global p = {whole:.3g}); {expected:.2g} would be expected by "
        "chance. A reported ratio is then an average over the times of events."
    ]
    for name in doubtful:
        j = names.index(name)
        direction = _direction(early[j], late[j])
        parts.append(
            f"{name} (p = {p[j]:.3g}): the coefficient {direction}, from about {early[j]:.2f} "
            f"until time {middle:g} to {late[j]:.2f} after it. {remedy(name, middle)}"
        )
    parts.append(
        "Large data find changes that do not matter: judge their size by "
        "plots.schoenfeld_residuals(model, name). Standardised survival and restricted means of "
        "a stratified model need no proportional hazards of the strata."
    )
    return AssumptionCheck(table, doubtful, "\n\n".join(parts))


def _direction(early: float, late: float) -> str:
    """Describe how a coefficient changes."""
    if not np.isfinite(early) or not np.isfinite(late):
        return "changes"
    if early * late < 0:
        return "changes its sign"
    return "shrinks" if abs(late) < abs(early) else "grows"
