"""Databases that differ in a suppressed number alone give the same outputs, byte for byte.

Page, figures, tables, files for papers, terminal, ``repr``, progress, log and the page of results
are compared. So an attacker derives the number from none of them, neither from texts nor from
coordinates.
"""

import base64
import contextlib
import gzip
import io
import logging
import re
import zipfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.studies.conftest import TinyOmop
from tests.studies.release_attacker import LEAST, RULES, terminal_text

from steropes.studies import (
    ComparativeStudy,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
)
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.series_report.sccs_terminal import print_series
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.viewer.results_page import write_results_page

IDENTITY = ("manifest.json",)  # checksums of the other files


def texts_of(path):
    """The texts of a file: of a page of results also its packed tables, of a Word file its body."""
    if path.suffix == ".docx":
        with zipfile.ZipFile(path) as document:
            return document.read("word/document.xml")
    if path.name != "results.html":
        return path.read_bytes()
    page = path.read_text()
    packed = re.findall(r'id="data-[\w-]+"[^>]*>([^<]+)<', page)
    assert packed
    return re.sub(r">[A-Za-z0-9+/=]{40,}<", "><", page).encode() + b"".join(
        gzip.decompress(base64.b64decode(of)) for of in packed
    )


@contextlib.contextmanager
def logged():
    """Collect everything that is logged, warned of or printed, as texts."""
    texts = {name: io.StringIO() for name in ("log", "printed")}
    handler, root = logging.StreamHandler(texts["log"]), logging.getLogger()
    # They log fonts when they are imported, and kernels when these are compiled, once in a process.
    handler.addFilter(lambda record: not record.name.startswith(("matplotlib", "numba")))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        printed = texts["printed"]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield texts
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def outputs(run, folder, show=print_study, page=True):
    """Everything that a study writes, prints and logs, by name; perhaps with a page of results."""
    with logged() as texts:
        study = run()
        study.write(folder)
        study.write_paper(folder)
        if page:
            write_results_page([folder], folder / "results.html")
    found = {
        str(path.relative_to(folder)): texts_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in IDENTITY
    }
    found["terminal"] = terminal_text(show, study, [])
    found["repr"], found["log"] = repr(study), texts["log"].getvalue()
    found["printed"] = re.sub(r"[\d.]+ s\b", "", texts["printed"].getvalue())
    return found


def different(first, second):
    """Names of the outputs that differ, each with the first words that do."""
    found = []
    for name in first.keys() & second.keys():
        a, b = (re.split(r"[\s<>,]+", str(of[name])) for of in (first, second))
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
            found.append(f"{name}: {' '.join(a[at - 8 : at + 4])} or {b[at]}"[:200])
    return sorted(found)


def cohort(omop, few, seed=5, people=160, share=0.3, of="comparator"):
    """Two arms, of which one has so many people with the outcome."""
    rng = np.random.default_rng(seed)
    omop.concept(70, "thing")
    for i in range(people):
        arm, k = ("target", "comparator")[i % 2], i // 2
        last = int(rng.integers(400, 900))
        person = omop.person(
            **{arm: 0}, observed=(-1000, last), born=int(rng.integers(1940, 1980)),
            sex=int(rng.choice([8507, 8532])),
        )  # fmt: skip
        day, draw, thing = int(rng.integers(5, last)), rng.random(), rng.random()
        if arm == of and k < few:
            omop.condition(person, 3, 395 - k)  # beyond the time at risk of nobody else
        elif arm != of and draw < share:
            omop.condition(person, 3, day)
        if thing < 0.3:
            omop.condition(person, 70, -5)
    return omop.write()


@pytest.mark.parametrize(
    ("rules", "unblind"),
    [
        ("ohdsi", True),
        ("opensafely", False),
        pytest.param("ohdsi", False, marks=pytest.mark.slow),
        pytest.param("opensafely", True, marks=pytest.mark.slow),
        pytest.param("none", True, marks=pytest.mark.slow),
    ],
)
def test_no_output_of_a_study_depends_on_how_few_outcomes_an_arm_has(rules, unblind, tmp_path):
    settings = StudySettings(
        1, 2, 3, tie_orders=2, min_people=3, caliper=1.0, risk_days=400, unblind=unblind
    )
    found = []
    for few in (2, 6 if rules == "opensafely" else 4):  # A diagnostic requires five.
        (made := tmp_path / f"omop{few}").mkdir()
        path = cohort(TinyOmop(made), few)
        (folder := tmp_path / str(few) / "output").mkdir(parents=True)

        def run(path=path):
            return comparative_study(path, settings, disclosure=rules)

        found.append(outputs(run, folder))
    first, second = found
    assert len(first) > 20
    if rules == "none":  # which shows that the comparison sees the outcomes
        assert len(different(first, second)) > 10
    else:
        assert first.keys() == second.keys()
        assert different(first, second) == []


