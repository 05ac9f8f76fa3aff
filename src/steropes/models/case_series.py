"""The self-controlled case series: each person's own time is the comparison."""

from __future__ import annotations

from typing import Any, Self

from ..errors import DataError
from ..likelihoods import CaseSeriesLikelihood
from .conditional_regression import ConditionalPoissonRegression

__all__ = ["SelfControlledCaseSeries"]


class SelfControlledCaseSeries(ConditionalPoissonRegression):
    """Self-controlled case series (SCCS): rate ratios within people who had the event.

    A row is an interval (era) of a person's observation time during which the covariates are
    constant. Given the number of a person's events, when they fall is multinomial with shares
    t_i exp(x_i'β) / Σ_j t_j exp(x_j'β), t the interval's length. Everything about a person that
    does not change with time drops out.

    Parameters
    ----------
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`; folds keep people whole.

    Attributes
    ----------
    log_likelihood_ : float
        Σ w y log[t exp(x'β) / Σ_person t exp(x'β)], the kernel of the multinomial likelihood:
        log n! − Σ log y! of each person is left out.

    Notes
    -----
    ``fit(X, y, strata=person, exposure=days)`` takes the number of events in each interval (any
    number a person) and its length > 0. People without events, or with one interval only, say
    nothing about β; they may be left in and cost nothing. Rows that are sorted by person are
    used where they are, without a copy.

    References
    ----------
    Farrington (1995), Biometrics 51:228–235.
    Whitaker, Farrington, Spiessens and Musonda (2006), Statistics in Medicine 25:1768–1797.
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> exposed = np.array([[0], [1], [0], [1]])
    >>> m = steropes.SelfControlledCaseSeries().fit(
    ...     exposed, [1, 1, 1, 2], strata=[1, 1, 2, 2], exposure=[300, 65, 200, 100]
    ... )
    >>> round(float(np.exp(m.coef_[0])), 2)  # rate ratio
    4.25
    """

    _stratum_description = "the person"
    _likelihood_class = CaseSeriesLikelihood

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        strata: Any = None,
        start_at: Any = None,
        fixed: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or array, data frame or Design, (n, p)
            Covariates of each interval. Nothing passed in is modified.
        y : (n,) array
            Number of events in each interval.
        sample_weight : (n,) array, optional
            Row weights, at least zero; a weight of 2 is a row that is there twice.
        offset : (n,) array, optional
            Added to the linear predictor.
        exposure : (n,) array
            Length of each interval (days), > 0. May be left out only where ``offset`` holds its
            logarithm.
        strata : (n,) labels
            The person of each interval: any hashable labels, in any order.
        start_at : (p,) array or mapping of names or positions to numbers, optional
            Coefficients to start from, zero where a mapping names none. They change how long the
            fit takes and, of a loss that is convex, not where it ends.
        fixed : mapping of names or positions to numbers, optional
            Coefficients that are given and not estimated, as an offset is: those of an earlier
            study, or zero. They are in ``coef_`` and in all predictions, and have no line in
            ``summary()`` nor a part in the prior.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Input that cannot be used; the message names the column or row.
        SeparationError
            Coefficients without penalty that the data do not determine, by name.
        """
        if exposure is None and offset is None:
            raise DataError(
                "A self-controlled case series needs the lengths of the intervals: pass "
                "exposure=days (numpy.ones(len(y)) where all are of equal length)."
            )
        return super().fit(
            X, y, sample_weight=sample_weight, offset=offset, exposure=exposure, strata=strata,
            start_at=start_at, fixed=fixed,
        )  # fmt: skip
