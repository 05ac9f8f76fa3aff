"""Check for interrupted observation in models with late entry and competing events."""

from __future__ import annotations

import numpy as np

from ...errors import DataError
from ...likelihoods import CoxLikelihood

__all__ = ["refuse_unobserved_gap"]


def refuse_unobserved_gap(
    likelihood: CoxLikelihood, weights: np.ndarray, labels: list | None
) -> None:
    """Refuse competing events with infinite weights in later risk sets.

    Parameters
    ----------
    weights : (n,) array
        Row weights in the order of X.
    labels : list or None
        Labels of the strata by code.

    Raises
    ------
    DataError
        If nobody is under observation at some time between a competing event and a later event
        of interest; the message names the stratum and time.
    """
    found = likelihood.cut_off(weights)
    if found is None:
        return
    stratum, time = found
    where = "" if labels is None else f" in stratum {labels[stratum]}"
    remedy = "" if labels is None else " Strata may be merged, too."
    raise DataError(
        f"Nobody, or hardly anyone, was under observation{where} at some time between competing "
        f"events up to time {time:g} and later events of interest: what the former weigh in later "
        f"risk sets is unknown. Leave out the rows whose time is at most {time:g} (the model is "
        f"then of people without an event until then).{remedy}"
    )
