"""Vectors in another order than the rows of X or y are refused where labels show it."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    ConditionalPoissonRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    FineGrayRegression,
    Normal,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
    aalen_johansen,
    calibration_table,
    kaplan_meier,
    logrank_test,
)

N = 12
WHOLE = np.array([1, 0, 2, 1, 3, 0, 1, 2, 0, 1, 4, 1])


def base():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=N), WHOLE])
    event = np.array([1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1])
    return X, event


@pytest.mark.parametrize("argument", ["y", "sample_weight", "offset", "exposure", "strata"])
@pytest.mark.parametrize("labels", ["text", "default", "repeated"])
def test_the_same_labels_in_another_order_are_refused(argument, labels):
    index = {
        "text": [f"p{i}" for i in range(N)],
        "default": pd.RangeIndex(N),
        "repeated": np.arange(N) // 2,
    }[labels]
    X = pd.DataFrame(base()[0], index=index, columns=["a", "b"])
    vectors = {"y": pd.Series(WHOLE, index=index)}
    vectors[argument] = pd.Series(WHOLE + 1, index=index).iloc[::-1]
    model = ConditionalPoissonRegression() if argument == "strata" else PoissonRegression()
    with pytest.raises(DataError, match=rf"X and {argument} have the same row labels"):
        model.fit(X, **vectors)
    vectors[argument] = vectors[argument].to_numpy()
    model.set_params(prior=Normal()).fit(X, **vectors)


def test_labels_of_another_table_are_not_looked_at():
    X = pd.DataFrame(base()[0], index=range(100, 100 + N))
    PoissonRegression(prior=Normal()).fit(X.rename(columns=str), pd.Series(WHOLE))


def test_times_and_events_with_labels_in_another_order_are_refused():
    time = pd.Series(WHOLE + 1.0)
    with pytest.raises(DataError, match="time and event"):
        Surv(time, pd.Series(WHOLE % 2).iloc[::-1])


def test_offsets_for_a_prediction_in_another_order_are_refused():
    X = pd.DataFrame(base()[0], columns=["a", "b"])
    model = PoissonRegression(prior=Normal()).fit(X, WHOLE)
    with pytest.raises(DataError, match="X and offset"):
        model.predict(X, offset=pd.Series(WHOLE * 1.0).sample(frac=1, random_state=0))


def backwards(x, index=None):
    return pd.Series(x, index=index)[::-1]


def test_vectors_in_another_order_than_y_are_refused_where_x_has_no_labels():
    y = pd.Series(WHOLE)
    for argument in ("sample_weight", "offset", "exposure", "strata"):
        model = ConditionalPoissonRegression() if argument == "strata" else PoissonRegression()
        with pytest.raises(DataError, match=f"y and {argument}"):
            model.fit(base()[0], y, **{argument: backwards(WHOLE + 1.0)})


@pytest.mark.parametrize("labelled", ["X", "y"])
@pytest.mark.parametrize("model", [PoissonRegression, CumulativeProbabilityModel])
def test_clusters_in_another_order_than_the_rows_of_the_fit_are_refused(labelled, model):
    index = [f"p{i}" for i in range(N)]
    X, y = base()[0], WHOLE
    X = pd.DataFrame(X, index=index, columns=["a", "b"]) if labelled == "X" else X
    y = pd.Series(y, index=index) if labelled == "y" else y
    m = model(prior=Normal()).fit(X, y)
    cluster = np.arange(N) // 3
    expected = m.vcov("robust", cluster=cluster)
    pd.testing.assert_frame_equal(m.vcov("robust", cluster=pd.Series(cluster, index)), expected)
    pd.testing.assert_frame_equal(m.vcov("robust", cluster=backwards(cluster)), expected)
    asks = [lambda **g: m.vcov("robust", **g), lambda **g: m.summary(kind="robust", **g)]
    asks.append(lambda **g: m.confint(method="robust", **g))
    if model is PoissonRegression:
        asks.append(lambda **g: m.inference.bootstrap(2, **g))
    for ask in asks:
        with pytest.raises(DataError, match="X and cluster"):
            ask(cluster=backwards(cluster, index))


def test_vectors_of_curves_and_tables_in_another_order_are_refused():
    y = Surv(WHOLE + 1, base()[1])
    group, other = pd.Series(WHOLE % 2), backwards(WHOLE + 1)
    for curves in (kaplan_meier, aalen_johansen):
        with pytest.raises(DataError, match="groups and sample_weight"):
            curves(y, group, sample_weight=other)
    with pytest.raises(DataError, match="groups and strata"):
        logrank_test(y, group, strata=other)
    risk = pd.Series(WHOLE / 5.0)
    for argument in ("y", "sample_weight"):
        with pytest.raises(DataError, match=f"predicted and {argument}"):
            calibration_table(risk, **{"y": group, argument: other})


def test_vectors_of_a_concordance_in_another_order_are_refused():
    X = pd.DataFrame(base()[0], columns=["a", "b"])
    y = Surv(WHOLE + 1, base()[1])
    for model in (CoxRegression(), FineGrayRegression(), PooledLogisticRegression(interval=1.0)):
        m = model.set_params(prior=Normal()).fit(X, y)
        for argument in ("sample_weight", "cluster"):
            with pytest.raises(DataError, match=f"X and {argument}"):
                m.validation.concordance(X, y, return_se=True, **{argument: backwards(WHOLE + 1)})
