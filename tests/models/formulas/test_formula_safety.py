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
        ("y ~ " + " | ".join(["x"] * 20_000), "one right-hand side"),
        ("y ~ " + "(" * 5000 + "x" + ")" * 5000, "parentheses within each other"),
        ("y ~ x + I(" + "-" * 50_000 + "x)", "cannot be evaluated"),
        ("y ~ " + "x + " * 200_000 + "z", "characters"),
        ("y ~ x" + "**2" * 30_000, "more than 6,000 names, numbers"),
        ("y ~ x" + " + z**2" * 14_000, "more than 6,000 names, numbers"),
        ("y ~ x" + " - z" * 24_000, "more than 6,000 names, numbers"),
        ("y ~ x + " + "-" * 90_000 + "z", "more than 6,000 names, numbers"),
        ("y ~ " + "+".join(f"q{i}" for i in range(14_000)), "more than 6,000 names, numbers"),
        ("y ~ " + "+".join(f"{'(' * 49}x{')' * 49}" for _ in range(900)), "names, numbers"),
        ("y ~ x + strata(" + "x," * 40_000 + ")", "more than 6,000 names, numbers"),
        ("y ~ I(" + "x<" * 40_000 + "x)", "more than 6,000 names, numbers"),
        ("y ~ " + "+".join(f"I(x+{i})" for i in range(9_000)), "names, numbers and operators"),
        ("y ~ " + ":".join(f"lag(x, {i})" for i in range(7_000)), "names, numbers and operators"),
        ("y ~ x + " + "a" * 90_000, "names 'aaaaaaaa.{0,60}…', which is not a column"),
    ],
)
def test_a_formula_that_would_exhaust_memory_is_refused(table, formula, match):
    with pytest.raises(DataError, match=match):
        LinearRegression.from_formula(formula, table)


