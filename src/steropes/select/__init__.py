"""Selection of the prior's variance by cross-validation or by information criteria."""

from .criteria import InformationCriterion, Measured
from .crossvalidation import CrossValidation
from .cyclops import CyclopsSearch

__all__ = ["CrossValidation", "CyclopsSearch", "InformationCriterion", "Measured"]
