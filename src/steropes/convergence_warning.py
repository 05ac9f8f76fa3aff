"""The warning that a fit stopped before it converged."""

from sklearn.exceptions import ConvergenceWarning

__all__ = ["NotConvergedWarning"]


class NotConvergedWarning(ConvergenceWarning):
    """The certificate (largest KKT violation) stayed above ``tol``; the fit is kept.

    It is one of scikit-learn's ``ConvergenceWarning``, so that filters for these apply.

    Examples
    --------
    >>> import warnings
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = steropes.LogisticRegression(max_iter=1).fit(X, y)
    >>> model.converged_, caught[0].category.__name__
    (False, 'NotConvergedWarning')
    """
