"""Scans, monitoring and comparisons of analyses are the same for all hidden numbers of people.

As in `test_equal_outputs`, databases differ in a suppressed number alone, and everything that
commands write, print and log is compared byte by byte.
"""

import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from tests.studies.conftest import TinyOmop
from tests.studies.release_attacker import LEAST, RULES
from tests.studies.test_equal_outputs import IDENTITY, different, logged, texts_of

from steropes.designs import PropensityRules
from steropes.studies import GridSpec
from steropes.studies.cli.command_line import run
from steropes.studies.cli.grid_commands import run_and_report
from steropes.studies.cohorts import CohortSources, ConceptSet, TimeAtRisk
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.covariates import FeatureRules
from steropes.studies.grids import compare_analyses
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.specifications import ControlSet, PositiveControls
from steropes.studies.viewer.results_page import write_results_page

ROOT, ILL, FEVER, RARE, RASH = 100, 101, 102, 103, 104
CONTROLS = (5, 6, 7, 8, 9, 10)  # The last one has few outcomes in an arm.
# Moments of looks, and the hash of a record, which contains them.
MOMENTS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\b[0-9a-f]{64}\b")


def written(folder, printed):
    """The texts of the files of a folder, and what was printed and logged meanwhile."""
    found = {
        str(path.relative_to(folder)): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in IDENTITY
    }
    found |= {name: re.sub(r"[\d.]+ s\b", "", t.getvalue()) for name, t in printed.items()}
    return {name: text.replace(str(folder.parent), "") for name, text in found.items()}


def scan_outputs(few, rules, seed, folder):
    """Everything of a scan in which so many people of an arm have a rare condition."""
    rng = np.random.default_rng([70, seed])
    people, alone = int(rng.integers(60, 160)), bool(rng.random() < 0.4)
    of, many = str(rng.choice(["target", "comparator"])), int(rng.integers(0, 16))
    share = rng.uniform(0.2, 0.5)
    omop = TinyOmop(folder)
    for concept in (ROOT, ILL, FEVER, RARE, RASH):
        omop.concept(concept, f"condition {concept}")
    for above, below in ((ROOT, (ILL, FEVER, RARE, RASH)), (ILL, (FEVER, RARE))):
        for concept in below:
            omop.ancestor(above, concept)
    carriers, sex = dict.fromkeys(["target", "comparator"], 0), 0
    for k in range(2 * people):
        arm = ("target", "comparator")[k % 2]
        wanted = few if arm == of else many
        # Alone, the days before the start are the other arm.
        drug = "target" if alone else arm
        # Pairs have the same sex, so that matching keeps everybody.
        sex = int(rng.choice([8507, 8532])) if arm == "target" else sex
        person = omop.person(**{drug: 0}, sex=sex)
        draws, day = rng.random(2), int(rng.integers(1, 90))
        day = -day if alone and arm == "comparator" else day
        if draws[0] < share:
            # Everybody with the rare condition has a fever, so that larger cuts are the same.
            omop.condition(person, FEVER, day)
            if carriers[arm] < wanted:
                omop.condition(person, RARE, day)
                carriers[arm] += 1
        if draws[1] < 0.2:
            omop.condition(person, RASH, day)
    path = omop.write()
    file, out = folder / "scan.toml", folder / "out"
    file.write_text(
        "target = 1\ndays = [1, 90]\nreplicates = 99\n"
        + ("control_days = [-90, -1]\n" if alone else
           "comparator = 2\nfeatures = [1]\npropensity = 1.0\n")
    )  # fmt: skip
    with logged() as printed:
        assert run(["condition-scan", str(path), "--specification", str(file), "--output",
                    str(out), "--disclosure", rules]) == 0  # fmt: skip
    return written(out, printed)


def grid_database(few, look, seed, folder):
    """Two arms, of which one has few people with the outcome of interest and a control."""
    rng = np.random.default_rng([71, seed, look])
    omop = TinyOmop(folder)
    for concept in CONTROLS:
        omop.concept(concept, f"condition {concept}")
    of, share = str(rng.choice(["target", "comparator"])), rng.uniform(0.1, 0.4)
    for k in range(int(rng.integers(60, 100)) * 2 * look):
        arm, i = ("target", "comparator")[k % 2], k // 2
        person = omop.person(**{arm: 0}, sex=int(rng.choice([8507, 8532])))
        for concept in (3, *CONTROLS):
            draw, day = rng.random(), int(rng.integers(5, 300))
            hidden = concept in (3, CONTROLS[-1]) and arm == of
            if i < few if hidden else draw < share:
                omop.condition(person, concept, 299 - i if hidden else day)
    return omop.write()


