"""Synthetic positive controls: what is added, when, how often, and the same each time."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import TinyOmop

from steropes.designs.controls.signal_injection import Synthesis, add_outcomes, outcome_rates
from steropes.errors import DataError
from steropes.studies import GridSpec, OmopDatabase, run_grid
from steropes.studies.cohorts import CohortSources, ConceptSet, TimeAtRisk
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.covariates import FeatureRules
from steropes.studies.grids import analysis_performance
from steropes.studies.specifications import ControlSet, PositiveControls
from steropes.studies.specifications.positive_controls import add_positive_controls

NEGATIVE = (5, 6, 7, 8, 9, 10)
YEAR = TimeAtRisk(start=1, end=365, end_anchor="cohort start")


def an_arm(n=4000, seed=1):
    """Times and events of an arm at a constant hazard, censored after a year."""
    rng = np.random.default_rng(seed)
    rate = 0.0004 * np.exp(rng.normal(size=n) * 0.5)
    t = np.ceil(rng.exponential(size=n) / rate)
    return np.minimum(t, 365), t <= 365, rate


@pytest.mark.parametrize("ratio", [1.5, 2.0, 4.0])
def test_the_hazard_with_the_added_outcomes_is_that_multiple(ratio):
    from steropes import CoxRegression, Surv

    time, had, rate = an_arm(10_000)
    added = add_outcomes(time, had, rate, ratio, Synthesis())
    assert abs(np.log(added.ratio / ratio)) <= 0.01
    assert (added.day >= 1).all()
    assert (added.day <= time[added.person]).all()
    assert (added.day < time[added.person])[had[added.person]].all()
    after = time.copy()
    after[added.person] = added.day
    event = had.copy()
    event[added.person] = True
    x = pd.DataFrame({"treated": np.repeat([1.0, 0.0], len(time))})
    y = Surv(np.r_[after, time], np.r_[event, had].astype(int))
    offset = np.log(np.r_[rate, rate])
    line = CoxRegression(ties="breslow").fit(x, y, offset=offset).summary().loc["treated"]
    assert abs(line["coef"] - np.log(ratio)) < 3 * line["se"]


def test_the_same_each_time_and_another_draw_for_another_key_or_seed():
    time, had, rate = an_arm()
    one = add_outcomes(time, had, rate, 2.0, Synthesis(), key=(1, 2))
    again = add_outcomes(time, had, rate, 2.0, Synthesis(), key=(1, 2))
    assert one.person.tolist() == again.person.tolist()
    assert one.day.tolist() == again.day.tolist()
    for other in (
        add_outcomes(time, had, rate, 2.0, Synthesis(), key=(1, 3)),
        add_outcomes(time, had, rate, 2.0, Synthesis(seed=2), key=(1, 2)),
    ):
        assert one.person.tolist() != other.person.tolist()


def test_rates_expect_as_many_outcomes_as_there_are():
    time, had, _ = an_arm()
    people = pd.DataFrame({"time": time, "event": had.astype(int)})
    rate = outcome_rates(people, None, Synthesis())
    assert (rate * time).sum() == pytest.approx(had.sum())
    assert np.ptp(rate) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ratios": (0.5,)}, "from 1 to 100"),
        ({"ratios": (1,)}, "the negative control itself"),
        ({"ratios": (2, 2.0)}, "listed twice"),
        ({"tries": 0}, "tries must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        Synthesis(**settings)


def test_a_rate_of_zero_is_refused():
    with pytest.raises(DataError, match="only at positive rates"):
        add_outcomes([1.0], [False], [0.0], 2.0, Synthesis())


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """700 people on two drugs; controls 5 to 10, of which 5 and 6 are commoner in the old."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(4)
    for concept in NEGATIVE:
        omop.concept(concept, f"condition {concept}")
    for _ in range(700):
        born = int(rng.integers(1930, 1990))
        drug = "target" if rng.random() < 0.5 else "comparator"
        person = omop.person(**{drug: int(rng.integers(0, 100))}, born=born)
        for concept in NEGATIVE:
            share = 0.2 + 0.3 * (born < 1960) * (concept in (5, 6))
            if rng.random() < share * (0.05 if concept == 10 else 1):
                omop.condition(person, concept, int(rng.integers(101, 465)))
    return omop.write()


