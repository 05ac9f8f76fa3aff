"""The specifications of published studies in the gallery, on simulated people."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steropes.errors import DataError
from steropes.studies import read_spec, run_grid
from steropes.studies.database import hypertension_database

GALLERY = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_heart_failure_has_the_simulated_ratio_with_and_without_a_competing_risk(tmp_path):
    spec = read_spec(GALLERY / "hypertension.toml")
    assert {a.outcome_model.repeats for a in spec.analyses} == {10}
    short = tuple(
        replace(a, outcome_model=replace(a.outcome_model, repeats=1, interval="profile"))
        for a in spec.analysis
    )
    results = run_grid(hypertension_database(6000), replace(spec, analysis=short), tmp_path)
    found = results.estimates(unblind=True)
    assert len(found) == 2
    for line in found.itertuples(index=False):
        assert abs(np.log(line.rr / 0.8)) < 3 * line.se_log_rr
    assert np.ptp(np.log(found["rr"])) < 0.1


@pytest.mark.slow
def test_cough_differs_after_ten_days_only(tmp_path):
    results = run_grid(hypertension_database(20_000), read_spec(GALLERY / "cough.toml"), tmp_path)
    periods = results.tables["effect_by_period"]
    later = periods[periods["first_day"] == 11]
    assert len(later) == 2
    np.testing.assert_allclose(np.log(later["rr"] / 0.65), 0, atol=0.15)
    early = periods[periods["first_day"] == 1]
    assert ((early["ci_95_lb"] < 1) & (early["ci_95_ub"] > 1)).all()
    pooled = results.estimates(unblind=True).set_index("analysis_id")["rr"]
    assert abs(np.log(pooled[3] / pooled[1])) < 0.02


@pytest.mark.parametrize("ratio", [0.0, -1.0])
def test_ratios_of_the_simulation_are_positive(ratio):
    with pytest.raises(DataError, match="positive"):
        hypertension_database(10, cough_ratio=ratio)
