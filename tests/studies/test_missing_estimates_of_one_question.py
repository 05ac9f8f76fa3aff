"""Studies of one question tell everywhere why their estimate is missing.

Separation, fits that stop early, an arm or a window without outcomes, and cohorts without people.
"""

import numpy as np
import pytest
from tests.studies.conftest import TinyOmop, day
from tests.studies.test_missing_estimates import (
    WORD,
    archive,
    assert_told,
    plain,
    texts_of,
    viewed,
)

import steropes
from steropes.designs.case_series import series_fits_and_profiles
from steropes.studies.cli.command_line import run

APART = "nobody in the comparator arm had the outcome while people of the target arm"
ONE_ARM = "nobody in the comparator arm had the outcome during the time at risk"
COLLINEAR = "Collinear columns: 'indication' can be written as a combination of 'exposure'"
NAMES = "not shown: a diagnostic failed (time stability, rarity"
LENIENT = ["--no-descendants", "--tie-orders", "0", "--folds", "2"]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """120 people with two drugs, and 60 with drug 8 on exactly the days of their pain."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    for concept in (4, 5, 6, 7, 8, 9, 77):
        omop.concept(concept, f"concept {concept}")
    for k in range(120):  # The target's users leave before the others have outcome 3.
        first = k % 2 == 0
        arm = {"target": 0} if first else {"comparator": 0}
        person = omop.person(**arm, observed=(-1000, 200 if first else 1000), born=1940 + k // 3)
        omop.condition(person, 3, int(rng.integers(10, 190) if first else rng.integers(300, 900)))
        if first and k % 4:
            omop.condition(person, 5, int(rng.integers(10, 190)))
    for k in range(60):
        person, start = omop.person(observed=(0, 400)), int(rng.integers(100, 300))
        omop.drug(person, 8, start, start + 20)
        omop.rows["condition_era"].append((person, 77, day(start), day(start + 20)))
        omop.condition(person, 6, start + k % 20 if k % 2 else int(rng.integers(0, 400)))
        omop.condition(person, 7, start - 40 if k % 2 else start + 60)
    return str(omop.write())


@pytest.fixture
def stopped(monkeypatch):
    """Let propensity models and case series stop after their first step."""

    def short(estimator):
        fit = estimator.fit

        def stop(self, *args, **kwargs):
            self.max_iter, self.tol = 1, 1e-300
            return fit(self, *args, **kwargs)

        monkeypatch.setattr(estimator, "fit", stop)

    short(steropes.LogisticRegression)
    short(steropes.SelfControlledCaseSeries)
    monkeypatch.setattr(series_fits_and_profiles, "monthly_likelihood", lambda part: None)


def comparison(database, out, *options):
    asked = ["--target", "1", "--comparator", "2", *LENIENT, *options]
    return ["study", database, *asked, "--output", str(out)]


def series(database, out, *options):
    asked = ["--no-descendants", "--pre-exposure", "0", "--probe", "0", *options]
    return ["sccs", database, *asked, "--output", str(out)]


def quiet_texts(command, out, capsys):
    """What a command says with --quiet, its page and its viewer."""
    assert run([*command, "--quiet"]) == 0
    said = capsys.readouterr().err
    return plain(said), plain((out / "release" / "report.html").read_text()), viewed(out)


def test_a_comparison_without_outcomes_in_an_arm_or_at_the_same_time(database, tmp_path, capsys):
    out = tmp_path / "o"
    options = ("--outcome", "5", "--further-outcome", "3", "--unblind")
    quiet, printed, page = texts_of(comparison(database, out, *options), out, capsys)
    for reason in (ONE_ARM, APART):
        assert reason in plain(quiet)
        assert reason in plain(printed)
        assert reason in plain(page)
    assert viewed(out)["estimates"]["status"].str.startswith("no finite estimate").all()
    assert ONE_ARM in (out / "release" / "tables" / "hazard_ratios.csv").read_text()
    assert APART in (out / "release" / "tables" / "outcomes.csv").read_text()


def test_a_comparison_that_fails_a_diagnostic_names_it_and_no_arm(database, tmp_path, capsys):
    out = tmp_path / "o"
    quiet, page, views = quiet_texts(comparison(database, out, "--outcome", "3"), out, capsys)
    reason = "no finite estimate, and not shown: a diagnostic failed (largest standardised"
    for text in (quiet, page):
        assert reason in text
        assert "arm had the outcome" not in text
    assert views["estimates"]["status"].str.startswith(reason).all()


def test_a_comparison_that_did_not_converge(tmp_path, capsys, stopped):
    omop, rng = TinyOmop(tmp_path), np.random.default_rng(2)
    for k in range(120):
        arm = "target" if k % 2 else "comparator"
        born = int(rng.integers(1940, 1990))
        person = omop.person(**{arm: 0}, outcome=5 + k if k % 3 == 0 else None, born=born)
        if rng.random() < (0.7 if k % 2 else 0.3):
            omop.condition(person, 4, -20)
    out = tmp_path / "o"
    command = comparison(str(omop.write()), out, "--outcome", "3")
    quiet, page, views = quiet_texts(command, out, capsys)
    reason = "not shown: a diagnostic failed"
    assert reason in quiet
    assert "convergence of the fits" in quiet
    assert views["estimates"]["status"].str.contains("convergence of the fits").all()
    assert "the propensity model did not converge" in page
    assert reason in (out / "release" / "tables" / "hazard_ratios.csv").read_text()


def test_case_series_with_collinear_windows(database, tmp_path, capsys):
    out = tmp_path / "o"
    options = ("--exposure", "8", "--outcome", "6", "--indication", "77")
    told = texts_of(series(database, out, *options), out, capsys)
    assert_told(COLLINEAR, *told, viewed(out)["series-estimates"]["status"])
    assert COLLINEAR in (out / "release" / "tables" / "note.csv").read_text()


def test_case_series_without_outcomes_in_the_window(database, tmp_path, capsys):
    """The estimate is zero and fails diagnostics; the reason names them and not the count."""
    out = tmp_path / "o"
    command = series(database, out, "--exposure", "8", "--outcome", "7")
    quiet, printed, page = texts_of(command, out, capsys)
    statuses = viewed(out)["series-estimates"]["status"]
    assert f"No estimate for Exposure: {NAMES}" in plain(quiet)
    assert statuses.str.startswith(NAMES).all()
    assert "not shown (time stability, rarity" in plain(page)
    assert {"Exposure", "stability", "rarity"} <= {*WORD.findall(printed)}
    assert "no event in it" not in plain(quiet) + plain(printed) + plain(page)
    assert "no event in it" in (out / "release" / "tables" / "note.csv").read_text()


def test_case_series_that_did_not_converge(database, tmp_path, capsys, stopped):
    out = tmp_path / "o"
    command = series(database, out, "--exposure", "8", "--outcome", "6")
    quiet, page, views = quiet_texts(command, out, capsys)
    assert "not shown: a diagnostic failed (convergence" in quiet
    assert "not shown (convergence" in page
    assert views["series-estimates"]["status"].str.contains("convergence").all()
    assert ",FAIL," in (out / "release" / "tables" / "note.csv").read_text()


GRID = """
database_id = "tiny"
[[question]]
exposure = 8
outcome = {outcome}
[[analysis]]
id = 1
description = "usual"
descendants = false
pre_exposure_days = 0
end_of_observation_days = 0
"""


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (7, "not shown: a diagnostic failed (time stability, rarity"),
        (4, "nobody has the outcome 4 (concept 4) during an observation period"),
    ],
)
def test_a_grid_of_one_case_series(database, tmp_path, capsys, outcome, reason):
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(GRID.format(outcome=outcome))
    command = ["sccs-grid", str(spec), "--database", database, "--output", str(out)]
    quiet, page, views = quiet_texts(command, out, capsys)
    assert reason in quiet
    assert reason in page
    assert views["series-estimates"]["status"].str.startswith(reason).all()
    assert all(line["note"] for line in archive(out)["note"])


def test_a_grid_of_one_case_series_that_did_not_converge(database, tmp_path, capsys, stopped):
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(GRID.format(outcome=6))
    command = ["sccs-grid", str(spec), "--database", database, "--output", str(out)]
    quiet, page, views = quiet_texts(command, out, capsys)
    [status] = views["series-estimates"]["status"]
    assert status.startswith("not shown: a diagnostic failed (")
    assert "convergence" in status
    assert status in quiet
    assert status in page
    [line] = archive(out)["note"]
    assert (line["convergence_diagnostic"], line["unconverged"]) == (
        "FAIL", "The case series model did not converge.",
    )  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("study", "--target", "9", "--comparator", "2", "--outcome", "3"),
         "nobody has a drug era of the target 9 (concept 9)"),
        (("study", "--target", "1", "--comparator", "9", "--outcome", "3"),
         "nobody has a drug era of the comparator 9 (concept 9)"),
        (("sccs", "--exposure", "9", "--outcome", "6"),
         "no case has an era of the exposure 9 (concept 9) while observed"),
        (("sccs", "--exposure", "8", "--outcome", "4"),
         "nobody has the outcome 4 (concept 4) during an observation period"),
    ],
)  # fmt: skip
def test_without_people_one_study_ends_with_the_reason(database, tmp_path, capsys, command, reason):
    """There is nobody to report on, so that nothing is written; scripts see the exit status."""
    first, *options = command
    out = tmp_path / "o"
    given = [first, database, *options, "--no-descendants", "--output", str(out), "--quiet"]
    assert run(given) == 2
    assert f"steropes: {reason}" in capsys.readouterr().err
    assert not out.exists()
