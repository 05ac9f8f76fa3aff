"""Synthetic positive controls: outcomes injected into one arm to reach a known hazard ratio.

From a negative control and a model of its rate among the treated, a positive control with ratio r
is made by injecting outcomes into the treated at the rate (r − 1) λ(x). Because λ depends on the
covariates, measured confounding of the negative control carries over to the positive one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.preprocessing import NothingLeftError, tidy
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Folds, Listed, Number, Positive, Whole
from steropes.designs.settings.value_checks import After
from steropes.errors import DataError
from steropes.select.crossvalidation import FOLDS

__all__ = [
    "InjectedOutcomes",
    "Ratios",
    "Synthesis",
    "Tries",
    "add_outcomes",
    "closest_draw",
    "outcome_rates",
]


def _distinct_ratios(ratios: tuple[float, ...]) -> tuple[float, ...]:
    """Return the ratios of positive controls, which differ from 1 and from each other."""
    if 1 in ratios:
        raise ValueError("a positive control of ratio 1 is the negative control itself")
    if len({*ratios}) < len(ratios):
        raise ValueError("a ratio of positive controls is listed twice")
    return ratios


Ratios = Annotated[Listed[Annotated[float, Number(1.0, 100.0)]], After(_distinct_ratios)]
Tries = Annotated[int, Whole(1, 100_000)]


class Synthesis(Settings):
    """Rules for the injection of outcomes.

    Parameters
    ----------
    ratios : tuple of float, default (1.5, 2, 4)
        The ratios to create from each negative control; empty creates none.
    min_outcomes : int, default 25
        Required number of treated people with the outcome of a negative control.
    min_for_model : int, default 100
        From this number on, rates are modelled; with fewer all people have the same rate.
    variance : float, optional
        Variance of the model's Laplace prior. Default: chosen by cross-validation.
    folds, seed : int, default 10 and 1
        Folds and seed of that cross-validation; outcomes are drawn with the same seed.
    precision : float, default 0.01
        Largest difference between the log ratios that are reached and requested.
    tries : int, default 100
        Largest number of draws to reach that precision; the closest is used.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571.

    Examples
    --------
    >>> from steropes.designs.controls import Synthesis
    >>> Synthesis(ratios=(2.0, 4.0)).precision
    0.01
    """

    ratios: Ratios = (1.5, 2.0, 4.0)
    min_outcomes: Annotated[int, Whole(1)] = 25
    min_for_model: Annotated[int, Whole(1)] = 100
    variance: Positive | None = None
    folds: Folds = FOLDS
    seed: Count = 1
    precision: Positive = 0.01
    tries: Tries = 100


@dataclass(frozen=True)
class InjectedOutcomes(FieldsInHtml):
    """Injected outcomes.

    Attributes
    ----------
    person : ndarray of int, shape (m,)
        The people with an injected outcome, ascending: positions among the treated, or person ids
        of a case series.
    day : ndarray of int, shape (m,)
        Day at risk of the outcome, of which the first is 1; in a case series its day since
        1970-01-01.
    ratio : float
        The rate with injection relative to the expected rate without it.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import Synthesis, add_outcomes
    >>> days, had = np.full(500, 100), np.arange(500) < 50
    >>> added = add_outcomes(days, had, np.full(500, 0.00105), 2.0, Synthesis())
    >>> len(added.person) == len(added.day), abs(added.ratio - 2) < 0.02
    (True, True)
    """

    person: NDArray
    day: NDArray
    ratio: float


def outcome_rates(people: pd.DataFrame, features: Covariates | None, rule: Synthesis) -> NDArray:
    """Estimate each person's daily rate of the first outcome.

    The model is a Poisson regression of the first outcome on the covariates, with the days until
    then as exposure and a Laplace prior: the likelihood of a constant hazard. Its intercept is not
    penalised, so that expected and observed numbers of outcomes agree.

    Parameters
    ----------
    people : DataFrame
        ``time`` and ``event`` of the treated, as in ``StudyPopulation.people``.
    features : Covariates or None
        Their covariates; None gives all the same rate.
    rule : Synthesis
        The smallest number of outcomes for a model, and its prior.

    Returns
    -------
    ndarray, shape (n,)
        Outcomes per day.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.controls import Synthesis, outcome_rates
    >>> people = pd.DataFrame({"time": [50, 100, 100], "event": [1, 0, 0]})
    >>> outcome_rates(people, None, Synthesis())
    array([0.004, 0.004, 0.004])
    """
    had = (people["event"] == 1).to_numpy().astype(float)
    time = people["time"].to_numpy(dtype=float)
    same = np.full(len(had), had.sum() / time.sum())
    if features is None or had.sum() < rule.min_for_model:
        return same
    import steropes as st

    try:
        design = tidy(features).design
    except NothingLeftError:
        return same
    settings: dict[str, Any] = {"prior": st.Laplace()}
    if rule.variance is not None:
        settings["prior"] = st.Laplace(variance=rule.variance)
    else:
        settings["cv"] = st.CrossValidation(folds=rule.folds, random_state=rule.seed)
    fitted = st.PoissonRegression(**settings).fit(design, had, exposure=time)
    return fitted.predict(design)


def add_outcomes(
    time: ArrayLike,
    event: ArrayLike,
    rate: ArrayLike,
    ratio: float,
    rule: Synthesis,
    *,
    key: tuple[int | float, ...] = (),
) -> InjectedOutcomes:
    """Inject outcomes at the rate (ratio − 1) λ until each person's own outcome or end of risk.

    Times are exponential, rounded up to whole days. Draws are repeated until the rate among the
    treated is ``ratio`` times the expected one to within ``precision``; if all of ``tries`` miss
    it, the closest is used. The result depends only on the arguments.

    Parameters
    ----------
    time : array_like, shape (n,)
        Days until the first outcome or the end of risk.
    event : array_like of bool, shape (n,)
        Whether the time ended with the outcome.
    rate : array_like, shape (n,)
        Outcomes per day, from ``outcome_rates``.
    ratio : float
        The ratio to reach, above 1.
    rule : Synthesis
        Precision, number of draws and seed.
    key : tuple of numbers
        Further parts of the seed that identify the positive control.

    Returns
    -------
    InjectedOutcomes
        The outcomes to add.

    Raises
    ------
    DataError
        A rate is not positive, or the ratio is not above 1.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import Synthesis, add_outcomes
    >>> days, had = np.full(500, 100), np.arange(500) < 50
    >>> round(add_outcomes(days, had, np.full(500, 0.00105), 2.0, Synthesis()).ratio, 1)
    2.0
    """
    t, had = np.asarray(time, dtype=float), np.asarray(event).astype(bool)
    extra = (ratio - 1) * np.asarray(rate, dtype=float)
    if not (extra > 0).all() or not np.isfinite(extra).all():
        raise DataError("outcomes can be injected only at positive rates and for ratios above one")

    def inject(draw: np.random.Generator) -> InjectedOutcomes:
        """Draw the outcomes once."""
        day = np.ceil(draw.standard_exponential(len(t)) / extra)
        # An injected outcome replaces a later one and is dropped after an earlier one.
        new = (day < t) | ((day == t) & ~had)
        expected = float((np.asarray(rate) * np.where(new, day, t)).sum())
        reached = float((new | had).sum()) / expected
        return InjectedOutcomes(np.flatnonzero(new), day[new].astype(np.int64), reached)

    return closest_draw(inject, ratio, rule.precision, rule.tries, (rule.seed, float(ratio), *key))


def closest_draw(
    inject: Callable[[np.random.Generator], InjectedOutcomes],
    ratio: float,
    precision: float,
    tries: int,
    key: tuple[int | float, ...],
) -> InjectedOutcomes:
    """Repeat a draw until its log ratio is within ``precision``, or return the closest of all.

    Parameters
    ----------
    ratio : float
        The requested ratio.
    tries : int
        Largest number of draws.
    key : tuple of numbers
        Seed of the draws; the result depends only on it and on the draws.
    """
    seed = zlib.crc32(repr(key).encode())
    best: InjectedOutcomes | None = None
    for attempt in range(tries):
        found = inject(np.random.Generator(np.random.Philox(key=[seed, attempt])))
        if best is None or _miss(found, ratio) < _miss(best, ratio):
            best = found
        if _miss(best, ratio) <= precision:
            break
    assert best is not None
    return best


def _miss(added: InjectedOutcomes, ratio: float) -> float:
    """Return the distance between the log ratios that are reached and requested."""
    return abs(math.log(added.ratio / ratio))
