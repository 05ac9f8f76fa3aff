"""Decision curves: the net benefit of treating people whose predicted risk exceeds a threshold."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..data import check_weights, refuse_other_order
from ..data.input_types import VectorLike
from ..data.plottable_result_tables import ResultTable, present
from ..data.vector_checks import check_vector
from ..errors import DataError
from .observed_risk import ObservedRisk

__all__ = ["decision_curve"]


def decision_curve(
    predicted: VectorLike,
    y: VectorLike,
    thresholds: ArrayLike | None = None,
    *,
    time: float | None = None,
    cause: int = 1,
    sample_weight: VectorLike | None = None,
) -> ResultTable:
    """Compute the net benefit of decisions by predicted risks.

    The net benefit at a threshold p is the share of people who are treated and have the event,
    minus the share who are treated without it times p / (1 − p), the weight of harm that the
    threshold implies. People are treated if their risk is p or more.

    Parameters
    ----------
    predicted : (n,) array
        Probabilities of the event, as for `calibration_table`.
    y : (n,) array
        Two classes, of which the second is the event; or ``Surv(time, event[, entry])``.
    thresholds : (T,) array, optional
        Between 0 and 1. Default 0.01, 0.02, …, 0.99, up to the largest at which someone treated
        was observed until ``time``.
    time : float, optional
        Time by which the event must have occurred; required for survival outcomes and only
        allowed for them.
    cause : int
        The event that is predicted, if there are competing events. Default 1.
    sample_weight : (n,) array, optional
        Number of people that each row represents.

    Returns
    -------
    DataFrame
        Indexed by threshold; columns ``treated`` (share of people), ``net_benefit``,
        ``treat_all`` (the net benefit of treating everyone; that of treating no one is zero) and
        ``avoided``, the net reduction of treatments per person against treating everyone. For
        survival outcomes, risks are those of the Kaplan–Meier or Aalen–Johansen curve among the
        treated.

    Raises
    ------
    DataError
        A risk or threshold is not between 0 and 1, or no one treated was observed until ``time``
        at one of the given thresholds.

    See Also
    --------
    steropes.plots.decision_curve : Draw the table.

    References
    ----------
    Vickers and Elkin (2006), Medical Decision Making 26:565–574. Vickers, Cronin, Elkin and Gonen
    (2008), BMC Medical Informatics and Decision Making 8:53 (censored and competing events).

    Examples
    --------
    >>> import steropes
    >>> table = steropes.decision_curve([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [0.5])
    >>> table[["net_benefit", "treat_all"]].to_numpy().tolist()
    [[0.5, 0.0]]
    """
    refuse_other_order(predicted, "predicted", y=y, sample_weight=sample_weight)
    risk = check_vector(predicted, None, "predicted")
    if ((risk < 0) | (risk > 1)).any():
        i = int(((risk < 0) | (risk > 1)).argmax())
        raise DataError(f"predicted must be probabilities; row {i} is {risk[i]:g}.")
    at = np.arange(1, 100) / 100 if thresholds is None else check_vector(
        np.atleast_1d(thresholds), None, "thresholds"
    )  # fmt: skip
    if not ((at > 0) & (at < 1)).all():
        raise DataError("thresholds must be between 0 and 1.")
    weight = check_weights(sample_weight, len(risk))
    observed = ObservedRisk(y, len(risk), time, cause, weight)
    some = np.flatnonzero(weight > 0)
    total = weight.sum()
    overall = observed.share(some)
    share, events = np.zeros(len(at)), np.zeros(len(at))
    for k, threshold in enumerate(at):
        treated = some[risk[some] >= threshold]
        if len(treated):
            share[k] = weight[treated].sum() / total
            try:
                events[k] = share[k] * observed.share(treated)
            except DataError:
                if thresholds is not None or k == 0:
                    raise
                at, share, events = at[:k], share[:k], events[:k]  # fewer are treated later
                break
    odds = at / (1.0 - at)
    benefit = events - (share - events) * odds
    everyone = overall - (1.0 - overall) * odds
    table = {
        "treated": share, "net_benefit": benefit, "treat_all": everyone,
        "avoided": (benefit - everyone) / odds,
    }  # fmt: skip
    return present(pd.DataFrame(table, pd.Index(at, name="threshold")), "decision_curve")
