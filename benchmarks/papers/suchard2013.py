"""Self-controlled case series of all drugs (Suchard and others 2013), on simulated people.

The paper's databases are licensed. Its sizes are simulated: people with a few drugs, of which two
or three are taken in each era, popularity by Zipf's law, a tenth of the drugs with an effect.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steropes import CrossValidation, Design, Laplace, Normal, SelfControlledCaseSeries
from steropes.design_matrix.column_storage import DenseBlock

from ..conditional import case_series
from .comparison import Row, Settings, clocked

HOUR = 3600
VARIANCE = 0.1  # within the range that the paper's cross-validations chose
PROTOTYPE = (7_460, 246_000, 1_224)  # people; eras and drugs in the proportion of the smallest
SMALLEST = (115_000, 3_800_000, 1_224)
LARGEST = (3_600_000, 75_000_000, 1_428)
ANGIOEDEMA = (76_000, 2_100_000, 1_162)


def fit(size: tuple[int, int, int], seed: int, **settings):
    """Simulate, fit, and return the model, its seconds and the data."""
    X, events, person, days = case_series(*size, seed=seed)
    model = SelfControlledCaseSeries(**{"prior": Laplace(VARIANCE), "tol": 1e-4, **settings})
    _, seconds = clocked(lambda: model.fit(X, events, strata=person, exposure=days))
    return model, seconds, (X, events, person, days)


def label(size: tuple[int, int, int]) -> str:
    """Describe a size."""
    return f"{size[0]:,} cases, {size[1]:,} eras, {size[2]:,} drugs"


def point_estimates(settings: Settings) -> Iterator[Row]:
    """Time maximum a posteriori estimates at the sizes of the paper (section 4, figure 2)."""
    small = (400, 8_000, 60)
    published = {
        PROTOTYPE: ({"R prototype": 5.3 * HOUR}, "the paper gives the cases alone"),
        SMALLEST: (None, "only in a figure"),
        LARGEST: ({"dense CPU": 51 * HOUR, "GPU": 29}, "most cases, eras and drugs of four"),
    }
    sizes = settings.pick((small,), (PROTOTYPE, SMALLEST), (PROTOTYPE, SMALLEST, LARGEST))
    for size in sizes:
        model, seconds, _ = fit(size, settings.seed)
        paper, note = published.get(size, (None, "none at this size"))
        nonzero = np.count_nonzero(model.coef_)
        yield Row(f"one fit, s: {label(size)}", paper, seconds,
                  f"{note}; {model.n_iter_} steps, {nonzero} nonzero")  # fmt: skip


def sparsity(settings: Settings) -> Iterator[Row]:
    """Compare the same fit with sparse and with dense storage of X."""
    size = settings.pick((200, 4_000, 40), (2_000, 40_000, 1_224), (4_000, 80_000, 1_224))
    model, sparse, (X, events, person, days) = fit(size, settings.seed)
    dense = Design([DenseBlock.standardized(as_array(X), center=False)])
    again = SelfControlledCaseSeries(prior=Laplace(VARIANCE), tol=1e-4)
    _, seconds = clocked(lambda: again.fit(dense, events, strata=person, exposure=days))
    apart = np.abs(again.coef_ - model.coef_).max()
    yield Row(f"time with dense X / time with sparse X: {label(size)}", 181, seconds / sparse,
              f"the paper's is the largest ratio of four sizes; {seconds:.2f} and {sparse:.2f} s, "
              f"coefficients differ by {apart:.0e}")  # fmt: skip


def as_array(design) -> np.ndarray:
    """Write the indicator block of a design as an array."""
    (block,) = design.blocks
    dense = np.zeros((design.n, design.p))
    for j in range(design.p):
        dense[block.indices[block.indptr[j] : block.indptr[j + 1]], j] = 1.0
    return dense


def chosen_variances(settings: Settings) -> Iterator[Row]:
    """Choose the prior's variance by ten folds of people (section 4)."""
    size = settings.pick((1_500, 30_000, 60), (20_000, 660_000, 1_224), SMALLEST)
    for name, prior, paper in (
        ("Laplace", Laplace(), "0.05 to 0.15"),
        ("normal", Normal(), "0.02 to 0.13"),
    ):
        cv = CrossValidation(10, random_state=settings.seed)
        model, seconds, _ = fit(size, settings.seed, prior=prior, cv=cv)
        yield Row(f"variance chosen by ten folds, {name} prior: {label(size)}", paper,
                  f"{model.variance_:.3g}", f"depends on the effects, here N(0, 0.7²) for a tenth "
                  f"of the drugs; {seconds:.1f} s")  # fmt: skip


def bootstrap(settings: Settings) -> Iterator[Row]:
    """Draw 200 bootstrap samples of people at the size of the angioedema example (figure 3)."""
    size = settings.pick((400, 8_000, 60), (7_600, 210_000, 1_162), ANGIOEDEMA)
    draws = settings.pick(10, 200, 200)
    model, one, _ = fit(size, settings.seed)
    result, seconds = clocked(lambda: model.inference.bootstrap(draws, random_state=settings.seed))
    share = np.mean(result.nonzero > 0.5)
    limits = result.confint(0.95)
    covers = (limits["lower"] <= 0) & (limits["upper"] >= 0)
    top = np.argsort(-np.abs(model.coef_))[:20]
    yield Row(f"share of drugs in more than half of {draws} draws: {label(size)}", 441 / 1162,
              float(share), "depends on the effects and the variance (not given)")  # fmt: skip
    yield Row("of the 20 largest estimates, intervals that cover 0", "some (one is named)",
              int(np.asarray(covers)[top].sum()))  # fmt: skip
    yield Row(f"time of {draws} draws / time of one fit", None, seconds / one,
              f"{seconds:.1f} s; no time is given")  # fmt: skip


EXPERIMENTS = {
    "point estimates": point_estimates,
    "sparsity": sparsity,
    "chosen variances": chosen_variances,
    "bootstrap": bootstrap,
}
