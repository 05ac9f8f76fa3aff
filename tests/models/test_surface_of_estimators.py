"""Estimators remain small: short chains of classes, and few public names besides scikit-learn's."""

import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import steropes

PUBLIC = [getattr(steropes, name) for name in steropes.__all__]
ESTIMATORS = [x for x in PUBLIC if inspect.isclass(x) and issubclass(x, steropes.PenalizedModel)]
SCIKIT_LEARN = {*dir(BaseEstimator), *dir(ClassifierMixin), *dir(RegressorMixin), "fit"}


@pytest.mark.parametrize("model", ESTIMATORS)
def test_at_most_six_classes_of_our_own(model):
    ours = [c.__name__ for c in model.__mro__ if c.__module__.startswith("steropes")]
    assert len(ours) <= 6, ours


@pytest.mark.parametrize("model", ESTIMATORS)
def test_at_most_thirty_public_names_besides_those_of_scikit_learn(model):
    names = {
        name for name in dir(model)
        if not name.startswith("_") and not (name.startswith("set_") and name.endswith("_request"))
    }  # fmt: skip
    own = sorted(names - SCIKIT_LEARN)
    assert len(own) <= 30, own


@pytest.mark.parametrize("model", ESTIMATORS)
def test_classifiers_and_regressors_are_one_of_both(model):
    assert not (issubclass(model, ClassifierMixin) and issubclass(model, RegressorMixin))


def test_fit_shows_the_arguments_that_the_class_uses():
    common = ["self", "X", "y", "sample_weight", "offset", "start_at", "fixed"]
    more = {
        "strata": {
            "ConditionalLogisticRegression", "ConditionalPoissonRegression", "CoxRegression",
            "FineGrayRegression", "SelfControlledCaseSeries",
        },
        "interval_weights": {"PooledLogisticRegression"},
        "exposure": {
            "ConditionalPoissonRegression", "NegativeBinomialRegression", "PoissonRegression",
            "SelfControlledCaseSeries",
        },
    }  # fmt: skip
    for model in ESTIMATORS:
        own = [name for name, classes in more.items() if model.__name__ in classes]
        assert sorted(inspect.signature(model.fit).parameters) == sorted([*common, *own]), model


def test_models_import_no_optimiser_no_quadrature_and_no_kernels():
    """Numerics belong to the packages below; a model reads input and arranges results."""
    numerics = re.compile(
        r"^\s*(from|import) (numba|scipy\.(integrate|optimize|sparse\.linalg))"
        r"|^\s*from scipy import .*\b(integrate|optimize)\b",
        re.MULTILINE,
    )
    assert numerics.search("from scipy import optimize, stats")
    for path in Path(steropes.models.__file__).parent.rglob("*.py"):
        assert not numerics.search(path.read_text(encoding="utf-8")), path
