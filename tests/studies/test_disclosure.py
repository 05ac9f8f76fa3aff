"""Small cells: none in any output, none that follows by subtraction; no person in a repr."""

import dataclasses
import itertools
import json
import logging
import math
import pickle
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from tests.studies.changed_tables import changed
from tests.studies.conftest import TinyOmop
from tests.studies.test_sccs_time import population

from steropes.designs.case_series.exposure_variation_check import require_contrast
from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
    demo_database,
)
from steropes.studies.cohorts import (
    ComparisonRules,
    compare_cohorts,
    drug_era_cohorts,
    study_population,
)
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.database.concept_search import find_concepts
from steropes.studies.disclosure import (
    Bound,
    DisclosureRules,
    applied_rules,
    fraction,
    part,
    rules_in_force,
    shown_count,
)
from steropes.studies.execution.resumable_steps import run_in_processes
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_checks import checks
from steropes.studies.report.study_page_pictures import study_pictures
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.one_question_specification import ALTERNATIVES

SMALL = range(1, 5)


@pytest.fixture(scope="module")
def study():
    return comparative_study(demo_database(), StudySettings(**DEMO, tie_orders=2))


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """A study with three events in an arm, and rules that drop one to four people."""
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for i in range(45):
        arm = ("target", "comparator")[i % 2]
        events = 3 if arm == "comparator" else 9
        person = omop.person(**{arm: 0}, outcome=5 + i if i // 2 < events else None)
        if i % 3 == 0:
            omop.condition(person, 70, -5)
    for _ in range(2):
        omop.person(target=0, outcome=-9)
    omop.person(comparator=0, observed=(-20, 30))
    return comparative_study(omop.write(), StudySettings(1, 2, 3, tie_orders=2, unblind=True))


def cells(numbers):
    """(path, number) of every count of people in the JSON file."""
    for line in numbers["attrition"]:
        for key in ("target", "target_dropped", "comparator", "comparator_dropped"):
            yield f"attrition {line['rule']} {key}", line[key]
    for line in [*numbers["rates"], *numbers["hazard_ratios"]]:
        for key in ("people", "events"):
            yield f"{line['analysis']} {key}", line[key]
    for arm, curve in numbers["survival"].items():
        for n in curve["at_risk"]["people"]:
            yield f"survival {arm}", n
    yield "pairs", numbers["matching"]["pairs"]


@pytest.mark.parametrize("which", ["study", "rare"])
def test_the_json_file_has_no_small_cell(which, request):
    numbers = request.getfixturevalue(which).to_dict()
    found = list(cells(numbers))
    assert [x for x in found if isinstance(x[1], int | float) and 0 < x[1] < 5] == []
    assert any(isinstance(n, str) for _, n in found)  # there was something to hide
    json.dumps(numbers, allow_nan=False)


def test_nothing_small_follows_by_subtraction(study, rare):
    for numbers in (study.to_dict(), rare.to_dict()):
        table = pd.DataFrame(numbers["attrition"])
        for arm in ("target", "comparator"):
            known = [n for n in table[arm] if isinstance(n, int)]
            assert not any(0 < a - b < 5 for i, a in enumerate(known) for b in known[i:])
            for k in range(1, len(table)):
                if isinstance(table[arm][k], str) or isinstance(table[arm][k - 1], str):
                    gone = table[f"{arm}_dropped"][k]
                    assert gone in (None, 0, "<5") or gone != gone
        rates = {(r["analysis"], r["arm"]): r for r in numbers["rates"]}
        for arm in ("target", "comparator"):
            for key in ("people", "events"):
                before, after = (rates[when, arm][key] for when in ("all", "matched"))
                if isinstance(before, int) and isinstance(after, int):
                    assert not 0 < before - after < 5
            for line in (rates["all", arm], rates["matched", arm]):
                if isinstance(line["events"], str):
                    assert line["rate"] is None
                if isinstance(line["people"], str):
                    assert line["person_years"] is None
        for analysis, key in (("crude", "all"), ("matched", "matched")):
            (line,) = (h for h in numbers["hazard_ratios"] if h["analysis"] == analysis)
            for what in ("people", "events"):
                arms = [rates[key, arm][what] for arm in ("target", "comparator")]
                assert isinstance(line[what], str) == any(isinstance(n, str) for n in arms)


def test_an_arm_of_few_people_is_told_by_no_bound_and_no_share(omop):
    for i in range(11):
        arm = "target" if i < 3 else "comparator"
        omop.condition(omop.person(**{arm: 0}, outcome=5 + i if i % 2 else None), 70 + i % 3, -5)
    for concept in (70, 71, 72):
        omop.concept(concept, f"thing {concept}")
    study = comparative_study(
        omop.write(), StudySettings(1, 2, 3, min_people=1, caliper=10, unblind=True)
    )
    numbers = study.to_dict()
    assert study.pairs == 3
    rates = {(r["analysis"], r["arm"]): r["events"] for r in numbers["rates"]}
    assert {rates["all", "target"], rates["matched", "target"]} == {"<5"}
    for line in numbers["balance"]["covariates"]:
        assert line["target_before"] is line["target_after"] is line["comparator_after"] is None
        assert line["smd_before"] is line["smd_after"] is None
    checks = {v["name"].split(":")[0]: v["value"] for v in numbers["diagnostics"]}
    assert checks["share of the target that matching left out"] is None
    assert checks["equipoise"] is numbers["propensity"]["equipoise"] is None


def test_what_nearly_everybody_has_is_counted_by_no_curve_and_no_verdict(omop):
    for i in range(40):
        arm = ("target", "comparator")[i % 2]
        person = omop.person(**{arm: 0}, outcome=5 + i if i > 4 else None)
        if i % 3 == 0:
            omop.condition(person, 70, -5)
    omop.concept(70, "thing")
    study = comparative_study(omop.write(), StudySettings(1, 2, 3, unblind=True, caliper=10))
    numbers = study.to_dict()
    events = {r["arm"]: r["events"] for r in numbers["rates"] if r["analysis"] == "matched"}
    assert events == {"target": "<20", "comparator": "<20"}  # two and three are without it
    assert numbers["survival"] == {}
    [precision] = [v["value"] for v in numbers["diagnostics"] if v["name"].startswith("precision")]
    assert precision == "<20"


def test_the_page_and_the_terminal_show_what_the_file_shows(rare, capsys):
    print_study(rare, [])
    out = capsys.readouterr().out
    page = re.sub(r"base64,[^\"]*", "", study_page(rare.release))
    assert "<5" in out
    assert "&lt;5" in page
    cells = re.findall(r"<td>−?(\d+)</td>", page.split("<h2>Propensity score")[0])
    assert [c for c in cells if int(c) in SMALL] == []
    assert not re.search(r"(?<![\d.<])[1-4] events", page + out)


def test_a_covariate_of_few_people_has_no_difference(study):
    n = int(study.rates.loc[("matched", "comparator"), "people"])
    exact = study.exact["cm_covariate_balance"].set_index("covariate_id")
    released, seen = publish(study).tables["cm_covariate_balance"], 0
    for line in released.to_dict("records"):
        if round(exact.at[line["covariate_id"], "comparator_mean_after"] * n) in SMALL:
            seen += 1
            assert line["comparator_mean_after"] < 0  # a bound
            assert math.isnan(line["std_diff_after"])
    assert seen > 5


def test_every_step_of_a_curve_holds_five_events(study):
    found = study.to_dict()["survival"]
    for arm, curve in study.curves().items():
        times = np.array(found[arm]["time"])
        until = np.array([curve.events[curve.times <= t].sum() for t in times])
        assert (np.diff(until, prepend=0) >= 5).all()
        assert curve.events.sum() - until[-1] in (0, *range(5, 10_000))
        at_risk = np.array([curve.at_risk[curve.times >= t][0] for t in times])
        assert (-np.diff(at_risk) >= 5).all()
        np.testing.assert_allclose(found[arm]["survival"], curve.at(times), atol=5e-5)


@pytest.fixture
def two_arms(omop):
    """A study with so many events among 40 people of the target and 40 of the comparator."""

    def make(target, comparator):
        for i in range(80):
            arm = ("target", "comparator")[i % 2]
            had = i // 2 < (target if arm == "target" else comparator)
            person = omop.person(**{arm: 0}, outcome=5 + i if had else None)
            if i % 3 == 0:
                omop.condition(person, 70, -5)
        omop.concept(70, "thing")
        settings = StudySettings(1, 2, 3, unblind=True, caliper=10, tie_orders=0)
        return comparative_study(omop.write(), settings)

    return make


@pytest.mark.parametrize("events", [25, 4])
def test_where_the_events_of_an_arm_are_hidden_there_is_no_curve(two_arms, events):
    study = two_arms(events, 3)
    assert "survival" not in study_pictures(publish(study))
    assert study.to_dict()["survival"] == {}


def test_those_at_risk_count_no_few_who_have_left(two_arms):
    study = two_arms(25, 9)
    texts = re.findall(r">([^<>]+)</text>", study_pictures(publish(study))["survival"].file())
    rows = {name: texts[texts.index(name) + 1 :] for name in ("Newdrug", "Olddrug")}
    assert rows["Newdrug"][0] == "40"  # all of them, as the table of rates has it
    assert rows["Olddrug"][0] == "40"
    for arm, curve in study.to_dict()["survival"].items():
        people = [40, *(n for n in curve["at_risk"]["people"] if isinstance(n, int))]
        assert all(a - b == 0 or a - b >= 5 for a, b in itertools.pairwise(people)), arm


def test_marks_of_the_picture_and_steps_of_the_file_count_no_few_between_them(study):
    study = dataclasses.replace(study, rules=DisclosureRules("ohdsi", 9))
    picture = study_pictures(publish(study))["survival"]
    texts = re.findall(r">([^<>]+)</text>", picture.file())
    for arm, curve in study.to_dict()["survival"].items():
        after = texts[texts.index(title_case(study.names[arm])) + 1 :]
        cells = itertools.takewhile(lambda t: re.fullmatch(r"(&lt;)?[\d,]+", t), after)
        marks = [int(t.replace(",", "")) for t in cells if "&" not in t]
        in_file = [n for n in curve["at_risk"]["people"] if isinstance(n, int)]
        assert marks, "the picture shows some"
        assert in_file, "the file has some"
        told = sorted({*marks, *in_file})
        assert min(np.diff(told)) >= 9, arm


@pytest.mark.parametrize("pairs", [3, 22])
def test_percentages_do_not_tell_small_counts(omop, pairs):
    for i in range(22 + pairs):
        omop.condition(omop.person(**{"target" if i < 22 else "comparator": 0}, outcome=9), 70, -5)
    omop.condition(omop.person(target=0, outcome=9), 71, -5)
    study = comparative_study(
        omop.write(), StudySettings(1, 2, 3, min_people=1, caliper=9.0, tie_orders=0)
    )
    assert study.pairs == pairs
    said = " ".join(c.finding for c in checks(publish(study)))
    for n, of in ((pairs, pairs), (pairs, 23), (23 - pairs, 23)):
        if n in SMALL and of not in SMALL:
            assert f"{100 * n / of:.0f}%" not in said


def test_it_can_be_switched_off(omop):
    for i in range(24):
        person = omop.person(**{("target", "comparator")[i % 2]: 0}, outcome=9 + i)
        omop.condition(person, 70 + i % 2 * (i % 3 > 1), -5)
    settings = StudySettings(1, 2, 3, min_people=3, tie_orders=0, unblind=True)
    study = comparative_study(omop.write(), settings, disclosure="none")
    numbers = study.to_dict()
    assert all(isinstance(n, int | float) for _, n in cells(numbers))
    assert numbers["attrition"][0]["target"] == 12


def shows_people(text, people):
    """Whether the text holds an id or a date of somebody."""
    words = set(re.findall(r"[\w-]+", text))
    return bool(words & {str(d.date()) for d in people["start"]}) or bool(
        words & {str(i) for i in people["person_id"] if i > 99_999}
    )


def test_no_repr_shows_people(omop, caplog, capsys):
    omop.ids = iter(range(7_000_000, 8_000_000))
    for i in range(24):
        person = omop.person(**{("target", "comparator")[i % 2]: i}, outcome=90 + i)
        if i % 3:
            omop.condition(person, 70, i - 5)
    path = omop.write()
    with caplog.at_level(logging.DEBUG), OmopDatabase(path) as db:
        study = comparative_study(path, StudySettings(1, 2, 3, tie_orders=0))
    things = [db, study, study.people, study.matched, study.propensity]
    things += [
        study.curves(),
        study.covariates,
        study.ties,
        study.settings,
    ]
    for thing in [*things, things, dict(enumerate(things))]:
        texts = [repr(thing), str(thing), format(thing)]
        html = getattr(thing, "_repr_html_", None)
        if html is not None:
            texts.append(html())
        assert not any(shows_people(text, study.people) for text in texts)
    assert "rows of people are not printed" in repr(study.people)
    assert not shows_people(caplog.text + capsys.readouterr().out, study.people)
    assert shows_people(study.people.head(30).to_string(), study.people)  # who asks, sees


def test_reprs_hide_small_cells_too(omop):
    for _ in range(3):
        omop.person(target=0)
    omop.person(comparator=0)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3))
    assert repr(study.people).startswith("Table of <5 people")


