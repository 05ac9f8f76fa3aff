"""Comparison of two groups of people from any table in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steropes.designs.comparative.adjustments import (
    Adjust,
    steps_of,
)
from steropes.designs.comparative.comparison_input_table import people_to_compare
from steropes.designs.comparative.comparison_settings import ComparisonSettings
from steropes.designs.comparative.covariate_reading import Missing
from steropes.designs.comparative.group_comparison import GroupComparison
from steropes.designs.comparative.marginal_effects import (
    Ties,
)
from steropes.designs.values.estimands import check_estimand

__all__ = ["compare_groups"]


def compare_groups(
    data: Any,
    *,
    treatment: str,
    covariates: Any,
    outcome: str | None = None,
    time: str | None = None,
    event: str | None = None,
    entry: str | None = None,
    estimand: str = "ate",
    adjust: Adjust = "weights",
    target: object = None,
    id: str | None = None,
    cluster: str | None = None,
    missing: Missing = "error",
    model: Any = None,
    interactions: bool | Sequence[str] | None = None,
    horizon: float | None = None,
    ties: Ties = "efron",
    bootstrap: int = 0,
    level: float = 0.95,
    random_state: int = 0,
) -> GroupComparison:
    """Compare the outcomes of two groups of people in any table, adjusted for covariates.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person: a table of pandas, polars, pyarrow or anything that narwhals reads,
        such as a DuckDB relation, or the path of a Parquet or CSV file.
    treatment : str
        Column with two values.
    covariates : list of str, data frame or Covariates
        Columns that confound the comparison: numbers, or labels. Or a long table with the column
        ``id``, a column that names covariates, and perhaps one of their values; covariates that
        people do not have are zero. Or `Covariates` of the rows of ``data`` in their order, such as
        those that `HighDimensionalPropensityScore` selects.
    outcome : str, optional
        Column of numbers. An outcome of 0 and 1 has risks, any other one means. It may be missing
        if all methods of ``adjust`` are `DoublyRobust` with a ``missingness_model``; effects
        without adjustment are then those of people with an outcome.
    time, event : str, optional
        Instead of ``outcome``: columns of the time under observation, and of the event at its
        end (0 none, 1 the event, 2 a competing event).
    entry : str, optional
        Column of the start of the time at risk, for people who came under observation late.
    estimand : {"ate", "att", "atc", "ato", "atm", "entropy"}, default "ate"
        Population of the effect: everybody, the target group, the comparator group, or those who
        could have had either treatment; see `PropensityWeights`. "matching" has "att" and "atc".
        Capitals do not matter, and "atu" is "atc".
    adjust : str, object or list of them, default "weights"
        "matching" (pairs), "strata", "weights", "entropy" (balancing), "standardization" (an
        outcome model), "aipw", "tmle" or "ipwra" (both models, doubly robust; "ipwra" for numbers
        only), or unfitted `Matching`, `PropensityWeights`, `EntropyBalancing`, `DoublyRobust` or
        `DoublyRobustSurvival` objects with settings of their own. Times to events have hazards in
        30 intervals up to the horizon by name, or in those of the object; the horizon is then the
        end of one of them.
    target : label, optional
        Value of ``treatment`` that is the target group. Default 1, if the values are 0 and 1.
    id : str, optional
        Column of ids of people, which are checked to be unique; for a long table and for the
        order of tied matches.
    cluster : str, optional
        Column of clusters whose people may be alike, such as hospitals or families. Errors are
        then by clusters, and a bootstrap draws clusters. Matched sets must lie within clusters.
    missing : {"error", "indicator"}, default "error"
        Missing covariates are an error; or take the median with an indicator column, and for
        labels a level of their own.
    model : estimator, optional
        Unfitted propensity model for methods given by name. Default: logistic regression by
        maximum likelihood, or for a long table with a Laplace prior by cross-validation.
    interactions : bool or list of str, optional
        Covariates whose products with the treatment are in the model of "standardization".
        Default: all for numbers; none for times.
    horizon : float, optional
        Time of risks and restricted means. Default: the 90 % quantile of ``time``, but at most the
        last time at which both groups have somebody left. With ``entry`` there are none.
    ties : {"efron", "breslow"}, default "efron"
        Tied times in Cox models.
    bootstrap : int, default 0
        Number of draws with which all errors are those of a bootstrap of the whole procedure: of
        people, or after matching of matched sets.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the bootstrap.

    Returns
    -------
    GroupComparison
        Effects, balance, Table 1, weights, matched sets and diagnostics. Ratios are left out if
        no one of a group had the event.

    Raises
    ------
    DataError
        A column is missing or has values that cannot be used, or the groups do not overlap; the
        message names the column and the remedy.

    See Also
    --------
    Matching, PropensityWeights, EntropyBalancing, DoublyRobust : The methods with all settings.
    balance_table, table_one : Tables from weights of any origin.

    Notes
    -----
    Errors after estimated weights come from stacked estimating equations (Lunceford and Davidian
    2004), those after matching are clustered by matched set (Austin 2009). After a score with a
    prior they take weights as known, as the column ``errors`` states; then set ``bootstrap``.

    References
    ----------
    Lunceford and Davidian (2004), Statistics in Medicine 23:2937–2960. Stefanski and Boos (2002),
    The American Statistician 56:29–38. Austin and Small (2014), Statistics in Medicine
    33:4306–4319 (bootstrap of pairs). Xu and others (2010), Value in Health 13:273–277.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(60, 10, 500).round()
    >>> drug = rng.random(500) < 1 / (1 + np.exp((65 - age) / 10))
    >>> stroke = rng.random(500) < 0.1 + 0.004 * (age - 40).clip(0)
    >>> people = pd.DataFrame({"age": age, "drug": drug * 1, "stroke": stroke * 1})
    >>> found = steropes.compare_groups(
    ...     people, treatment="drug", outcome="stroke", covariates=["age"],
    ...     adjust=["weights", "standardization"],
    ... )
    >>> rows = found.effects.query("measure == 'risk difference'")
    >>> rows[["method", "estimate", "se"]].round(3)
                method  estimate     se
    0       unadjusted     0.048  0.038
    3          weights     0.010  0.053
    6  standardization     0.024  0.042
    """
    code = check_estimand(estimand)
    table = people_to_compare(
        data, treatment=treatment, covariates=covariates, outcome=outcome, time=time, event=event,
        entry=entry, target=target, id=id, cluster=cluster, missing=missing,
    )  # fmt: skip
    settings = ComparisonSettings(code, interactions, ties, bootstrap, random_state, level)
    settings.check(table, horizon)
    at = settings.horizon(table, adjust, horizon)
    steps = steps_of(adjust, code, model, table.long, at)
    settings.check_steps(table, steps, outcome)
    call = {
        "treatment": treatment, "outcome": outcome, "time": time, "event": event, "entry": entry,
        "covariates": covariates, "estimand": estimand, "adjust": adjust, "target": target,
        "id": id, "cluster": cluster, "missing": missing, "model": model,
        "interactions": interactions, "horizon": horizon, "ties": ties, "bootstrap": bootstrap,
        "level": level, "random_state": random_state,
    }  # fmt: skip
    defaults = compare_groups.__kwdefaults__ or {}
    call = {name: value for name, value in call.items() if value is not defaults.get(name, call)}
    return settings.compare(table, steps, at if horizon is None else horizon, call)
