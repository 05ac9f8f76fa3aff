"""Systematic errors and synthesis agree with EmpiricalCalibration and EvidenceSynthesis."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steropes.designs.controls import fit_systematic_error
from steropes.designs.evidence import Profile, combine_profiles, random_effects

PUBLISHED = Path(__file__).parent / "published"
# Exposed and unexposed events, and people at risk, at each event time of the ten sites of Cox data
# in the tests of EvidenceSynthesis 1.0.0.
TEN_SITES = [
    [(1, 0, 43, 137), (1, 0, 15, 40)],
    [(0, 1, 32, 86), (1, 0, 17, 35), (0, 1, 65, 176)],
    [(1, 0, 64, 148), (1, 0, 18, 55), (0, 1, 65, 170), (0, 1, 51, 184)],
    [(1, 0, 30, 112), (1, 0, 17, 34)],
    [(1, 0, 40, 106)],
    [(0, 1, 36, 134), (1, 0, 13, 33), (0, 1, 57, 182), (0, 1, 43, 113), (0, 1, 45, 159)],
    [(0, 1, 70, 233), (0, 1, 28, 88), (0, 1, 31, 101)],
    [(1, 0, 17, 61), (0, 1, 57, 140), (1, 0, 83, 213), (1, 0, 72, 199), (1, 0, 37, 115)],
    [(1, 0, 45, 141), (0, 1, 13, 43)],
    [(0, 1, 7, 22)],
]


@pytest.mark.parametrize(
    ("data", "number", "published", "ease"),
    [
        ("sccs_controls", 45, (0.7921580519, 0.2834363458), 0.7925970313),
        ("cohort_method_controls", 30, (-0.04592402, 0.54323556), None),
    ],
)
def test_systematic_errors_are_those_of_empirical_calibration(data, number, published, ease):
    controls = pd.read_csv(PUBLISHED / f"{data}.csv")
    assert len(controls) == number
    y, s = controls["log_rr"].to_numpy(), controls["se"].to_numpy()
    found = fit_systematic_error(y, s)

    def value(mean, sd):
        return -0.5 * (np.log(s**2 + sd**2) + (y - mean) ** 2 / (s**2 + sd**2)).sum()

    # fitNull stops at a relative tolerance of 1e-4, below the maximum.
    assert (found.mean, found.sd) == pytest.approx(published, abs=2e-4)
    assert value(found.mean, found.sd) >= value(*published)
    if ease is not None:
        assert found.expected_absolute == pytest.approx(ease, abs=1e-4)
        assert found.mean == pytest.approx(0.7921165027, abs=5e-8)
        assert found.sd == pytest.approx(0.2834228776, abs=5e-8)
        assert found.expected_absolute == pytest.approx(0.7925554814, abs=5e-8)


def test_ten_sites_have_the_synthesis_of_evidence_synthesis():
    x = np.linspace(-45, 45, 3601)
    profiles = []
    for site in TEN_SITES:
        e1, e0, n1, n0 = np.array(site).T[:, :, None]
        profiles.append(Profile(x, (e1 * x - (e1 + e0) * np.log(n1 * np.exp(x) + n0)).sum(axis=0)))
    pooled = combine_profiles(profiles)
    assert pooled.log_rr == pytest.approx(1.0697478, abs=2e-7)
    # R's standard error is the width of the profile's interval, whose ends it searches less finely.
    assert (pooled.upper - pooled.lower) / 3.919928 == pytest.approx(0.38356443, abs=3e-5)
    # The chains of R have Monte Carlo errors of 0.02 and 0.016 (by means of batches).
    found = random_effects(profiles)
    assert found.log_rr == pytest.approx(1.0501625, abs=0.05)
    assert found.tau == pytest.approx(0.42520287, abs=0.04)
