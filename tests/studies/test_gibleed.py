"""The demonstration study on GiBleed: golden numbers, and the SQL against pandas.

After a change that is meant to move the numbers, write the golden file anew and look at its diff:
``STEROPES_WRITE_GOLDEN=1 pytest tests/studies/test_gibleed.py``.
"""

import dataclasses
import json
import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from steropes.studies import DEMO, OmopDatabase, StudySettings, comparative_study, demo_database
from steropes.studies.disclosure import DisclosureRules

GOLDEN = Path(__file__).parent / "golden" / "gibleed.json"
LONG = {  # numbers that follow from others and would fill the golden file
    "balance": ["covariates"],
    "propensity": ["preference", "optimality"],
}


@pytest.fixture(scope="module")
def study():
    return comparative_study(demo_database(), StudySettings(**DEMO))


@pytest.fixture(scope="module")
def numbers(study):
    """All digits: what is released has fewer of them."""
    return dataclasses.replace(study, rules=DisclosureRules("none", 0)).to_dict()


@pytest.fixture(scope="module")
def tables():
    """The tables of the database as DataFrames with lower-case columns."""
    names = ["person", "observation_period", "drug_era", "condition_occurrence"]
    names += ["procedure_occurrence", "measurement", "observation"]
    with duckdb.connect(str(demo_database()), read_only=True) as con:
        return {n: con.execute(f"SELECT * FROM {n}").df().rename(columns=str.lower) for n in names}


def shortened(numbers):
    short = json.loads(json.dumps(numbers))
    for part, keys in LONG.items():
        for key in keys:
            del short[part][key]
    del short["survival"], short["software"]
    # folds are solved as closely as the choice of a variance needs; their spread moves with that
    tried = short["propensity"]["cross_validation"]
    short["propensity"]["cross_validation"] = [[x["variance"], x["mean"]] for x in tried]
    short["balance"]["most_unequal"] = numbers["balance"]["covariates"][:5]
    return short


