"""Inference after a lasso by debiased estimates."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data.input_types import LabelsLike
from ...errors import DataError
from ...fit.shards.time_dependent_columns_by_block import sharded_x
from ...infer.bootstrap_draws import sampling_units
from ...infer.debiased_lasso import DebiasedLasso, debias
from ...infer.robust_covariance import refuse_single_unit
from ...likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.covariances import has_limits
from ..fitting.default_standard_errors import default_kind, name_errors
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import Kind

__all__ = [
    "debiased_lasso",
]


def debiased_lasso(
    model: Estimator,
    params: str | int | Sequence[str | int],
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
    nodewise_penalty: float | None = None,
) -> DebiasedLasso:
    """Correct coefficients of a lasso for its bias, for intervals and tests.

    The estimate of a lasso is corrected by one step towards the maximum of the likelihood,
    along the part of the coefficient's column that a lasso regression on all other columns
    leaves. The cost is this regression for each coefficient; X remains sparse.

    Parameters
    ----------
    params : name, position, or sequence of them
        The coefficients; an intercept or a baseline has no debiased estimate.
    kind : {"model", "robust"}, optional
        ``"model"``: standard errors from the information at the fit. ``"robust"``: from the
        squared scores, which stays valid if the variance of the outcome is misspecified.
        Default as in `vcov`.
    cluster : (n,) labels, optional
        With ``"robust"``: clusters of rows, as in `vcov`.
    nodewise_penalty : float, optional
        Penalty λ_j of the regressions on the other columns, in units of √(H_jj / n); zero is an
        unpenalised regression, which needs fewer columns than rows. By default it is chosen
        for each coefficient (Zhang and Zhang 2014, Table 1): the residuals' largest
        correlation with another column is reduced to √(2 log p / n), and further as long as
        the standard error increases by less than a quarter.

    Returns
    -------
    DebiasedLasso
        ``.summary(level)``, ``.confint(level)``, ``.coef``, ``.vcov`` and ``.nodewise``.

    Raises
    ------
    DataError
        If the prior has no Laplace part, or the model is a pooled, multinomial or cumulative
        probability model.
    SeparationError
        If a column is a copy or a sum of others, which no regression separates from them, or
        the other columns determine it and ``nodewise_penalty`` is zero.

    See Also
    --------
    PenalizedModel.confint : Compute intervals of coefficients that the prior excludes.
    PenalizedModel.inference.bootstrap : Describe the sampling distribution of the lasso itself.

    Notes
    -----
    Columns that the prior excludes are unpenalised in the regressions, too. The intervals
    assume that few coefficients matter, relative to √n / log p, and that few other columns
    predict the column in question; n is the number of events in survival and conditional
    models. They are too narrow, and centred off the truth, if many weak covariates confound, if
    columns are nearly collinear, and in simulations of Cox and Fine–Gray models with fewer
    events than columns, where 60 instead of 95 % of them hold the truth. The table
    ``nodewise`` has the largest remaining correlation, which bounds the bias.

    References
    ----------
    van de Geer, Bühlmann, Ritov and Dezeure (2014), Annals of Statistics 42:1166–1202, eq. 5
    and section 3 (generalised linear models). Zhang and Zhang (2014), JRSS B 76:217–242 (choice
    of the penalty). Fang, Ning and Liu (2017), JRSS B 79:1415–1437, and Yu, Bradic and Samworth
    (2021), Statistica Sinica 31:1523–1546 (Cox models). Reid, Tibshirani and Friedman (2016),
    Statistica Sinica 26:35–67 (residual variance of linear models).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((300, 400)) < 0.3).astype(float)
    >>> y = rng.random(300) < 1 / (1 + np.exp(1.0 - 2.0 * X[:, 0]))
    >>> model = steropes.LogisticRegression(prior=steropes.Laplace(0.02)).fit(X, y)
    >>> print(model.coef_[0].round(2))
    1.2
    >>> model.inference.debiased_lasso("x0").summary()[["coef", "lower", "upper"]].round(2)
        coef  lower  upper
    x0  1.75   1.15   2.35
    """
    check_is_fitted(model)
    kind = default_kind(model, kind)
    if not isinstance(kind, str) or kind not in ("model", "robust"):
        raise DataError(f"kind must be 'model' or 'robust', not {kind!r}.")
    if cluster is not None and kind == "model":
        raise DataError("cluster goes with kind='robust' only.")
    penalty = _penalty(nodewise_penalty)
    problem = model._require_replicable("a debiased lasso")
    if sharded_x(problem.design) is not None:
        raise DataError("X in blocks of rows does not have a debiased lasso; give X as one matrix.")
    if isinstance(problem.likelihood, NuisanceLikelihood):
        raise DataError(
            f"{type(model).__name__} has no debiased lasso, because its thresholds change with "
            "the coefficients. Use profiles or the bootstrap."
        )
    if has_limits(model.prior_):
        raise DataError(
            "The debiased lasso has no limits of coefficients; use profiles or the bootstrap."
        )
    l1, l2 = problem.penalties(model.prior_)
    if model.prior_ is not None and not (l1 > 0).any():
        raise DataError(
            f"Under a {type(model.prior_).__name__} prior without a Laplace part there are Wald "
            "intervals (confint); the debiased lasso is for a Laplace prior."
        )
    chosen = coefficient_positions(params, model._coefficient_names(), model._fixed)
    if not chosen or min(chosen) < problem.n_free:
        raise DataError("params names columns of X; an intercept or baseline is not debiased.")
    unit = None
    if kind == "robust":
        codes = model._cluster_codes(cluster, problem)
        if codes is None or problem.likelihood.whole_strata:
            codes, _ = sampling_units(problem, codes)
        if codes is not None:
            refuse_single_unit(codes, problem.weights, problem.likelihood.order)
        unit = (codes,)
    found = debias(
        problem,
        model._beta,
        np.flatnonzero((l1 == 0) & (l2 == 0)),
        list(dict.fromkeys(chosen)),
        model._effective_sample_size(problem),
        penalty,
        model._residual_variance(),
        unit,
        model._ratio,
    )
    name_errors(found.vcov, kind, model)  # from which its tables take the kind
    return found


def _penalty(value: object) -> float | None:
    """Validate the penalty of nodewise regressions."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise DataError(f"nodewise_penalty must be a number from 0 on, not {value!r}.")
    return float(value)
