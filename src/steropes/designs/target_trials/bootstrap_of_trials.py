"""Bootstrap of sequences of trials: draws of people are weights on one X.

The models of the weights are fitted to all draws as replicates. The outcome model of a draw starts
at that of all people and shares its Hessian. Risks of all draws come from one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from steropes.data.interval_weights import IntervalWeights
from steropes.design_matrix.time_basis import baseline_basis, channels
from steropes.designs.target_trials.columns_on_demand import row_blocks
from steropes.designs.target_trials.marginal_risks import IndexGrid
from steropes.designs.target_trials.sequential_trial_estimates import Estimates, coefficients
from steropes.errors import DataError, SeparationError
from steropes.models.repeated_fits.draws_of_people import RefitsWithIntervalWeights, refit_to_draws

__all__ = ["Refit", "drawn_coefficients", "drawn_risks"]

# Computes weights of rows, trials and numbers of draws; see `SequenceSettings.weights`.
Refit = Callable[..., IntervalWeights | None]


def drawn_coefficients(
    estimates: Estimates, model: Any, refit: Refit
) -> tuple[NDArray[np.float64] | None, int]:
    """Fit everything to draws of people: coefficients (B, q), and how many have none."""
    settings, people = estimates.settings, estimates.trials.rows.people
    if not settings.bootstrap:
        return None, 0
    streams = np.random.SeedSequence(settings.random_state).spawn(settings.bootstrap)
    draws = (np.random.default_rng(stream).integers(0, people, people) for stream in streams)
    times = np.array([np.bincount(drawn, minlength=people) for drawn in draws], np.int32)
    if settings.model != "logistic" or settings.weight_model is not None:
        found = _one_by_one(estimates, model, refit, times)
    elif settings.pairs:
        found = _weighted(estimates, model, times)
    else:
        found = refit_to_draws(model, times, estimates.clusters)
    found = found[np.isfinite(found).all(axis=1)]
    failed = settings.bootstrap - len(found)
    if len(found) < 2:
        raise DataError(
            f"{failed} of {settings.bootstrap} bootstrap draws have no estimate, because too few "
            "people deviate or have the outcome; leave bootstrap out."
        )
    return found, failed


def _one_by_one(estimates: Estimates, model: Any, refit: Refit, times: NDArray) -> NDArray:
    """Fit Cox models, and weights of the user's model, draw by draw."""
    settings, trials = estimates.settings, estimates.trials
    pooled = settings.model == "logistic"
    out = np.full((len(times), len(coefficients(model) if pooled else model.coef_)), np.nan)
    for b, drawn in enumerate(times):
        w = drawn[trials.rows.person].astype(np.float64)
        try:
            own = Estimates(settings, trials, refit(trials.rows, trials, w))
            fit = own.fit(w, model if pooled else None)
        except (DataError, SeparationError):
            continue
        out[b] = coefficients(fit) if pooled else fit.coef_
    return out


def _weighted(estimates: Estimates, model: Any, times: NDArray) -> NDArray:
    """Fit weighted pooled logistic models."""
    refits, person = RefitsWithIntervalWeights(model), estimates.clusters
    out = np.full((len(times), len(coefficients(model))), np.nan)
    for b, weights in enumerate(_drawn_weights(estimates, times)):
        if weights is not None:
            w = times[b].astype(np.float64)[person]
            out[b] = refits.fit(w, weights.rows(estimates.which))
    return out


def _drawn_weights(estimates: Estimates, times: NDArray) -> Iterator[IntervalWeights | None]:
    """Yield the weights of person-trials in each draw; None if a model has no finite maximum."""
    settings, trials = estimates.settings, estimates.trials
    rows = trials.rows
    parts = [(of, part, part.drawn(times, rows.person)) for of, part in estimates.parts]
    for b, drawn in enumerate(times):
        if any(np.isnan(coef[b]).any() for _, _, coef in parts):
            yield None
            continue
        ratio = np.ones(rows.n)
        for of, part, coef in parts:
            p = of.probability_of(part, part.probabilities(coef[b]))
            # A person who is not drawn may have done what is impossible in the draw.
            with np.errstate(divide="ignore"):
                ratio[part.rows] *= np.where(drawn[rows.person[part.rows]] > 0, p, 1.0) ** part.sign
        yield settings.interval_weights(ratio, rows, trials, drawn[rows.person])


def drawn_risks(estimates: Estimates, draws: NDArray) -> NDArray[np.float64]:
    """Compute the risks of both strategies at coefficients of draws, (B, 2, K)."""
    h, columns = estimates.hazard_model, estimates.columns
    B = baseline_basis(h.baseline, h.intervals)[0]
    functions, pairs = channels(h.changing or None, columns.names, h.intervals)
    M, p = B.shape[1], len(columns.names)
    which = estimates.standardized
    grids = [IndexGrid(1) for _ in draws]
    for some in row_blocks(len(which)):
        none = np.zeros(some.stop - some.start, np.int8)
        values = np.column_stack(columns.columns(which[some], none)).astype(np.float64, copy=False)
        index = values @ draws[:, M : M + p].T
        for grid, own in zip(grids, index.T, strict=True):
            grid.add(own, np.ones(len(own)))
    out = np.empty((len(draws), 2, h.intervals))
    for b, (grid, coef) in enumerate(zip(grids, draws, strict=True)):
        # Only the treatment, the first column, has effects that change with time.
        moving = [functions[q].values * g for (_, q), g in zip(pairs, coef[M + p :], strict=True)]
        treated = coef[M] + np.sum(moving, axis=0)
        for s, effect in enumerate((treated, 0.0)):
            hazard = expit(grid.nodes[:, None] + B @ coef[:M] + effect)
            survival = grid.totals[:, 0] @ np.cumprod(1 - hazard, axis=1)
            out[b, s] = 1 - survival / len(which)
    return out
