"""Jeffreys' prior, which gives Firth's penalised likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ..errors import DataError
from .penalty import Penalty
from .prior_base_class import Prior

__all__ = ["Jeffreys"]


@dataclass(frozen=True)
class Jeffreys(Prior):
    """Jeffreys' invariant prior |I(β)|^½, which gives Firth's penalised likelihood.

    The fit maximises ℓ(β) + ½ log |I(β)| with the information I of all coefficients, including the
    intercept. This removes the term of order 1/n from the bias of the maximum likelihood estimates
    (Firth 1993, eq. 2) and gives finite estimates if the data are separated or a hazard ratio is
    infinite (Heinze and Schemper 2001, 2002). It has no variance to choose, and no column can be
    excluded.

    All families except linear and cumulative models support it. It is flat for linear models. In
    cumulative models the thresholds are parameters too, as many as there are outcomes, while
    Firth's expansion assumes a number of parameters that does not grow with the data. The
    information is that of the maximised likelihood: the partial likelihood of Cox models, the exact
    conditional likelihood of matched sets, and the weighted likelihood of Fine and Gray (Kohl and
    others 2015). X may have up to two thousand columns.

    Notes
    -----
    The score equations are U_j(β) + ½ tr(I(β)⁻¹ ∂I(β)/∂β_j) = 0, and ``optimality_`` measures their
    violation. Standard errors are those of I(β)⁻¹ at the estimate, as in R's ``logistf`` and
    ``coxphf``. ``confint(method="profile")`` gives the penalised profile intervals of these
    packages, which are preferable because the penalised likelihood of separated data is far from
    symmetric. Row weights also enter I(β): a weight of 2 is equivalent to the row given twice.

    References
    ----------
    Jeffreys (1946), Proc. R. Soc. A 186:453–461.
    Firth (1993), Biometrika 80:27–38.
    Heinze and Schemper (2001), Biometrics 57:114–119; (2002), Statistics in Medicine 21:2409–2419.
    Heinze and Puhr (2010), Statistics in Medicine 29:770–777 (conditional logistic).
    Kohl, Plischke, Leffondré and Heinze (2015), Computer Methods and Programs in Biomedicine
    118:218–233 (Fine and Gray).

    Examples
    --------
    The data are separated, so that the maximum likelihood estimate would be infinite.

    >>> import steropes
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> model = steropes.LogisticRegression(prior=steropes.Jeffreys()).fit(X, y)
    >>> bool(0 < model.coef_[0] < 2)
    True
    """

    information_power: ClassVar[float] = 0.5
    bounds_all: ClassVar[bool] = True
    by_column: ClassVar[frozenset[str]] = frozenset()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Return λ = κ = 0, because the prior is a power of the information only.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            Zeros.
        """
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """Raise `DataError`, as the prior has no variance.

        Parameters
        ----------
        variance : float
            Ignored.

        Raises
        ------
        DataError
            Always.
        """
        raise DataError("Jeffreys' prior has no variance to choose; leave cv out.")