def series(omop, few, seed=5, others=150, pairs=4):
    """Cases of which so many have the outcome when exposed, on the same days in any case.

    For each of them another person of the same age has it on the same day without exposure.
    """
    rng = np.random.default_rng(seed)
    for i in range(pairs):
        for k, start in enumerate((300, 1200)):
            person = omop.person(observed=(0, 1500), born=1950 + i)
            omop.drug(person, 1, start, start + 20)
            omop.condition(person, 3, 310 + i if (i < few) == (k == 0) else 700 + i)
    for _ in range(others):
        day = start = int(rng.integers(200, 1200))
        person = omop.person(observed=(0, 1500), born=int(rng.integers(1940, 1980)))
        omop.drug(person, 1, start, start + 20)
        while abs(day - start) <= 40 or day > 1450:
            day = int(rng.integers(5, 1500))
        omop.condition(person, 3, day)
    return omop.write()


@pytest.mark.parametrize(
    "rules", ["ohdsi", "opensafely", pytest.param("none", marks=pytest.mark.slow)]
)
def test_no_output_of_a_series_depends_on_how_few_outcomes_an_exposure_has(rules, tmp_path):
    settings = case_series_settings(3, 1, unblind=True)
    found = []
    for few in (2, 4):
        (made := tmp_path / f"omop{few}").mkdir()
        path = series(TinyOmop(made), few)
        (folder := tmp_path / str(few) / "output").mkdir(parents=True)

        def run(path=path):
            return case_series(path, settings, disclosure=rules)

        found.append(outputs(run, folder, print_series))
    first, second = found
    assert first.keys() == second.keys()
    assert len(first) > 20
    assert (len(different(first, second)) > 5) == (rules == "none")
    if rules != "none":
        assert different(first, second) == []


RANDOM = 66  # The first number of the seeds of random databases.
PAGES = 10  # The page of results is a function of the released files, and compared of one in ten.


def hidden_numbers(seed):
    """Two hidden numbers of outcomes for each rule set, of which all have the first."""
    rng = np.random.default_rng([RANDOM, seed])
    first = int(rng.integers(1, min(LEAST.values())))
    return {
        name: [first, int(rng.choice([k for k in range(1, least) if k != first]))]
        for name, least in LEAST.items()
    }


def random_runs(kind, numbers, seed, folder):
    """Run a random study or series for each number of outcomes in one of its arms.

    Returns
    -------
    dict
        By number, the study and what it logged and printed.
    """
    rng = np.random.default_rng([RANDOM, seed, 1])
    unblind, n = bool(rng.random() < 0.7), int(rng.integers(45, 110))
    share, of = rng.uniform(0.15, 0.5), str(rng.choice(["target", "comparator"]))
    found = {}
    for few in numbers:
        (made := folder / f"omop{few}").mkdir(parents=True)
        with logged() as texts:
            if kind == "study":
                path = cohort(TinyOmop(made), few, seed, 2 * n, share, of)
                settings = StudySettings(1, 2, 3, tie_orders=2, min_people=3, caliper=1.0,
                                         risk_days=400, unblind=unblind, folds=4)  # fmt: skip
                study = comparative_study(path, settings, progress=print)
            else:
                path = series(TinyOmop(made), few, seed, 2 * n, 7)
                settings = case_series_settings(3, 1, unblind=unblind)
                study = case_series(path, settings, progress=print)
        found[few] = study, {name: text.getvalue() for name, text in texts.items()}
    return found


def compared_outputs(kind, seed, folder, names=RULES):
    """Compare the outputs of two hidden numbers of outcomes of one random database.

    A study is run once for all rule sets, which are applied when it is released.

    Returns
    -------
    dict
        By rule set, how many numbers were "compared", and how many are "alone" because nobody in an
        arm has the outcome with one number only, which is released; and a list of what differs.
    """
    numbers = {name: of for name, of in hidden_numbers(seed).items() if name in names}
    runs = random_runs(kind, sorted({k for of in numbers.values() for k in of}), seed, folder)
    show, found = (print_study if kind == "study" else print_series), {}
    for name in names:
        own = []
        for few in numbers[name]:
            study, texts = runs[few]
            released = replace(study, rules=DisclosureRules(name, LEAST[name]))
            (out := folder / name / f"{few}" / "output").mkdir(parents=True)
            written = outputs(lambda of=released: of, out, show, page=seed % PAGES == 0)
            own.append(written | {f"{of} of the run": text for of, text in texts.items()})
        first, second = own
        zeros = {arms_without_outcome(runs[k][0]) for k in numbers[name]}
        if len(zeros) > 1:
            found[name] = Counter(alone=2), []
            continue
        differs = [f"{of} is written once" for of in sorted(first.keys() ^ second.keys())]
        found[name] = Counter(compared=2), differs + different(first, second)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["study", "series"])
def test_200_random_databases_have_equal_outputs_for_two_hidden_numbers(kind, tmp_path):
    """That nobody has the outcome is released, so that numbers with the same zeros are compared."""
    total = {name: Counter() for name in RULES}
    for seed in range(200):
        for name, (counted, differs) in compared_outputs(kind, seed, tmp_path / f"{seed}").items():
            assert differs == [], (name, seed)
            total[name] += counted
    assert min(of["compared"] for of in total.values()) >= 300


def arms_without_outcome(study):
    """The matched arms in which nobody has the outcome; none in a case series."""
    if not isinstance(study, ComparativeStudy):
        return ()
    cases = study.matched.groupby("treated")["event"].sum()
    return tuple(cases.index[cases == 0])
