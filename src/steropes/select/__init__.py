"""Selection of the prior's variance by cross-validation or by information criteria."""

from .crossvalidation import CrossValidation
from .cyclops_search import CyclopsSearch
from .information_criteria import InformationCriterion, Measured

__all__ = ["CrossValidation", "CyclopsSearch", "InformationCriterion", "Measured"]
