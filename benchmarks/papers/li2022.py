"""Cumulative probability models of large data (Li, Chen and Shepherd 2022).

The accuracy of the exact fit and of the paper's three reductions on simulated outcomes, the growth
of time and memory, and the SGEMM data, which are public.
"""

from __future__ import annotations

import io
import itertools
import tracemalloc
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator

import numpy as np
import pandas as pd

from steropes import (
    CumulativeProbabilityModel,
    DivideAndCombine,
    EqualQuantileBins,
    RoundDecimals,
    RoundSignificant,
)

from ..cumulative import BETA, SUBSETS, approaches, draw, scales
from .comparison import Row, Settings, clocked

HOUR, MINUTE = 3600, 60
UCI = "https://archive.ics.uci.edu/static/public/440/sgemm+gpu+kernel+performance.zip"
HOW = (
    "The SGEMM data could not be fetched ({}). Download {} and give the path of the file "
    "sgemm_product.csv, which may be compressed, with --data."
)
IMPOSSIBLE = "not possible for the authors"
DRAWS = 10_000  # for true conditional means
ROWS = (5_000, 10_000, 20_000, 30_000, 40_000)  # of the study of time and memory
LEVELS = (1_000, 5_000, 10_000, 20_000, 40_000)
PEOPLE = 10  # covariate vectors at which conditional means and medians are compared


# -- simulated outcomes ------------------------------------------------------------------------


def accuracy(settings: Settings) -> Iterator[Row]:
    """Compare approaches in the paper's six scenarios (section 3.1, figures 2 to 4)."""
    for n in settings.pick([600], [10_000], [10_000, 40_000]):
        for error, seed in (("logistic", 0), ("Gumbel", 1)):
            rng = np.random.default_rng([settings.seed, n, seed])
            X, latent = draw(n, error, rng)
            make = rng.logistic if error == "logistic" else rng.gumbel
            noise = make(size=DRAWS)
            for scale, (outcome, alpha) in scales(latent).items():
                yield from scenario(n, error, scale, X, outcome(latent), outcome, alpha, noise)
            means = np.exp(make(size=(20, DRAWS))).mean(axis=1)
            yield Row(f"mean of {DRAWS:,} draws of exp(ε), largest of 20 / smallest: {error}", None,
                      means.max() / means.min(), "the expectation is infinite")  # fmt: skip


def scenario(n, error, scale, X, y, outcome, alpha, noise) -> Iterator[Row]:
    """Compare the approaches in one scenario."""
    low, high = np.quantile(y, [0.005, 0.995])
    at = np.unique(y[(y >= low) & (y <= high)])
    some = X[:PEOPLE]
    centre = 0.0 if error == "logistic" else -np.log(np.log(2))  # the median of the errors
    with np.errstate(invalid="ignore"):
        means = np.nanmean(outcome((some @ BETA)[:, None] + noise), axis=1)
    found: dict[str, list[float]] = {}
    reductions = approaches(n) if n >= 10_000 else {"exact": None, "divide": DivideAndCombine(3)}
    for name, reduction in reductions.items():
        link = "logit" if error == "logistic" else "loglog"
        model = CumulativeProbabilityModel(link=link, reduce=reduction, random_state=0).fit(X, y)
        se = np.sqrt(np.diag(model.vcov()))
        t = model.thresholds_
        alpha_se = step(t, errors_of_alpha(model), at)
        if name == "exact":
            exact, exact_se, exact_alpha_se = model.coef_, se, alpha_se
        inside = (t >= low) & (t <= high)
        medians = model.predict_quantile(some, 0.5).ravel()
        found[name] = [
            np.abs(model.alpha_ - alpha(t))[inside].max(),
            np.abs(model.coef_ - exact).max(),
            np.mean(se / exact_se),
            np.median(alpha_se / exact_alpha_se),
            np.abs(alpha(medians) - some @ BETA - centre).mean(),
            np.median(model.predict_mean(some) / means) - 1
            if scale == "exp"
            else np.abs(model.predict_mean(some) - means).mean(),
        ]
    label = f"{error}, {scale}, n = {n:,}"
    quantities = [
        ("largest error of α(y)", "follows the truth", "0.5 to 99.5 percentiles of y"),
        ("largest distance of β from exact", "nearly identical; divide slightly off", ""),
        ("standard error / exact", "nearly identical; divide slightly larger", "mean of 50"),
        (
            "standard error of α(y) / exact",
            "large at the ends",
            "median of 0.5 to 99.5 percentiles of y",
        ),
        (
            "error of the conditional median",
            "good",
            "mean over ten x, on the scale of α"
            + "; decimals make small medians 0" * (scale == "exp"),
        ),
        ("error of the conditional mean", "good where symmetric", "mean over ten x"),
    ]
    if scale == "exp":
        quantities[-1] = (
            "conditional mean / mean of 10,000 draws − 1",
            "divide too high, others too low",
            "no truth: the expectation is infinite",
        )
    for k, (quantity, paper, note) in enumerate(quantities):
        ours = ", ".join(f"{name} {values[k]:.3g}" for name, values in found.items())
        yield Row(f"{quantity}: {label}", paper, ours, note)


