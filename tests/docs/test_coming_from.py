"""Every row of a page "coming from" that names two calls is run, and the numbers agree."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.docs import lifelines_rows, scikit_learn_rows

import steropes
import steropes.models
from steropes.designs import Match, OutcomeModel, PropensityRules, Stratify, Trim
from steropes.studies.cohorts import ComparisonRules, TimeAtRisk
from steropes.studies.comparative import StudyAnalysis
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.sccs import CaseRules, ExposureWindow
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings, Spline
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds

DOCS = Path(__file__).parents[2] / "docs"
ORM = DOCS.parent / "tests" / "models" / "cumulative" / "data" / "rms_orm.json"
COMPARED = {
    "coming_from_lifelines": lifelines_rows.ROWS,
    "coming_from_scikit_learn": scikit_learn_rows.ROWS,
}


def rows(page):
    """First texts of a page's rows: all, and those with code of a peer and of this library."""
    every, both, here = set(), set(), True
    for line in (DOCS / f"{page}.md").read_text("utf-8").splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if not line.startswith("| "):
            here = here or not line
            continue
        here = here and cells[1] != "why not, and what to use"
        *theirs, ours = cells[:3] if page == "coming_from_lifelines" else cells[:2]
        first = next(cell.removeprefix("| ") for cell in [*theirs, ours] if cell.strip("| "))
        every.add(first)
        if here and "`" in ours and "`" in "".join(theirs):
            both.add(first)
    return every, both


@pytest.mark.parametrize("page", COMPARED)
def test_every_row_with_two_calls_is_compared(page):
    every, both = rows(page)
    assert both - set(COMPARED[page]) == set()
    assert set(COMPARED[page]) - every == set()
    assert len(both) > 20


@pytest.mark.parametrize(
    "compare", [pytest.param(f, id=name) for page in COMPARED.values() for name, f in page.items()]
)
def test_both_calls_give_the_same_numbers(compare):
    pairs = list(compare())
    assert pairs
    for ours, theirs, tolerance in pairs:
        ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_links_equal_the_families_of_rms_in_the_same_row():
    """R's own numbers for each family are those of the link that the page names."""
    recorded = json.loads(ORM.read_text("utf-8"))
    X = np.column_stack([recorded["x1"], recorded["x2"]])
    pairs = {}
    for line in (DOCS / "coming_from_rms.md").read_text("utf-8").splitlines():
        if line.startswith("| `family"):
            theirs, ours, *_ = line[2:].split(" | ")
            pairs |= dict(
                zip(re.findall(r'"(\w+)"', theirs), re.findall(r'"(\w+)"', ours), strict=True)
            )
    assert set(pairs) == set(recorded["fits"])
    for family, link in pairs.items():
        model = steropes.CumulativeProbabilityModel(link=link).fit(X, recorded["y"])
        assert model.log_likelihood_ == pytest.approx(recorded["fits"][family]["loglik"][0])
        np.testing.assert_allclose(model.coef_, recorded["fits"][family]["beta"], rtol=1e-6)


def test_names_of_loglog_and_cloglog_follow_the_formula_of_rms():
    """rms has P(Y ≥ y) = F(α_y + xβ), with F = exp(−exp(−u)) for loglog and 1 − exp(−exp(u))."""
    F = {"loglog": lambda u: np.exp(-np.exp(-u)), "cloglog": lambda u: 1 - np.exp(-np.exp(u))}
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 2)), np.repeat(np.arange(4.0), 20)
    for family, link in {"loglog": "cloglog", "cloglog": "loglog"}.items():
        model = steropes.CumulativeProbabilityModel(link=link).fit(X, y)
        at_least = F[family](-model.alpha_ + (X @ model.coef_)[:, None])
        np.testing.assert_allclose(1 - model.predict_cdf(X, [0.0, 1.0, 2.0]), at_least, rtol=1e-9)


PAGES_OF_R = ("survival", "glmnet", "rms", "cyclops")
FORMULA = {"rcs", "ns", "bs", "tt", "step", "C", "I", "strata", "offset", "cluster", "treatment"}
ELSEWHERE = {"exp", "log", "to_latex"}  # of NumPy and pandas


@pytest.mark.parametrize("page", PAGES_OF_R)
def test_calls_for_users_of_r_exist(page):
    """Every call in the second column is a public name, a method or a function of formulas."""
    known = {*steropes.__all__, *FORMULA, *ELSEWHERE}
    for name in steropes.__all__:
        value = getattr(steropes, name)
        if isinstance(value, type) or name in ("plots", "datasets"):
            known |= set(dir(value))
    for name in steropes.models.__all__:  # inference, curves, effects, checks and validation
        known |= set(dir(getattr(steropes.models, name)))
    known |= set(dir(type(steropes.kaplan_meier(steropes.Surv([1.0, 2.0], [1, 1])))))
    lines = (DOCS / f"coming_from_{page}.md").read_text("utf-8").splitlines()
    ours = [line.split(" | ")[1] for line in lines if line.startswith("| ")]
    calls = [c for cell in ours for code in re.findall(r"`([^`]+)`", cell)
             for c in re.findall(r"(?<!np\.)\b([A-Za-z_]+)\(", code)]  # fmt: skip
    assert len(calls) > 5
    assert set(calls) - known == set()


SETTINGS = {
    c.__name__: c
    for c in (
        Match, OutcomeModel, PropensityRules, Stratify, Trim, ComparisonRules, TimeAtRisk,
        StudyAnalysis, DiagnosticThresholds, CaseRules, ExposureWindow, CaseSeriesSettings, Spline,
        Thresholds,
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("coming_from_cohort_method", "CohortMethod"),
        ("coming_from_sccs", "SelfControlledCaseSeries"),
    ],
)
def test_defaults_are_those_of_the_packages(page, package):
    """R's are stored by ``Rscript benchmarks/beside_r/defaults.R tests/docs/r_defaults.json``."""
    stored = json.loads((Path(__file__).parent / "r_defaults.json").read_text("utf-8"))[package]
    text = (DOCS / f"{page}.md").read_text("utf-8")
    assert f"{package} {stored['version']}" in text
    lines = re.findall(r"^\| (\w+)\((\w+)\) \| `(.+)` \| `(\w+)\.(\w+)` \| `(.+)` \|$", text, re.M)
    assert len(lines) > 35
    for function, argument, of_r, name, field, here in lines:
        assert re.sub(r"\s+", " ", stored[function][argument]) == of_r
        default = inspect.signature(SETTINGS[name]).parameters[field].default
        assert repr(default) == here, f"{name}.{field}"
    # The other arguments are listed with their defaults in R, so that none is left out.
    others = re.findall(r"^\| (\w+)\((\w+)\) \| (?:`([^`]+)`|none) \| ([^|]+) \|$", text, re.M)
    for function, argument, of_r, _ in others:
        assert re.sub(r"\s+", " ", stored[function][argument]) == of_r
    # Functions that run, several in a line, with arguments such as `alpha = 0.05`.
    several = re.findall(r"^\| ([\w, ]+) \| (`[^|]+`) \| [^|]+ \|$", text, re.M)
    running = [
        (function, *argument.partition(" = ")[::2])
        for functions, arguments in several
        for function in functions.split(", ")
        for argument in re.findall(r"`([^`]+)`", arguments)
        if function in stored
    ]
    for function, argument, of_r in running:
        assert stored[function][argument] == of_r
    listed = {line[:2] for line in (*lines, *others, *running)}
    assert len(listed) == len(lines) + len(others) + len(running)
    known = {(f, a) for f, args in stored.items() if f != "version" for a in args}
    assert listed == known
