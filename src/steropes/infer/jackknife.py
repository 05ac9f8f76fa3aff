"""The jackknife: the covariance of fits that leave out one row or cluster each.

Omission moves a coefficient further than its influence, the more the higher the leverage of
the row, so that errors from it do not share the deficit of robust ones in small data. In linear
models the result is (n − 1) / n times HC3 (MacKinnon and White 1985); by clusters it is CV3 of
MacKinnon, Nielsen and Webb (2023).
"""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from ..fit import Problem
from .bootstrap import fit_draws
from .bootstrap_draws import Omissions

__all__ = ["jackknife_covariance"]


def jackknife_covariance(
    problem: Problem,
    beta: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    unit: np.ndarray | None,
    tol: float,
) -> np.ndarray:
    """Compute (G − 1) / G Σ (β₍g₎ − β)(β₍g₎ − β)' from a fit without each of G units, (p, p).

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    unit : (n,) int array or None
        Codes of the units that are left out, see `bootstrap_draws.sampling_units`; None for rows.
    tol : float
        Largest KKT violation of the fits.

    Raises
    ------
    DataError
        If the data without a unit do not determine a coefficient, or a fit does not converge.

    References
    ----------
    MacKinnon and White (1985), Journal of Econometrics 29:305–325. MacKinnon, Nielsen and Webb
    (2023), Journal of Applied Econometrics 38:671–694.
    """
    omissions = Omissions(problem.weights, unit)
    G = len(omissions.present)
    fits = fit_draws(problem, beta, l1, l2, omissions, tol=tol)
    lost = ~np.isfinite(fits.coef)
    bad = np.flatnonzero(lost.any(axis=1) | ~fits.converged)
    if len(bad):
        row = _first_row(omissions, int(bad[0]))
        what = "Without row" if unit is None else "Without the cluster or stratum of row"
        # An intercept at X = 0 is lost along with any other coefficient.
        columns = np.flatnonzero(lost[bad[0]])[::-1]
        effect = (
            f"the data do not determine the coefficient of {problem.design.names[columns[0]]!r}"
            if len(columns)
            else "the fit does not converge"
        )
        raise DataError(f"{what} {row} {effect}: there are no jackknife errors. Use kind='HC1'.")
    change = fits.coef - problem.design.uncentered_coefficients(beta)
    return np.asarray((G - 1) / G * (change.T @ change))


def _first_row(omissions: Omissions, k: int) -> int:
    """Return the first row that omission k leaves out."""
    return int(np.flatnonzero((omissions.one(k) == 0) & (omissions.weights > 0))[0])
