"""What a user touches: scikit-learn estimators over the engine; no numerics in here."""

from .cox import CoxRegression
from .linear import LinearRegression
from .logistic import LogisticRegression
from .poisson import PoissonRegression
from .pooled_logistic import PooledLogisticRegression

__all__ = [
    "CoxRegression",
    "LinearRegression",
    "LogisticRegression",
    "PoissonRegression",
    "PooledLogisticRegression",
]
