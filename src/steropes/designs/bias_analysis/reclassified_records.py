"""Bias analysis of records: people are classified anew, and the model is fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from steropes.data.input_types import TableLike
from steropes.data.vector_checks import check_level
from steropes.designs.bias_analysis.biases import Misclassification
from steropes.designs.bias_analysis.corrected_estimates import BiasAnalysis
from steropes.designs.values.argument_checks import check_names, check_whole
from steropes.designs.values.input_checks import require_flags
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError
from steropes.models.repeated_fits.many_outcomes import fit_many

__all__ = ["reclassify_records"]

OBSERVED = "observed"


def reclassify_records(
    estimator: Any,
    X: TableLike,
    y: Any,
    bias: Misclassification,
    *,
    exposure: str,
    cases: ArrayLike | None = None,
    within: Sequence[str] = (),
    draws: int = 200,
    level: float = 0.95,
    random_state: int = 0,
    **rows: Any,
) -> BiasAnalysis:
    """Classify people anew by sensitivity and specificity, and fit a model to each classification.

    A corrected table of counts cannot be adjusted for covariates. Here, each draw of the
    parameters gives the probability that a person was truly exposed (or truly had the outcome),
    given what was recorded. The true class of the person is drawn with this probability. All draws
    are weights of the same rows.

    Parameters
    ----------
    estimator : estimator
        The model, such as `LogisticRegression` or `CoxRegression`; it is not modified.
    X : DataFrame
        Columns of the model, or the table of its formula. With a misclassified exposure each person
        has two rows, one of each class.
    y : array_like, shape (n,), or `Surv`
        The outcome of the model; 0 and 1 if it is misclassified.
    bias : Misclassification
        Sensitivity and specificity, as numbers or distributions.
    exposure : str
        The column of ``X`` with the exposure, 0 or 1, whose ratio is corrected.
    cases : array_like, shape (n,), optional
        Who had the outcome, 0 or 1. Default: the events of a `Surv`, otherwise ``y`` above 0.
    within : sequence of str, optional
        Columns of ``X`` with few values. The probabilities of the true class are then those of
        people alike in these columns, so that they may depend on confounders.
    draws : int, default 200
        Number of draws, including those that are discarded.
    level : float, default 0.95
        Coverage of the limits.
    random_state : int, default 0
        Seed of the draws.
    **rows : array_like, shape (n,)
        Further arguments of ``fit`` with an entry for each row, such as ``sample_weight``,
        ``offset`` or ``strata``.

    Returns
    -------
    BiasAnalysis
        The observed ratio, and its distribution with systematic error alone (parameters and true
        classes) and with random error (the standard error of each fit).

    Raises
    ------
    DataError
        The exposure or the cases are not 0 and 1, the numbers contradict all draws, or a model
        cannot be fitted.

    See Also
    --------
    bias_analysis : Corrects a table of counts, and estimates of any origin by its ratio.

    References
    ----------
    Fox, Lash and Greenland (2005), International Journal of Epidemiology 34:1370–1376. Fox,
    MacLehose and Lash (2021), Applying Quantitative Bias Analysis to Epidemiologic Data, 2nd
    edition, Springer.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> from steropes.designs.bias_analysis import Misclassification, reclassify_records
    >>> rng = np.random.default_rng(0)
    >>> true = rng.binomial(1, 0.4, 4000)
    >>> stroke = rng.binomial(1, np.where(true, 0.2, 0.1))
    >>> people = pd.DataFrame({"drug": rng.binomial(1, np.where(true, 0.8, 0.05))})
    >>> bias = Misclassification("exposure", sensitivity=0.8, specificity=0.95)
    >>> found = reclassify_records(
    ...     steropes.LogisticRegression(), people, stroke, bias, exposure="drug", draws=20
    ... )
    >>> found.summary["estimate"].round(1).tolist()
    [1.9, 2.3, 2.2]
    """
    if not isinstance(bias, Misclassification):
        raise DataError("bias must be a Misclassification; other biases need no records.")
    check_level(level)
    table = read_columns(X, None, "X")
    if exposure not in table:
        raise DataError(f"X has no column {exposure!r}, the exposure.")
    exposed = require_flags(f"X[{exposure!r}]", table[exposure])
    had = _cases(y, cases, len(table))
    number = check_whole("draws", draws, 2)
    rng = np.random.default_rng(check_whole("random_state", random_state, 0))
    drawn = bias.draw(number, rng)
    groups = _groups(table, check_names("within", within))
    chance = _chances(bias, drawn, exposed, had, groups)
    good = np.isfinite(chance).all(axis=0)
    if not good.any():
        raise DataError("The counts contradict every value of the parameters; choose others.")
    truly = rng.random((int(good.sum()), len(table))) < chance[:, good].T
    both, outcome = _two_classes(bias, table, y, exposure)
    given: dict[str, Any] = {name: _twice(values) for name, values in rows.items()}
    weight = np.asarray(given.pop("sample_weight", 1.0), dtype=float)
    seen = exposed if bias.of == "exposure" else had
    fits: dict[str, dict[str, Any]] = {
        name: {"y": outcome, "sample_weight": weight * np.concatenate([true, ~true])}
        for name, true in [(OBSERVED, seen), *((str(k), own) for k, own in enumerate(truly))]
    }
    found = fit_many(estimator, both, fits, **given)
    if "exp(coef)" not in found:
        raise DataError(
            f"Coefficients of {type(estimator).__name__} are no log ratios; give a model with a "
            "ratio of the exposure, such as LogisticRegression."
        )
    return _analysis(found[found["coefficient"] == exposure], drawn, good, level, rng)


def _cases(y: Any, cases: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    """Return who had the outcome."""
    if cases is None:
        cases = np.asarray(y)["event"] > 0 if _of_times(y) else np.asarray(y) > 0
    found = require_flags("cases", pd.Series(np.asarray(cases)))
    if len(found) != n:
        raise DataError(f"cases has {len(found)} entries, but X has {n} rows.")
    return found


def _groups(table: pd.DataFrame, within: list[str]) -> NDArray:
    """Return the group of each row."""
    if not within:
        return np.zeros(len(table), dtype=int)
    if lacking := [name for name in within if name not in table]:
        raise DataError(f"X has no column {lacking[0]!r}, which within names.")
    return table.groupby(within, dropna=False, observed=True).ngroup().to_numpy()


def _chances(
    bias: Misclassification,
    drawn: Mapping[str, NDArray],
    exposed: NDArray[np.bool_],
    had: NDArray[np.bool_],
    groups: NDArray,
) -> NDArray:
    """Return the probability of the true class, (n, draws); NaN where counts contradict a draw."""
    se_1, se_0, _, _ = drawn.values()
    found = np.empty((len(exposed), len(se_1)))
    of_exposure = bias.of == "exposure"
    for group in np.unique(groups):
        own = groups == group
        cells = np.array([
            (own & e & h).sum() for h, e in ((had, exposed), (had, ~exposed), (~had, exposed),
                                             (~had, ~exposed))
        ], dtype=float)  # fmt: skip
        true = bias.corrected(np.repeat(cells[:, None], len(se_1), axis=1), drawn)
        pairs = ((had, 0, 1, se_1), (~had, 2, 3, se_0)) if of_exposure else (
            (exposed, 0, 2, se_1), (~exposed, 1, 3, se_0)
        )  # fmt: skip
        for people, yes, no, se in pairs:
            possible = (true[yes] >= 0) & (true[no] >= 0)
            seen = exposed if of_exposure else had
            for rows, share, count in ((seen, se, cells[yes]), (~seen, 1 - se, cells[no])):
                chance = np.minimum(share * true[yes] / max(count, 1.0), 1.0)
                found[own & people & rows] = np.where(possible, chance, np.nan)
    return found


def _two_classes(
    bias: Misclassification, table: pd.DataFrame, y: Any, exposure: str
) -> tuple[pd.DataFrame, Any]:
    """Return the rows of both classes, the first as if everybody truly belonged to it."""
    both = pd.concat([table, table], ignore_index=True)
    first = np.repeat([1, 0], len(table))
    if bias.of == "exposure":
        return both.assign(**{exposure: first}), _twice(y)
    if _of_times(y) or not np.isin(np.asarray(y, dtype=float), (0, 1)).all():
        raise DataError("A misclassified outcome must be 0 or 1; times are not classified anew.")
    return both, first


def _of_times(y: Any) -> bool:
    """Return whether outcomes are times, as of `Surv`."""
    return np.asarray(y).dtype.names is not None


def _twice(values: Any) -> NDArray:
    """Repeat the entries of rows."""
    return np.tile(np.asarray(values), 2)


def _analysis(
    lines: pd.DataFrame,
    drawn: Mapping[str, NDArray],
    good: NDArray,
    level: float,
    rng: np.random.Generator,
) -> BiasAnalysis:
    """Summarise the fits of all draws."""
    coef, se = (lines[name].to_numpy(dtype=float) for name in ("coef", "se"))
    if not len(lines) or not np.isfinite(coef[0]) or not np.isfinite(se[0]):
        note = str(lines["note"].iloc[0]) if len(lines) else ""
        raise DataError(f"The observed data give no ratio with a standard error. {note}".strip())
    fitted = np.isfinite(coef[1:]) & np.isfinite(se[1:])
    table = pd.DataFrame({name: values[good] for name, values in drawn.items()})
    table = table.assign(
        log_ratio=coef[1:], log_ratio_with_error=coef[1:] + rng.standard_normal(len(table)) * se[1:]
    )[fitted].reset_index(drop=True)
    if not len(table):
        raise DataError(f"No draw could be fitted: {lines['note'].iloc[1]}")
    at = [0.5, 0.5 - level / 2, 0.5 + level / 2]
    rows = {
        OBSERVED: coef[0] + ndtri(at) * se[0],
        "systematic error": np.quantile(table["log_ratio"], at),
        "systematic and random error": np.quantile(table["log_ratio_with_error"], at),
    }
    summary = pd.DataFrame.from_dict(
        {name: np.exp(row) for name, row in rows.items()}, "index",
        columns=["estimate", "lower", "upper"],
    )  # fmt: skip
    return BiasAnalysis(summary, table, len(good) - len(table))
