"""Residuals, influences and tests of equal coefficients for cumulative models."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from ..design_matrix import Design
from ..errors import DataError, listed
from ..likelihoods.cumulative import Interval
from .cumulative_probability_predictions import probabilities
from .cumulative_probability_variances import CumulativeInformation, SubsetFit, profiled_scores
from .wald_statistic import wald_statistic

__all__ = ["equality_test", "influence", "scale_residuals"]


def scale_residuals(
    values: np.ndarray, alpha: np.ndarray, link: str, eta: np.ndarray, y: Interval
) -> np.ndarray:
    """Compute the probability-scale residuals P(Y* < y) − P(Y* > y) for Y* from the model, (n,).

    For a row that is only known to lie in (l, u] the residual is F(l) + F(u) − 1, the mean over
    its possible values (Li and Shepherd 2012; Shepherd, Li and Liu 2016).
    """
    padded = np.concatenate([[-np.inf], alpha, [np.inf]])
    upper = y.lower if y.upper is None else y.upper
    up = np.searchsorted(values, upper, side="right")
    low = np.searchsorted(values, y.lower, side="left")
    if y.upper is not None:
        censored = y.lower != y.upper
        low = np.where(censored, np.searchsorted(values, y.lower, side="right"), low)
        up = np.where(y.upper == np.inf, len(values), up)
    below = probabilities(link, padded[low] - eta)
    above = probabilities(link, padded[up] - eta, above=True)
    return below - above


def influence(
    design: Design, part: SubsetFit, offset: np.ndarray | None, information: CumulativeInformation
) -> np.ndarray:
    """Compute the influence V ψ_i of each row on β, (n, p) in X's units; zero without weight."""
    out = np.zeros((design.n, design.p))
    for i, psi in profiled_scores(design, part, offset, information.J):
        out[part.likelihood.levels.order[i]] = (psi @ information.V) / information.scale
    return out


def equality_test(beta: np.ndarray, influences: list[np.ndarray], names: list[str]) -> pd.DataFrame:
    """Test with Wald statistics whether several fits have equal coefficients.

    Parameters
    ----------
    beta : (fits, p) array
    influences : list of (n, p) arrays
        Influences of the same rows on each fit; their products are the covariances between fits.
    names : list of str
        Names of the p coefficients.

    Returns
    -------
    DataFrame
        One row per coefficient, and ``GLOBAL`` for all; columns ``chisq``, ``df``, ``p``.

    Raises
    ------
    DataError
        The covariance matrix of the differences is singular.
    """
    m, p = beta.shape
    V = np.empty((m * p, m * p))
    for a in range(m):
        for b in range(a + 1):
            V[a * p : a * p + p, b * p : b * p + p] = influences[a].T @ influences[b]
            V[b * p : b * p + p, a * p : a * p + p] = V[a * p : a * p + p, b * p : b * p + p].T
    contrast = np.eye(m)[1:] - np.eye(m)[:1]

    def wald(columns: np.ndarray) -> tuple[float, int]:
        """Test that the coefficients of some columns are equal at all cuts."""
        D = np.kron(contrast, np.eye(p)[columns])
        d, spread = D @ beta.ravel(), D @ V @ D.T
        statistic, rank = wald_statistic(d, spread) if (np.diag(spread) > 0).all() else (0.0, 0)
        if rank < len(d):
            raise DataError(
                f"The test of {listed([names[j] for j in columns])} compares the coefficients of "
                f"{m} cuts in {len(d)} equations, and too few rows contribute to them to "
                "distinguish the equations. Give fewer quantiles, further apart, or test fewer "
                "columns."
            )
        return statistic, len(d)

    tests = [wald(np.array([j])) for j in range(p)] + [wald(np.arange(p))]
    chisq = np.array([x for x, _ in tests])
    df = np.array([k for _, k in tests])
    return pd.DataFrame(
        {"chisq": chisq, "df": df, "p": stats.chi2.sf(chisq, df)}, index=[*names, "GLOBAL"]
    )
