"""What the solver asks of model and data, and the implementation for rows on this machine."""

from .active import ActiveColumns
from .face import CurvatureAt, DataTerm, Trial
from .local import LocalTerm
from .profiled import ProfiledTerm
from .with_smooth import TermWithSmooth

__all__ = [
    "ActiveColumns",
    "CurvatureAt",
    "DataTerm",
    "LocalTerm",
    "ProfiledTerm",
    "TermWithSmooth",
    "Trial",
]
