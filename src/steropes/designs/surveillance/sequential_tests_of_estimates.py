"""Sequential tests of many estimates over looks, calibrated by their negative controls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, roots_legendre
from scipy.stats import norm

from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.input_types import TableLike
from steropes.designs.controls.empirical_calibration import (
    SystematicError,
    fit_systematic_error,
)
from steropes.designs.evidence.profile_interpolation import NormalProfile, Profile
from steropes.designs.surveillance.group_sequential_bounds import (
    check_alpha,
    check_count,
    check_ratio,
)
from steropes.designs.surveillance.sequential_bounds_for_estimates import estimate_bound
from steropes.designs.values.argument_checks import check_names
from steropes.designs.values.input_checks import refuse_missing, require_flags
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["GROUP", "calibrated_statistic", "checked_estimates", "monitor_estimates", "signed_root"]

# Standard deviations of systematic error on either side of its mean, beyond which there is a
# probability of 1e-15; and the nodes of the quadrature in each of its parts.
REACH, NODES = 8.0, 12
NEEDED = ("look", "log_rr", "se")
# The column with the number of a group of estimates with one systematic error.
GROUP = "error_number"


def signed_root(profile: Profile, at: float = 0.0) -> float:
    """Return the signed root of the likelihood ratio of an effect, sign × √(2 (max ℓ − ℓ(at))).

    Parameters
    ----------
    profile : Profile
        Profile log-likelihood of the log ratio.
    at : float, default 0
        Log ratio without an effect.

    Returns
    -------
    float
        Positive if the maximum lies above ``at``.

    Raises
    ------
    DataError
        The profile has its maximum at an end, or is unknown at ``at``: store it over a wider
        range.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.evidence import Profile
    >>> from steropes.designs.surveillance import signed_root
    >>> grid = np.linspace(-2, 2, 81)
    >>> round(signed_root(Profile(grid, -((grid - 0.5) ** 2) / 2 / 0.25**2)), 3)
    2.0
    """
    best = _maximum(profile)
    ratio = 2 * float(profile(best) - profile(at))
    return float(np.sign(best - at) * np.sqrt(max(ratio, 0.0)))


def calibrated_statistic(profile: Profile, error: SystematicError) -> float:
    """Compute a one-sided log-likelihood ratio calibrated for systematic error.

    The one-sided p-value is averaged over the systematic error, as the effect of no effect, and
    converted back into a log-likelihood ratio.

    Parameters
    ----------
    profile : Profile
        Profile log-likelihood of the log ratio.
    error : SystematicError
        Systematic error of negative controls.

    Returns
    -------
    float
        The log-likelihood ratio; 0 if the averaged p-value is above one half.

    Raises
    ------
    DataError
        The profile has its maximum at an end, or is unknown at errors with a probability that
        counts: store it over a wider range.

    See Also
    --------
    poisson_bound : Calibrates the bound instead, which keeps the planned error exactly.

    References
    ----------
    Schuemie and others (2023), Statistics in Medicine 42:619–631; ``calibrateLlr`` of R's
    EmpiricalCalibration.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import SystematicError
    >>> from steropes.designs.evidence import Profile
    >>> from steropes.designs.surveillance import calibrated_statistic
    >>> grid = np.linspace(-3, 3, 121)
    >>> profile = Profile(grid, -((grid - 0.5) ** 2) / 2 / 0.2**2)
    >>> error = SystematicError(mean=0.1, sd=0.1, controls=50)
    >>> round(calibrated_statistic(profile, error), 4)
    1.6
    """
    best = _maximum(profile)
    nodes, weights = _errors_around(best, error)
    ratio = 2 * (float(profile(best)) - profile(nodes))
    root = np.sign(best - nodes) * np.sqrt(np.maximum(ratio, 0.0))
    p = float(weights @ ndtr(-root))
    return float(norm.isf(p) ** 2 / 2) if p < 0.5 else 0.0


def _errors_around(best: float, error: SystematicError) -> tuple[NDArray, NDArray]:
    """Return systematic errors and their probabilities, close together near an estimate.

    The p-value as a function of the error falls from one to zero around the estimate, perhaps
    within a small part of the error's standard deviation.
    """
    if error.sd == 0:
        return np.array([error.mean]), np.ones(1)
    middle = (best - error.mean) / error.sd
    near = 0.5 ** np.arange(2, 18)
    edges = np.concatenate([np.linspace(-REACH, REACH, 65), middle - near, [middle], middle + near])
    edges = np.unique(np.clip(edges, -REACH, REACH))
    t, w = roots_legendre(NODES)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (1 + t)).ravel()
    weights = norm.pdf(z) * (half * w).ravel()
    return error.mean + error.sd * z, weights / weights.sum()


def _maximum(profile: Profile) -> float:
    """Return the log ratio of the maximum, and refuse maxima at an end."""
    if isinstance(profile, NormalProfile):
        return float(profile.log_rr)
    for side, word in ((-1, "falls from"), (1, "rises to")):
        if not profile.falls(side):
            raise DataError(
                f"{profile.described()} {word} its last point ({profile.stored_range()}), so that "
                "its maximum is unknown; store it over a wider range."
            )
    grid = np.unique(
        np.concatenate([profile.points, np.linspace(profile.points[0], profile.points[-1], 2001)])
    )
    k = int(np.argmax(profile(grid)))
    near = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 2001)
    return float(near[int(np.argmax(profile(near)))])


def monitor_estimates(
    estimates: TableLike,
    *,
    looks: int,
    by: Sequence[str] = (),
    controls_by: Sequence[str] = (),
    alpha: float = 0.05,
    power: float = 1.0,
) -> pd.DataFrame:
    """Test estimates of many outcomes at each look at accruing data.

    Parameters
    ----------
    estimates : DataFrame
        A row per look and estimate with the columns ``look`` (1, 2, …), ``log_rr``, ``se`` and
        those of ``by``. With a column ``control`` (True for negative controls), the bounds of a
        look include the systematic error of its controls, if there are five or more. A column
        ``z`` replaces ``log_rr`` divided by ``se``, such as by `signed_root`. A column ``note``
        gives the reason of a missing estimate.
    looks : int
        Number of planned looks.
    by : sequence of str, optional
        Columns that distinguish estimates of one look, such as the comparison and the outcome.
    controls_by : sequence of str, optional
        Columns that distinguish groups of estimates that each have a systematic error of their own,
        such as the comparison and the analysis. Default: all have one.
    alpha : float, default 0.05
        Probability of a signal at any look without an effect (one-sided), for each estimate.
    power : float, default 1
        The share (k / looks) to this power of ``alpha`` is spent up to look k. Below 1 early
        signals are easier, above 1 harder.

    Returns
    -------
    DataFrame
        A row per estimate and look: ``look``, the columns of ``by``, ``log_rr``, ``se``, ``z``,
        ``bound`` (the z that is a signal), ``alpha`` (spent up to this look), ``error_mean`` and
        ``error_sd`` (systematic error), ``signal`` (true from the first signal on) and ``note``
        (why a look was not tested). Controls are not tested.

    Raises
    ------
    DataError
        A column is missing, a look is repeated or not planned, or a setting has no meaning.

    Notes
    -----
    A look with no larger information than before, or without an estimate, is not tested, and its
    share of the error goes to the next one. With fewer than about ten events the normal
    distribution of estimates is inexact; `poisson_bound` and `binomial_bound` are exact.

    References
    ----------
    Lan and DeMets (1983), Biometrika 70:659–663. Schuemie and others (2023), Statistics in
    Medicine 42:619–631.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import monitor_estimates
    >>> estimates = pd.DataFrame(
    ...     {"look": [1, 2, 3], "log_rr": [0.6, 0.7, 0.8], "se": [0.5, 0.3, 0.25]}
    ... )
    >>> found = monitor_estimates(estimates, looks=4)
    >>> found[["look", "z", "bound", "signal"]].round(3)
       look      z  bound  signal
    0     1  1.200  2.241   False
    1     2  2.333  2.160    True
    2     3  3.200  2.021    True
    """
    check_alpha(alpha)
    check_count("looks", looks)
    check_ratio("power", power)
    rows = checked_estimates(
        estimates, looks, check_names("by", by), check_names("controls_by", controls_by)
    )
    errors = _errors_by_look(rows)
    tested = rows[~rows["control"]]
    keys = list(by)
    groups = [tested]
    if keys:
        groups = [own for _, own in tested.groupby(keys, sort=False, observed=True)]
    made = [_over_looks(own, looks, alpha, power, errors) for own in groups if len(own)]
    columns = ["look", *keys, "log_rr", "se", "z", "bound", "alpha", "error_mean", "error_sd",
               "signal", "note"]  # fmt: skip
    if not made:
        return pd.DataFrame(columns=columns)
    return pd.DataFrame(pd.concat(made, ignore_index=True)[columns])


def checked_estimates(
    estimates: TableLike, looks: int, by: list[str], controls_by: list[str]
) -> pd.DataFrame:
    """Return the rows in the order of looks, with defaults."""
    rows = read_columns(estimates, None, "estimates")
    missing = [name for name in (*NEEDED, *by, *controls_by) if name not in rows]
    if missing:
        raise DataError(f"estimates lacks the columns {listed(missing)}.")
    for name in (*by, *controls_by):
        refuse_missing(rows[name], f"estimates[{name!r}]")
    for name in (name for name in ("log_rr", "se", "z") if name in rows):
        rows[name] = _numbers(name, rows[name])
    if (rows["se"] < 0).any():
        raise DataError(f"se is negative in row {int(np.argmax(rows['se'] < 0))} (counted from 0).")
    look = pd.to_numeric(rows["look"], errors="coerce")
    if not look.between(1, looks).all() or (look % 1 != 0).any():
        raise DataError(f"look must be whole numbers from 1 to looks={looks}.")
    rows["look"] = look.astype(int)
    if "control" not in rows:
        rows["control"] = False
    rows["control"] = require_flags("estimates['control']", rows["control"])
    if rows.duplicated(["look", *by]).any():
        again = rows.loc[rows.duplicated(["look", *by]), ["look", *by]].iloc[0].to_dict()
        raise DataError(
            f"estimates has two rows for {again}; name in by= all columns that tell them apart."
        )
    if "z" not in rows:
        rows["z"] = rows["log_rr"] / rows["se"].where(rows["se"] > 0)
    if "note" not in rows:
        rows["note"] = ""
    groups = rows.groupby(controls_by, observed=True).ngroup() if controls_by else 0
    rows = rows.assign(**{GROUP: groups})
    return pd.DataFrame(rows.sort_values("look", kind="stable"))


def _numbers(name: str, values: pd.Series) -> pd.Series:
    """Return a column as floats, and refuse values that are no numbers; missing values stay."""
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    wrong = numbers.isna().to_numpy() & values.notna().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"estimates[{name!r}] is not a number in row {row} (counted from 0).")
    return numbers


def _errors_by_look(rows: pd.DataFrame) -> dict[tuple[int, int], SystematicError]:
    """Fit the systematic error of each look and group that has enough controls."""
    found = {}
    for (look, group), own in rows[rows["control"]].groupby(["look", GROUP]):
        log_rr, se = own["log_rr"].to_numpy(dtype=float), own["se"].to_numpy(dtype=float)
        usable = np.isfinite(log_rr) & np.isfinite(se) & (se > 0)
        if usable.sum() >= LEAST_CONTROLS:
            found[int(look), int(group)] = fit_systematic_error(log_rr[usable], se[usable])
    return found


def _over_looks(
    rows: pd.DataFrame,
    looks: int,
    alpha: float,
    power: float,
    errors: dict[tuple[int, int], SystematicError],
) -> pd.DataFrame:
    """Test one estimate at its looks."""
    information: list[float] = []
    share: list[float] = []
    found, signal = [], False
    for row in rows.itertuples():
        look, error = int(row.look), errors.get((int(row.look), int(getattr(row, GROUP))))
        new = 1 / row.se**2 if np.isfinite(row.se) and row.se > 0 and np.isfinite(row.z) else np.nan
        bound, spent, note = np.nan, np.nan, ""
        if np.isnan(new):
            note = row.note or "no estimate"
        elif information and new <= information[-1]:
            note = "no new information"
        else:
            information.append(new)
            share.append((look / looks) ** power)
            last = estimate_bound(
                information, alpha=alpha, spending=share, systematic_error=error
            ).iloc[-1]
            bound, spent = float(last["z"]), float(last["alpha"])
            signal = signal or row.z >= bound
        if errors and error is None and not note:
            note = f"not calibrated: fewer than {LEAST_CONTROLS} controls"
        mean, sd = (np.nan, np.nan) if error is None else (error.mean, error.sd)
        found.append((bound, spent, mean, sd, signal, note))
    names = ["bound", "alpha", "error_mean", "error_sd", "signal", "note"]
    return rows.assign(**dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))
