"""The page for users of CohortMethod: its code runs, its file is read, its names are there."""

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from tests.docs.public_docstrings import MODULES

from steropes import designs
from steropes.studies import cohorts, comparative, covariates, diagnostics
from steropes.studies.specifications.grid_specification_file import read_spec

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from_cohort_method.md").read_text("utf-8")
SETTINGS = {
    f.name
    for cls in (
        *(cohorts.ComparisonRules, cohorts.TimeAtRisk, covariates.FeatureRules),
        *(designs.PropensityRules, designs.Trim, designs.Match, designs.Stratify),
        *(designs.OutcomeModel, comparative.StudyAnalysis, comparative.Question),
        diagnostics.DiagnosticThresholds,
    )
    for f in fields(cls)
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
    # Tables of R's defaults, whose second column has arguments of R, are compared elsewhere.
    before_defaults = PAGE.split("## Defaults")[0]
    table = [line for line in before_defaults.splitlines() if line.startswith("| ")][2:]
    names = set()
    for line in table:
        names |= {n.strip() for n in re.findall(r"`([a-z_]+)`", line.split("|")[2])}
        for call in re.findall(r"`[A-Z]\w+\(([a-z_, ]+)\)`", line):
            names |= {n.strip() for n in call.split(",")}
    known = SETTINGS.union(*(import_module(module).__all__ for module in MODULES))
    assert len(names) > 40
    assert names - known == set()
