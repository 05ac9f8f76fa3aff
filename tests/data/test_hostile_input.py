"""Whatever an argument comes as: the numbers of the plain float64 case, or a `DataError`."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    Design,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
)
from steropes.data.kaplan_meier import product_limit
from steropes.models.cumulative import Censored

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 12
WHOLE = np.array([1, 0, 2, 1, 3, 0, 1, 2, 0, 1, 4, 1])  # fits into every type of number


def strided(x):
    wide = np.zeros((len(x), 3), x.dtype)
    wide[:, 1] = x
    return wide[:, 1]


def read_only(x):
    x = x.astype(float)
    x.flags.writeable = False
    return x


SAME = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "memoryview": lambda x: memoryview(x.astype(float)),
    "objects": lambda x: x.astype(object),
    "decimals": lambda x: np.array([decimal.Decimal(int(v)) for v in x], object),
    "int8": lambda x: x.astype(np.int8),
    "uint64": lambda x: x.astype(np.uint64),
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "big endian": lambda x: x.astype(">f8"),
    "strided": lambda x: strided(x.astype(float)),
    "backwards": lambda x: x[::-1].astype(float)[::-1],
    "read-only": read_only,
    "unmasked": lambda x: np.ma.MaskedArray(x.astype(float), np.zeros(len(x), bool)),
    "pandas": lambda x: pd.Series(x),
    "pandas index": lambda x: pd.Series(x, index=[f"id{i}" for i in range(len(x))]),
    "Int64": lambda x: pd.Series(x, dtype="Int64"),
    "Float32": lambda x: pd.Series(x, dtype="Float32"),
    "arrow-backed": lambda x: pd.Series(x, dtype="int64[pyarrow]"),
    "polars": lambda x: pl.Series("v", x),
    "polars decimal": lambda x: pl.Series("v", x.tolist()).cast(pl.Decimal(10, 2)),
    "chunked": lambda x: pa.chunked_array([x[:5], x[5:]]),
    "arrow": lambda x: pa.array(x),
}


def put(x, value):
    out = x.astype(object)
    out[2] = value
    return out


DAY = np.timedelta64(1, "D")
REFUSED = {
    "none": lambda x: put(x, None),
    "list with none": lambda x: put(x, None).tolist(),
    "pandas NA": lambda x: pd.Series(put(x, pd.NA), dtype="Int64"),
    "object NA": lambda x: put(x, pd.NA),
    "NaT": lambda x: put(x, pd.NaT),
    "nan": lambda x: put(x, np.nan).astype(float),
    "infinity": lambda x: put(x, np.inf).astype(float),
    "polars null": lambda x: pl.Series("v", put(x, None).tolist()),
    "arrow null": lambda x: pa.array(put(x, None).tolist()),
    "chunked null": lambda x: pa.chunked_array([put(x, None).tolist()]),
    "masked": lambda x: np.ma.MaskedArray(x.astype(float), np.arange(len(x)) == 2),
    "masked objects": lambda x: np.ma.MaskedArray(x.astype(object), np.arange(len(x)) == 2),
    "masked in a list": lambda x: put(x, np.ma.masked).tolist(),
    "text": lambda x: np.array([f"v{v}" for v in x]),
    "text of numbers": lambda x: x.astype(str),
    "mixed": lambda x: put(x, "two").tolist(),
    "bytes": lambda x: x.astype("S"),
    "one string": lambda x: "a" * len(x),
    "dictionary": lambda x: dict(enumerate(x.tolist())),
    "set": lambda x: {10 * i + int(v) for i, v in enumerate(x)},
    "generator": lambda x: (v for v in x.tolist()),
    "dates": lambda x: np.datetime64("2020-01-01") + x * DAY,
    "durations": lambda x: x * DAY,
    "pandas dates": lambda x: pd.Series(np.datetime64("2020-01-01", "ns") + x * DAY),
    "pandas durations": lambda x: pd.Series(pd.to_timedelta(x, unit="D")),
    "objects of dates": lambda x: put(x, datetime.date(2020, 1, 1)),
    "objects of durations": lambda x: put(x, DAY),
    "polars dates": lambda x: pl.Series("v", [datetime.date(2020, 1, 1 + int(v)) for v in x]),
    "polars durations": lambda x: pl.Series("v", x.tolist()).cast(pl.Duration("us")),
    "arrow dates": lambda x: pa.chunked_array([pa.array(x.astype(np.int32)).cast(pa.date32())]),
    "categories": lambda x: pd.Series([f"v{v}" for v in x], dtype="category"),
    "dictionary-encoded": lambda x: pa.chunked_array([pa.array(x.astype(str)).dictionary_encode()]),
    "complex": lambda x: x + 1j,
    "structured": lambda x: x.astype([("v", float)]),
    "ragged": lambda x: [[1.0], *x[1:].tolist()],
    "beyond a float": lambda x: put(x, 10**400),
    "beyond a double": lambda x: put(x, np.longdouble("1e4000")).astype(np.longdouble),
    "sparse": lambda x: sparse.csr_array(x.astype(float)[:, None]),
    "too short": lambda x: x[:-1],
    "none at all": lambda x: x[:0],
    "three-dimensional": lambda x: x[:, None, None].astype(float),
}  # fmt: skip


def base():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=N), WHOLE])
    event = np.array([1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1])
    return X, event


def coefs(**given):
    """Coefficients of a fit in which one argument has another form."""
    X, event = base()
    if given.keys() & {"time", "event", "entry"}:
        parts = {"time": WHOLE + 1, "event": event, **given}
        return CoxRegression(prior=Normal()).fit(X, Surv(**parts)).coef_
    y = given.pop("y", WHOLE)
    if "y01" in given:
        model = ConditionalLogisticRegression(prior=Normal(), method="efron")
        return model.fit(X, given["y01"], strata=np.arange(N) // 4).coef_
    return PoissonRegression(prior=Normal()).fit(X, y, **given).coef_


ARGUMENTS = {
    "y": WHOLE,
    "sample_weight": WHOLE,
    "offset": WHOLE,
    "exposure": WHOLE + 1,
    "time": WHOLE + 1,
    "event": WHOLE % 2,
    "entry": WHOLE,
    "y01": WHOLE % 2,
}


@pytest.mark.sampled
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("form", SAME)
def test_a_vector_in_any_form_gives_the_same_numbers(argument, form):
    x = ARGUMENTS[argument]
    expected = coefs(**{argument: x.astype(float)})
    np.testing.assert_allclose(coefs(**{argument: SAME[form](x)}), expected, atol=1e-12)


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("form", REFUSED)
def test_a_vector_that_is_not_of_numbers_is_refused_by_name(argument, form):
    with pytest.raises(DataError, match=argument if argument != "y01" else "y"):
        coefs(**{argument: REFUSED[form](ARGUMENTS[argument])})


@pytest.mark.parametrize("form", REFUSED)
def test_clusters_and_strata_are_labels_or_refused(form):
    X, event = base()
    labels = REFUSED[form](WHOLE)
    try:
        CoxRegression(prior=Normal()).fit(X, Surv(WHOLE + 1, event), strata=labels)
    except DataError:
        return
    missing = ("none", "NA", "nan", "null", "masked", "NaT", "short", "at all", "one string")
    assert not any(word in form for word in missing)


@pytest.mark.parametrize("kind", [">i8", ">i2", ">f8"])
def test_labels_in_another_order_of_bytes_are_the_same_labels(kind):
    X, y, labels = np.eye(N, 2), Surv(WHOLE + 1, WHOLE % 3 > 0), np.arange(N) % 3
    one, other = (
        CoxRegression(prior=Normal()).fit(X, y, strata=strata)
        for strata in (labels, labels.astype(kind))
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
    curves = [one.predict_survival(X, [2], strata=x) for x in (labels, labels.astype(kind))]
    np.testing.assert_array_equal(*curves)
    table = pd.DataFrame({"rowId": labels, "covariateId": np.arange(N) % 2 + labels})
    table = table.drop_duplicates().assign(covariateValue=1.0)
    kinds = (kind.replace(">", "<"), kind)
    own, theirs = (Design.from_long(table.astype(k), rows=[0, 1, 2]) for k in kinds)
    assert own.names == theirs.names


@pytest.mark.parametrize("strata", [5, "abcabcabcabc", {1: 2}, [[1]] * N, np.float64(3)])
def test_strata_that_are_no_labels_a_row_are_refused(strata):
    X, event = base()
    with pytest.raises(DataError, match="strata"):
        CoxRegression().fit(X, Surv(WHOLE + 1, event), strata=strata)


def frame(column):
    return pd.DataFrame({"age": np.arange(N) * 1.0, "bad": column})


# -- sparse matrices that are not what they say ------------------------------------------------


# -- labels in another order ---------------------------------------------------------------------


# -- outcomes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1e300, 2.0**63, 1e7])
def test_event_codes_beyond_counting_are_refused(code):
    with pytest.raises(DataError, match="row 1"):
        Surv([1.0, 2.0], [1, code])
    y = np.array([(1.0, 2.0), (code, 3.0)], dtype=[("event", float), ("time", float)])
    with pytest.raises(DataError, match="row 1"):
        CoxRegression().fit([[1.0], [0.0]], y)


@pytest.mark.parametrize(
    "parts", [(None, [1]), ([1.0], None), ([1.0], "1"), (5.0, [1]), ([1.0], [1], "a")]
)
def test_surv_refuses_what_is_no_array(parts):
    with pytest.raises(DataError):
        Surv(*parts)


def test_a_masked_survival_outcome_is_refused():
    y = np.ma.MaskedArray(Surv(WHOLE + 1.0, WHOLE % 2))
    y.mask[3] = (False, True)
    with pytest.raises(DataError, match="row 3"):
        CoxRegression().fit(base()[0], y)


def test_an_event_at_time_zero_is_in_no_interval():
    time = np.array([3.0, 0.0, 1.0, 2.0])
    X = np.eye(4, 1)
    with pytest.raises(DataError, match=r"Row 1 has its event at time 0"):
        PooledLogisticRegression(interval=1.0, prior=Normal()).fit(X, Surv(time, [1, 1, 0, 1]))
    model = PooledLogisticRegression(interval=1.0, baseline=0, prior=Normal())
    model.fit(X, Surv(time, [1, 0, 0, 1]))  # leaving then is no time at risk


CLASSES = {
    "None": ["a", None] * 6,
    "NA": pd.Series([1, None] * 6, dtype="Int64"),
    "string NA": pd.Series(["a", None] * 6, dtype="string"),
    "nan among text": np.array(["a", np.nan] * 6, object),
    "mixed types": ["a", 1] * 6,
    "masked": np.ma.MaskedArray([0, 1] * 6, [True] + [False] * 11),
    "dates": np.array(["2020-01-01", "2020-01-02"] * 6, "datetime64[D]"),
    "polars null": pl.Series(["a", None] * 6),
    "complex": np.array([1j, 1] * 6),
    "ragged": [[1, 2], [3]] * 6,
}


@pytest.mark.parametrize("form", CLASSES)
def test_labels_of_classes_that_are_missing_or_mixed_are_refused(form):
    with pytest.raises(DataError, match="y"):
        LogisticRegression(prior=Normal()).fit(base()[0], CLASSES[form])


SAME_CLASSES = {
    "booleans": np.array([False, True] * 6),
    "boolean": pd.Series([False, True] * 6, dtype="boolean"),
    "text": ["no", "yes"] * 6,
    "objects": np.array(["no", "yes"] * 6, object),
    "categories": pd.Series(pd.Categorical(["no", "yes"] * 6)),
    "string": pd.Series(["no", "yes"] * 6, dtype="string"),
    "polars": pl.Series(["no", "yes"] * 6),
    "arrow": pa.chunked_array([["no", "yes"] * 6]),
    "Int64": pd.Series([0, 1] * 6, dtype="Int64"),
    "frame": pd.DataFrame({"y": [0, 1] * 6})["y"],
}


@pytest.mark.parametrize("form", SAME_CLASSES)
def test_classes_in_any_form_give_the_same_numbers(form):
    X, _ = base()
    expected = LogisticRegression(prior=Normal()).fit(X, [0, 1] * 6)
    model = LogisticRegression(prior=Normal()).fit(X, SAME_CLASSES[form])
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)


@pytest.mark.parametrize("offset", [3.0, np.full(N, 1e10), np.full(N, 1e308)])
def test_offsets_too_far_from_zero_are_refused(offset):
    for model, y in ((PoissonRegression(), WHOLE), (LogisticRegression(), [0, 1] * 6)):
        with pytest.raises(DataError, match="offset"):
            model.fit(base()[0], y, offset=offset)


def test_an_offset_of_a_linear_model_may_be_as_large_as_its_outcome():
    X, _ = base()
    a = LinearRegression().fit(X, WHOLE * 1e3, offset=np.full(N, 3e7))
    b = LinearRegression().fit(X, WHOLE * 1e3)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-6)


@pytest.mark.parametrize("form", ["None", "text", "dates", "masked"])
@pytest.mark.parametrize("make", [lambda x: Censored(x, WHOLE), lambda x: product_limit(x, WHOLE)])
def test_bounds_and_curves_refuse_what_is_no_number(form, make):
    x = {"None": None, **{k: REFUSED[k](WHOLE) for k in ("text", "dates", "masked")}}[form]
    with pytest.raises(DataError):
        make(x)


# -- long tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2020, 1, 1 + i % 28) for i in range(40)],
        [datetime.timedelta(i) for i in range(40)],
        list(pd.period_range("2020-01-01", periods=40)),
        [pd.NaT, *[pd.Timestamp(2020, 1, 2)] * 39],
    ],
)
def test_objects_that_are_dates_are_named_as_dates(values):
    y = np.arange(40) % 2
    table = pd.DataFrame({"age": np.arange(40.0), "day": pd.Series(values, dtype=object)})
    words = "missing|NaN" if values[0] is pd.NaT else "dates or durations"
    with pytest.raises(DataError, match=f"day.*({words})|({words}).*day"):
        LogisticRegression().fit(table, y)
    with pytest.raises(DataError, match=words):
        Surv(np.array(values, object), y)
