"""Public specifications run as a whole, or say why a part does not, from their digests."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from tests.studies.strategus.specification_digests import FOLDER

from steropes.studies import demo_database
from steropes.studies.cli.command_line import run
from steropes.studies.strategus.results_model import FILE_PREFIXES, module_tables, results_model
from steropes.studies.strategus_plans.specification_plan import specification_plan

DIGESTS = sorted(FOLDER.glob("*.json.gz"))
# Reasons of parts that do not run on the demonstration database; the page of specifications lists
# them.
KNOWN = (
    "one id has one cohort",
    "no entries",
    "estimates are missing",
    "none of its parts can run",
    "it combines the results of several databases",
    "cannot be run on",
    "depends on another one",
    "fewer than 10 people have the outcome",
    "there is no folder",
    "none of its models can be applied",
    "no covariate is left",
    "this covariate analysis is not available",
    "covariates come from a function of R",
    "which is not made before it",
    "has no counterpart here",
)


def test_the_page_of_specifications_lists_the_reasons():
    page = (Path(__file__).parents[3] / "docs" / "strategus.md").read_text()
    assert [why for why in KNOWN if f"| {why} |" not in page] == []


def values_of(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def check_tables(release):
    """The files of a release have the columns and keys of R's results model."""
    checked = 0
    for module in sorted({*results_model()["module"], *FILE_PREFIXES}):
        prefix = FILE_PREFIXES.get(module, "")
        for name, columns in module_tables(module).items():
            file = release / module / f"{name.removeprefix(prefix)}.csv"
            if not file.exists():
                continue
            table = pd.read_csv(file, dtype=str, keep_default_na=False)
            assert [*table] == columns["column_name"].tolist()
            key = columns.loc[columns["primary_key"] == "Yes", "column_name"].tolist()
            assert not (key and table.duplicated(key).any()), name
            needed = columns["is_required"].eq("Yes") & columns["may_be_blank"].ne("Yes")
            blank = table[columns.loc[needed, "column_name"]].eq("").any()
            assert not blank.any(), (name, blank[blank].index.tolist())
            checked += 1
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("path", DIGESTS, ids=lambda p: p.name.split(".json")[0])
def test_a_public_specification_runs_or_says_why_not(path, tmp_path, capsys):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(values_of(path)))
    out = tmp_path / "out"
    status = run(
        ["strategus", str(file), "--database", str(demo_database()), "--output", str(out),
         "--quiet"]
    )  # fmt: skip
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert all(len(line) < 1000 for line in said.err.splitlines())
    verdicts = pd.read_csv(out / "release" / "verdicts.csv", keep_default_na=False)
    gone = verdicts[verdicts["verdict"] == "did not run"]
    assert status == (1 if len(gone) else 0)
    for line in gone.itertuples():
        assert any(why in line.text for why in KNOWN), f"{line.module}, {line.part}: {line.text}"
    assert check_tables(out / "release")


@pytest.mark.slow
def test_digests_have_verdicts_on_every_module_of_public_specifications():
    words = Counter(
        (v.module, v.word) for path in DIGESTS for v in specification_plan(values_of(path)).verdicts
    )
    modules = {module for module, _ in words}
    assert {*FILE_PREFIXES, "TreatmentPatternsModule", "CohortDiagnosticsModule"} <= modules
    assert sum(words.values()) > 200
