"""The metrics and scorers of scikit-survival run on Cox models."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import (
    as_concordance_index_ipcw_scorer,
    as_cumulative_dynamic_auc_scorer,
    as_integrated_brier_score_scorer,
)
from sksurv.util import Surv as SksurvSurv

from steropes import CoxRegression, Normal, PooledLogisticRegression, integrated_brier_score

RNG = np.random.default_rng(41)
N = 120
X = RNG.normal(size=(N, 2))
FAILS, LEAVES = RNG.exponential(np.exp(-X[:, 0])), RNG.exponential(2.0, N)
Y = SksurvSurv.from_arrays(FAILS <= LEAVES, np.minimum(FAILS, LEAVES))
TIMES = np.quantile(Y["time"], [0.3, 0.5, 0.7])
SCORERS = {
    "uno": lambda m: as_concordance_index_ipcw_scorer(m, tau=float(TIMES[-1])),
    "auc": lambda m: as_cumulative_dynamic_auc_scorer(m, times=TIMES),
    "brier": lambda m: as_integrated_brier_score_scorer(m, times=TIMES),
}


@pytest.mark.parametrize("name", SCORERS)
def test_scores_are_those_of_scikit_survival_s_cox_model(name):
    ours = SCORERS[name](CoxRegression()).fit(X, Y).score(X, Y)
    theirs = SCORERS[name](CoxPHSurvivalAnalysis(ties="efron", tol=1e-12)).fit(X, Y).score(X, Y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_grid_search_scores_models():
    scorer = SCORERS["brier"](CoxRegression())
    grid = {"estimator__prior": [Normal(0.01), Normal(1.0)]}
    search = GridSearchCV(scorer, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["estimator__prior"].variance == 1.0


def test_the_brier_score_of_a_pooled_model_is_that_of_its_predictions():
    model = PooledLogisticRegression(interval=0.1, baseline=2)
    found = as_integrated_brier_score_scorer(model, times=TIMES).fit(X, Y).score(X, Y)
    fitted = model.fit(X, Y)
    risk = 1 - fitted.predict_survival(X, TIMES)
    np.testing.assert_allclose(-found, integrated_brier_score(risk, Y, TIMES), rtol=1e-6)
