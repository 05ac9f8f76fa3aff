"""The page for users of CohortMethod: its code runs, its file is read, its names are there."""

import re
from dataclasses import fields
from pathlib import Path

import steropes.studies as studies
from steropes.studies.specifications.specification_file import read_spec

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from_cohort_method.md").read_text("utf-8")
SETTINGS = {
    f.name
    for name in (
        *("ComparisonRules", "TimeAtRisk", "FeatureRules", "PropensityRules", "Trim", "Match"),
        *("Stratify", "OutcomeModel", "StudyAnalysis", "DiagnosticThresholds", "Question"),
    )
    for f in fields(getattr(studies, name))
}


def block(kind):
    return re.search(rf"```{kind}\n(.*?)```", PAGE, re.S)[1]


def test_the_specification_is_read(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(block("toml"))
    definitions = re.findall(r"\w+\.json", block("toml"))
    for name in definitions:
        (tmp_path / name).write_text('{"ConceptSets": [], "PrimaryCriteria": {}}')
    spec = read_spec(path)
    assert len(definitions) == 4
    assert spec.analysis[0].outcome_model.interval_used == "profile"


def test_every_setting_in_the_table_is_one():
    table = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
    names = set()
    for line in table:
        names |= {n.strip() for n in re.findall(r"`([a-z_]+)`", line.split("|")[2])}
        for call in re.findall(r"`[A-Z]\w+\(([a-z_, ]+)\)`", line):
            names |= {n.strip() for n in call.split(",")}
    known = SETTINGS | set(studies.__all__) | {"run_grid", "leave_one_out"}
    assert len(names) > 40
    assert names - known == set()
