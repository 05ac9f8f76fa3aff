"""Target trials in an OMOP database, by comparison with rules that are applied day by day."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import OUTCOME, START, TARGET, TinyOmop

from steropes.designs.target_trials import sequential_trials
from steropes.errors import DataError
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortSources, ConceptSet, Indication
from steropes.studies.covariates import FeatureRules
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.target_trials import (
    OmopTrial,
    emulate_trial,
    person_time,
    target_trial_study,
)
from steropes.studies.target_trials.target_trial_study import _some_times

ILL, WIDTH, WASHOUT, PERIODS = 7, 30, 90, 8
STUDY = (START, START + dt.timedelta(days=WIDTH * PERIODS + 10))
WOMAN = 8532001


@pytest.fixture(scope="module")
def people():
    """The histories of 300 people, in days from the start of the study."""
    rng, made = np.random.default_rng(1), []
    for _ in range(300):
        first = int(rng.integers(-400, 60))
        eras = []
        for _ in range(int(rng.integers(0, 3))):
            a = int(rng.integers(-150, 200))
            eras.append((a, a + int(rng.integers(0, 90))))
        made.append({
            "observed": [(first, int(first + rng.integers(100, 700)))], "eras": eras,
            "outcome": int(rng.integers(-60, 500)) if rng.random() < 0.6 else None,
            "ill": int(rng.integers(-100, 100)) if rng.random() < 0.7 else None,
            "sex": int(rng.choice([8507, 8532])), "born": int(rng.integers(1930, 1990)),
        })  # fmt: skip
        if rng.random() < 0.2:
            gap = made[-1]["observed"][0][1] + int(rng.integers(2, 30))
            made[-1]["observed"].append((gap, gap + 200))
    return made


@pytest.fixture(scope="module")
def path(people, tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    omop.concept(ILL, "illness")
    for one in people:
        person = omop.person(observed=None, born=one["born"], sex=one["sex"])
        for span in one["observed"]:
            omop.observed(person, *span)
        for era in one["eras"]:
            omop.drug(person, TARGET, *era)
        for concept, day in ((OUTCOME, one["outcome"]), (ILL, one["ill"])):
            if day is not None:
                omop.condition(person, concept, day)
    return omop.write()


@pytest.fixture(scope="module")
def db(path):
    with OmopDatabase(path) as opened:
        yield opened


def trial(**settings):
    sources = CohortSources(
        drugs={1: ConceptSet((TARGET,))}, conditions={3: ConceptSet((OUTCOME,))},
        indications={4: Indication((ILL,))} if "nesting" in settings else {},
    )  # fmt: skip
    kept = {"period_days": WIDTH, "washout_days": WASHOUT,
            "features": FeatureRules(analyses=(1,), end_day=-1)}  # fmt: skip
    return OmopTrial(sources, 1, 3, *STUDY, **{**kept, **settings})


def by_day(people, *, nested=False, ages=None):
    """Follow each person day by day."""
    rows = []
    for i, one in enumerate(people, 1):
        treated = {d for a, b in one["eras"] for d in range(a, b + 1)}
        for since, until in one["observed"]:
            found, entered = [], False
            for k in range(PERIODS):
                day, end = k * WIDTH, k * WIDTH + WIDTH - 1
                early = one["outcome"] is not None and one["outcome"] < day
                if not since + WASHOUT <= day <= until or early:
                    continue
                now = day in treated
                stop = day - WIDTH + 1 if now else day
                eligible = not treated & set(range(day - WASHOUT, stop))
                if nested:
                    eligible &= one["ill"] is not None and one["ill"] <= day
                if ages is not None:
                    years = (START + dt.timedelta(days=day)).year - one["born"]
                    eligible &= ages[0] <= years <= ages[1]
                entered |= eligible
                if not entered:
                    continue
                had = one["outcome"] is not None and one["outcome"] <= min(end, until)
                lost = not had and (until < end or (until == end and k < PERIODS - 1))
                woman = int(one["sex"] == 8532)
                found.append((i, k, int(now), int(had), int(lost), int(eligible), woman))
            rows += found
            if found:
                break
    names = ["person_id", "period", "treated", "outcome", "censored", "eligible", "woman"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({}, {}),
        ({"nesting": 4}, {"nested": True}),
        ({"min_age": 40, "max_age": 60}, {"ages": (40, 60)}),
    ],
)
def test_periods_of_people_are_those_of_rules_applied_day_by_day(db, people, settings, same):
    found = person_time(db, trial(covariates=(WOMAN,), **settings))
    expected = by_day(people, **same)
    assert len(found) > 300
    (woman,) = found.columns[found.columns.get_loc("eligible") + 1 :]
    assert woman.startswith("gender")
    got = pd.DataFrame(found.drop(columns="start")).rename(columns={woman: "woman"})
    got["woman"] = got["woman"].astype(int)
    pd.testing.assert_frame_equal(got, expected, check_dtype=False)
    first = pd.Timestamp(START) + pd.to_timedelta(found["period"] * WIDTH, unit="D")
    assert (pd.to_datetime(found["start"]).to_numpy() == first.to_numpy()).all()


@pytest.mark.parametrize("effect", ["intention-to-treat", "per-protocol"])
def test_the_effect_is_that_of_a_sequence_of_trials_on_this_table(db, people, effect):
    specified = trial(covariates=(WOMAN,), effect=effect, follow_up=4)
    found = emulate_trial(db, specified)
    weights = {} if effect == "intention-to-treat" else {"treatment_weights": ([], ["woman"])}
    same = sequential_trials(
        by_day(people), id="person_id", period="period", treatment="treated", outcome="outcome",
        eligible="eligible", censored="censored", covariates=["woman"], effect=effect,
        follow_up=4, **weights,
    )  # fmt: skip
    for column in ("estimate", "se", "lower", "upper"):
        np.testing.assert_allclose(found.effects[column], same.effects[column], rtol=1e-8)
    words = found.protocol["target_trial"]
    assert words["Treatment strategies"] == "Start newdrug, or do not start it"
    assert words["Outcome"] == "bleeding"
    assert words["Eligibility criteria"] == (
        "90 days of observation without newdrug; no earlier bleeding"
    )


def people_of_trials(table, follow_up):
    """The people of both arms, and those with the outcome, counted trial by trial."""
    people, events = {1: set(), 0: set()}, {1: set(), 0: set()}
    at_risk = {}
    for person, own in table.groupby("person_id"):
        rows = own.sort_values("period").to_dict("records")
        for k, row in enumerate(rows):
            if row["eligible"]:
                arm, followed = row["treated"], rows[k : k + follow_up]
                people[arm].add(person)
                if any(r["outcome"] for r in followed):
                    events[arm].add(person)
                for time in range(1, len(followed) + 1):
                    at_risk.setdefault((arm, time), set()).add(person)
    return people, events, at_risk


def test_released_numbers_are_of_people_and_not_of_person_trials(db):
    study = target_trial_study(db, trial(follow_up=4), disclosure="none")
    people, events, at_risk = people_of_trials(person_time(db, trial()), 4)
    arms = study.release["target_trial_people"].set_index("strategy").astype(int)
    for name, arm in (("treatment", 1), ("no treatment", 0)):
        assert arms.loc[name].tolist() == [len(people[arm]), len(events[arm])]
    weights = study.release["target_trial_weights"]
    for name, arm in (("at_risk_treatment", 1), ("at_risk_no_treatment", 0)):
        assert weights[name].tolist() == [len(at_risk[arm, k]) for k in weights["time"]]
    assert study.result.weights["at_risk"].iloc[0] > len(people[0] | people[1])


@pytest.mark.parametrize("rules", ["ohdsi", "opensafely"])
def test_the_release_has_no_small_counts_and_consistent_risks(db, rules, tmp_path):
    study = target_trial_study(
        db, trial(covariates=(WOMAN,), censoring_weights=True), disclosure=rules
    )
    files = {p.name: p.read_text() for p in study.write(tmp_path)}
    words = files["target_trial_protocol.csv"] + files["report.html"]
    assert "person-trials;" not in words.replace("over the person-trials; it", "")
    assert "people in" not in words
    tables = study.release
    least = study.rules.least
    for name in ("at_risk_treatment", "at_risk_no_treatment"):
        counts = tables["target_trial_weights"][name]
        assert counts.min() >= least
        assert (counts % (3 if rules == "opensafely" else 5) == 0).all()
    assert not {"people", "largest weight"} & {
        row.diagnostic
        for row in tables["target_trial_diagnostics"].itertuples()
        if np.isfinite(row.value)
    }
    risks = tables["target_trial_risks"].pivot(index="time", columns="strategy", values="risk")
    ratios = tables["target_trial_contrasts"].query("measure == 'risk ratio'").set_index("time")
    assert risks.index.tolist() == ratios.index.tolist()
    np.testing.assert_allclose(
        ratios["estimate"], risks["treatment"] / risks["no treatment"], rtol=5e-3
    )
    assert (ratios["lower"] < ratios["estimate"]).all()
    assert "odds ratio" in repr(study)


def test_few_people_with_the_outcome_withhold_effects_and_risks(tmp_path):
    omop = TinyOmop(tmp_path)
    for k in range(120):
        person = omop.person(observed=(-400, 400))
        if k < 30:
            omop.drug(person, TARGET, -5, 20)
        if k in (1, 2, 3) or (k > 30 and k % 10 == 0):
            omop.condition(person, OUTCOME, 5 + k)
    with OmopDatabase(omop.write()) as few:
        study = target_trial_study(few, trial(), disclosure="ohdsi")
        paths = study.write(tmp_path / "out")
    assert study.people.arms["events"].tolist()[0] == 3
    tables = study.release
    assert tables["target_trial_effects"]["estimate"].isna().all()
    assert "not released" in tables["target_trial_effects"]["note"].item()
    assert tables["target_trial_risks"].empty
    assert tables["target_trial_contrasts"].empty
    assert tables["target_trial_people"]["people_with_outcome"].tolist()[0] == "<5"
    assert len(paths) == 8


def test_the_command_emulates_a_trial_of_concepts(path, tmp_path, capsys):
    command = ["target-trial", str(path), "--treatment", "1", "--outcome", "3"]
    command += ["--study-start", str(STUDY[0]), "--study-end", str(STUDY[1]), "--washout", "90"]
    assert run([*command, "--output", str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("The intention-to-treat effect")
    page = (tmp_path / "a" / "release" / "report.html").read_text()
    assert "Randomly assigned, without blinding" in page
    assert run(command[:-6]) == 2
    assert "study_start is missing" in capsys.readouterr().err


def test_the_page_has_some_of_many_periods():
    name = "target_trial_weights"
    table = pd.DataFrame({"time": range(1, 101), "day": range(30, 3001, 30)})
    page = _some_times({name: table}, name)
    assert "12 of 100 periods; all are in target_trial_weights.csv." in page
    assert page.count("<tr") == 13
    assert ">3,000<" in page
    assert "periods" not in _some_times({name: table[:20]}, name)


def test_rows_of_people_are_not_printed(db):
    assert "rows of people are not printed" in repr(person_time(db, trial()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"period_days": 400}, "there is no whole period of 400 days"),
        ({"features": FeatureRules(analyses=(1,))}, "set end_day of the features to -1 or less"),
        ({"effect": "per-protocol"}, "weights need covariates; list their ids"),
        ({"truncate": 0.99}, "truncate has no effect without weights"),
        ({"nesting": 1}, "cohort 1 has two roles in the trial"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        trial(**settings)


def test_unknown_covariates_and_cohorts_and_empty_trials_are_refused(db):
    with pytest.raises(DataError, match="nobody has covariate 999001 in any period"):
        person_time(db, trial(covariates=(999001,)))
    with pytest.raises(DataError, match="cohort 9 is not defined"):
        emulate_trial(db, OmopTrial(trial().cohorts, 1, 9, *STUDY))
    with pytest.raises(DataError, match="nobody is eligible for a trial"):
        person_time(db, trial(min_age=150, max_age=150))
