"""A formula from somebody else computes with columns and does nothing else."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, LinearRegression


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    return pd.DataFrame({"x": x, "z": rng.normal(size=40), "y": x + rng.normal(size=40)})


@pytest.mark.parametrize(
    "term",
    [
        "{__import__('os').mkdir('{folder}')}",
        "I(__import__('os').mkdir('{folder}'))",
        "offset(__import__('os').mkdir('{folder}'))",
        "strata(x, __import__('os').mkdir('{folder}'))",
        "np.save('{folder}', x)",
        "np.log(x).tofile('{folder}')",
        "x.to_csv('{folder}')",
        "I((lambda: x)())",
        "I([v for v in x])",
        "I(x.__class__.__mro__)",
        "I(np.testing.suppress_warnings)",
        "I(getattr(x, 'values'))",
        "I(eval('x'))",
        "I(f'{{x}}')",
        "C(x, contr.__class__)",
        "I(x[0])",
        "I(x if True else z)",
        "bs(x, df=__import__('os').getpid())",
        "I(9 ** 9 ** 9)",
        "I(((9 ** 99) ** 99) ** 99)",
        "I(1 << 999999999999)",
        "C('a' * 10 ** 9)",
        "I([0] * 10 ** 9)",
        "I(x * " + "9" * 5000 + ")",
    ],
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_python_beyond_arithmetic_is_refused(table, tmp_path, term, side):
    term = term.replace("{folder}", str(tmp_path / "made"))
    formula = f"y ~ x + {term}" if side == "right" else f"{term} ~ x"
    with pytest.raises(DataError):
        LinearRegression.from_formula(formula, table)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "right",
    [
        "x + I(x ** 2) + I(1 / (1 + z ** 2))",
        "np.log1p(np.abs(x)) + np.where(z > 0, x, 0)",
        "bs(x, df=4) + poly(z, 2)",
        "C(np.round(x), contr.treatment(0)) + z",
        "C(z > 0) * x",
        "{x + 1} + scale(z, center=True)",
        "x + offset(np.exp(z) * -2)",
    ],
)
def test_documented_functions_need_no_trust(table, right):
    formula = f"y ~ {right}"
    plain = LinearRegression.from_formula(formula, table)
    trusted = LinearRegression.from_formula(formula, table, trusted=True)
    np.testing.assert_array_equal(plain.coef_, trusted.coef_)


def test_any_python_of_a_trusted_author_is_evaluated(table):
    with pytest.raises(DataError, match="trusted=True"):
        LinearRegression.from_formula("y ~ I(x.clip(0, 1))", table)
    model = LinearRegression.from_formula("y ~ I(x.clip(0, 1))", table, trusted=True)
    assert model.coef_.shape == (1,)


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("y ~ " + " + ".join(["."] * 200_000), "characters"),
        ("y ~ " + " + ".join(["."] * 50), "'.' 50 times"),
        ("y ~ " + "(" * 5000 + "x" + ")" * 5000, "parentheses within each other"),
        ("y ~ x + I(" + "-" * 50_000 + "x)", "cannot be evaluated"),
        ("y ~ " + "x + " * 200_000 + "z", "characters"),
    ],
)
def test_a_formula_that_would_exhaust_memory_is_refused(table, formula, match):
    with pytest.raises(DataError, match=match):
        LinearRegression.from_formula(formula, table)
