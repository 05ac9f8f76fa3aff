"""The result of an emulated target trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import ResultTable, drawn_by
from steropes.errors import DataError

__all__ = ["EmulatedTrial"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left;
         vertical-align: top; }
.failed { color: #a11; }
"""
# Times of risks and contrasts that are printed.
SHOWN = 3


@dataclass(frozen=True, repr=False, eq=False)
class EmulatedTrial(TextInHtml):
    """Effects of treatment strategies in an emulated target trial.

    Attributes
    ----------
    effects : DataFrame
        Coefficients of the strategies in the model of the outcome: ``measure`` ("odds ratio" or
        "hazard ratio"), ``term``, ``estimate``, ``lower``, ``upper``, ``se`` (of its logarithm),
        ``p`` and ``errors``, the sources of error in them. Empty if there is no such model.
    risks : DataFrame
        Risk under each ``strategy`` by ``time`` with ``lower``, ``upper`` and ``se``.
    contrasts : DataFrame
        ``measure`` ("risk difference" or "risk ratio") by ``time`` with limits.
    weights : DataFrame
        By ``time``: ``at_risk``, ``events``, ``mean``, ``largest`` and ``effective_size``.
    censoring : DataFrame
        By strategy and ``time``: how many follow-ups end, and why.
    diagnostics : DataFrame
        ``diagnostic``, ``value``, ``limit``, ``passed`` and ``note`` with the remedy.
    protocol : DataFrame
        The target trial and its emulation by component (Hernán and Robins 2016).
    estimand : str
        The effect that is estimated, and the one that is not, in one sentence each.
    models : dict
        Fitted models by name.
    positivity : DataFrame
        Numbers with and without the treatment (``treatment``, ``no_treatment``) by ``period``: of
        person-trials that start in it, of rows of a marginal structural model, or of people who
        start the treatment in an interval of time with clones, and of those who still could. Empty
        for g-computation, whose diagnostics count the followers of each strategy.

    See Also
    --------
    sequential_trials, clone_censor_weight : Compute it.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> months = pd.DataFrame({"id": np.repeat(range(200), [1 + i % 4 for i in range(200)])})
    >>> months["month"] = months.groupby("id").cumcount()
    >>> months["drug"] = rng.integers(0, 2, len(months))
    >>> last = ~months["id"].duplicated(keep="last")
    >>> months["ill"] = last * rng.integers(0, 2, len(months))
    >>> found = steropes.designs.target_trials.sequential_trials(
    ...     months, id="id", period="month", treatment="drug", outcome="ill"
    ... )
    >>> list(found.risks["strategy"].unique())
    ['treatment', 'no treatment']
    """

    effects: ResultTable | pd.DataFrame
    risks: pd.DataFrame
    contrasts: pd.DataFrame
    weights: pd.DataFrame
    censoring: pd.DataFrame
    diagnostics: pd.DataFrame
    protocol: pd.DataFrame
    estimand: str
    models: Mapping[str, Any]
    positivity: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __repr__(self) -> str:
        """Return the estimand, the effects, and the diagnostics that failed."""
        lines = [self.estimand]
        number = {"index": False, "float_format": lambda x: f"{x:.4g}"}
        if len(self.effects):
            shown = self.effects[["measure", "term", "estimate", "lower", "upper"]]
            lines.append(shown.to_string(**number))
        if len(self.contrasts):
            times = self.contrasts["time"].drop_duplicates().to_numpy()
            at = times[[round(k * (len(times) - 1) / (SHOWN - 1)) for k in range(SHOWN)]]
            rows = self.contrasts[self.contrasts["time"].isin(at)].drop(columns="se")
            lines.append(rows.to_string(**number))
        lines += [f"Failed: {text}" for text in self._failures()]
        return "\n".join(lines)

    def plot(self, **options: Any) -> Any:
        """Draw the risks under each strategy.

        Parameters
        ----------
        **options
            As of `steropes.plots.incidence_curves`, such as ``ax``.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Raises
        ------
        DataError
            There are no risks, such as after a Cox model.
        """
        if not len(self.risks):
            raise DataError("This analysis has no risks to draw; choose model='logistic'.")
        table = self.risks.rename(columns={"risk": "incidence"}).drop(columns="se")
        return drawn_by("incidence_curves", table, **options)

    def write_report(self, path: str | PathLike[str]) -> None:
        """Write one self-contained page with the protocol, the effects and the diagnostics.

        Parameters
        ----------
        path : path
            Where to write, such as "trial.html". The page has no data of single people.
        """
        failures = "".join(f"<li>{escape(text)}</li>" for text in self._failures())
        parts = [
            "<h1>Emulated target trial</h1>", f"<p>{escape(self.estimand)}</p>",
            "<h2>Protocol</h2>", self.protocol.to_html(border=0),
            *(["<h2>Effects</h2>", _html(self.effects)] if len(self.effects) else []),
            "<h2>Risks</h2>", _html(self.risks), _html(self.contrasts),
            "<h2>Can it be trusted?</h2>",
            f'<ul class="failed">{failures}</ul>' if failures else "<p>All diagnostics passed.</p>",
            _html(self.diagnostics), "<h2>Weights by time</h2>", _html(self.weights),
            "<h2>Who is censored when</h2>", _html(self.censoring),
            *(
                ["<h2>Who starts which strategy when</h2>", _html(self.positivity)]
                if len(self.positivity)
                else []
            ),
        ]  # fmt: skip
        body = "\n".join(parts)
        head = f'<meta charset="utf-8"><title>Emulated target trial</title><style>{STYLE}</style>'
        Path(path).write_text(
            f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n',
            encoding="utf-8",
        )

    def _failures(self) -> list[str]:
        """Describe the diagnostics that failed."""
        failed = self.diagnostics[~self.diagnostics["passed"].astype(bool)]
        return [
            f"{row.diagnostic} is {row.value:.3g} (limit {row.limit:g}). {row.note}"
            for row in failed.itertuples()
        ]


def _html(table: pd.DataFrame) -> str:
    """Write a table."""
    return pd.DataFrame(table).to_html(index=False, border=0, float_format=lambda x: f"{x:.5g}")
