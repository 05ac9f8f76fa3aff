"""Disproportionality of drugs and events in spontaneous reports."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import gamma, norm

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import sort_labels
from steropes.designs.surveillance.reporting_ratio_prior import GammaMixture
from steropes.designs.values.input_checks import refuse_missing, require_numbers
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["disproportionality", "report_counts"]

# Probability of intervals.
LEVEL = 0.95


def report_counts(
    reports: TableLike, *, report: str = "report", drug: str = "drug", event: str = "event"
) -> pd.DataFrame:
    """Count reports of each pair of a drug and an event.

    A report counts once for a pair of which it names the drug and the event, in whichever rows and
    however often.

    Parameters
    ----------
    reports : DataFrame
        A row per report, drug and event that it names.
    report, drug, event : str
        Names of the columns.

    Returns
    -------
    DataFrame
        A row per pair with at least one report: ``drug``, ``event``, ``observed``, ``drug_total``,
        ``event_total``, ``total`` (numbers of reports) and ``expected``.

    Raises
    ------
    DataError
        A column is missing, or a value of it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import report_counts
    >>> reports = pd.DataFrame({"report": [1, 1, 2, 3], "drug": ["a", "a", "a", "b"],
    ...                         "event": ["rash", "rash", "fever", "rash"]})
    >>> report_counts(reports)[["drug", "event", "observed", "expected"]]
      drug  event  observed  expected
    0    a  fever         1  0.666667
    1    a   rash         1  1.333333
    2    b   rash         1  0.666667
    """
    named = read_reports(reports, report, drug, event)
    (drugs, by_drug), (events, by_event) = (named_in_reports(named, x) for x in ("drug", "event"))
    both = sparse.coo_array(by_drug.T @ by_event)
    order = np.lexsort((both.col, both.row))
    row, column = both.row[order], both.col[order]
    total = by_drug.shape[0]
    sizes = [np.asarray(x.sum(axis=0)).astype(np.int64) for x in (by_drug, by_event)]
    found = pd.DataFrame(
        {"drug": drugs[row], "event": events[column], "observed": both.data[order].astype(np.int64),
         "drug_total": sizes[0][row], "event_total": sizes[1][column], "total": total}
    )  # fmt: skip
    return found.assign(expected=found["drug_total"] * found["event_total"] / total)


def read_reports(reports: TableLike, report: str, drug: str, event: str) -> pd.DataFrame:
    """Return the columns of reports as "report", "drug" and "event"; refuse missing values."""
    given = read_columns(reports, [report, drug, event], "reports")
    for name in given:
        refuse_missing(given[name], f"reports[{name!r}]")
    return given.set_axis(["report", "drug", "event"], axis=1)


def named_in_reports(
    named: pd.DataFrame, what: Literal["drug", "event"]
) -> tuple[pd.Index, sparse.csr_array]:
    """Return the drugs or events, sorted, and which of them each report names, as 1."""
    report, ids = pd.factorize(named["report"])
    code, labels = pd.factorize(named[what])
    code, ordered = sort_labels(code, list(labels))
    found = sparse.csr_array(
        (np.ones(len(named), dtype=np.int64), (report, code)), shape=(len(ids), len(ordered))
    )
    found.sum_duplicates()
    found.data[:] = 1
    return pd.Index(ordered, dtype=labels.dtype if len(labels) else object), found


def disproportionality(counts: TableLike, prior: GammaMixture | None = None) -> ResultTable:
    """Compute measures of disproportionality of pairs of a drug and an event.

    Parameters
    ----------
    counts : DataFrame
        A row per pair with ``observed``, ``drug_total``, ``event_total`` and ``total``, as of
        `report_counts`.
    prior : GammaMixture, optional
        Prior of reporting ratios, for EBGM. Fit it to all pairs with `fit_gamma_mixture`.

    Returns
    -------
    DataFrame
        The rows with ``expected``; ``ror``, ``ror_lower``, ``ror_upper`` (reporting odds ratio);
        ``prr``, ``prr_lower``, ``prr_upper`` (proportional reporting ratio) and ``chi2`` (Pearson);
        ``ic``, ``ic_lower``, ``ic_upper`` (information component); and with a prior ``ebgm``,
        ``eb05``, ``eb95``. Ratios are nan where a cell is empty. ``plot`` draws the reporting odds
        ratios.

    Raises
    ------
    DataError
        A column is missing, or the numbers contradict each other; the message names the row.

    Notes
    -----
    Common thresholds are EB05 ≥ 2, IC025 > 0, and PRR ≥ 2 with χ² ≥ 4 and three or more reports. A
    signal of reports is no measure of risk, and drugs that are reported together mask each other.

    References
    ----------
    Evans, Waller and Davis (2001), Pharmacoepidemiology and Drug Safety 10:483–486. van
    Puijenbroek and others (2002), 11:3–10. Norén, Hopstadius and Bate (2013), Statistical Methods
    in Medical Research 22:57–69. DuMouchel (1999), The American Statistician 53:177–190.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import disproportionality
    >>> counts = pd.DataFrame(
    ...     {"observed": [6], "drug_total": [60], "event_total": [300], "total": [100_000]}
    ... )
    >>> disproportionality(counts)[["ror", "ror_lower", "prr", "ic"]].round(3)
          ror  ror_lower     prr     ic
    0  37.659     16.077  33.993  3.257
    """
    needed = ["observed", "drug_total", "event_total", "total"]
    given = read_columns(counts, None, "counts")
    missing = [name for name in needed if name not in given]
    if missing:
        raise DataError(f"counts lacks the column {missing[0]!r}; see report_counts.")
    a, drug, event, total = (require_numbers(name, given[name]) for name in needed)
    b, c, d = drug - a, event - a, total - drug - event + a
    wrong = (np.min([a, b, c, d], axis=0) < 0) | (drug <= 0) | (event <= 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"counts: row {row} (counted from 0) has numbers that contradict each other; "
            "observed must not exceed drug_total or event_total, and these not total."
        )
    expected = drug * event / total
    z = norm.isf((1 - LEVEL) / 2)
    found = given.assign(expected=expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        measures = {
            "ror": (a * d / (b * c), np.sqrt(1 / a + 1 / b + 1 / c + 1 / d)),
            "prr": (
                (a / drug) / (c / (total - drug)),
                np.sqrt(1 / a - 1 / drug + 1 / c - 1 / (total - drug)),
            ),
        }
        for name, (ratio, se) in measures.items():
            known = np.isfinite(se) & (ratio > 0)
            for column, sign in (("", 0), ("_lower", -1), ("_upper", 1)):
                found[name + column] = np.where(known, ratio * np.exp(sign * z * se), np.nan)
        product = drug * event * (total - drug) * (total - event)
        found["chi2"] = total * (a * d - b * c) ** 2 / product
    found["ic"] = np.log2((a + 0.5) / (expected + 0.5))
    for column, p in (("ic_lower", (1 - LEVEL) / 2), ("ic_upper", (1 + LEVEL) / 2)):
        found[column] = np.log2(gamma.ppf(p, a + 0.5, scale=1 / (expected + 0.5)))
    if prior is not None:
        found["ebgm"] = prior.geometric_mean(a, expected)
        found["eb05"] = prior.quantile(0.05, a, expected)
        found["eb95"] = prior.quantile(0.95, a, expected)
    columns = ("ror", "ror_lower", "ror_upper")
    shown = Interval("Reporting odds ratio", *columns, LEVEL)
    names = tuple(name for name in ("drug", "event") if name in found)
    return present(
        found,
        "ratio_forest",
        columns=columns,
        ratio=shown.caption,
        intervals=(shown,),
        labels=names,
    )