# -- time and memory ---------------------------------------------------------------------------


def growth(settings: Settings) -> Iterator[Row]:
    """Regress log time and log memory on n, M and p (section 3.2)."""
    rows = settings.pick((300, 600, 1_200), (5_000, 20_000, 40_000), ROWS)
    levels = settings.pick((100, 300), (1_000, 5_000, 20_000), LEVELS)
    columns = settings.pick([3, 6], [10, 50, 100], [10, 25, 50, 100])
    fewest = settings.pick(0, 5_000, 5_000)  # the paper's fit of memory leaves out smaller M
    found = []
    for n, M, p in itertools.product(rows, levels, columns):
        if n < M:
            continue
        rng = np.random.default_rng([settings.seed, n, M, p])
        X = rng.normal(size=(n, p))
        y = X @ rng.normal(0, 0.3, p) + rng.logistic(size=n)
        y = EqualQuantileBins(M).apply(y, np.ones(n)) if n > M else y
        _, seconds = clocked(lambda X=X, y=y: CumulativeProbabilityModel().fit(X, y), 3)
        tracemalloc.start()
        CumulativeProbabilityModel().fit(X, y)
        found.append((n, M, p, seconds, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    n, M, p, seconds, memory = np.array(found, float).T
    sets = f"{len(found)} data sets"
    power, r2 = powers(seconds, n, M, p)
    for name, paper, ours in zip("nMp", (0.92, 1.01, 0.98), power, strict=True):
        yield Row(f"time: exponent of {name}", paper, ours, f"R² = {r2:.2f}, {sets}")
    big = fewest <= M
    power, r2 = powers(memory[big], (M - 1 + p)[big])
    yield Row(
        "memory: exponent of M − 1 + p", 1.92, power[0], f"R² = {r2:.2f}; allocations by NumPy"
    )
    power, r2 = powers(memory[big], n[big], M[big], p[big])
    for name, ours in zip("nMp", power, strict=True):
        yield Row(f"memory: exponent of {name}", None, ours, f"R² = {r2:.2f}")
    n, M, p, seconds, memory = max(found, key=lambda row: row[0] * row[1] * row[2])
    label = f"n = {n:,}, M = {M:,}, p = {p}"
    law = 4.13e-7 * n**0.92 * M**1.01 * p**0.98
    yield Row(f"time, s: {label}", law, seconds, "the paper's law, in seconds by its scale")
    yield Row(f"memory, GB: {label}", 1.60e-7 * (M - 1 + p) ** 1.92, memory / 1e9, "the same")


def powers(y: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, float]:
    """Exponents of a power law by least squares of logarithms, and R²."""
    A = np.column_stack([np.ones(len(y)), *(np.log(x) for x in xs)])
    coef, *_ = np.linalg.lstsq(A, np.log(y), rcond=None)
    return coef[1:], 1 - np.var(np.log(y) - A @ coef) / np.var(np.log(y))


# -- SGEMM -------------------------------------------------------------------------------------


def sgemm(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Read the predictors and the four running times of each setting, stacked."""
    if settings.size == "tiny":
        rng = np.random.default_rng(settings.seed)
        X = rng.integers(0, 4, (300, 14)).astype(float)
        runs = np.exp(4.5 + X @ np.linspace(-0.2, 0.2, 14) + rng.normal(size=(4, 300))).T
        return np.repeat(X, 4, axis=0), runs.round(2).ravel()
    try:
        source = settings.data or fetched()
        table = pd.read_csv(source)
    except OSError as error:
        raise SystemExit(HOW.format(error, UCI)) from None
    X = np.repeat(table.iloc[:, :14].to_numpy(np.float64), 4, axis=0)
    return X, table.iloc[:, 14:].to_numpy(np.float64).ravel()


def fetched() -> io.BytesIO:
    """Fetch the table from the UCI repository."""
    with urllib.request.urlopen(UCI, timeout=60) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    return io.BytesIO(archive.read("sgemm_product.csv"))


TABLE_2 = {  # rows of the paper's table 2; its columns are the keys of `rounded`
    "[10, 100)": (563_831, 8_453, 88, 862, 862, 8_453, 4_424),
    "[100, 1000)": (368_366, 70_217, 900, 8_855, 900, 8_855, 4_635),
    "1000 and more": (34_203, 28_129, 1_875, 12_356, 207, 1_875, 1_009),
}


def rounded(values: np.ndarray) -> dict[str, np.ndarray]:
    """Round distinct outcomes in the ways of table 2.

    Python's `round` looks at the exact binary value, so that halves such as 13.35 go to the closer
    side. NumPy multiplies first, and 133.5 becomes 134. R multiplied in extended precision until
    version 3.6, which is Python's result for these data, and rounds as `round_as_r4` since 4.0.
    """
    size = np.floor(np.log10(values)).astype(int)

    def places(s, t=1.0):
        pairs = zip(values.tolist(), np.broadcast_to(s, values.shape).tolist(), strict=True)
        return np.array([round(t * v, k) / t for v, k in pairs])

    return {
        "observations": values, "values": values, "integers": places(0), "one decimal": places(1),
        "3 digits": places(2 - size), "4 digits": places(3 - size),
        "3 digits, t = 5.2": places(2 - size, 5.2),
    }  # fmt: skip


def round_as_r4(values: np.ndarray, digits: int) -> np.ndarray:
    """Round positive values as R does since version 4.0 (Maechler's package round, "r3").

    Of the two decimal numbers around x, as doubles, it is the one at the smaller distance; at equal
    distances the one whose last digit is even. These distances are rounded, so that halves of the
    decimal notation, such as 16.05, are often tied although the double is not a half.
    """
    scale = 10.0**digits
    below = np.floor(scale * values)
    down, up = below / scale, np.ceil(scale * values) / scale
    to_down, to_up = values - down, up - values
    return np.where((to_down < to_up) | ((to_down == to_up) & (below % 2 == 0)), down, up)


def distinct_values(settings: Settings) -> Iterator[Row]:
    """Count distinct outcomes after rounding, as in table 2."""
    _, y = sgemm(settings)
    values, count = np.unique(y, return_counts=True)
    ways = rounded(values)
    others = {"NumPy's rounding": np.round(values, 1), "R 4's": round_as_r4(values, 1)}
    edges = {"[10, 100)": (10, 100), "[100, 1000)": (100, 1000), "1000 and more": (1000, np.inf)}
    for row, (low, high) in edges.items():
        inside = (values >= low) & (values < high)
        published = TABLE_2[row] if settings.size != "tiny" else (None,) * 7
        for (way, made), paper in zip(ways.items(), published, strict=True):
            ours = count[inside].sum() if way == "observations" else len(np.unique(made[inside]))
            note = ""
            if way == "one decimal":
                note = ", ".join(
                    f"{len(np.unique(r[inside])):,} with {who}" for who, r in others.items()
                )
            yield Row(f"{way}, {row}", paper, int(ours), note)


def reduced_fits(settings: Settings) -> Iterator[Row]:
    """Fit the data as they are and by each reduction (table 3 and figure 7)."""
    X, y = sgemm(settings)
    real = settings.size != "tiny"
    target, subsets = (10_000, SUBSETS) if real else (300, 4)
    low, high = np.quantile(y, [0.0001, 0.9999])
    z = (y - y.mean()) / y.std()
    yield Row("skewness", 3.93 if real else None, float(np.mean(z**3)))
    yield Row("0.01 percentile", 15.41 if real else None, float(low))
    yield Row("99.99 percentile", 3248.05 if real else None, float(high))
    published = {
        "exact": (None, 106_799, "[13.25, 3397.08]"),
        "bins": (7 * HOUR + 12 * MINUTE, 9_067, "[15.15, 3268.00]"),
        "digits": (7 * HOUR + 12 * MINUTE, 10_068, "[13.25, 3396.15]"),
        "decimals": (None, None, None),
        "divide": (2 * HOUR + 37 * MINUTE, None, None),
    }
    ways = {
        "exact": None, "bins": EqualQuantileBins(target), "digits": RoundSignificant(target),
        "decimals": RoundDecimals(target), "divide": DivideAndCombine(subsets),
    }  # fmt: skip
    at = np.unique(y[(y >= low) & (y <= high)])
    for name, reduction in ways.items():
        model = CumulativeProbabilityModel(reduce=reduction, random_state=settings.seed)
        _, seconds = clocked(lambda model=model: model.fit(X, y))
        paper, levels, span = published[name] if real else (None, None, None)
        note = model.reduction_summary_
        if name == "exact":
            exact, curve, note = model, step(model.thresholds_, model.alpha_, at), IMPOSSIBLE
            exact_errors = step(model.thresholds_, errors_of_alpha(model), at)
        yield Row(f"{name}: time, s", paper, seconds, note)
        yield Row(f"{name}: distinct outcomes", levels, len(model.levels_))
        yield Row(f"{name}: range", span, f"[{model.levels_[0]:.2f}, {model.levels_[-1]:.2f}]")
        if name != "exact":
            apart = np.abs(step(model.thresholds_, model.alpha_, at) - curve)
            ratio = step(model.thresholds_, errors_of_alpha(model), at) / exact_errors
            off = np.abs(model.coef_ - exact.coef_) / np.sqrt(np.diag(exact.vcov()))
            yield Row(f"{name}: largest distance of α(y) from exact", "agrees",
                      float(apart.max()), f"0.01 to 99.99 percentiles; 99 % are below "
                      f"{np.quantile(apart, 0.99):.2g}")  # fmt: skip
            yield Row(f"{name}: largest distance of β from exact", "agrees", float(off.max()),
                      "in standard errors")  # fmt: skip
            yield Row(f"{name}: standard error of α(y) / exact", "agrees", float(np.median(ratio)),
                      f"median; {ratio.min():.3g} to {ratio.max():.3g}, "
                      "0.01 to 99.99 percentiles")  # fmt: skip


def step(thresholds: np.ndarray, steps: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Evaluate a step function at outcomes; the first step extends to smaller ones."""
    at = np.searchsorted(thresholds, y, side="right") - 1
    return steps[np.clip(at, 0, len(steps) - 1)]


def errors_of_alpha(model: CumulativeProbabilityModel) -> np.ndarray:
    """Return the standard error of every threshold."""
    return model.alpha_summary()["se"].to_numpy()


EXPERIMENTS = {
    "accuracy": accuracy,
    "growth": growth,
    "distinct values": distinct_values,
    "SGEMM": reduced_fits,
}
