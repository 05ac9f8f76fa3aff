"""The whole Hessian, by central differences of the exact gradient: for small data only."""

import numpy as np

from steropes.likelihoods.cumulative import Thresholds


def dense_negative_hessian(likelihood, alpha, beta, X):
    """Central differences of the exact gradient over (α, β); X in the likelihood's row order."""
    K = likelihood.K

    def gradient(theta):
        a = theta[:K]
        delta = np.diff(a, prepend=0.0)
        ev = likelihood.evaluate(Thresholds(a, delta), X @ theta[K:])
        return np.concatenate([-likelihood.to_thresholds(ev.la, ev.lb), X.T @ ev.s])

    theta = np.concatenate([alpha, beta])
    H = np.empty((len(theta), len(theta)))
    for i in range(len(theta)):
        e = np.zeros(len(theta))
        e[i] = 1e-5
        H[i] = (gradient(theta + e) - gradient(theta - e)) / 2e-5
    return 0.5 * (H + H.T)
