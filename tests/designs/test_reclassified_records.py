"""Records that are classified anew agree with corrected counts, and adjust for covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import steropes
from steropes.designs.bias_analysis import (
    Misclassification,
    SelectionBias,
    bias_analysis,
    reclassify_records,
    trapezoid,
)
from steropes.errors import DataError


def people_of(counts: list[list[int]]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a row for each person of a table of counts."""
    cells = np.ravel(counts)
    drug, case = np.array([1, 0, 1, 0]).repeat(cells), np.array([1, 1, 0, 0]).repeat(cells)
    return pd.DataFrame({"drug": drug}), case


COUNTS = [[57, 174], [184, 548]]


@pytest.mark.parametrize("of", ["exposure", "outcome"])
def test_without_covariates_the_ratio_is_that_of_corrected_counts(of: Any) -> None:
    people, case = people_of(COUNTS)
    bias = Misclassification(of, (0.8, 0.75), (0.95, 0.9))
    found = reclassify_records(
        steropes.LogisticRegression(), people, case, bias, exposure="drug", draws=15
    )
    expected = bias_analysis(COUNTS, bias).summary
    logs = found.draws["log_ratio"]
    error = logs.std() / np.sqrt(len(logs))
    assert logs.mean() == pytest.approx(
        np.log(expected.loc["corrected", "estimate"]), abs=4 * error + 0.01
    )
    np.testing.assert_allclose(found.summary.loc["observed"], expected.loc["observed"], rtol=1e-6)
    assert found.draws["log_ratio_with_error"].std() > logs.std()


def test_classification_within_groups_removes_confounding() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    old = rng.binomial(1, 0.5, n)
    true = rng.binomial(1, np.where(old, 0.6, 0.2))
    rate = 0.05 * np.exp(0.7 * true + 1.2 * old)
    time = rng.exponential(1 / rate)
    y = steropes.Surv(np.minimum(time, 5), (time <= 5).astype(int))
    people = pd.DataFrame({"drug": rng.binomial(1, np.where(true, 0.85, 0.1)), "old": old})
    bias = Misclassification("exposure", trapezoid(0.8, 0.84, 0.86, 0.9), 0.9)
    options: dict[str, Any] = {"exposure": "drug", "draws": 5}
    cox = steropes.CoxRegression()
    found = reclassify_records(cox, people, y, bias, within=["old"], **options)
    truth = cox.fit(people.assign(drug=true), y).coef_[0]
    estimate = np.log(found.summary["estimate"])
    assert estimate["observed"] < truth - 0.1
    assert estimate["systematic error"] == pytest.approx(truth, abs=0.15)
    again = reclassify_records(cox, pl.from_pandas(people), y, bias, within=["old"], **options)
    pd.testing.assert_frame_equal(found.draws, again.draws)


def test_draws_that_the_counts_contradict_are_counted_and_wrong_input_is_named() -> None:
    people, case = people_of(COUNTS)
    model = steropes.LogisticRegression()

    def call(bias: Any = None, y: Any = case, model: Any = model, **options: Any) -> Any:
        bias = Misclassification("exposure", 0.9, 0.95) if bias is None else bias
        given = {"exposure": "drug", "draws": 20, **options}
        return reclassify_records(model, people, y, bias, **given)

    found = call(Misclassification("exposure", 0.9, trapezoid(0.7, 0.72, 0.9, 0.95)))
    assert 0 < found.discarded < 20
    assert len(found.draws) == 20 - found.discarded
    for given, message in (
        ({"bias": SelectionBias((0.9, 0.9), (0.9, 0.9))}, "bias must be a Misclassification"),
        ({"bias": Misclassification("exposure", 0.9, 0.6)}, "contradict every value"),
        ({"bias": Misclassification("outcome", 0.9, 0.9), "y": case * 2}, "must be 0 or 1"),
        ({"exposure": "dose"}, "no column 'dose'"),
        ({"within": ["age"]}, "no column 'age'"),
        ({"cases": case[:-1]}, "cases has 962 entries"),
        ({"cases": case + 1}, "cases must be true or false"),
        ({"draws": 1}, "draws must be"),
        ({"draws": 2, "model": steropes.LinearRegression()}, "no log ratios"),
    ):
        with pytest.raises(DataError, match=message):
            call(**given)