def test_counts_of_searches_and_reprs_follow_the_rules_of_the_site(omop, monkeypatch):
    for _ in range(7):
        omop.person(target=0)
    people = People({"person_id": range(7)})
    with OmopDatabase(omop.write()) as db:
        assert find_concepts(db, "1")["people"].tolist() == ["7"]
        assert repr(people).startswith("Table of 7 people")
        monkeypatch.setenv("STEROPES_DISCLOSURE", "ohdsi:10")
        assert find_concepts(db, "1")["people"].tolist() == ["<10"]
        assert repr(people).startswith("Table of <10 people")
    monkeypatch.setenv("STEROPES_DISCLOSURE", "opensafely")
    assert shown_count(7) == "<8"
    assert shown_count(1234) == "1,233"


def test_messages_of_a_run_follow_the_rules_of_the_run(monkeypatch):
    everybody = population([0] * 1007, [9] * 1007, [[1]] * 1007)

    def message():
        with pytest.raises(DataError) as refused:
            require_contrast(np.arange(2), [], ["drug"], 7, everybody)
        return str(refused.value)

    assert "7 cases and none of the other 1,000" in message()
    with applied_rules(DisclosureRules("ohdsi", 10)):
        assert "<10 cases and none of the other 1,000" in message()
    monkeypatch.setenv("STEROPES_DISCLOSURE", "ohdsi:8")
    assert "<8 cases" in message()


