"""Plots of posterior draws: densities with intervals, and traces of the chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import gaussian_kde

from ..data import check_level
from ..errors import DataError
from ..infer.posterior import Posterior
from .plot_style import FAINT, INK, MUTED, curve_colour, new_figure, remove_clutter, shorten_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["posterior_draws"]

# Points at which a density is computed.
POINTS = 300


def posterior_draws(
    posterior: Posterior,
    params: str | Sequence[str] | None = None,
    *,
    level: float = 0.95,
    axes: Any = None,
) -> np.ndarray:
    """Draw the density of each coefficient with its interval, and the trace of each chain.

    Chains that have mixed have the same density, and traces without trends.

    Parameters
    ----------
    posterior : Posterior
        The result of ``model.inference.posterior(...)``.
    params : name or sequence of names, optional
        The coefficients to draw, default all of ``posterior``.
    level : float
        Probability of the equal-tailed interval below the density, default 0.95.
    axes : (k, 2) array of matplotlib Axes, optional
        Axes for the densities and traces of k coefficients. Default: those of a new figure.

    Returns
    -------
    (k, 2) array of matplotlib Axes
        The axes with the plots.

    Raises
    ------
    DataError
        If ``posterior`` has no such coefficient, or ``axes`` has another shape.

    See Also
    --------
    LogisticRegression.inference.posterior : Draw from a posterior.

    References
    ----------
    Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), JRSS A 182:389–402.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> y = X[:, 0] + rng.standard_normal(60)
    >>> model = steropes.LinearRegression(prior=steropes.Normal(0.1)).fit(X, y)
    >>> draws = model.inference.posterior(["x0", "x1"], random_state=1)
    >>> axes = steropes.plots.posterior_draws(draws)
    >>> axes[0, 0].get_xlabel(), axes.shape
    ('x0', (2, 2))
    """
    if not isinstance(posterior, Posterior):
        raise DataError("posterior_draws needs the result of model.inference.posterior(...).")
    tail = 0.5 - check_level(level) / 2
    names = (
        [params] if isinstance(params, str) else list(posterior.names if params is None else params)
    )
    for name in names:
        if name not in posterior.names:
            raise DataError(f"There are no draws of {name!r}, only of {posterior.names}.")
    if not names:
        raise DataError("params names no coefficient.")
    axes = new_figure((8.0, 2.0 * len(names)), (len(names), 2)) if axes is None else axes
    axes = np.asarray(axes, object).reshape(-1, 2)
    if len(axes) != len(names):
        raise DataError(f"axes has {len(axes)} rows, but there are {len(names)} coefficients.")
    for (left, right), name in zip(axes, names, strict=True):
        draws = posterior.draws[:, :, posterior.names.index(name)]
        _draw_density(left, draws, tail, shorten_label(name))
        _draw_trace(right, draws, shorten_label(name))
    axes[-1, 1].set_xlabel("Draw")
    return axes


def _draw_density(ax: Axes, draws: np.ndarray, tail: float, label: str) -> None:
    """Draw the density of each chain, with the interval and the median of all below them."""
    lower, middle, upper = np.quantile(draws, [tail, 0.5, 1.0 - tail])
    for chain, values in enumerate(draws):
        if values.std() > 0:
            x = np.linspace(values.min(), values.max(), POINTS)
            ax.plot(x, gaussian_kde(values)(x), color=curve_colour(chain), linewidth=1.0)
    ax.axvline(0.0, color=FAINT, zorder=0)
    ax.set_ylim(bottom=0.0)
    ax.plot([lower, upper], [0.0, 0.0], color=INK, linewidth=4.0, clip_on=False)
    ax.plot([middle], [0.0], "o", color="white", markeredgecolor=INK, markersize=6, clip_on=False)
    ax.set_yticks([])
    ax.set_xlabel(label)
    remove_clutter(ax)


def _draw_trace(ax: Axes, draws: np.ndarray, label: str) -> None:
    """Draw the values of each chain in the order of its draws."""
    for chain, values in enumerate(draws):
        ax.plot(values, color=curve_colour(chain), linewidth=0.5, alpha=0.8)
    ax.set_ylabel(label, color=MUTED)
    ax.margins(x=0.0)
    remove_clutter(ax)