def a_spec(**more):
    features = FeatureRules(analyses=(1, 3))
    analyses = (StudyAnalysis(1, "crude", propensity=None, at_risk=YEAR, features=features),)
    positive = PositiveControls(ratios=(2.0, 4.0), min_for_model=60, variance=0.1)
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((1,)), 2: ConceptSet((2,))}, conditions={3: ConceptSet((3,))}
        ),
        (Question(1, 2, (3,)),),
        analyses,
        ControlSet(concepts=NEGATIVE, positive=positive),
        **more,
    )


@pytest.fixture(scope="module")
def results(database, tmp_path_factory):
    return run_grid(database, a_spec(), tmp_path_factory.mktemp("out"))


def test_positive_controls_are_made_of_negative_ones_with_outcomes_enough(results):
    made = results.tables["positive_control"]
    assert sorted(made["negative_control_id"].unique()) == [5, 6, 7, 8, 9]  # 10 has too few
    assert (made.groupby("negative_control_id")["target_ratio"].nunique() == 2).all()
    truth = results.tables["cm_target_comparator_outcome"].merge(
        made, on=["target_comparator_id", "outcome_id"]
    )
    assert len(truth) == 10
    assert (truth["true_effect_size_x"] == truth["true_effect_size_y"]).all()
    assert np.abs(np.log(made["true_effect_size"] / made["target_ratio"])).max() < 0.05
    names = results.tables["cohort"].set_index("cohort_id")["name"]
    assert "condition 5, 2 times" in set(names[made["outcome_id"]])


def test_estimates_of_positive_controls_are_about_the_ratio(results):
    made = results.tables["positive_control"]
    own = results.tables["cm_result"].query("analysis_id == 1").set_index("outcome_id")["log_rr"]
    moved = own[made["outcome_id"]].to_numpy() - own[made["negative_control_id"]].to_numpy()
    assert np.abs(moved - np.log(made["true_effect_size"].to_numpy())).max() < 0.15


def test_positive_controls_change_no_other_result(database, results, tmp_path):
    spec = a_spec()
    without = dataclasses.replace(spec, controls=ControlSet(concepts=NEGATIVE[:2]))
    plain = run_grid(database, without, tmp_path).tables["cm_result"]
    shared = results.tables["cm_result"].merge(plain, on=["outcome_id", "analysis_id"])
    assert len(shared) == len(plain)
    assert shared["log_rr_x"].equals(shared["log_rr_y"])
    assert len(plain) == 3


def test_performance_of_each_analysis(results):
    table = analysis_performance(results)
    assert len(table) == 2 * 4
    first = table.query("analysis_id == 1 and not calibrated")
    assert first["controls"].tolist() == [6, 5, 5, 16]
    assert first["ratio"].isna().tolist() == [False, False, False, True]
    assert first["auc"].iloc[2] > 0.99
    assert first["type_1"].iloc[1:3].isna().all()
    assert table["coverage"].between(0, 1).all()


def test_added_outcomes_are_within_the_risk_of_the_target_and_the_same_each_time(database):
    spec = a_spec()
    with OmopDatabase(database) as db:
        bench = Workbench(db, spec.make_cohorts(db).table)
        asked = (spec.questions, spec.analysis, spec.controls.positive)
        found, again = (add_positive_controls(bench, *asked) for _ in range(2))
        entries = bench.comparison(spec.question[0], spec.analysis[0]).entries
    treated = pd.DataFrame(entries).query("treated == 1").set_index("person_id")["start"]
    assert found.made == again.made
    assert (found.cohorts.start == again.cohorts.start).all()
    for row in found.made:
        own = found.cohorts.only(row["outcome_id"])
        before = found.cohorts.only(row["negative_control_id"])
        pairs = {*zip(before.subject, before.start, strict=True)}
        added = [p for p in zip(own.subject, own.start, strict=True) if p not in pairs]
        days = [(on - treated[p].to_datetime64().astype("datetime64[D]")).astype(int)
                for p, on in added]  # fmt: skip
        assert min(days) >= 1
        assert max(days) <= 365


