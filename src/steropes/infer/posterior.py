"""Draws of a posterior with summaries, intervals and diagnostics of their convergence."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ..data import check_level
from ..data.plottable_result_tables import ResultTable, drawn_by, present_coefficients
from ..errors import DataError

__all__ = ["Posterior", "effective_sample_size", "split_r_hat"]


@dataclass(repr=False)
class Posterior:
    """Draws of coefficients from their posterior, with the prior's variance integrated over.

    The ``posterior`` method of the estimators returns it.

    Attributes
    ----------
    draws : (chains, n, k) array
        Draws of the k named coefficients.
    variance : (chains, n) array
        Draws of the prior's variance.
    dispersion : (chains, n) array
        Draws of the residual variance of a linear model; 1 for other models.
    ratio : str or None
        Name of exp(coef), such as "odds ratio"; None if it is no ratio.
    acceptance : float
        Mean acceptance probability of the sampler's trajectories.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 10))
    >>> y = X[:, 0] + rng.standard_normal(100)
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(0.1)).fit(X, y)
    >>> posterior = model.inference.posterior(["x0", "x1"], random_state=1)
    >>> posterior
    <Posterior of 2 coefficients: 4 chains of 1000 draws>
    >>> bool(posterior.probability_above(0.0)["x0"] > 0.99)
    True
    >>> posterior.summary().columns.tolist()
    ['mean', 'median', 'lower', 'upper', 'sd', 'ess', 'r_hat']
    """

    draws: np.ndarray
    names: list[str]
    variance: np.ndarray
    dispersion: np.ndarray
    ratio: str | None
    acceptance: float

    def __repr__(self) -> str:
        chains, n, k = self.draws.shape
        return f"<Posterior of {k} coefficients: {chains} chains of {n} draws>"

    def _repr_html_(self) -> str:
        """Show the summary as HTML."""
        table = self.summary().to_html(border=0, float_format="{:.4g}".format)
        return f"<p><b>{html.escape(repr(self)[1:-1])}</b></p>{table}"

    def summary(self, level: float = 0.95) -> ResultTable:
        """Tabulate means, medians, intervals and diagnostics of the coefficients.

        Parameters
        ----------
        level : float
            Probability of the equal-tailed intervals, default 0.95.

        Returns
        -------
        DataFrame
            Columns ``mean``, ``median``, ``lower``, ``upper``, ``exp(median)``, ``exp(lower)``,
            ``exp(upper)`` (where a ratio means something), ``sd``, ``ess`` (effective number of
            draws) and ``r_hat``. With a prior on the coefficient the interval is a credible
            interval, shrunken towards zero, not a confidence interval.
        """
        limits = self.confint(level)
        flat = self._flat
        table = pd.DataFrame(
            {"mean": flat.mean(axis=0), "median": np.median(flat, axis=0)}, self.names
        ).join(limits)
        if self.ratio is not None:
            for name in ("median", "lower", "upper"):
                table[f"exp({name})"] = np.exp(table[name])
        table["sd"] = flat.std(axis=0, ddof=1)
        table["ess"] = [effective_sample_size(self.draws[:, :, j]) for j in range(len(self.names))]
        table["r_hat"] = [split_r_hat(self.draws[:, :, j]) for j in range(len(self.names))]
        return present_coefficients(table, self.ratio, level, estimate="median", kind="CrI")

    def plot(self, params: str | Sequence[str] | None = None, **options: Any) -> Any:
        """Draw densities with intervals, and traces, by `steropes.plots.posterior_draws`.

        Parameters
        ----------
        params : name or sequence of names, optional
            The coefficients to draw, default all.
        **options
            As of the function.

        Returns
        -------
        (k, 2) array of matplotlib Axes
            The axes with the plots.
        """
        return drawn_by("posterior_draws", self, params=params, **options)

    def confint(self, level: float = 0.95) -> ResultTable:
        """Compute equal-tailed posterior intervals.

        Parameters
        ----------
        level : float
            Probability of the interval, default 0.95.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        tail = 0.5 - check_level(level) / 2
        table = pd.DataFrame(
            np.quantile(self._flat, [tail, 1.0 - tail], axis=0).T, self.names, ["lower", "upper"]
        )
        return present_coefficients(table, self.ratio, level, estimate="median", kind="CrI")

    def quantiles(self, q: ArrayLike = (0.025, 0.25, 0.5, 0.75, 0.975)) -> pd.DataFrame:
        """Compute posterior quantiles.

        Parameters
        ----------
        q : (m,) array
            Probabilities between 0 and 1.

        Returns
        -------
        DataFrame
            A row for each coefficient and a column for each probability.
        """
        at = np.atleast_1d(np.asarray(q, np.float64))
        if at.ndim != 1 or not ((at >= 0) & (at <= 1)).all():
            raise DataError(f"q must be probabilities between 0 and 1, not {q!r}.")
        return pd.DataFrame(np.quantile(self._flat, at, axis=0).T, self.names, at)

    def probability_above(self, value: float = 0.0) -> pd.Series:
        """Compute the posterior probability that each coefficient exceeds a value.

        Parameters
        ----------
        value : float
            The value, default 0.

        Returns
        -------
        Series
            Shares of draws.
        """
        return pd.Series((self._flat > value).mean(axis=0), self.names)

    @property
    def _flat(self) -> np.ndarray:
        """The draws of all chains, (chains × n, k)."""
        return self.draws.reshape(-1, self.draws.shape[2])


def effective_sample_size(draws: np.ndarray) -> float:
    """Compute the effective number of rank-normalised draws of (chains, n).

    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16:667–718, §3.2:
    split chains, autocorrelations by Geyer's initial monotone sequence.
    """
    z = _normal_scores(_split(draws))
    chains, n = z.shape
    within = z.var(axis=1, ddof=1).mean()
    total = within * (n - 1) / n + z.mean(axis=1).var(ddof=1)
    if not total > 0:
        return float(chains * n)
    centred = z - z.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(axis=0) / n
    rho = 1.0 - (within - covariance * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    end = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    time = -1.0 + 2.0 * np.minimum.accumulate(pairs[:end]).sum()
    return float(chains * n / max(time, 1.0 / np.log10(chains * n)))


def split_r_hat(draws: np.ndarray) -> float:
    """Compute the rank-normalised split R̂ of draws (chains, n), the larger of bulk and tail.

    Vehtari and others (2021), equation 14 and §4.
    """
    split = _split(draws)
    folded = np.abs(split - np.median(split))
    return max(_r_hat(_normal_scores(split)), _r_hat(_normal_scores(folded)))


def _r_hat(z: np.ndarray) -> float:
    """Compute R̂ of chains (m, n)."""
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean()
    between = z.mean(axis=1).var(ddof=1)
    return float(np.sqrt((within * (n - 1) / n + between) / within)) if within > 0 else np.inf


def _split(draws: np.ndarray) -> np.ndarray:
    """Split each chain into two halves."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Replace values by the normal quantiles of their ranks."""
    rank = stats.rankdata(x, axis=None).reshape(x.shape)
    return np.asarray(stats.norm.ppf((rank - 0.375) / (x.size + 0.25)))
