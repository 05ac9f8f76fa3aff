"""Posterior distributions of coefficients, with the variance of the prior integrated over."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...convergence_warning import NotConvergedWarning
from ...errors import DataError, listed
from ...fit import Problem
from ...fit.shards.time_dependent_columns_by_block import sharded_x
from ...infer.inference_constants import POSTERIOR
from ...infer.posterior import Posterior, effective_sample_size, split_r_hat
from ...infer.posterior_sampling import sample_posterior
from ...likelihoods.fine_gray_likelihood import FineGrayLikelihood
from ...likelihoods.nuisance_likelihood import NuisanceLikelihood
from ...priors import Laplace, Normal
from ...select.folds import random_generator
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.covariances import has_limits
from ..fitting.fit_steps import Estimator
from ..fitting.progress_messages import Progress
from ..fitting.setting_types import Seed

__all__ = [
    "posterior",
]


def posterior(
    model: Estimator,
    params: str | int | Sequence[str | int],
    *,
    scale: float = 1.0,
    n: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    random_state: Seed = None,
) -> Posterior:
    """Draw coefficients from their posterior, with the prior's variance integrated over.

    The prior of the fit, Laplace or normal, applies to the same columns, but its standard
    deviation is a parameter with a half-Cauchy prior. Unpenalised coefficients and an
    intercept have flat priors. All coefficients are drawn together by Markov chain Monte Carlo;
    those that are named are kept.

    Parameters
    ----------
    params : name, position, or sequence of them
        The coefficients to keep.
    scale : float
        Scale of the half-Cauchy prior on the prior's standard deviation, in the units of the
        coefficients: its median. The default is 1; with columns in other units than 0/1, choose
        a plausible size of a coefficient.
    n, warmup : int
        Draws of each chain to keep, default 1000, and before them to adapt the sampler with,
        default 1000.
    chains : int
        Number of chains, default 4, which share each pass over X.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Posterior
        ``.summary(level)``, ``.confint(level)``, ``.quantiles(q)``, ``.draws`` and
        ``.variance``.

    Raises
    ------
    DataError
        If the prior is not `Laplace` or `Normal`, or the model has no likelihood with
        coefficients only: Fine–Gray, cumulative, gamma and negative binomial models.

    Warns
    -----
    NotConvergedWarning
        If the chains of a coefficient differ (R̂ above 1.01) or have fewer than 400 effective
        draws together; for the prior's variance the bounds are 1.05 and 100.

    See Also
    --------
    PenalizedModel.inference.bootstrap : Describe the distribution of the estimates over samples.
    steropes.plots.posterior_draws : Draw densities, intervals and traces.

    Notes
    -----
    Hamiltonian Monte Carlo draws the coefficients, with the information as metric (beyond 1,000
    coefficients its diagonal and the rows of unpenalised coefficients); slice sampling draws
    the standard deviation. The time is that of tens of thousands of gradients, and mixing is
    slow with a thousand columns or more: read ``ess`` and ``r_hat`` of the summary. In Cox and
    conditional models the partial or conditional likelihood takes the place of the likelihood.
    The residual standard deviation of linear models has a half-Cauchy prior with that of the
    outcome as scale; the prior on the coefficients does not depend on it.

    References
    ----------
    Park and Casella (2008), JASA 103:681–686 (Bayesian lasso). Gelman (2006), Bayesian Analysis
    1:515–534, and Polson and Scott (2012), Bayesian Analysis 7:887–902 (half-Cauchy). Neal
    (2011), Handbook of Markov Chain Monte Carlo, ch. 5. Yu and Meng (2011), JCGS 20:531–570
    (interweaving). Sinha, Ibrahim and Chen (2003), Biometrika 90:629–641 (partial likelihood).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((100, 10)) < 0.4).astype(float)
    >>> y = (rng.random(100) < 1 / (1 + np.exp(1.0 - 2.0 * X[:, 0]))).astype(int)
    >>> model = steropes.LogisticRegression(prior=steropes.Normal(0.1, exclude=[0])).fit(X, y)
    >>> posterior = model.inference.posterior("x0", random_state=1)
    >>> bool(posterior.confint().loc["x0", "lower"] > 0)
    True
    """
    check_is_fitted(model)
    names = model._coefficient_names()
    chosen = coefficient_positions(params, names, model._fixed)
    if not chosen:
        raise DataError("params names no coefficient.")
    sizes = _whole("chains", chains, 2), _whole("warmup", warmup, 100), _whole("n", n, 100)
    if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < np.inf:
        raise DataError(f"scale must be a positive number, not {scale!r}.")
    problem = _problem_with_posterior(model)
    l1, l2 = problem.penalties(model.prior_)
    if not max(float(np.max(l1)), float(np.max(l2))) > 0:
        raise DataError("The prior excludes all columns, so that it has no variance to draw.")
    fitted = _standard_deviation(l1, l2)

    def record(beta: np.ndarray) -> np.ndarray:
        """Select coefficients, with an intercept at X = 0."""
        return problem.design.uncentered_coefficients(beta)[chosen]

    relative, rng = float(scale) / fitted, random_generator(random_state)
    pool = problem.likelihood.backend.pool
    with pool.using(model.n_jobs), Progress(model.verbose) as progress:
        found = sample_posterior(
            problem, model._beta, l1, l2, relative, record, sizes, rng, progress.report
        )
    out = Posterior(
        found.coef,
        [names[j] for j in chosen],
        (found.deviation * fitted) ** 2,
        found.dispersion,
        model._ratio,
        found.acceptance,
    )
    _warn_unmixed(out)
    return out


def _problem_with_posterior(model: Estimator) -> Problem:
    """Return the problem of the fit.

    Raises
    ------
    DataError
        If the likelihood, the prior or the storage of X does not allow a posterior.
    """
    problem = model._require_replicable("a posterior")
    if sharded_x(problem.design) is not None:
        raise DataError("X in blocks of rows does not have a posterior; give X as one matrix.")
    likelihood = problem.likelihood
    refused = isinstance(likelihood, NuisanceLikelihood | FineGrayLikelihood)
    if refused or (likelihood.dispersion_parameters and not likelihood.quadratic):
        raise DataError(
            f"{type(model).__name__} has no posterior, because its likelihood is not one of "
            "coefficients alone. Use the bootstrap."
        )
    if has_limits(model.prior_):
        raise DataError("A posterior has no limits of coefficients; use the bootstrap.")
    if type(model.prior_) not in (Laplace, Normal):
        raise DataError("A posterior needs a fit with prior=Laplace(…) or prior=Normal(…).")
    return problem


def _standard_deviation(l1: np.ndarray, l2: np.ndarray) -> float:
    """Compute the prior's standard deviation, the geometric mean if columns differ."""
    precision = 0.5 * l1**2 + l2
    return float(np.exp(-0.5 * np.log(precision[precision > 0]).mean()))


def _whole(name: str, value: object, least: int) -> int:
    """Validate a number of draws or chains."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise DataError(f"{name} must be a whole number from {least}, not {value!r}.")
    return int(value)


def _warn_unmixed(posterior: Posterior) -> None:
    """Warn of parameters with chains that differ or with few effective draws."""
    policy = POSTERIOR
    bad = [
        name
        for j, name in enumerate(posterior.names)
        if split_r_hat(posterior.draws[:, :, j]) > policy.max_r_hat
        or effective_sample_size(posterior.draws[:, :, j]) < policy.min_ess
    ]
    if (
        split_r_hat(posterior.variance) > policy.max_variance_r_hat
        or effective_sample_size(posterior.variance) < policy.min_variance_ess
    ):
        bad.append("the prior's variance")
    if bad:
        warnings.warn(
            f"The chains have not mixed for {listed(bad)}: see ess and r_hat of summary(). "
            "Increase n and warmup.",
            NotConvergedWarning,
            stacklevel=4,
        )