def test_analyses_that_differ_in_time_at_risk_need_it_to_be_said():
    spec = a_spec()
    other = dataclasses.replace(spec.analysis[0], id=3, at_risk=TimeAtRisk())
    with pytest.raises(DataError, match="the analyses differ in the time at risk"):
        dataclasses.replace(spec, analysis=(*spec.analysis, other))
    said = dataclasses.replace(spec.controls.positive, at_risk=YEAR)
    dataclasses.replace(
        spec,
        analysis=(*spec.analysis, other),
        controls=dataclasses.replace(spec.controls, positive=said),
    )


def test_the_specification_is_read_from_a_file(tmp_path):
    from steropes.studies import read_spec

    path = tmp_path / "grid.json"
    path.write_text(a_spec().to_json())
    assert read_spec(path) == a_spec()
    toml = tmp_path / "grid.toml"
    toml.write_text(
        "[cohorts]\ntable = 'cohort'\n[controls]\ncohorts = [5]\npositive = [1.5, 2, 4]\n"
        "[[question]]\ntarget = 1\ncomparator = 2\noutcomes = [3]\n[[analysis]]\nid = 1\n"
    )
    assert read_spec(toml).controls.positive.ratios == (1.5, 2.0, 4.0)
    toml.write_text(toml.read_text().replace("[1.5, 2, 4]", "[1, 2]"))
    with pytest.raises(DataError, match=r"grid.toml, line 5 .*the negative control itself"):
        read_spec(toml)


def test_the_page_of_controls_is_whole_by_itself(results, tmp_path):
    from steropes.studies.report.analyses_on_controls_page import write_controls_report

    path = write_controls_report(results, tmp_path)
    text = path.read_text()
    assert path.name == "controls.html"
    assert "<script" not in text
    assert "src=" not in text
    for words in ("Coverage", "Controls of ratio 4", "Newdrug against Olddrug", "crude"):
        assert words in text
    assert text.count('role="img"') == text.count("<svg") >= 2 * 4


def test_a_grid_with_positive_controls_tells_how_the_analyses_fared(database, tmp_path, capsys):
    from steropes.studies.cli.command_line import run as command

    positive = PositiveControls(ratios=(4.0,), min_outcomes=30, min_for_model=1000)
    spec = dataclasses.replace(a_spec(), controls=ControlSet((), (7, 8), positive))
    path = tmp_path / "grid.json"
    path.write_text(spec.to_json())
    out = tmp_path / "out"
    assert command(["grid", str(path), "--database", str(database), "--output", str(out)]) == 0
    assert {f.name for f in (out / "release").iterdir()} >= {"controls.html", "report.html"}
    said = capsys.readouterr().out
    assert "Performance on controls" in said
    words = "computed from the released estimates, which disclosure control rounds or withholds"
    assert words in " ".join(said.split())
    assert words in (out / "release" / "controls.html").read_text()
    assert re.search(r"crude +\d+% +\d+%", said)


def _same_as_the_page(printed):
    """Check that the table in docs/controls.md has the numbers that the command printed."""
    page = (Path(__file__).parents[2] / "docs" / "controls.md").read_text("utf-8")
    rows = re.findall(r"^\| (crude|matched.*?|five.*?|weighted, trimmed) \| (.+) \|$", page, re.M)
    assert len(rows) == 6
    for name, numbers in rows:
        shown = numbers.replace(" %", "%").split(" | ")
        for k, model in enumerate(("Cox", "Fine–Gray")):
            cells = re.search(rf"{model}, {name} +(\d+%) +\d+% +(\S+) +(\S+) ", printed)
            covered, precision, error = cells.groups()
            assert shown[k::2] == [covered, error, precision], (name, model)


@pytest.mark.slow
def test_the_page_on_controls_has_the_numbers_that_its_command_prints(tmp_path, capsys):
    from steropes.studies.cli.command_line import run as command

    assert command(["demo", "--controls", "--output", str(tmp_path / "out")]) == 0
    _same_as_the_page(capsys.readouterr().out)


def test_the_demonstration_pairs_every_way_to_adjust_with_both_models():
    from steropes.studies.specifications.demonstration import demo_controls

    spec = demo_controls()
    kinds = [a.outcome_model.kind for a in spec.analysis]
    assert kinds == ["cox"] * 6 + ["fine-gray"] * 6
    assert [o.true_ratio for o in spec.question[0].outcomes] == [1.0] * 14
    assert spec.controls.positive.ratios == (1.5, 2.0, 4.0)