def differences(old, new, where=""):
    """Where two trees of numbers differ by more than 1e-5 of the value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        if abs(old - new) > 1e-5 * max(abs(old), abs(new)) + 1e-9:
            yield f"{where}: {old} → {new}"
    elif old != new:
        yield f"{where}: {old} → {new}"


def test_golden_numbers(numbers):
    short = shortened(numbers)
    if os.environ.get("STEROPES_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(short, indent=1, ensure_ascii=False) + "\n", "utf-8")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert list(differences(golden, short)) == []


def test_the_cohort_agrees_with_pandas(study, tables):
    eras = tables["drug_era"]
    first = eras[eras["drug_concept_id"].isin([DEMO["target"], DEMO["comparator"]])]
    first = first.pivot_table(
        index="person_id", columns="drug_concept_id", values="drug_era_start_date", aggfunc="min"
    )
    target, comparator = first[DEMO["target"]], first[DEMO["comparator"]]
    start = first.min(axis=1)
    frame = pd.DataFrame({"treated": (target == start).astype(int), "start": start})
    frame = frame[target != comparator]
    frame = frame.join(tables["observation_period"].set_index("person_id"), how="inner")
    begin, end = frame["observation_period_start_date"], frame["observation_period_end_date"]
    frame = frame[(begin + pd.Timedelta(days=365) <= frame["start"]) & (frame["start"] < end)]
    conditions = tables["condition_occurrence"]
    bleeds = conditions[conditions["condition_concept_id"] == DEMO["outcome"]]
    bleed = bleeds.groupby("person_id")["condition_start_date"].min().reindex(frame.index)
    frame, bleed = frame[~(bleed <= frame["start"])], bleed[~(bleed <= frame["start"])]
    end = frame["observation_period_end_date"]
    event = (bleed <= end).astype(int)
    time = (bleed.where(event == 1, end) - frame["start"]).dt.days

    ours = study.people.set_index("person_id")
    assert ours.index.tolist() == sorted(frame.index)
    for name, expected in (("treated", frame["treated"]), ("time", time), ("event", event)):
        assert (ours[name] == expected.reindex(ours.index)).all()


def test_the_covariates_agree_with_pandas(study, tables):
    people = study.people.reset_index(names="row")[["row", "person_id", "start"]]
    window = pd.Timedelta(days=365)
    sources = {
        "condition": ("condition_occurrence", "condition_start_date", "condition_start_date"),
        "drug": ("drug_era", "drug_era_start_date", "drug_era_end_date"),
        "procedure": ("procedure_occurrence", "procedure_date", "procedure_date"),
        "measurement": ("measurement", "measurement_date", "measurement_date"),
        "observation": ("observation", "observation_date", "observation_date"),
    }
    expected, drugs = {}, [DEMO["target"], DEMO["comparator"]]
    for domain, (table, first, last) in sources.items():
        records = people.merge(tables[table], on="person_id")
        inside = (records[first] <= records["start"]) & (records[last] >= records["start"] - window)
        kept = records[inside & ~records[f"{domain}_concept_id"].isin(drugs)]
        for concept, rows in kept.groupby(f"{domain}_concept_id")["row"]:
            who = sorted(set(rows))
            if 10 <= len(who) < len(people):
                expected[domain, concept] = who
    features, ours = study.covariates.features, {}
    for j, line in enumerate(study.covariates.columns.itertuples()):
        if line.domain in sources:
            rows = features.rows[features.indptr[j] : features.indptr[j + 1]]
            ours[line.domain, line.concept_id] = rows.tolist()
    assert ours == expected


def test_numbers_known_beforehand(study):
    assert study.attrition[["target", "comparator"]].iloc[0].tolist() == [1844, 850]
    assert study.people["event"].sum() <= 479
    assert study.names["target"] == "celecoxib"


def rare_and_redundant(study):
    """The covariates that are not in the model; balance is that of all."""
    kept = {*study.covariates.columns["covariate_id"]}
    return {*study.exact["cm_covariate"]["covariate_id"]} - kept


def test_the_json_file_is_whole_and_the_same_on_every_run(study, numbers, tmp_path):
    again = comparative_study(demo_database(), StudySettings(**DEMO))
    first, second = study.write(tmp_path / "a"), again.write(tmp_path / "b")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    assert json.loads(first[1].read_text("utf-8")) == study.to_dict()
    assert {"settings", "attrition", "covariates", "propensity", "matching", "balance", "rates",
            "hazard_ratios", "detectable_hazard_ratio", "survival"} <= numbers.keys()  # fmt: skip
    of_model = numbers["covariates"]["columns"]
    assert len(numbers["balance"]["covariates"]) == of_model + len(rare_and_redundant(study))


def test_the_page_stands_alone(study, tmp_path):
    page = study.write(tmp_path)[0].read_text("utf-8")
    # attrition, survival, adjustments, overlap, balance twice; for wide and for narrow screens
    assert page.count("<svg") == page.count("aria-label=") == 2 * 6
    assert "prefers-color-scheme: dark" in page
    assert "background: #fff" not in page.split("figure img")[0]
    outside = re.findall(r'(?:src|href)="(?!data:)[^"]*"|url\((?!data:)', page)
    assert outside == []
    for words in ("Celecoxib compared with Diclofenac",
                  "condition, long term: Diverticular disease",
                  "Hazard ratio", "Matched on propensity score", "1,844",
                  "All ways to adjust", "E-value", "Proportional hazards", "Days followed",
                  "vocabulary v5.0"):  # fmt: skip
        assert words in page
    assert "nan" not in page.lower().split()


def test_matching_balances_what_differed(study):
    assert study.balance["smd_before"].abs().max() > 0.3
    assert study.balance["smd_after"].abs().max() < 0.15
    assert study.pairs * 2 == len(study.matched)
    assert study.matched.groupby("set")["treated"].sum().eq(1).all()


def test_shuffled_rows_of_the_database_change_nothing(study, tmp_path):
    path = tmp_path / "shuffled.duckdb"
    source = str(demo_database()).replace("'", "''")
    with duckdb.connect(str(path)) as con:
        con.execute(f"ATTACH '{source}' AS old (READ_ONLY)")
        for (name,) in con.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'old'"
        ).fetchall():
            con.execute(
                f"CREATE TABLE {name} AS SELECT * FROM old.main.{name} ORDER BY hash({name})"
            )
    again = comparative_study(path, StudySettings(**DEMO))
    pd.testing.assert_frame_equal(study.people, again.people)
    np.testing.assert_array_equal(study.balance.to_numpy(), again.balance.to_numpy())


def test_the_database_file_is_left_alone():
    stamp = demo_database().stat().st_mtime_ns
    with OmopDatabase(demo_database()) as db:
        db.concept_name(DEMO["target"])
    assert demo_database().stat().st_mtime_ns == stamp
