"""Confidence intervals of an estimator's coefficients by all methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...data import check_level
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present_coefficients
from ...errors import DataError, listed
from ...infer.bootstrap_intervals import standard_deviations
from ...infer.errors_with_estimated_weights import WeightModel
from ...priors import LimitedPenalty
from ..fitting.coefficient_tables import coefficient_positions, coefficient_table, critical_value
from ..fitting.default_standard_errors import name_errors
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import WALD_KINDS, IntervalMethod, Kind, SummaryKind
from ..fitting.wald_tables import wald_intervals, wald_summary
from .estimator_bootstrap import bootstrap
from .profile_likelihood import likelihood_ratios, profile_intervals

__all__ = [
    "confint",
    "summary",
]

UNKNOWN = (
    "Fits for the profile of {} stopped before their tolerance or reached different maxima: the "
    "numbers of it that are NaN are not known."
)
OWN_PRIOR = (
    "Coefficients with a prior of their own have no line here: their estimates are shrunken on "
    "purpose. confint(name, method='profile') is of their likelihood without it, and "
    "inference.bootstrap() describes the estimates."
)


def confint(
    self: Estimator,
    params: str | int | Sequence[str | int] | None = None,
    level: float = 0.95,
    method: IntervalMethod = "wald",
    cluster: LabelsLike | None = None,
    weight_model: WeightModel | None = None,
) -> ResultTable:
    """Compute confidence intervals of the coefficients.

    Parameters
    ----------
    params : name, position, sequence of them, or mask, optional
        Coefficients; default all, or with ``"profile"`` all unpenalised ones. Positions count
        the intercept or baseline, if any, and then the columns of X as they were given to
        ``fit``, including those with a fixed coefficient. A mask has one entry for each
        coefficient.
    level : float
        Between 0 and 1.
    method : {"wald", "model", "robust", "HC0" …, "jackknife", "profile", "bootstrap"}
        ``"wald"``: coefficient ± normal quantile (in linear models, t) × standard error of
        the default kind (see `vcov`). ``"model"``, ``"robust"``, ``"HC0"`` to ``"HC3"``,
        ``"jackknife"``: of this kind.
        ``"profile"``: the points at which the profile log-likelihood (see `Inference.profile`) is
        half the chi-squared quantile below its maximum; other coefficients are refitted under
        their prior. The limit is infinite on a side on which the profile never falls so far.
        The prior of a penalised coefficient itself is ignored.
        ``"bootstrap"``: percentiles of 200 draws with the model's ``random_state``; see
        `Inference.bootstrap` for more draws, and basic and BCa intervals.
    cluster : (n,) labels, optional
        Clusters of rows for ``"robust"``, ``"HC1"`` and ``"jackknife"`` (see `vcov`) or
        ``"bootstrap"``.
    weight_model : steropes.designs.propensity.EstimatedWeights, optional
        The propensity model of the weights, for ``"wald"`` or ``"robust"``; see `vcov`.

    Returns
    -------
    DataFrame
        Columns ``lower`` and ``upper``. ``attrs["errors"]`` is the kind of errors, in print too
        unless they are the model's.

    Warns
    -----
    MonotoneLikelihoodWarning
        If a profile is monotone on one side.
    NotConvergedWarning
        If fits stopped before their tolerance or reached different maxima; unknown limits of
        profiles are NaN.

    References
    ----------
    Venzon and Moolgavkar (1988), Applied Statistics 37:87–94 (profile).

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.confint("x0", method="profile").round(2).loc["x0"].tolist()
    [-1.88, 5.34]
    """
    check_is_fitted(self)
    names = self._coefficient_names()
    if not isinstance(method, str) or (method != "profile" and method != "bootstrap"):
        if not isinstance(method, str) or method not in ("wald", *WALD_KINDS):
            raise DataError(
                "method must be 'wald', 'robust', 'profile' or 'bootstrap', 'HC0' to 'HC3' or "
                f"'jackknife', not {method!r}."
            )
        kind: Kind | None = None if method == "wald" else method
        return wald_intervals(self, params, level, kind, cluster, weight_model)
    if weight_model is not None:
        raise DataError("weight_model goes with method='wald' or 'robust' only.")
    check_level(level)
    if params is not None:
        chosen = coefficient_positions(params, names, self._fixed)
    else:
        chosen = _unpenalised(self) if method == "profile" else list(range(len(names)))
    if method == "bootstrap":
        drawn = bootstrap(self, cluster=cluster, random_state=self.random_state)
        return name_errors(drawn.confint(level).iloc[chosen], method, self)
    if cluster is not None:
        raise DataError("cluster goes with method='robust' or 'bootstrap', not 'profile'.")
    limits = profile_intervals(self, chosen, level)
    table = pd.DataFrame(limits, [names[j] for j in chosen], ["lower", "upper"])
    return name_errors(present_coefficients(table, self._ratio, level), method, self)


def summary(
    self: Estimator,
    level: float = 0.95,
    kind: SummaryKind | None = None,
    cluster: LabelsLike | None = None,
    weight_model: WeightModel | None = None,
) -> ResultTable:
    """Tabulate the coefficients with standard errors, tests and intervals.

    Parameters
    ----------
    level : float
        Confidence level of the intervals.
    kind : {"model", "robust", "HC0" …, "jackknife", "profile", "bootstrap"}, optional
        ``"model"``, ``"robust"``, ``"HC0"`` to ``"HC3"``, ``"jackknife"``: Wald
        tests and intervals, see `vcov`. Default ``"robust"`` if a weight is not a
        whole number, and ``"model"`` otherwise; the table names the kind in ``attrs["errors"]``,
        in print too unless errors are the model's.
        ``"profile"``: limits of profile likelihoods; ``z`` is the signed root of twice the
        log-likelihood ratio against zero, ``p`` is from the likelihood-ratio test, and ``se``
        is the width of the interval divided by that of a standard normal one.
        ``"bootstrap"``: percentiles of 200 draws with the model's ``random_state``, ``se``
        their standard deviation, and ``z`` = coef / se.
    cluster : (n,) labels, optional
        Clusters of rows, see `confint`.
    weight_model : steropes.designs.propensity.EstimatedWeights, optional
        The propensity model of the weights, see `vcov`.

    Returns
    -------
    DataFrame
        Indexed by coefficient, with the columns ``coef``, ``lower``, ``upper``,
        ``exp(coef)``, ``exp(lower)``, ``exp(upper)``, ``se``, ``z`` and ``p``. The
        exponentials are the ratio (of hazards, odds or rates) and its limits, which only
        models with a ratio have. Linear models have ``t`` instead of ``z`` in the Wald tables,
        with the residual degrees of freedom. Under a Laplace prior the Wald columns are NaN,
        as are those of penalised coefficients with ``"profile"``; ``attrs["note"]`` of the
        table gives the reason and an alternative.

    Raises
    ------
    DataError
        If ``kind`` is unknown, or the model was unpickled without data that it needs.

    See Also
    --------
    PenalizedModel.confint : Compute intervals of some coefficients.
    steropes.plots.forest : Draw the table.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> table = steropes.LogisticRegression().fit(X, y).summary()
    >>> table[["coef", "se", "z", "p"]].round(2)
               coef    se     z     p
    intercept -0.69  1.22 -0.57  0.57
    x0         1.39  1.73  0.80  0.42
    """
    if kind is None or (isinstance(kind, str) and kind in WALD_KINDS):
        return wald_summary(self, level, kind, cluster, weight_model)
    if not isinstance(kind, str) or kind not in ("profile", "bootstrap"):
        kinds = "'model', 'robust', 'profile' or 'bootstrap', 'HC0' to 'HC3' or 'jackknife'"
        raise DataError(f"kind must be {kinds}, not {kind!r}.")
    if weight_model is not None:
        raise DataError("weight_model goes with kind='robust' only.")
    q = critical_value(level)
    if cluster is not None and kind == "profile":
        raise DataError("cluster goes with kind='robust' or 'bootstrap', not 'profile'.")
    estimate, names = np.asarray(self._coefficients()), self._coefficient_names()
    se, root = np.full((2, len(names)), np.nan)
    limits = np.full((len(names), 2), np.nan)
    if kind == "profile":
        chosen = _unpenalised(self)
        limits[chosen] = profile_intervals(self, chosen, level)
        root[chosen] = likelihood_ratios(self, chosen)
        se = (limits[:, 1] - limits[:, 0]) / (2.0 * q)
    else:
        units = {} if cluster is None else {"cluster": cluster}
        drawn = bootstrap(self, random_state=self.random_state, **units)
        limits, se = drawn.confint(level).to_numpy(), standard_deviations(drawn.coef)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = estimate / se
    table = coefficient_table(estimate, se, names, level, None, self._ratio, (root, limits))
    name_errors(table, kind, self)
    if kind == "profile":
        unknown = [names[j] for j in chosen if np.isnan([root[j], *limits[j]]).any()]
        notes = [table.attrs["note"]] if "note" in table.attrs else []
        if len(chosen) < len(names):
            notes.append(OWN_PRIOR)
            table.columns.name += ", none under a prior"
        notes += [UNKNOWN.format(listed(unknown))] if unknown else []
        if notes:
            table.attrs["note"] = " ".join(notes)
    return table


def _unpenalised(model: Estimator) -> list[int]:
    """Return the positions of the unpenalised coefficients."""
    problem = model._require_data("an interval")
    l1, l2 = problem.penalties(model.prior_)
    joined = problem.group_penalty(model.prior_)
    limited = joined.limited if isinstance(joined, LimitedPenalty) else np.zeros(len(l1), bool)
    free = [int(j) for j in np.flatnonzero((l1 == 0) & (l2 == 0) & ~limited)]
    if not free:
        raise DataError(
            "Every coefficient has a prior, and by default only those without one have profile "
            "intervals. Exclude columns from the prior (exclude=), or name columns in "
            "confint(..., method='profile'), which ignores their own prior."
        )
    return free
