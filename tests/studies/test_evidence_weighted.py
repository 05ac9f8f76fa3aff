"""Weighted analyses are combined by robust errors; databases and drugs are named."""

import json
import math
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from tests.studies.test_evidence_alone import archive, people

from steropes.designs.effects.effect_estimate import estimate_effect
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.evidence import Profile, combine_normal, combine_profiles, random_effects
from steropes.designs.evidence.profile_interpolation import NormalProfile
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import combine_archives
from steropes.studies.cli.command_line import run as command

EFFECT = ["log_rr", "ci_95_lb", "ci_95_ub"]


def weighted(seed, interval="auto", arms=(400, 60, 500, 50)):
    d = people(*arms, seed=seed)
    w = np.random.default_rng(seed).gamma(0.7, 1.4, len(d))
    return estimate_effect(d, OutcomeModel(weighted=True, interval=interval), weights=w)


def ours(weighted=True, interval="auto"):
    model = {"outcome_model": {"weighted": weighted, "interval": interval}}
    return [{"analysis_id": 2, "description": "by weights", "definition": json.dumps(model)}]


def theirs(weighted, bootstrap=False):
    model = {"inversePtWeighting": weighted, "bootstrapCi": bootstrap}
    definition = json.dumps({"fitOutcomeModelArgs": model})
    return [{"analysis_id": 2, "description": "IPTW", "definition": definition}]


def test_weighted_analyses_are_combined_by_their_robust_errors_in_every_method(tmp_path):
    own = [weighted(k) for k in range(3)]
    assert {e.interval for e in own} == {"robust"}
    paths = [
        archive(tmp_path / f"{k}.zip", e, f"d{k}", cm_analysis=ours()) for k, e in enumerate(own)
    ]
    table = combine_archives(paths).set_index("method")
    wanted = combine_normal([e.log_rr for e in own], [e.se for e in own])
    posterior = random_effects([lambda b, e=e: -(((b - e.log_rr) / e.se) ** 2) / 2 for e in own])
    for method, found in (("fixed, profile", wanted), ("fixed, normal", wanted),
                          ("random, Bayesian", posterior)):  # fmt: skip
        line = table.loc[method]
        ends = [found.log_rr, math.exp(found.lower), math.exp(found.upper)]
        np.testing.assert_allclose(line[EFFECT].astype(float), ends, rtol=1e-3)
        assert line["databases"] == 3
    for method in ("fixed, profile", "random, Bayesian"):
        note = table.loc[method, "note"]
        assert "d0, d1, d2, weighted, so that the profile is not a likelihood" in note
        assert "normal approximation with the robust standard error" in note
    assert table.loc["fixed, normal", "note"] == ""


@pytest.mark.parametrize("interval", ["auto", "bootstrap", "profile"])
def test_a_weighted_archive_combined_alone_gives_its_own_numbers(interval, tmp_path):
    own = weighted(1, interval)
    path = archive(tmp_path / "a.zip", own, cm_analysis=ours(interval=interval))
    table = combine_archives([path]).set_index("method")
    for method in ("fixed, profile", "fixed, normal", "random, normal"):
        wanted = [own.log_rr, math.exp(own.lower), math.exp(own.upper)]
        np.testing.assert_allclose(table.loc[method, EFFECT].astype(float), wanted, rtol=1e-12)
        counts = "treats its weights as counts of people" in table.loc[method, "note"]
        assert counts == (interval == "profile")


def test_profiles_and_weighted_estimates_are_combined_together(tmp_path):
    exact, by_weights = estimate_effect(people(100, 4, 100, 9)), weighted(1)
    paths = [
        archive(tmp_path / "a.zip", exact, "a", cm_analysis=ours(weighted=False)),
        archive(tmp_path / "b.zip", by_weights, "b", cm_analysis=ours()),
    ]
    line = combine_archives(paths).set_index("method").loc["fixed, profile"]
    wanted = combine_profiles(
        [Profile(*exact.profile.to_numpy().T), NormalProfile(by_weights.log_rr, by_weights.se)]
    )
    # A maximum found by values is known to about the root of the rounding: a change of an input by
    # 1e-15 moves it by 1e-9.
    assert line["log_rr"] == pytest.approx(wanted.log_rr, abs=1e-8)
    assert line["note"].startswith("b, weighted, so that the profile is not a likelihood")