def test_a_study_applies_its_rules_while_it_runs(omop, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "steropes.studies.single_studies.comparative_study.tie_orders",
        lambda *_: seen.append(rules_in_force()),
    )
    for i in range(24):
        omop.person(**{("target", "comparator")[i % 2]: i}, outcome=90 + i)
    comparative_study(
        omop.write(),
        StudySettings(1, 2, 3),
        disclosure="ohdsi:10",
        progress=lambda _: seen.append(rules_in_force()),
    )
    assert DisclosureRules("ohdsi", 10) in seen
    assert rules_in_force() == DisclosureRules()


def test_reprs_follow_the_rules_of_the_run_that_made_the_people(omop, monkeypatch):
    for i in range(7):
        omop.person(target=i)
    omop.person(comparator=0)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3), disclosure="ohdsi:10")
    for i in range(7):
        omop.person(target=100, outcome=(50, 120)[i % 2])
    series = case_series(omop.write(), case_series_settings(3, 1), disclosure="ohdsi:10")
    assert repr(study.people).startswith("Table of <10 people")
    assert repr(pickle.loads(pickle.dumps(study.people))).startswith("Table of <10 people")
    assert repr(series.population) == "Population(<10 cases)"
    assert "cases" not in repr(series.intervals)
    monkeypatch.setenv("STEROPES_DISCLOSURE", "ohdsi:20")
    assert repr(study.people).startswith("Table of <20 people")


