"""Thresholds of the diagnostics of a case series."""

from __future__ import annotations

from typing import Annotated

from steropes.data.diagnostic_limits import DETECTABLE_RATIO, SYSTEMATIC_ERROR
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Number, Positive, Share
from steropes.designs.settings.value_checks import After
from steropes.studies.diagnostics.diagnostic_catalogue import FurtherOfSeries

__all__ = ["Thresholds"]


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return two bounds, the lower one first."""
    if bounds[1] < bounds[0]:
        raise ValueError(f"must be (lower, upper), not {bounds}")
    return bounds


Bounds = Annotated[tuple[Positive, Positive], After(_ordered)]
AtLeastOne = Annotated[float, Number(1.0)]


class Thresholds(Settings):
    """Thresholds of the diagnostics; the defaults are those of SelfControlledCaseSeries 6.

    Parameters
    ----------
    time_ratio, time_alpha : float, default 1.1 and 0.05
        The rate is stable over calendar time unless the mean ratio of observed to expected events
        of a month is above ``time_ratio`` with p ≤ ``time_alpha``.
    pre_exposure : (float, float), default (0.8, 1.25)
        The interval of the pre-exposure rate ratio has to meet these bounds.
    end_of_observation : (float, float), default (0.5, 2)
        The same for the probe at the end of observation.
    prevalence : float, default 0.1
        Most people that may have the outcome where only the first one counts.
    detectable : float, default 10
        The minimal detectable rate ratio has to be below it.
    ease : float, default 0.25
        The expected absolute systematic error has to be below it.
    further : tuple of str
        Further diagnostics: functions as ``module:function``, which `register_diagnostic`
        decorates. Every process of a run imports the modules, which therefore must be installed or
        in a folder of PYTHONPATH.

    Examples
    --------
    >>> from steropes.studies.sccs import Thresholds
    >>> Thresholds(prevalence=0.2).detectable
    10.0
    """

    time_ratio: AtLeastOne = 1.1
    time_alpha: Share = 0.05
    pre_exposure: Bounds = (0.8, 1.25)
    end_of_observation: Bounds = (0.5, 2.0)
    prevalence: Share = 0.1
    detectable: AtLeastOne = DETECTABLE_RATIO
    ease: Positive = SYSTEMATIC_ERROR
    further: FurtherOfSeries = ()
