"""scikit-learn estimators of all model families; the numerics are in other packages."""

from .case_series import SelfControlledCaseSeries
from .conditional_regression import ConditionalLogisticRegression, ConditionalPoissonRegression
from .cox_regression import CoxRegression
from .fine_gray_regression import FineGrayRegression
from .gamma_regression import GammaRegression
from .linear_regression import LinearRegression
from .logistic_regression import LogisticRegression
from .many_outcomes import fit_many
from .multinomial_logistic_regression import MultinomialLogisticRegression
from .negative_binomial_regression import NegativeBinomialRegression
from .poisson_regression import PoissonRegression
from .pooled_logistic_regression import PooledLogisticRegression
from .step_functions import StepFunction

__all__ = [
    "ConditionalLogisticRegression",
    "ConditionalPoissonRegression",
    "CoxRegression",
    "FineGrayRegression",
    "GammaRegression",
    "LinearRegression",
    "LogisticRegression",
    "MultinomialLogisticRegression",
    "NegativeBinomialRegression",
    "PoissonRegression",
    "PooledLogisticRegression",
    "SelfControlledCaseSeries",
    "StepFunction",
    "fit_many",
]
