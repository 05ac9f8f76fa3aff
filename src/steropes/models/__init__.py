"""scikit-learn estimators of all model families; the numerics are in other packages."""

from .checks.check_accessors import CoxChecks, FineGrayChecks, GeneralizedChecks, GroupedChecks
from .cumulative.cumulative_probability_check_accessors import CumulativeChecks
from .curves.curve_accessors import CoxCurves, FineGrayCurves
from .curves.step_functions import StepFunction
from .effects.effect_accessors import Effects, MeanEffects
from .estimators.conditional_regression import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
)
from .estimators.cox_regression import CoxRegression
from .estimators.fine_gray_regression import FineGrayRegression
from .estimators.gamma_regression import GammaRegression
from .estimators.linear_regression import LinearRegression
from .estimators.logistic_regression import LogisticRegression
from .estimators.negative_binomial_regression import NegativeBinomialRegression
from .estimators.poisson_regression import PoissonRegression
from .estimators.pooled_logistic_regression import PooledLogisticRegression
from .estimators.pooled_logistic_validation_accessor import PooledValidation
from .estimators.self_controlled_case_series import SelfControlledCaseSeries
from .inference.inference_accessors import Inference
from .multinomial.multinomial_accessors import (
    MultinomialChecks,
    MultinomialEffects,
    MultinomialInference,
)
from .multinomial.multinomial_logistic_regression import MultinomialLogisticRegression
from .repeated_fits.many_outcomes import fit_many
from .validation.validation_accessors import CoxValidation, FineGrayValidation, Validation

__all__ = [
    "ConditionalLogisticRegression",
    "ConditionalPoissonRegression",
    "CoxChecks",
    "CoxCurves",
    "CoxRegression",
    "CoxValidation",
    "CumulativeChecks",
    "Effects",
    "FineGrayChecks",
    "FineGrayCurves",
    "FineGrayRegression",
    "FineGrayValidation",
    "GammaRegression",
    "GeneralizedChecks",
    "GroupedChecks",
    "Inference",
    "LinearRegression",
    "LogisticRegression",
    "MeanEffects",
    "MultinomialChecks",
    "MultinomialEffects",
    "MultinomialInference",
    "MultinomialLogisticRegression",
    "NegativeBinomialRegression",
    "PoissonRegression",
    "PooledLogisticRegression",
    "PooledValidation",
    "SelfControlledCaseSeries",
    "StepFunction",
    "Validation",
    "fit_many",
]


def __dir__() -> list[str]:
    return __all__