FACTORS = [f"v{i}" for i in range(30)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("right", "match"),
    [
        ("*".join(f"({a} + x)" for a in FACTORS), "expand to more than 10,000 terms"),
        (":".join(f"({a} + x + z)" for a in FACTORS[:18]), "expand to more than 10,000 terms"),
        ("/".join(f"({a} + x + z)" for a in FACTORS), "expand to more than 10,000 terms"),
        ("(" + " + ".join(FACTORS) + ") ** 9", "expand to more than 10,000 terms"),
        ("(" + " + ".join(FACTORS) + ") ^ 9", "expand to more than 10,000 terms"),
        ("((x + z + v1 + v2) ** 4) ** 4", "expand to more than 10,000 terms"),
        ("x ** 10000000000", "exponent of at most 100"),
        ("x ** " + "9" * 5000, "exponent of at most 100"),
        (" + ".join("*".join(FACTORS[i : i + 12]) for i in range(18)), "expand to more than"),
        ("(.) ** 4", "expand to more than 10,000 terms"),
        ("bs(x, df=10**8)", r"bs\(\) in a formula takes df as a whole number of at most 1,000"),
        ("bs(x, 100000000)", r"bs\(\) in a formula takes df"),
        ("bs(x, df=1e8)", r"bs\(\) in a formula takes df"),
        ("bs(x, df=np.maximum(100000000, 1))", r"bs\(\) in a formula takes df"),
        ("bs(x, df=z)", r"bs\(\) in a formula takes df"),
        ("bs(x, knots=z)", r"bs\(\) in a formula takes knots"),
        ("bs(x, knots=[z, z])", r"bs\(\) in a formula takes knots"),
        ("bs(x, degree=1000000)", r"bs\(\) in a formula takes degree .* at most 10,"),
        ("bs(x, None, None, 1000000)", r"bs\(\) in a formula takes degree"),
        ("bs(x, **z)", r"cannot have arguments with \*\*"),
        ("ns(x, df=1000000)", r"ns\(\) in a formula takes df"),
        ("ns(x, knots=z)", r"ns\(\) in a formula takes knots"),
        ("rcs(x, z)", r"rcs\(\) in a formula takes knots"),
        ("cr(x, df=1000000)", r"cr\(\) in a formula takes df"),
        ("cs(x, 1000000)", r"cs\(\) in a formula takes df"),
        ("cc(x, df=1000000)", r"cc\(\) in a formula takes df"),
        ("poly(x, 1000000)", r"poly\(\) in a formula takes degree"),
        ("poly(degree=1000000, x=x)", r"poly\(\) in a formula takes degree"),
        ("poly(poly(x, 900), 900, raw=True)", "more than 10,000 columns"),
        ("I(np.maximum(x, [" + "[1]," * 20_000 + "]))", "more than 6,000 names, numbers"),
        ("offset(np.exp([" + "x," * 20_000 + "]))", "more than 6,000 names, numbers"),
        ("I(np.maximum(x, [[], " + "[]," * 20_000 + "]))", "more than 10,000 columns"),
        (" + ".join(f"bs(v{i}, df=900)" for i in range(9)), "bases of the formula have more than"),
        (" + ".join(f"poly(v{i}, 90)" for i in range(30)), "bases of the formula have more than"),
        ("hashed(x, levels=1000000000)", r"hashed\(\) in a formula takes levels .* 2,000"),
        ("bs(x, df=200):bs(z, df=200)", "more than 10,000 columns up to its term"),
        ("C(I(x), contr.treatment):C(z):C(v1)", "more than 10,000 columns up to its term"),
        ("g:h:g2", "more than 10,000 columns up to its term"),
        ("I(g):I(h):I(g2)", "more than 10,000 columns up to its term"),
        ("Q('g'):Q('h'):Q('g2')", "more than 10,000 columns up to its term"),
        ("step(x, [" + "1," * 20_000 + "])", "more than 6,000 names, numbers"),
    ],
)
def test_terms_and_columns_are_limited_before_they_are_computed(table, right, match, monkeypatch):
    """No product is expanded and no basis is computed before the refusal."""
    import formulaic

    def never(*_):
        raise AssertionError("the formula is computed")

    monkeypatch.setattr(formulaic.Formula, "get_model_matrix", never, raising=False)
    monkeypatch.setattr(formulaic.SimpleFormula, "get_model_matrix", never)
    data = table.assign(**dict.fromkeys(FACTORS, table["x"]))
    data["g"] = [f"g{i}" for i in range(40)]
    data["h"], data["g2"] = data["g"], data["g"].astype("category")
    with pytest.raises(DataError, match=match):
        LinearRegression.from_formula(f"y ~ {right}", data)


def test_codings_with_a_square_matrix_are_limited_in_levels(rng_labels):
    with pytest.raises(DataError, match=r"1,500 levels; a coding other than contr.treatment"):
        LinearRegression.from_formula("y ~ C(g, contr.poly)", rng_labels)


def test_columns_that_do_not_fit_into_memory_are_refused(table, monkeypatch):
    from steropes.models.formulas import formula_size_limits

    monkeypatch.setattr(formula_size_limits, "free_memory", lambda: 1000.0)
    with pytest.raises(DataError, match="do not fit into memory: 50 columns of 40 rows"):
        LinearRegression.from_formula("y ~ bs(x, df=49)", table)


@pytest.fixture
def rng_labels():
    codes = np.arange(3000) % 1500
    return pd.DataFrame({"g": pd.Categorical(codes), "y": np.sin(np.arange(3000.0))})


@pytest.mark.parametrize(
    "right",
    [
        "(x + z + v) ** 3",
        "x * z * v * C(k)",
        "bs(x, knots=[-1, np.log(2)], degree=2):C(k)",
        "ns(x, df=4) + rcs(z, [-1, 0, 1]) + cr(v, df=5)",
        "C(k, contr.sum) / x",
    ],
)
def test_ordinary_products_and_splines_are_computed(table, right):
    data = table.assign(v=np.cos(np.arange(40.0)), k=np.arange(40) % 3)
    model = LinearRegression.from_formula(f"y ~ {right}", data)
    assert np.isfinite(model.coef_).all()
