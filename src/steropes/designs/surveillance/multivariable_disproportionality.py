"""Disproportionality adjusted for drugs that are reported together, by regression."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.surveillance.group_sequential_bounds import check_count
from steropes.designs.surveillance.spontaneous_reports import (
    LEVEL,
    disproportionality,
    named_in_reports,
    read_reports,
    report_counts,
)
from steropes.errors import DataError, listed
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.repeated_fits.many_outcomes import fit_many
from steropes.priors import Normal

__all__ = ["adjusted_disproportionality"]


def adjusted_disproportionality(
    reports: TableLike,
    *,
    events: Sequence[Hashable] | None = None,
    min_reports: int = 3,
    estimator: LogisticRegression | None = None,
    report: str = "report",
    drug: str = "drug",
    event: str = "event",
) -> ResultTable:
    """Compute odds ratios of reporting, adjusted for the other drugs of a report.

    Each event is the outcome of a logistic model with an indicator of each drug. All events are
    fitted to the same matrix. A drug that is only reported together with the one that causes an
    event has a reporting odds ratio, but no adjusted one.

    Parameters
    ----------
    reports : DataFrame
        A row per report, drug and event that it names, as of `report_counts`.
    events : sequence, optional
        Events that are analysed. Default: all with at least ``min_reports`` reports.
    min_reports : int, default 3
        Least number of reports of a drug for a coefficient of its own, and of an event. Reports of
        rarer drugs remain, without them.
    estimator : LogisticRegression, optional
        Settings of the fits. Default: a normal prior of variance 1, with which an odds ratio of 7
        lies two standard deviations from none, so that pairs without reports have estimates. A
        Laplace prior is faster, but has no intervals.
    report, drug, event : str
        Names of the columns.

    Returns
    -------
    DataFrame
        A row per drug and event with at least one report of both, indexed by their names: ``drug``,
        ``event``, ``observed``, ``expected``, ``ror`` (not adjusted), ``adjusted_or``, ``lower``,
        ``upper`` (95 % limits), ``converged`` and ``note`` (why there is no estimate). It has
        ``plot()`` and ``paper_table()``.

    Raises
    ------
    DataError
        A column or value is missing, an event has no reports, or no drug has enough.

    See Also
    --------
    disproportionality : Measures of single pairs.
    steropes.fit_many : The fits.

    References
    ----------
    Caster and others (2010), Statistical Analysis and Data Mining 3:197–208.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import adjusted_disproportionality
    >>> rng = np.random.default_rng(0)
    >>> rows = []
    >>> for report in range(600):
    ...     drugs = ["cause", "companion"] if rng.random() < 0.2 else ["other"]
    ...     drugs += ["companion"] if rng.random() < 0.1 else []
    ...     rash = rng.random() < (0.5 if "cause" in drugs else 0.1)
    ...     rows += [(report, drug, "rash" if rash else "fever") for drug in set(drugs)]
    >>> reports = pd.DataFrame(rows, columns=["report", "drug", "event"])
    >>> found = adjusted_disproportionality(reports, events=["rash"]).set_index("drug")
    >>> bool(found.loc["companion", "ror"] > 3), bool(found.loc["companion", "adjusted_or"] < 2)
    (True, True)
    """
    check_count("min_reports", min_reports)
    named = read_reports(reports, report, drug, event)
    counts = report_counts(named)
    drug_totals = counts.groupby("drug")["drug_total"].first()
    event_totals = counts.groupby("event")["event_total"].first()
    drugs = pd.Index(drug_totals.index[drug_totals >= min_reports])
    if not len(drugs):
        raise DataError(f"No drug has {min_reports} reports; lower min_reports.")
    chosen = [*event_totals.index[event_totals >= min_reports]]
    if events is not None:
        chosen = [*dict.fromkeys(events)]
    if unknown := [e for e in chosen if e not in event_totals.index]:
        raise DataError(f"events: no report names {listed([str(e) for e in unknown], 3)}.")
    if not chosen:
        raise DataError(f"No event has {min_reports} reports; lower min_reports.")
    every, by_drug = named_in_reports(named, "drug")
    X = sparse.csc_array(by_drug[:, every.get_indexer(drugs)].astype(float))
    every, by_event = named_in_reports(named, "event")
    y = by_event[:, every.get_indexer(pd.Index(chosen))].astype(np.int8).toarray()
    outcomes = {str(number): own for number, own in enumerate(y.T)}
    model = LogisticRegression(prior=Normal(1.0)) if estimator is None else estimator
    fits = fit_many(model, X, outcomes, level=LEVEL)
    fits = pd.DataFrame(fits[fits["coefficient"] != "intercept"]).reset_index(drop=True)
    # The coefficients of each outcome are in the order of the columns.
    fits["drug"] = np.tile(drugs, len(chosen))
    fits["event"] = np.repeat(np.array(chosen, dtype=object), len(drugs))
    names = {"exp(coef)": "adjusted_or", "exp(lower)": "lower", "exp(upper)": "upper"}
    kept = fits.drop(columns=["coef", "lower", "upper"]).rename(columns=names)
    plain = disproportionality(pd.DataFrame(counts[counts["event"].isin(chosen)]))
    first = ["drug", "event", "observed", "expected", "ror"]
    last = ["adjusted_or", "lower", "upper", "converged", "note"]
    table = plain[first].merge(kept[["drug", "event", *last]], on=["drug", "event"])
    table.index = pd.Index(
        [f"{d}, {e}" for d, e in zip(table["drug"], table["event"], strict=True)]
    )
    shown = Interval("Adjusted odds ratio", "adjusted_or", "lower", "upper", LEVEL)
    return present(
        table, "ratio_forest", columns=last[:3], ratio=shown.caption, intervals=(shown,),
        labels=("drug", "event"), hidden=("converged", "note"),
    )  # fmt: skip
