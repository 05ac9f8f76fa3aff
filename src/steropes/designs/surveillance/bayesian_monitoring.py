"""Posterior probabilities of effects of many outcomes over looks, corrected by their controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.evidence.profile_interpolation import NormalProfile, Profile
from steropes.designs.surveillance.bayesian_bias_correction import (
    BiasDistribution,
    correct_bias,
    fit_bias,
)
from steropes.designs.surveillance.sequential_tests_of_estimates import GROUP, checked_estimates
from steropes.designs.values.argument_checks import check_names
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["check_threshold", "monitor_posteriors"]

FEW = f"not corrected: fewer than {LEAST_CONTROLS} controls"
CUT = "a likelihood profile ends too early"


def monitor_posteriors(
    estimates: TableLike,
    *,
    by: Sequence[str] = (),
    controls_by: Sequence[str] = (),
    threshold: float = 0.95,
    robust: bool = False,
) -> ResultTable:
    """Compute posterior probabilities of effects at each look at accruing data.

    At each look the systematic error is fitted to the likelihoods of its negative controls, and
    taken off the effects of the others.

    Parameters
    ----------
    estimates : DataFrame
        A row per look and estimate with the columns ``look`` (1, 2, …), ``log_rr``, ``se`` and
        those of ``by``, as of `monitor_estimates`. A column ``control`` marks negative controls,
        and ``profile`` has a `Profile` for each estimate, or None for a normal likelihood.
    by : sequence of str, optional
        Columns that distinguish estimates of one look, such as the comparison and the outcome.
    controls_by : sequence of str, optional
        Columns that distinguish groups of estimates that each have a systematic error of their own.
        Default: all have one.
    threshold : float, default 0.95
        Posterior probability of an effect above zero that is a signal.
    robust : bool, default False
        Let errors of controls have a t distribution with four degrees of freedom.

    Returns
    -------
    DataFrame
        A row per estimate and look: ``look``, the columns of ``by``, ``log_rr``, ``se``,
        ``corrected`` (posterior mean), ``lower``, ``upper`` (2.5 % and 97.5 % quantiles),
        ``probability`` (of an effect above zero), ``threshold``, ``error_mean`` and ``error_sd``
        (systematic error), ``signal`` (true from the first signal on) and ``note`` (why there is
        no probability, or no correction). Controls have no rows.

    Raises
    ------
    DataError
        A column is missing, a look is repeated, or a setting has no meaning.

    See Also
    --------
    monitor_estimates : Keeps the probability of a signal without an effect; this does not.

    References
    ----------
    Bu and others (2024), Statistics in Medicine 43:395–418.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import monitor_posteriors
    >>> estimates = pd.DataFrame({"look": [1, 2], "log_rr": [0.6, 0.7], "se": [0.5, 0.3]})
    >>> monitor_posteriors(estimates)[["look", "corrected", "probability", "signal"]].round(2)
       look  corrected  probability  signal
    0     1       0.48         0.86   False
    1     2       0.64         0.99    True
    """
    check_threshold(threshold)
    table = read_columns(estimates, None, "estimates")
    last = pd.to_numeric(table["look"], errors="coerce").max() if "look" in table else 1
    rows = checked_estimates(
        table, int(last) if np.isfinite(last) else 1, check_names("by", by),
        check_names("controls_by", controls_by),
    )  # fmt: skip
    if "profile" not in rows:
        rows["profile"] = None
    errors = _errors(rows, robust)
    own, none = rows[~rows["control"]], FEW if errors else None
    found = [
        _corrected(line, errors.get((line["look"], line[GROUP]), none))
        for line in own.to_dict("records")
    ]
    names = ["corrected", "lower", "upper", "probability", "error_mean", "error_sd", "note"]
    table = own.assign(
        **{name: [line[name] for line in found] for name in names}, threshold=threshold
    )
    table["signal"] = table["probability"] >= threshold
    keys = list(by)
    groups = [table]
    if keys:
        groups = [part for _, part in table.groupby(keys, sort=False, observed=True)]
    made = [part.assign(signal=part["signal"].cummax()) for part in groups]
    columns = ["look", *keys, "log_rr", "se", "corrected", "lower", "upper", "probability",
               "threshold", "error_mean", "error_sd", "signal", "note"]  # fmt: skip
    if not made:
        return ResultTable(columns=columns)
    shown = Interval("Corrected log ratio", "corrected", "lower", "upper", 0.95)
    return present(
        pd.concat(made, ignore_index=True)[columns], "forest", intervals=(shown,),
        labels=("look", *keys), exponentiate=True, label="Corrected ratio (log scale)",
    )  # fmt: skip


def check_threshold(threshold: float) -> None:
    """Refuse a posterior probability of a signal outside (0.5, 1)."""
    if not 0.5 < threshold < 1:
        raise DataError(f"threshold must be between 0.5 and 1, such as 0.95, not {threshold!r}.")


def _likelihood(line: dict[Any, Any]) -> Profile | None:
    """Return the likelihood of an estimate, or None without one."""
    if isinstance(line["profile"], Profile):
        return line["profile"] if np.isfinite(line["z"]) else None
    known = np.isfinite(line["log_rr"]) and np.isfinite(line["se"]) and line["se"] > 0
    return NormalProfile(float(line["log_rr"]), float(line["se"])) if known else None


def _errors(rows: pd.DataFrame, robust: bool) -> dict[tuple[int, int], BiasDistribution | str]:
    """Fit the error of each look and group, or give the reason why it cannot be fitted."""
    found: dict[tuple[int, int], BiasDistribution | str] = {}
    for (look, group), own in rows[rows["control"]].groupby(["look", GROUP]):
        known = [_likelihood(line) for line in own.to_dict("records")]
        likelihoods = [f for f in known if f is not None]
        if len(likelihoods) < LEAST_CONTROLS:
            found[int(look), int(group)] = FEW
            continue
        try:
            found[int(look), int(group)] = fit_bias(likelihoods, robust=robust)
        except DataError:
            found[int(look), int(group)] = f"{CUT}, of a control"
    return found


def _corrected(
    line: dict[Any, Any], error: BiasDistribution | str | None
) -> dict[str, float | str]:
    """Return the posterior of one estimate."""
    bias = error if isinstance(error, BiasDistribution) else None
    nothing: dict[str, float | str] = dict.fromkeys(
        ("corrected", "lower", "upper", "probability", "error_mean", "error_sd"), np.nan
    )
    if bias is not None:
        nothing |= {"error_mean": bias.mean, "error_sd": bias.sd}
    likelihood = _likelihood(line)
    if likelihood is None:
        return {**nothing, "note": line["note"] or "no estimate"}
    if isinstance(error, str) and error != FEW:
        return {**nothing, "note": error}
    try:
        effect = correct_bias(likelihood, bias)
    except DataError:
        return {**nothing, "note": CUT}
    return {
        **nothing, "corrected": effect.log_rr, "lower": effect.lower, "upper": effect.upper,
        "probability": effect.probability, "note": error if isinstance(error, str) else "",
    }  # fmt: skip