def test_reprs_of_comparisons_follow_the_rules_of_their_run(omop):
    for arm in ("target", "comparator"):
        for i in range(4):
            omop.person(**{arm: i})
    with OmopDatabase(omop.write()) as db:
        cohorts = drug_era_cohorts(db, {1: 1, 2: 2})
        with applied_rules(DisclosureRules("ohdsi", 10)):
            comparison = compare_cohorts(db, cohorts, 1, 2, ComparisonRules(washout_days=0))
            population = study_population(comparison, cohorts, None)
    assert repr(comparison).count("<10") == 2
    assert repr(population).count("<10 entries") == 1


def test_workers_follow_the_rules_of_the_run():
    rules = DisclosureRules("ohdsi", 10)
    with joblib.parallel_config(backend="threading"), applied_rules(rules):
        found = run_in_processes(lambda _, n: shown_count(n), None, [7, 1234, 9], 2)
        assert list(found) == ["<10", "1,234", "<10"]


def test_a_bound_without_a_number_is_no_number():
    assert part(3, 100, 5) == Bound(5)
    assert math.isnan(fraction(0, 0, 5))


def test_an_alternative_with_few_events_of_its_own_is_withheld(study):
    """Matching to several people leaves some out: its counts are not those of everybody."""
    shown = {"analysis", "estimand", "hr", "lower", "upper", "p", "note", "converged"}
    lines = publish(study).adjustments
    assert len(lines) == len(ALTERNATIVES)
    assert all(set(line) == shown for line in lines)
    assert not any(math.isnan(line["hr"]) for line in lines)
    few = changed(study, "cm_result", [*ALTERNATIVES], target_outcomes=3, target_informative=3)
    for line in publish(few).adjustments:
        assert math.isnan(line["hr"])
        assert line["note"]
