"""Performance of analyses on controls: bias, coverage, precision, discrimination and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.html_representations import FieldsInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.controls.systematic_error_model import leave_one_group_out

__all__ = ["ControlEstimates", "before_and_after", "control_performance", "performance_by_ratio"]


@dataclass(frozen=True, repr=False, eq=False)
class ControlEstimates(FieldsInHtml):
    """Estimates of one analysis for its controls.

    Attributes
    ----------
    log_rr : ndarray, shape (n,)
        Log ratios; NaN or infinite if there is no estimate.
    se : ndarray, shape (n,)
        Their standard errors.
    lower : ndarray, shape (n,)
        Lower 95 % limits on the log scale.
    upper : ndarray, shape (n,)
        Upper 95 % limits on the log scale.
    true_log_rr : ndarray, shape (n,)
        True log ratios.
    target : ndarray, shape (n,)
        The target ratio: 1 for negative controls.
    group : ndarray, shape (n,)
        The negative control that each control is or was made from.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import ControlEstimates
    >>> log_rr, se = np.array([0.1, -0.2, 0.4]), np.full(3, 0.1)
    >>> lower, upper = log_rr - 1.96 * se, log_rr + 1.96 * se
    >>> controls = ControlEstimates(
    ...     log_rr, se, lower, upper, np.zeros(3), np.ones(3), np.arange(3)
    ... )
    >>> controls.usable.tolist()
    [True, True, True]
    """

    log_rr: NDArray
    se: NDArray
    lower: NDArray
    upper: NDArray
    true_log_rr: NDArray
    target: NDArray
    group: NDArray

    def plot(self, **options: Any) -> Any:
        """Draw standard errors against estimates by `steropes.plots.control_estimates`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        table = pd.DataFrame({"log_rr": self.log_rr, "se_log_rr": self.se})
        return drawn_by("control_estimates", table, **options)

    @classmethod
    def of(cls, found: pd.DataFrame) -> ControlEstimates:
        """Create them from rows of result tables.

        Parameters
        ----------
        found : DataFrame
            ``log_rr``, ``se_log_rr``, ``ci_95_lb``, ``ci_95_ub``, ``true_effect_size``;
            ``outcome_id``, ``negative_control_id`` and ``target_ratio``, the last two missing for
            negative controls.

        Returns
        -------
        ControlEstimates
            The estimates.
        """
        with np.errstate(divide="ignore"):
            lower, upper = (np.log(found[c].to_numpy(float)) for c in ("ci_95_lb", "ci_95_ub"))
        return cls(
            found["log_rr"].to_numpy(float),
            found["se_log_rr"].to_numpy(float),
            lower,
            upper,
            np.log(found["true_effect_size"].to_numpy(float)),
            found["target_ratio"].fillna(found["true_effect_size"]).to_numpy(float),
            found["negative_control_id"].fillna(found["outcome_id"]).to_numpy(np.int64),
        )

    @property
    def usable(self) -> NDArray:
        """Mask of the controls with an estimate and a standard error, shape (n,)."""
        return np.isfinite(self.log_rr) & np.isfinite(self.se) & (self.se > 0)

    def calibrated(self) -> ControlEstimates:
        """Calibrate each control by the controls of all other groups.

        Returns
        -------
        ControlEstimates
            Calibrated estimates.
        """
        t = leave_one_group_out(self.log_rr, self.se, self.true_log_rr, self.group)
        return ControlEstimates(
            t["calibrated_log_rr"].to_numpy(),
            t["calibrated_se"].to_numpy(),
            t["calibrated_lower"].to_numpy(),
            t["calibrated_upper"].to_numpy(),
            self.true_log_rr,
            self.target,
            self.group,
        )


def control_performance(found: ControlEstimates) -> dict[str, float]:
    """Compute performance metrics over all controls.

    Parameters
    ----------
    found : ControlEstimates
        Estimates of the controls.

    Returns
    -------
    dict
        ``controls``; ``auc``, the probability that a positive control has a larger estimate than a
        negative one; ``coverage`` of the true ratio by the 95 % interval; ``precision``, the
        geometric mean of 1 / se²; ``mse``, the mean squared error of the log ratio; ``type_1``, the
        share of negative controls with an interval that excludes 1; ``type_2``, the share of
        positive controls with an interval that includes 1; ``without``, the share of controls
        without an estimate, which the other metrics omit. NaN if a metric has no controls.

    References
    ----------
    Schuemie, Cepeda, Suchard and others (2020), Harvard Data Science Review 2(1) (the metrics).

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import ControlEstimates, control_performance
    >>> log_rr, se = np.array([0.1, -0.2, 0.4]), np.full(3, 0.1)
    >>> lower, upper = log_rr - 1.96 * se, log_rr + 1.96 * se
    >>> controls = ControlEstimates(
    ...     log_rr, se, lower, upper, np.zeros(3), np.ones(3), np.arange(3)
    ... )
    >>> round(control_performance(controls)["coverage"], 2)
    0.33
    """
    good = found.usable
    y, s, t = found.log_rr[good], found.se[good], found.true_log_rr[good]
    low, high = found.lower[good], found.upper[good]
    negative = found.target[good] == 1
    significant = (low > 0) | (high < 0)
    return {
        "controls": float(len(good)),
        "auc": _auc(y[~negative], y[negative]),
        "coverage": _mean((low <= t) & (t <= high)),
        "precision": float(np.exp(-2 * _mean(np.log(s)))),
        "mse": _mean((y - t) ** 2),
        "type_1": _mean(significant[negative]),
        "type_2": _mean(~significant[~negative]),
        "without": _mean(~good),
    }


def performance_by_ratio(found: ControlEstimates) -> pd.DataFrame:
    """Compute ``control_performance`` for each target ratio and for all controls.

    Returns
    -------
    DataFrame
        One row per ratio (column ``ratio``), with the AUC against the negative controls, and a last
        row for all controls with a missing ratio.
    """
    rows = []
    for ratio in np.unique(found.target):
        own = found.target == ratio
        line = control_performance(_take(found, own))
        if ratio != 1:
            both = _take(found, own | (found.target == 1))
            line["auc"] = control_performance(both)["auc"]
        rows.append({"ratio": float(ratio), **line})
    rows.append({"ratio": float("nan"), **control_performance(found)})
    return pd.DataFrame(rows)


def before_and_after(found: ControlEstimates) -> pd.DataFrame:
    """Compute ``performance_by_ratio`` before and after calibration by the other groups.

    Returns
    -------
    DataFrame
        With a first column ``calibrated`` (False, then True).
    """
    parts = []
    for calibrated, estimates in ((False, found), (True, found.calibrated())):
        table = performance_by_ratio(estimates)
        table.insert(0, "calibrated", calibrated)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _take(found: ControlEstimates, rows: NDArray) -> ControlEstimates:
    """Select controls by a mask."""
    return ControlEstimates(*(getattr(found, name)[rows] for name in vars(found)))


def _mean(x: ArrayLike) -> float:
    """Average an array; NaN if it is empty."""
    x = np.asarray(x, dtype=float)
    return float(x.mean()) if len(x) else float("nan")


def _auc(positive: NDArray, negative: NDArray) -> float:
    """Compute the probability that a positive exceeds a negative; ties count half."""
    if not len(positive) or not len(negative):
        return float("nan")
    above = (positive[:, None] > negative).mean()
    return float(above + 0.5 * (positive[:, None] == negative).mean())
