"""Disproportionality of drugs and events in spontaneous reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import digamma, expit, gammaln, logit
from scipy.stats import gamma, norm

from steropes.data.html_representations import FieldsInHtml
from steropes.data.input_types import TableLike
from steropes.data.paper_tables import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import sort_labels
from steropes.designs.surveillance.sequential_bounds import check_ratio
from steropes.designs.values.argument_checks import check_real
from steropes.designs.values.input_checks import require_known, require_numbers
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["GammaMixture", "disproportionality", "fit_gamma_mixture", "report_counts"]

# Starts of the maximisation; the likelihood has several maxima (DuMouchel 1999, openEBGM).
STARTS = (
    (0.2, 0.1, 2.0, 4.0, 1 / 3),
    (0.1, 0.1, 10.0, 10.0, 0.2),
    (0.5, 0.5, 5.0, 2.0, 0.5),
    (2.0, 1.0, 0.2, 0.1, 0.3),
)
LEVEL = 0.95


@dataclass(frozen=True)
class GammaMixture(FieldsInHtml):
    """The prior of reporting ratios: a mixture of two gamma distributions.

    Attributes
    ----------
    shape1, rate1 : float
        Parameters α₁ and β₁ of the first gamma distribution, with mean α₁ / β₁.
    shape2, rate2 : float
        Those of the second one.
    share : float
        Probability of the first one.

    Raises
    ------
    DataError
        A parameter is not positive, or the share is no probability.

    References
    ----------
    DuMouchel (1999), The American Statistician 53:177–190.

    Examples
    --------
    >>> from steropes.designs.surveillance import GammaMixture
    >>> prior = GammaMixture(0.2, 0.1, 2, 4, 1 / 3)
    >>> round(float(prior.geometric_mean([6], [0.18])[0]), 4)
    20.3818
    """

    shape1: float
    rate1: float
    shape2: float
    rate2: float
    share: float

    def __post_init__(self) -> None:
        for name in ("shape1", "rate1", "shape2", "rate2"):
            check_ratio(name, getattr(self, name))
        check_real("share", self.share, lambda x: 0 < x < 1, "between 0 and 1")

    def first_share(self, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute the posterior probabilities of the first distribution.

        Parameters
        ----------
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Probabilities.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        first = np.log(self.share) + _log_negative_binomial(n, e, self.shape1, self.rate1)
        second = np.log1p(-self.share) + _log_negative_binomial(n, e, self.shape2, self.rate2)
        return np.asarray(expit(first - second))

    def geometric_mean(self, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute the posterior geometric means of the reporting ratios (EBGM).

        Parameters
        ----------
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Geometric means.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        q = self.first_share(n, e)
        logs = [
            digamma(shape + n) - np.log(rate + e)
            for shape, rate in ((self.shape1, self.rate1), (self.shape2, self.rate2))
        ]
        return np.asarray(np.exp(q * logs[0] + (1 - q) * logs[1]))

    def quantile(self, p: float, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute posterior quantiles of the reporting ratios, such as EB05.

        Parameters
        ----------
        p : float
            Probability.
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Quantiles.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        q = self.first_share(n, e)
        parts = [
            (shape + n, 1 / (rate + e))
            for shape, rate in ((self.shape1, self.rate1), (self.shape2, self.rate2))
        ]
        ends = np.array([gamma.ppf(p, a, scale=s) for a, s in parts])
        low, high = ends.min(axis=0), ends.max(axis=0)
        # The distribution function of the mixture lies between those of its parts.
        for _ in range(200):
            middle = (low + high) / 2
            below = q * gamma.cdf(middle, parts[0][0], scale=parts[0][1])
            below += (1 - q) * gamma.cdf(middle, parts[1][0], scale=parts[1][1])
            low, high = np.where(below < p, middle, low), np.where(below < p, high, middle)
        return np.asarray((low + high) / 2)


def _log_negative_binomial(n: NDArray, e: NDArray, shape: float, rate: float) -> NDArray:
    """Compute the log-probability of counts with a gamma-distributed ratio."""
    return np.asarray(
        gammaln(shape + n) - gammaln(shape) - gammaln(n + 1)
        + shape * np.log(rate / (rate + e)) + n * np.log(e / (rate + e))
    )  # fmt: skip


def fit_gamma_mixture(
    observed: ArrayLike, expected: ArrayLike, weight: ArrayLike | None = None
) -> GammaMixture:
    """Fit the prior of reporting ratios to all pairs by maximum likelihood.

    Parameters
    ----------
    observed : array_like of int, shape (n,)
        Reports of each pair of a drug and an event. Pairs with zero reports may be left out; then
        the likelihood is that of positive counts.
    expected : array_like, shape (n,)
        Reports expected without an association.
    weight : array_like, shape (n,), optional
        Number of pairs that a row stands for.

    Returns
    -------
    GammaMixture
        The best of several maxima; the first distribution has the larger mean.

    Raises
    ------
    DataError
        A number is missing, negative, or zero where it must be positive, or there are fewer than
        20 pairs, or no start leads to a maximum.

    Notes
    -----
    All pairs are used: grouping pairs with few reports ("data squashing") is not needed for speed.

    References
    ----------
    DuMouchel (1999), The American Statistician 53:177–190. DuMouchel and Pregibon (2001), KDD '01,
    67–76.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.surveillance import fit_gamma_mixture
    >>> rng = np.random.default_rng(0)
    >>> expected = rng.gamma(1, 2, 2000) + 0.1
    >>> ratio = np.where(rng.random(2000) < 0.1, rng.gamma(4, 1, 2000), rng.gamma(10, 0.1, 2000))
    >>> prior = fit_gamma_mixture(rng.poisson(ratio * expected), expected)
    >>> bool(prior.shape1 / prior.rate1 > 2)
    True
    """
    n, e = require_numbers("observed", observed), require_numbers("expected", expected)
    w = np.ones(len(n)) if weight is None else require_numbers("weight", weight)
    if not len(n) == len(e) == len(w):
        raise DataError("observed, expected and weight must have the same length.")
    if (n < 0).any() or (e <= 0).any() or (w < 0).any():
        raise DataError("observed and weight must not be negative, and expected must be positive.")
    if (n != np.round(n)).any() or not w.sum() > 0:
        raise DataError("observed must be whole numbers, and some weight must be positive.")
    if len(n) < 20:
        raise DataError(f"{len(n)} pairs are too few for a prior; 20 or more are needed.")
    truncated = not (n == 0).any()

    values, place = np.unique(n, return_inverse=True)

    def terms(count: NDArray, where: NDArray, free: NDArray) -> tuple[NDArray, NDArray]:
        """Return the log-probabilities of counts, (n,), and their derivatives in ``free``."""
        signs, logs, slopes = (-1.0, 1.0), [], []
        for sign, shape, rate in zip(signs, np.exp(free[:4:2]), np.exp(free[1:4:2]), strict=True):
            own, known = count[where], gammaln(shape + count) - gammaln(shape) - gammaln(count + 1)
            slope = digamma(shape + count) - digamma(shape)
            ratio = np.log(rate / (rate + e))
            logs.append(
                -np.logaddexp(0, sign * free[4]) + known[where] + shape * ratio
                + own * np.log(e / (rate + e))
            )  # fmt: skip
            slopes.append(
                [shape * (slope[where] + ratio), shape - rate * (shape + own) / (rate + e)]
            )
        total = np.logaddexp(*logs)
        q = np.exp(logs[0] - total)
        share = expit(free[4])
        return total, np.stack(
            [q * slopes[0][0], q * slopes[0][1], (1 - q) * slopes[1][0], (1 - q) * slopes[1][1],
             q * (1 - share) - (1 - q) * share]
        )  # fmt: skip

    def loss(free: NDArray) -> tuple[float, NDArray]:
        value, slope = terms(values, place, free)
        if truncated:
            zero, zero_slope = terms(np.zeros(1), np.zeros(len(n), dtype=int), free)
            zero = np.minimum(zero, -np.finfo(float).tiny)
            value = value - np.log(-np.expm1(zero))
            slope = slope + zero_slope * np.exp(zero) / -np.expm1(zero)
        return float(-(w @ value) / w.sum()), -(slope @ w) / w.sum()

    bounds = [(-12.0, 12.0)] * 5
    options = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-8}
    starts = [[*np.log(start[:4]), logit(start[4])] for start in STARTS]
    found = [
        minimize(loss, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        for start in starts
    ]
    best = min(found, key=lambda fit: float(fit.fun))
    if not np.isfinite(best.fun):
        raise DataError("The prior of reporting ratios has no maximum; are there enough pairs?")
    return _ordered_mixture(best.x)


def _ordered_mixture(free: NDArray) -> GammaMixture:
    """Return the mixture of free parameters, with the larger mean first."""
    a1, b1, a2, b2 = (float(x) for x in np.exp(free[:4]))
    share = float(expit(free[4]))
    if a1 / b1 < a2 / b2:
        return GammaMixture(a2, b2, a1, b1, 1 - share)
    return GammaMixture(a1, b1, a2, b2, share)


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
        require_known(f"reports[{name!r}]", given[name])
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
