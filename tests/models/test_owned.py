"""What a fit keeps of a sparse X is a copy: the user may change theirs."""

import gc

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import CrossValidation, Laplace


def shares_memory_with(model, X):
    """Whether anything that a model holds does."""
    seen, todo = {id(X)}, [model.__dict__]
    while todo:
        for x in gc.get_referents(todo.pop()):
            if id(x) in seen or isinstance(x, type) or callable(x) or hasattr(x, "__spec__"):
                continue
            seen.add(id(x))
            if isinstance(x, np.ndarray):
                if any(np.may_share_memory(x, y) for y in (X.data, X.indices, X.indptr)):
                    return True
            else:
                todo.append(x)
    return False


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("mixed", [False, True])
def test_a_fit_keeps_no_array_of_the_users(family, mixed, rng):
    ones = (rng.random((200, 5)) < 0.3).astype(float)
    if mixed:
        ones[:, 2] *= rng.normal(size=200)
    c = case(family, rng, X=ones)
    X = sparse.csc_array(ones)
    for cv in (None, CrossValidation(3, random_state=0, search=[0.1, 1.0])):
        m = c.fit(X, prior=Laplace(0.1), cv=cv)
        assert not shares_memory_with(m, X)


def test_the_test_would_see_it(rng):
    X = sparse.csc_array(rng.random((20, 3)) < 0.3)

    class Holder:
        pass

    m = Holder()
    m.inner = Holder()
    m.inner.kept = [{"a": X.indices[3:]}]
    assert shares_memory_with(m, X)


@pytest.fixture
def indicators(rng):
    return sparse.csc_array((rng.random((300, 4)) < 0.4).astype(float))


@pytest.mark.host
def test_nor_of_columns_after_coordinate_descent(indicators, rng):
    m = case("cox", rng, X=indicators.toarray()).fit(indicators, prior=Laplace(0.1), solver="ccd")
    assert not shares_memory_with(m, indicators)


def test_nor_of_columns_that_stay_where_others_are_fixed_or_change_with_time(indicators, rng):
    X, c = indicators, case("cox", rng, X=indicators.toarray())
    m = c.fit(X, prior=Laplace(0.1), time_varying={"x1": [0.5]})
    assert not shares_memory_with(m, X)
    m = c.make(prior=Laplace(0.1)).fit(X, c.y, fixed={"x2": 0.3}, **c.extras)
    assert not shares_memory_with(m, X)
    before = m.inference.bootstrap(3, random_state=0).coef
    X.indices[:] = 0
    np.testing.assert_array_equal(m.inference.bootstrap(3, random_state=0).coef, before)