def grid_outputs(few, rules, seed, folder):
    """Everything that monitoring, the page on controls and comparisons of analyses show."""
    year = TimeAtRisk(1, end=300, end_anchor="cohort start")
    both = (
        StudyAnalysis(1, "crude", propensity=None, at_risk=year, features=FeatureRules((1,))),
        StudyAnalysis(2, "adjusted", propensity=PropensityRules(variance=1.0), at_risk=year,
                      features=FeatureRules((1,))),
    )  # fmt: skip
    spec = GridSpec(
        CohortSources(drugs={1: ConceptSet((1,)), 2: ConceptSet((2,))},
                      conditions={3: ConceptSet((3,))}),
        (Question(1, 2, (3,)),), both,
        ControlSet(concepts=CONTROLS, positive=PositiveControls(ratios=(2.0,), min_outcomes=30,
                                                                min_for_model=1000)),
    )  # fmt: skip
    found = {}
    for look in (1, 2):
        (made := folder / f"omop{look}").mkdir()
        path = grid_database(few, look, seed, made)
        with logged() as printed:  # What `steropes grid` runs, writes and prints.
            results = run_and_report(
                path, spec, folder / f"look{look}", unblind=False, quiet=False, disclosure=rules
            )
        found[f"compared {look}"] = compare_analyses(results, draws=100).to_string()
        found[f"grid {look}"] = re.sub(r"[\d.]+ s\b", "", printed["printed"].getvalue())
        found[f"grid {look}"] = found[f"grid {look}"].replace(str(folder), "")
        page = folder / f"look{look}" / "release" / "controls.html"
        found[f"controls {look}"] = page.read_text("utf-8") if page.exists() else ""
    found |= monitored([folder / f"look{look}" for look in (1, 2)], folder)
    return found


# What monitoring shows of the archives of looks, by their content: it reads nothing else.
MONITORED = {}


def monitored(looks, folder):
    """Everything that monitoring shows of releases, computed once for equal archives."""
    archives = [look / "release" / "results.zip" for look in looks]
    tables = []
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            tables.append(tuple((name, opened.read(name)) for name in sorted(opened.namelist())))
    if tuple(tables) in MONITORED:
        return MONITORED[tuple(tables)]
    found = {}
    for name, options in (("bounds", ["--planned", "3"]), ("posterior", ["--posterior", "0.9"])):
        out = folder / name
        with logged() as printed:
            assert run(["monitor", *map(str, archives), *options, "--output", str(out)]) == 0
        own = written(out, printed)
        looks = json.loads(own.pop("record.json"))["looks"]
        found[f"{name} record"] = str([look["estimates"] for look in looks])
        found |= {f"{name} {of}": MOMENTS.sub("", text) for of, text in own.items()}
    MONITORED.clear()  # Only the next database can have the same archives.
    MONITORED[tuple(tables)] = found
    return found


def combined_outputs(few, rules, seed, folder):
    """Everything that grids of two databases, their combination and its page release.

    Few people of each database have the outcome of interest and a control.
    """
    year = TimeAtRisk(1, end=300, end_anchor="cohort start")
    own = {"at_risk": year, "features": FeatureRules((1,))}
    both = (
        StudyAnalysis(1, "crude", propensity=None, **own),
        StudyAnalysis(2, "adjusted", propensity=PropensityRules(variance=1.0), **own),
    )  # fmt: skip
    spec = GridSpec(
        CohortSources(drugs={1: ConceptSet((1,)), 2: ConceptSet((2,))},
                      conditions={3: ConceptSet((3,))}),
        (Question(1, 2, (3,)),), both, ControlSet(concepts=CONTROLS[3:]),
    )  # fmt: skip
    folders = []
    with logged() as printed:
        for site in (1, 2):
            (made := folder / f"omop{site}").mkdir()
            path = grid_database(few, site, seed, made)
            folders.append(folder / f"site{site}")
            run_grid(path, replace(spec, database_id=f"site {site}"), folders[-1], disclosure=rules)
        archives = [str(of / "release" / "results.zip") for of in folders]
        out = folder / "out"
        for options in ([], ["--unblind"]):
            table = str(out / f"combined{''.join(options)}.csv")
            assert run(["combine", *archives, "--output", table, *options]) == 0
        write_results_page([*folders], out / "results.html")
    found = {f"combined {name}": text for name, text in written(out, printed).items()}
    found["combined results.html"] = str(texts_of(out / "results.html"))
    for of in folders:
        for path in sorted((of / "release").rglob("*")):
            if path.suffix == ".zip":
                with zipfile.ZipFile(path) as file:
                    found |= {f"{of.name} {n}": file.read(n).decode() for n in file.namelist()}
            elif path.is_file() and path.name not in IDENTITY:
                found[f"{of.name} {path.name}"] = path.read_text("utf-8")
    return found


MADE = {
    "scan": scan_outputs,
    "monitoring and analyses": grid_outputs,
    "combination": combined_outputs,
}


def attacked(kind, rules, seed, folder):
    """Return the outputs that differ between two hidden numbers of one random database."""
    rng = np.random.default_rng([72, seed])
    found = []
    for few in rng.choice(np.arange(1, LEAST[rules]), 2, replace=False).tolist():
        (own := folder / f"few{few}").mkdir(parents=True)
        found.append(MADE[kind](few, rules, seed, own))
    assert found[0].keys() == found[1].keys()
    return different(*found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("rules", RULES)
def test_no_output_of_surveillance_depends_on_how_few_have_an_outcome(kind, rules, tmp_path):
    for seed in range(20):
        assert attacked(kind, rules, seed, tmp_path / f"{seed}") == [], seed
