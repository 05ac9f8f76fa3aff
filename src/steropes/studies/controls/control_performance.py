"""How analyses fare on controls: error, coverage, precision, discrimination, type 1 and type 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.studies.controls.error_model import leave_one_group_out

__all__ = ["ControlEstimates", "before_and_after", "control_performance", "performance_by_ratio"]

ALPHA = 0.05


@dataclass(frozen=True, repr=False, eq=False)
class ControlEstimates:
    """Estimates of one analysis for controls.

    Attributes
    ----------
    log_rr, se, lower, upper : ndarray, shape (n,)
        On the log scale; not-a-number (or infinite) where there is no estimate.
    true_log_rr : ndarray, shape (n,)
    target : ndarray, shape (n,)
        The ratio that was asked for: 1 of negative controls.
    group : ndarray, shape (n,)
        The negative control that each is or was made of.
    """

    log_rr: NDArray
    se: NDArray
    lower: NDArray
    upper: NDArray
    true_log_rr: NDArray
    target: NDArray
    group: NDArray

    @classmethod
    def of(cls, found: pd.DataFrame) -> ControlEstimates:
        """Read them from rows of result tables.

        Parameters
        ----------
        found : DataFrame
            ``log_rr``, ``se_log_rr``, ``ci_95_lb``, ``ci_95_ub``, ``true_effect_size``;
            ``outcome_id``, ``negative_control_id`` and ``target_ratio``, the last two missing for
            negative controls.
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
        """Which have an estimate with a standard error, (n,) bool."""
        return np.isfinite(self.log_rr) & np.isfinite(self.se) & (self.se > 0)

    def calibrated(self) -> ControlEstimates:
        """The same, each calibrated by the controls of all other groups."""
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
    """Metrics over all controls.

    Returns
    -------
    dict
        ``controls``; ``auc``, the chance that a positive control has a larger estimate than a
        negative one; ``coverage`` of the truth by the 95 % interval; ``precision``, the geometric
        mean of 1 / se²; ``mse`` of the log ratio; ``type_1``, the share of negative controls whose
        interval excludes no effect, and ``type_2``, that of positive ones whose does not;
        ``without``, the share without an estimate, which counts in nothing else. Missing where
        there is nothing to count.
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
    """``control_performance`` of each ratio that was asked for, and of all.

    Returns
    -------
    DataFrame
        One row a ratio (column ``ratio``), whose auc is against the negative controls, and a last
        one of all, whose ratio is missing.
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
    """``performance_by_ratio`` as they are, and calibrated by the controls of all other groups.

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
    return ControlEstimates(*(getattr(found, name)[rows] for name in vars(found)))


def _mean(x: ArrayLike) -> float:
    x = np.asarray(x, dtype=float)
    return float(x.mean()) if len(x) else float("nan")


def _auc(positive: NDArray, negative: NDArray) -> float:
    """The chance that one of the first is larger than one of the second; ties count half."""
    if not len(positive) or not len(negative):
        return float("nan")
    above = (positive[:, None] > negative).mean()
    return float(above + 0.5 * (positive[:, None] == negative).mean())
