"""Jeffreys' prior: Firth's penalised likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ..errors import DataError
from .base import Penalty, Prior

__all__ = ["Jeffreys"]


@dataclass(frozen=True)
class Jeffreys(Prior):
    """Jeffreys' invariant prior, |I(β)|^½: Firth's penalised likelihood.

    Maximises ℓ(β) + ½ log |I(β)| with the information I of all coefficients, the intercept among
    them. It takes the term of order 1/n out of the bias of the maximum likelihood estimates
    (Firth 1993, eq. 2) and gives finite ones where the data are separated or a hazard ratio is
    infinite (Heinze and Schemper 2001, 2002). There is nothing to choose and nothing to exclude.

    All families have it but linear models, where it is flat, and cumulative ones: their thresholds
    are parameters too, as many as there are outcomes, and Firth's expansion is for a number of
    parameters that does not grow with the data. The information is that of the likelihood that is
    maximised: a partial one of Cox models, the exact conditional one of matched sets, the weighted
    one of Fine and Gray (Kohl and others 2015). Up to two thousand columns.

    Notes
    -----
    The score equations are U_j(β) + ½ tr(I(β)⁻¹ ∂I(β)/∂β_j) = 0, and ``optimality_`` is how far
    from them the fit is. Standard errors are those of I(β)⁻¹ at the estimate, as in R's ``logistf``
    and ``coxphf``, and ``confint(method="profile")`` gives their penalised profile intervals, which
    are to be preferred: the penalised likelihood is far from symmetric where data are separated.
    Row weights weigh I(β) too: a weight of 2 is a row that is there twice.

    References
    ----------
    Jeffreys (1946), Proc. R. Soc. A 186:453–461.
    Firth (1993), Biometrika 80:27–38.
    Heinze and Schemper (2001), Biometrics 57:114–119; (2002), Statistics in Medicine 21:2409–2419.
    Heinze and Puhr (2010), Statistics in Medicine 29:770–777 (conditional logistic).
    Kohl, Plischke, Leffondré and Heinze (2015), Computer Methods and Programs in Biomedicine
    118:218–233 (Fine and Gray).
    """

    information_power: ClassVar[float] = 0.5
    bounds_all: ClassVar[bool] = True
    by_column: ClassVar[frozenset[str]] = frozenset()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`."""
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """Refused."""
        raise DataError("Jeffreys' prior has no variance to choose; leave cv out.")
