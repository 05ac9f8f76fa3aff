"""Case-only and case–control designs in an OMOP database: tables, results, disclosure control."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import OUTCOME, START, TARGET, TinyOmop

from steropes.designs.case_only import (
    case_crossover,
    nested_case_control,
    self_controlled_cohort,
    self_controlled_risk_interval,
)
from steropes.errors import DataError
from steropes.studies.case_only import (
    CaseOnlyStudy,
    OmopCaseOnly,
    case_only_study,
    case_only_tables,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules

WOMAN = 8532
SOURCES = CohortSources(drugs={1: ConceptSet((TARGET,))}, conditions={3: ConceptSet((OUTCOME,))})
DESIGNS = [
    "case-time-control",
    "case-crossover", "case-case-time-control", "nested-case-control", "risk-interval",
    "self-controlled-cohort",
]  # fmt: skip


@pytest.fixture(scope="module")
def people():
    """The histories of 400 people, in days from the start of the study."""
    rng, made = np.random.default_rng(1), []
    for _ in range(400):
        first = int(rng.integers(-400, 0))
        eras, at = [], first - 20
        for _ in range(int(rng.integers(1, 4))):
            at += int(rng.integers(10, 250))
            eras.append((at, at + int(rng.integers(1, 25))))
            at = eras[-1][1]
        made.append({
            "observed": (first, int(first + rng.integers(300, 700))), "eras": eras,
            "outcome": int(rng.integers(0, 300)) if rng.random() < 0.7 else None,
            "sex": int(rng.choice([8507, WOMAN])), "born": int(rng.integers(1940, 1960)),
        })  # fmt: skip
    return made


@pytest.fixture(scope="module")
def path(people, tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for one in people:
        person = omop.person(observed=None, born=one["born"], sex=one["sex"])
        omop.observed(person, *one["observed"])
        for era in one["eras"]:
            omop.drug(person, TARGET, *era)
        if one["outcome"] is not None:
            omop.condition(person, OUTCOME, one["outcome"])
    return omop.write()


@pytest.fixture(scope="module")
def db(path):
    with OmopDatabase(path) as opened:
        yield opened


def question(design, **settings):
    return OmopCaseOnly(SOURCES, (1,), 3, design, **settings)


def date(day):
    return pd.Timestamp(START + dt.timedelta(days=int(day)))


def test_tables_have_the_histories_of_people(db, people):
    cut = {"study_start": START, "study_end": START + dt.timedelta(days=200), "sexes": (WOMAN,)}
    tables = case_only_tables(db, question("nested-case-control", **cut))
    rows = [
        (date(max(p["observed"][0], 0)), date(min(p["observed"][1], 200)), p["sex"])
        for p in people
        if p["sex"] == WOMAN and p["observed"][1] >= 0
    ]
    table = tables.observation
    found = zip(table["start"], table["end"], table["sex"], strict=True)
    assert sorted(found) == sorted(rows)
    women = [p for p in people if p["sex"] == WOMAN and p["observed"][1] >= 0]
    assert len(tables.exposures) == sum(len(p["eras"]) for p in women)
    assert set(tables.events["day"]) <= {date(p["outcome"]) for p in women if p["outcome"]}
    assert "rows of people are not printed" in repr(tables.events)
    cases = case_only_tables(db, question("case-crossover"))
    assert len(cases.observation) == sum(p["outcome"] is not None for p in people)


def test_results_are_those_of_the_design_on_the_tables(db):
    own = question("case-crossover", window=(-20, 0), references=(-60, -90), washout_days=100)
    study = case_only_study(db, own, disclosure="none")
    table = case_crossover(
        *case_only_tables(db, own), exposure="exposure", window=(-20, 0), references=[-60, -90],
        washout=100,
    ).estimates  # fmt: skip
    pd.testing.assert_frame_equal(pd.DataFrame(study.result.estimates), pd.DataFrame(table))
    own = question("case-time-control", controls_per_case=2, birth_days=None, seed=5)
    assert case_only_study(db, own, disclosure="none").result.estimates["ratio"].notna().all()
    own = question("nested-case-control", controls_per_case=2, birth_days=None, seed=5)
    study = case_only_study(db, own, disclosure="none")
    table = nested_case_control(
        *case_only_tables(db, own), exposure="exposure", controls_per_case=2, match=["sex"], seed=5
    ).estimates
    pd.testing.assert_frame_equal(pd.DataFrame(study.result.estimates), pd.DataFrame(table))


@pytest.mark.sampled
@pytest.mark.parametrize("design", DESIGNS)
def test_released_tables_have_no_small_counts(db, design, tmp_path):
    study = case_only_study(db, question(design), disclosure="ohdsi")
    paths = study.write(tmp_path)
    assert {p.name for p in paths} == {
        "case_only_estimates.csv", "case_only_attrition.csv", "report.html",
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "release" / "case_only_estimates.csv")
    for name in table.columns.intersection(["exposed_cases", "discordant_sets", "events"]):
        numbers = pd.to_numeric(table[name], errors="coerce").dropna()
        assert not ((numbers > 0) & (numbers < 5)).any()
    open_ = case_only_study(db, question(design), disclosure="none")
    assert open_.release["case_only_estimates"]["ratio"].notna().all()
    assert open_.release["case_only_attrition"]["events"].tolist() == [
        str(n) for n in open_.result.attrition["events"]
    ]


@pytest.mark.parametrize("few", [3, 9])
def test_a_ratio_that_tells_a_small_count_is_withheld(tmp_path, few):
    omop = TinyOmop(tmp_path)
    for k in range(40):
        person = omop.person(observed=(-400, 300))
        omop.condition(person, OUTCOME, 100)
        omop.drug(person, TARGET, 95 if k < few else 30 if k < 20 else -200, None)
    with OmopDatabase(omop.write()) as db:
        exact = case_only_study(db, question("case-crossover"), disclosure="none")
        shown = case_only_study(db, question("case-crossover"), disclosure="ohdsi")
    assert exact.result.estimates["ratio"].item() == pytest.approx(few / (20 - few))
    line = shown.release["case_only_estimates"].iloc[0]
    if few < 5:
        assert np.isnan(line["ratio"])
        assert "not released" in line["note"]
        assert line["exposed_cases"] == ""
        assert f"{few / (20 - few):.3f}"[:5] not in repr(shown)
    else:
        assert line["ratio"] == pytest.approx(few / (20 - few), rel=1e-3)
        assert line["exposed_cases"] == "9"


def test_numbers_of_controls_hide_how_many_cases_have_some(db):
    own = question("case-time-control", controls_per_case=2, birth_days=None)
    study = case_only_study(db, own, disclosure="ohdsi")
    exact = study.result.attrition.set_index("rule")["events"]
    shown = study.release["case_only_attrition"].set_index("rule")["events"].astype(int)
    of_controls = [rule for rule in exact.index if rule.startswith("controls")]
    assert exact[of_controls[0]] > exact["events"]
    assert (shown[of_controls] % 10 == 0).all()
    assert (abs(shown - exact) <= 5).all()


def test_exposures_of_one_model_are_withheld_together(tmp_path):
    omop, other = TinyOmop(tmp_path), 7
    omop.concept(other, "otherdrug")
    for k in range(60):
        person = omop.person(observed=(-400, 300))
        omop.condition(person, OUTCOME, 100)
        omop.drug(person, TARGET, 95 if k < 9 else 30 if k < 20 else -200, None)
        omop.drug(person, other, 95 if k % 20 == 0 else 30 if k % 3 else -200, None)
    drugs = {1: ConceptSet((TARGET,)), 2: ConceptSet((other,))}
    both = OmopCaseOnly(
        CohortSources(drugs=drugs, conditions=SOURCES.conditions), (1, 2), 3, "case-crossover"
    )
    with OmopDatabase(omop.write()) as db:
        shown = case_only_study(db, both, disclosure="ohdsi").release["case_only_estimates"]
    assert shown["ratio"].isna().all()  # 3 cases are exposed to the other drug


def test_the_command_runs_concepts_and_files(path, tmp_path, capsys):
    command = ["case-only", str(path), "--exposure", "1", "--outcome", "3", "--window", "-20:0"]
    command += ["--design", "case-crossover", "--reference", "-60", "--output"]
    assert run([*command, str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("case-crossover\ncovariate")
    assert printed.splitlines()[-1] == str(tmp_path / "a" / "release" / "report.html")
    file = tmp_path / "question.toml"
    file.write_text(
        'exposures = [1]\noutcome = 3\ndesign = "case-crossover"\nwindow = [-20, 0]\n'
        "[cohorts.drugs]\n1 = 1\n"
    )
    command = ["case-only", str(path), "--specification", str(file), "-q", "--output"]
    assert run([*command, str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out == ""
    table = "release/case_only_estimates.csv"
    assert (tmp_path / "a" / table).read_text() == (tmp_path / "b" / table).read_text()
    assert run(["case-only", str(path), "--exposure", "1", "--outcome", "3"]) == 2
    assert "design is missing" in capsys.readouterr().err
    assert run([*command[:2], "--outcome", "3", "--window", "20"]) == 2
    assert "a window is FIRST:LAST in days" in capsys.readouterr().err


def test_wrong_specifications(db):
    wrong = [
        ({"design": "risk-interval", "window": (-10, 0)}, "window has no effect in the design"),
        ({"design": "case-crossover", "seed": 2}, "seed has no effect in the design"),
        ({"design": "case-crossover", "window": (-10,)}, "window must be the first and last day"),
        ({"design": "case-crossover", "exposures": ()}, "exposures"),
        ({"design": "case-crossover", "outcome": 1}, "cohort 1 has two roles"),
        ({"design": "cohort"}, "design"),
    ]
    for settings, message in wrong:
        with pytest.raises(DataError, match=message):
            OmopCaseOnly(**{"cohorts": SOURCES, "exposures": (1,), "outcome": 3, **settings})
    with pytest.raises(DataError, match="nobody is observed in the study"):
        case_only_tables(db, question("case-crossover", study_start=dt.date(2100, 1, 1)))
    with pytest.raises(DataError, match="reference window at -60 overlaps"):
        case_only_study(db, question("case-crossover", window=(-100, 0)))


@pytest.mark.parametrize("outside", [1, 4])
def test_few_events_in_none_of_the_compared_days_do_not_follow_from_limits(outside):
    """Limits of a ratio of zero are those of the number of control events alone."""
    people = pd.DataFrame({"id": range(60), "start": 1, "end": 400})
    drugs = pd.DataFrame({"id": range(60), "start": 200})
    days = [225] * 8 + [390] * outside
    events = pd.DataFrame({"id": range(len(days)), "day": days})
    result = self_controlled_risk_interval(
        events, drugs, people, risk_periods=(1, 14), control_periods=(15, 42)
    )
    asked = OmopCaseOnly(SOURCES, (1,), 3, "risk-interval", risk=(1, 14), control=(15, 42))
    released = CaseOnlyStudy(asked, result, DisclosureRules()).release["case_only_estimates"]
    assert released["ratio"].isna().all()
    assert (released["events"] == "").all()
    days = [210] * 8 + [180] * 9 + [390] * outside
    result = self_controlled_cohort(
        pd.DataFrame({"id": range(len(days)), "day": days}), drugs, people
    )
    asked = OmopCaseOnly(SOURCES, (1,), 3, "self-controlled-cohort")
    released = CaseOnlyStudy(asked, result, DisclosureRules()).release["case_only_estimates"]
    assert released["ratio"].isna().all()
