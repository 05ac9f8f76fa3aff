"""Synthesis over databases with the systematic error of controls, by outcome and by database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.html_representations import FieldsInHtml
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import check_level
from steropes.designs.evidence.quadrature import mixture_quantiles
from steropes.designs.values.argument_checks import check_real
from steropes.designs.values.input_checks import refuse_missing, require_flags
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["HierarchicalSynthesis", "hierarchical_synthesis"]

# Nodes for each standard deviation, of which the largest is this many prior scales.
NODES, WIDEST = 16, 5.0


@dataclass(frozen=True, eq=False)
class HierarchicalSynthesis(FieldsInHtml):
    """Effects over databases, corrected for the systematic error of controls.

    Attributes
    ----------
    effects : DataFrame
        A row for each outcome of interest: posterior mean ``log_rr``, its ``se``, limits ``lower``
        and ``upper``, ``probability`` (of an effect above zero), ``predicted_lower`` and
        ``predicted_upper`` (limits in a further database, whose effect differs by the rest of the
        model), ``databases`` and ``naive``, the mean weighted by inverse variances without a
        correction.
    errors : DataFrame
        A row for each database: posterior mean ``error``, ``se`` and limits of its mean systematic
        error.
    spread : DataFrame
        Posterior median and limits of the standard deviations of errors over "outcomes" (shared by
        databases), over "databases" (shared by outcomes), and of the "rest".
    controls : int
        Number of control outcomes.

    See Also
    --------
    hierarchical_synthesis : Computes it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.evidence import hierarchical_synthesis
    >>> table = pd.DataFrame(
    ...     {
    ...         "database": ["a", "b"] * 6, "outcome": [k // 2 for k in range(12)],
    ...         "log_rr": [0.2, 0.3] * 6, "se": 0.1, "control": [True] * 10 + [False] * 2,
    ...     }
    ... )
    >>> hierarchical_synthesis(table).controls
    5
    """

    effects: ResultTable
    errors: ResultTable
    spread: pd.DataFrame
    controls: int

    def plot(self, **options: Any) -> Any:
        """Draw the ratios of the outcomes with their limits.

        Parameters
        ----------
        **options
            As of `steropes.plots.forest`.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return self.effects.plot(**options)


@single_threaded_blas()
def hierarchical_synthesis(
    estimates: TableLike,
    *,
    mean_sd: float = 2.0,
    spread_sd: float = 0.5,
    effect_sd: float = 2.0,
    level: float = 0.95,
) -> HierarchicalSynthesis:
    """Combine databases, and correct for errors of negative controls by outcome and by database.

    The error of outcome o in database s is μ + a_o + b_s + e_os: errors of an outcome that all
    databases share do not vanish with more databases, as they do in meta-analyses of calibrated
    estimates.

    Parameters
    ----------
    estimates : DataFrame
        A row for each outcome and database with the columns ``database``, ``outcome``, ``log_rr``,
        ``se`` and ``control``, which is true for negative controls. Rows without a finite estimate
        and standard error are left out.
    mean_sd : float, default 2
        Standard deviation of the normal prior of μ, which is centred at zero.
    spread_sd : float, default 0.5
        Scale of the half-normal priors of the standard deviations of a, b and e.
    effect_sd : float, default 2
        Standard deviation of the normal priors of effects, which are centred at zero.
    level : float, default 0.95
        Level of the equal-tailed intervals.

    Returns
    -------
    HierarchicalSynthesis
        Corrected effects, errors of databases, and standard deviations of errors.

    Raises
    ------
    DataError
        A column is missing, an outcome has two rows in a database, there are fewer than five
        controls, or no outcome of interest.

    See Also
    --------
    combine_normal, random_effects : Without controls.

    Notes
    -----
    Given the standard deviations everything is normal, and these are integrated by quadrature, so
    that the same estimates give the same numbers. ``computeHierarchicalMetaAnalysis`` of R's
    EvidenceSynthesis has this model with gamma priors of precisions, which exclude small errors,
    and draws from it.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571 (controls). Gelman (2006),
    Bayesian Analysis 1:515–534 (priors).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs.evidence import hierarchical_synthesis
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(
    ...     [(s, o) for o in range(31) for s in "abcd"], columns=["database", "outcome"]
    ... )
    >>> table["control"], table["se"] = table["outcome"] < 30, 0.1
    >>> shared = rng.normal(0.3, 0.3, 31)[table["outcome"]]
    >>> table["log_rr"] = shared + 0.7 * ~table["control"] + rng.normal(0, 0.1, 124)
    >>> hierarchical_synthesis(table).effects[["log_rr", "se", "naive"]].round(2)
        log_rr    se  naive
    30    0.38  0.24   0.66
    """
    check_level(level)
    for name, value in (("mean_sd", mean_sd), ("spread_sd", spread_sd), ("effect_sd", effect_sd)):
        check_real(name, value, lambda x: 0 < x < math.inf, "a positive number")
    rows = _rows(estimates)
    model = _Model(rows, mean_sd, effect_sd)
    sd, log_prior = _nodes(spread_sd)
    fits = [model.fits(sd, k, log_prior) for k in range(NODES)]
    log_mass = np.concatenate([f[0] for f in fits])
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    centre, spread = (np.concatenate([f[k] for f in fits]) for k in (1, 2))
    tails = ((1 - level) / 2, (1 + level) / 2)
    summary = [_summary(centre[:, j], spread[:, j], mass, tails) for j in range(centre.shape[1])]
    k = len(model.interest)
    further = np.sqrt(spread[:, :k] ** 2 + np.repeat(sd, NODES**2)[:, None] ** 2)
    limits = [mixture_quantiles(centre[:, j], further[:, j], mass, tails) for j in range(k)]
    own = [(*found, *limit) for found, limit in zip(summary[:k], limits, strict=True)]
    return HierarchicalSynthesis(
        _effects(rows, model.interest, own, level),
        _errors(model.databases, summary[k:], level),
        _spread(sd, mass, tails),
        int(rows.loc[rows["control"], "outcome"].nunique()),
    )


def _rows(estimates: TableLike) -> pd.DataFrame:
    """Check the estimates and keep those that can be used."""
    needed = ["database", "outcome", "log_rr", "se", "control"]
    rows = read_columns(estimates, needed, "estimates")
    for name in needed[:2]:
        refuse_missing(rows[name], f"estimates[{name!r}]")
    twice = rows.duplicated(["database", "outcome"])
    if twice.any():
        raise DataError(
            f"estimates has an outcome twice in one database, in row {int(twice.argmax())} "
            "(counted from 0); give each outcome one row for each database."
        )
    rows["control"] = require_flags("estimates['control']", rows["control"])
    if (rows.groupby("outcome")["control"].nunique() > 1).any():
        raise DataError("An outcome is a control in one row and not in another; correct control.")
    y, s = (pd.to_numeric(rows[name]).to_numpy(float) for name in ("log_rr", "se"))
    rows = rows[np.isfinite(y) & np.isfinite(s) & (s > 0)].sort_values(
        ["outcome", "database"], ignore_index=True
    )
    n = rows.loc[rows["control"], "outcome"].nunique()
    if n < LEAST_CONTROLS:
        raise DataError(
            f"{n} controls have an estimate; {LEAST_CONTROLS} or more are needed for a correction."
        )
    if rows["control"].all():
        raise DataError("All outcomes are controls; add the estimates of an outcome of interest.")
    return rows


class _Model:
    """The normal model given the standard deviations of errors.

    Parameters are b of each database, μ, and the effects of interest, after those of outcomes.
    """

    def __init__(self, rows: pd.DataFrame, mean_sd: float, effect_sd: float) -> None:
        self.y, self.variance = rows["log_rr"].to_numpy(float), rows["se"].to_numpy(float) ** 2
        outcome, names = pd.factorize(rows["outcome"], sort=True)
        database, self.databases = pd.factorize(rows["database"], sort=True)
        own = ~rows.drop_duplicates("outcome").set_index("outcome")["control"].reindex(names)
        self.interest = names[own.to_numpy()]
        self.o, self.s = len(names), len(self.databases)
        at, k = np.arange(len(rows)), len(self.interest)
        effect = self.interest.get_indexer(names)[outcome]
        self.outcome = outcome
        X = np.zeros((len(rows), self.s + 1 + k))
        X[at, database] = X[:, self.s] = 1.0
        X[at[effect >= 0], self.s + 1 + effect[effect >= 0]] = 1.0
        self.X = X
        self.fixed = np.concatenate([[mean_sd**-2.0], np.full(k, effect_sd**-2.0)])
        # Effects, and the mean error of each database μ + b_s.
        self.wanted = np.zeros((k + self.s, X.shape[1]))
        self.wanted[np.arange(k), self.s + 1 + np.arange(k)] = 1.0
        self.wanted[k + np.arange(self.s), np.arange(self.s)] = 1.0
        self.wanted[k:, self.s] = 1.0

    def fits(self, sd: NDArray, rest: int, log_prior: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return log posteriors, means and sds of what is wanted, for a spread of the rest.

        The first two spreads, of outcomes and of databases, take all pairs of nodes. Errors of
        outcomes are eliminated, as each estimate has one.
        """
        d = self.variance + sd[rest] ** 2
        weighted = self.X / d[:, None]
        of_outcome = np.bincount(self.outcome, 1 / d, self.o)
        between = np.zeros((self.o, self.X.shape[1]))
        np.add.at(between, self.outcome, weighted)
        score_o = np.bincount(self.outcome, self.y / d, self.o)
        score, whole = weighted.T @ self.y, self.X.T @ weighted
        left = of_outcome + sd[:, None] ** -2.0  # (nodes, outcomes)
        reduced = whole - np.einsum("or,ao,os->ars", between, 1 / left, between)
        scores = score - (score_o / left) @ between
        n, p = len(sd), self.X.shape[1]
        A = np.repeat(reduced, n, axis=0)
        prior = np.hstack(
            [np.repeat(sd[:, None] ** -2.0, self.s, axis=1), np.tile(self.fixed, (n, 1))]
        )
        at = np.arange(p)
        A[:, at, at] += np.tile(prior, (n, 1))
        right = np.repeat(scores, n, axis=0)
        sides = np.concatenate(
            [right[:, :, None], np.broadcast_to(self.wanted.T, (n * n, *self.wanted.T.shape))], 2
        )
        solved = np.linalg.solve(A, sides)
        log_det = 2 * np.log(np.linalg.cholesky(A)[:, at, at]).sum(axis=1)
        by_outcome = (score_o**2 / left).sum(axis=1) - np.log(left).sum(axis=1)
        by_outcome -= 2 * self.o * np.log(sd)
        fit = np.repeat(by_outcome, n) + np.tile(np.log(prior).sum(axis=1), n) - log_det
        fit += (right * solved[:, :, 0]).sum(axis=1)
        log_mass = 0.5 * (fit - np.log(d).sum() - (self.y**2 / d).sum())
        log_mass += np.add.outer(log_prior, log_prior).ravel() + log_prior[rest]
        variance = np.einsum("kp,gpk->gk", self.wanted, solved[:, :, 1:])
        return log_mass, solved[:, :, 0] @ self.wanted.T, np.sqrt(variance)


def _nodes(scale: float) -> tuple[NDArray, NDArray]:
    """Return standard deviations with their log prior masses, denser near zero."""
    t, w = np.polynomial.legendre.leggauss(NODES)
    t, w = (t + 1) / 2, w / 2
    sd = WIDEST * scale * t**3
    return sd, np.log(w * t**2) - 0.5 * (sd / scale) ** 2


def _summary(
    centre: NDArray, spread: NDArray, mass: NDArray, tails: tuple[float, float]
) -> tuple[float, float, float, float, float]:
    """Return mean, sd, limits and the probability of a positive value of a mixture of normals."""
    from scipy.special import ndtr

    mean = float(mass @ centre)
    sd = math.sqrt(float(mass @ (spread**2 + (centre - mean) ** 2)))
    lower, upper = mixture_quantiles(centre, spread, mass, tails)
    return mean, sd, lower, upper, float(mass @ ndtr(centre / spread))


def _effects(
    rows: pd.DataFrame, interest: pd.Index, summary: Sequence[tuple[float, ...]], level: float
) -> ResultTable:
    """Make the table of effects."""
    names = ["log_rr", "se", "lower", "upper", "probability"]
    names += ["predicted_lower", "predicted_upper"]
    table = pd.DataFrame(summary, columns=names, index=interest.rename(None))
    own = rows.set_index("outcome")
    weight = own["se"].astype(float) ** -2.0
    sums = (weight * own["log_rr"].astype(float)).groupby(level=0).sum()
    table["databases"] = own.groupby(level=0).size().reindex(interest).to_numpy()
    table["naive"] = (sums / weight.groupby(level=0).sum()).reindex(interest).to_numpy()
    interval = Interval("Log ratio", "log_rr", "lower", "upper", level)
    return present(table, "forest", intervals=(interval,), exponentiate=True, label="Ratio")


def _errors(databases: pd.Index, summary: Sequence[tuple[float, ...]], level: float) -> ResultTable:
    """Make the table of the mean errors of databases."""
    names = ["error", "se", "lower", "upper"]
    table = pd.DataFrame([s[:4] for s in summary], columns=names, index=databases.rename(None))
    interval = Interval("Systematic error", "error", "lower", "upper", level)
    return present(table, "forest", intervals=(interval,), label="Systematic error (log ratio)")


def _spread(sd: NDArray, mass: NDArray, tails: tuple[float, float]) -> pd.DataFrame:
    """Make the table of standard deviations of errors."""
    cube = mass.reshape(NODES, NODES, NODES)  # the rest, outcomes, databases
    lines = []
    for axes in ((0, 2), (0, 1), (1, 2)):
        until = np.cumsum(cube.sum(axis=axes))
        between = until - np.diff(until, prepend=0.0) / 2
        lines.append([float(np.interp(p, between, sd)) for p in (0.5, *tails)])
    return pd.DataFrame(
        lines, columns=["sd", "lower", "upper"], index=["outcomes", "databases", "rest"]
    )
