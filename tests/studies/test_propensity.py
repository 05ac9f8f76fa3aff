"""The propensity score: AUC, preference scores, and the model on data with a known answer."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score
from tests.studies.test_tidied_covariates import made

from steropes.designs import PropensityRules, fit_scores
from steropes.designs.propensity import auc, preference_score
from steropes.errors import DataError


def test_auc_agrees_with_scikit_learn_and_counts_ties_half():
    random = np.random.default_rng(0)
    score, treated = random.integers(0, 20, 300), random.integers(0, 2, 300)
    assert auc(score, treated) == pytest.approx(roc_auc_score(treated, score), abs=1e-14)
    assert auc([1, 1, 1], [1, 0, 0]) == 0.5


def test_auc_needs_both_arms():
    with pytest.raises(DataError, match="both arms"):
        auc([0.1, 0.2], [1, 1])


def test_preference_score_is_half_at_the_target_share():
    treated = np.array([1, 0, 0, 0])
    score = preference_score(logit([0.25, 0.25, 0.25, 0.9]), treated)
    np.testing.assert_allclose(score[:3], 0.5)
    assert score[3] == pytest.approx(expit(logit(0.9) - logit(0.25)))


def test_the_model_finds_what_decides_the_treatment():
    random = np.random.default_rng(4)
    x = (random.random((800, 30)) < 0.2).astype(float)
    treated = (random.random(800) < expit(2.5 * x[:, 3] - 2 * x[:, 7])).astype(int)
    fit = fit_scores(made(dict(enumerate(x.T)), 800), treated, PropensityRules(seed=2))
    assert set(fit.coefficients["covariate_id"][1:3]) == {3, 7}
    assert fit.auc > 0.65
    np.testing.assert_allclose(fit.score, expit(fit.logit), atol=1e-9)
    assert fit.coefficients["name"][0] == "intercept"
    assert fit.model.converged_


def test_an_arm_of_one_is_refused():
    with pytest.raises(DataError, match="the target arm has fewer than two people"):
        fit_scores(made(dict(enumerate(np.eye(4))), 4), [1, 0, 0, 0])
    with pytest.raises(DataError, match="5 arms for 4 people"):
        fit_scores(made(dict(enumerate(np.eye(4))), 4), [1, 1, 0, 0, 0])


def test_exempt_covariates_have_no_prior():
    random = np.random.default_rng(5)
    x = (random.random((400, 6)) < 0.3).astype(float)
    treated = (random.random(400) < expit(0.8 * x[:, 3] - 0.4)).astype(int)
    covariates = made(dict(enumerate(x.T)), 400)
    strong = PropensityRules(variance=1e-6, high_correlation=1, exempt=(3, 99))
    found = fit_scores(covariates, treated, strong).coefficients.set_index("covariate_id")
    # With all others at zero it is the log odds ratio of the two groups.
    share = [treated[x[:, 3] == k].mean() for k in (0, 1)]
    assert {*found.index} == {0, 3}
    assert found.loc[3, "coefficient"] == pytest.approx(logit(share[1]) - logit(share[0]), rel=1e-5)
