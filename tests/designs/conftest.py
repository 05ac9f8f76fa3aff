"""Published data whose estimates other software reports."""

from pathlib import Path

import pandas as pd
import pytest

PUBLISHED = Path(__file__).parent / "published"


@pytest.fixture(scope="session")
def published():
    """The folder of published data."""
    return PUBLISHED


@pytest.fixture(scope="session")
def lalonde():
    """The 614 men of MatchIt's lalonde."""
    return pd.read_csv(PUBLISHED / "lalonde.csv")


@pytest.fixture(scope="session")
def lalonde_covariates(lalonde):
    return lalonde[["age", "educ", "race", "married", "nodegree", "re74", "re75"]]


@pytest.fixture(scope="session")
def nhefs():
    """The 1,629 smokers of What If."""
    return pd.read_csv(PUBLISHED / "nhefs.csv")


@pytest.fixture(scope="session")
def nhefs_covariates(nhefs):
    """The covariates of What If's propensity model."""
    d = nhefs
    columns = {"sex": d.sex, "race": d.race, "age": d.age, "age2": d.age**2}
    for name, levels in (("education", 5), ("exercise", 3), ("active", 3)):
        columns |= {f"{name}{k}": (d[name] == k) * 1 for k in range(1, levels)}
    for name in ("smokeintensity", "smokeyrs", "wt71"):
        columns |= {name: d[name], f"{name}2": d[name] ** 2}
    return pd.DataFrame(columns).astype(float)


@pytest.fixture(scope="session")
def zepid_sample():
    """The 547 people of zEpid."""
    return pd.read_csv(PUBLISHED / "zepid_sample.csv")