def test_a_weighted_database_without_events_in_an_arm_is_left_out_with_a_reason(tmp_path):
    none = weighted(1, arms=(300, 0, 300, 10))
    assert math.isnan(none.log_rr)
    paths = [
        archive(tmp_path / f"{k}.zip", e, f"d{k}", cm_analysis=ours())
        for k, e in enumerate((none, weighted(2), weighted(3)))
    ]
    table = combine_archives(paths).set_index("method")
    assert table["databases"].tolist() == [2] * 4
    assert table["note"].str.contains("left out, without .*: d0").all()


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (theirs(True), "a standard error that treats its weights as counts of people"),
        (theirs(True, True), "the bootstrap standard error"),
        (theirs(False), None),
        ([{"analysis_id": 2, "description": "x", "definition": "not JSON"}], None),
    ],
)
def test_weights_are_known_from_the_definitions_of_r(definition, said, tmp_path):
    own = [weighted(k, "profile") for k in range(2)]
    paths = [
        archive(tmp_path / f"{k}.zip", e, f"d{k}", cm_analysis=definition, note=None)
        for k, e in enumerate(own)
    ]
    line = combine_archives(paths).set_index("method").loc["fixed, profile"]
    if said is None:
        assert line["note"] == ""
    else:
        assert said in line["note"]
    normal = combine_normal([e.log_rr for e in own], [e.se for e in own])
    same = math.isclose(line["log_rr"], normal.log_rr, abs_tol=1e-9)
    assert same == (said is not None)


NAMES = {
    "cm_target_comparator": [{"target_comparator_id": 1, "target_id": 11, "comparator_id": 12}],
    "cm_analysis": [{"analysis_id": 2, "description": "crude", "definition": "{}"}],
}


def cohorts(*names):
    return [{"cohort_id": i, "name": n} for i, n in zip((11, 12, 3), names, strict=True)]


def test_drugs_outcomes_and_analyses_are_named_alike_whatever_their_capitals(tmp_path, capsys):
    paths = [
        archive(tmp_path / f"{k}.zip", estimate_effect(people(90, 9, 90, 9, seed=k)), f"d{k}",
                cohort=cohorts(*names), **NAMES)
        for k, names in enumerate((("celecoxib", "Diclofenac", "bleed"),
                                   ("Celecoxib", "diclofenac", "Bleed")))
    ]  # fmt: skip
    line = combine_archives(paths).iloc[0]
    assert line[["target", "comparator", "outcome", "analysis"]].tolist() == [
        "Celecoxib", "Diclofenac", "Bleed", "Crude",
    ]  # fmt: skip
    assert line["note"] == ""
    assert command(["combine", *map(str, paths)]) == 0
    said = capsys.readouterr().out
    assert "Celecoxib against Diclofenac, Bleed, Crude (comparison 1, outcome 3, ana" in said
    assert re.search(r"fixed, profile +2 +1\.", said)
    assert command(["combine", str(paths[0])]) == 0
    assert re.search(r"fixed, profile +1 +\d", capsys.readouterr().out)


def test_an_id_with_several_names_is_told(tmp_path):
    own = estimate_effect(people(90, 9, 90, 9))
    paths = [
        archive(tmp_path / f"{k}.zip", own, f"d{k}", cohort=cohorts("a", "b", name), **NAMES)
        for k, name in enumerate(("bleed", "injury"))
    ]
    said = "cohort 3 has different names in the archives: “Bleed” and “Injury”"
    assert (combine_archives(paths)["note"] == said).all()


def test_without_names_ids_are_told(tmp_path, capsys):
    path = archive(tmp_path / "a.zip", estimate_effect(people(90, 9, 90, 0)))
    assert command(["combine", str(path)]) == 0
    said = capsys.readouterr().out
    assert "comparison, cohort 3, analysis 2 (comparison 1, outcome 3, analysis 2)" in said
    assert re.search(r"no finite estimate +\S+ to ∞", said)


def test_one_database_in_two_archives_is_named_with_them(tmp_path):
    own = estimate_effect(people(90, 9, 90, 9))
    paths = [archive(tmp_path / f"{k}.zip", own, d) for k, d in enumerate(("a", "b", "a"))]
    said = r"3 archives contain 2 databases: a is in .*0\.zip and in .*2\.zip\. Give the archive"
    with pytest.raises(DataError, match=said):
        combine_archives(paths)


@pytest.mark.parametrize("table", ["cm_result", "cm_diagnostics_summary"])
def test_a_result_that_is_in_an_archive_twice_is_refused(table, tmp_path):
    path = archive(tmp_path / "a.zip", estimate_effect(people(90, 9, 90, 9)))
    with zipfile.ZipFile(path) as file, file.open(f"{table}.csv") as rows:
        twice = pd.concat([pd.read_csv(rows)] * 2)
    again = archive(tmp_path / "b.zip", estimate_effect(people(90, 9, 90, 9)), **{table: twice})
    with pytest.raises(DataError, match=f"{table}.csv has more than one row of target_comparator"):
        combine_archives([again])


def test_a_table_of_names_that_is_empty_does_no_harm(tmp_path):
    own = estimate_effect(people(90, 9, 90, 9))
    empty = {k: pd.DataFrame(columns=list(v[0])) for k, v in NAMES.items()}
    path = archive(tmp_path / "a.zip", own, **empty)
    assert combine_archives([path])["analysis"].tolist() == ["analysis 2"] * 4
