"""What a user touches: scikit-learn estimators over the engine; no numerics in here."""

from .case_series import SelfControlledCaseSeries
from .conditional import ConditionalLogisticRegression, ConditionalPoissonRegression
from .cox import CoxRegression
from .fine_gray import FineGrayRegression
from .linear import LinearRegression
from .logistic import LogisticRegression
from .many import fit_many
from .poisson import PoissonRegression
from .pooled_logistic import PooledLogisticRegression

__all__ = [
    "ConditionalLogisticRegression",
    "ConditionalPoissonRegression",
    "CoxRegression",
    "FineGrayRegression",
    "LinearRegression",
    "LogisticRegression",
    "PoissonRegression",
    "PooledLogisticRegression",
    "SelfControlledCaseSeries",
    "fit_many",
]
