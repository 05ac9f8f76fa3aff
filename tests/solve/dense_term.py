"""A minimal data term: logistic regression on a dense array, in plain NumPy."""

from __future__ import annotations

import numpy as np

from steropes.backends.thread_pool import ThreadPool


class DenseTerm:
    """Σ_i w_ib [log(1 + exp η_ib) − y_i η_ib], η = X β_b; see `steropes.solve.data_term`."""

    columnar, trust_radius, effective_rows, dispersion = False, 2.0, 0, 1.0

    def __init__(self, X, y, w):
        self.X, self.y, self.w = X, y[:, None], w
        (self.rows, self.p), self.B = X.shape, w.shape[1]
        self.lanes, self.scale, self.pool = self.B, np.ones(self.p), ThreadPool(1)
        self.total = w.sum(axis=0)
        self.nuisance_error = np.zeros(self.B)  # There are no nuisance parameters.
        self.nuisance_decrement = np.zeros(self.B)
        self.W, self.inside = np.empty(0, int), np.zeros(self.p, bool)
        self.place(np.zeros((self.p, self.B)))

    @property
    def entries(self):
        return self.rows * len(self.W)

    def asarray(self, x):
        return x

    def join(self, columns):
        new = np.setdiff1d(columns, self.W)
        self.W = np.concatenate([self.W, new])
        self.inside[new] = True
        return len(new)

    def set_prior(self, prior):
        return False

    def hessian_cost(self, coarse):
        return 3.0

    def nuisance(self, lane):
        return None

    def readmit(self, tol):
        return np.zeros(self.B, bool)

    def place(self, beta, like=None):
        self.eta = self.X @ beta
        self.loss = self.loss_at(self.eta)

    @property
    def data_loss(self):
        return self.loss

    def loss_at(self, eta):
        return (self.w * (np.logaddexp(0, eta) - self.y * eta)).sum(axis=0)

    def mean(self):
        return 1 / (1 + np.exp(-self.eta))

    def gradients(self, tol):
        return self.X.T @ (self.w * (self.mean() - self.y))

    def gradient(self):
        return self.gradients(0.0)[self.W]

    def along(self, D, live):
        return Direction(self, self.X[:, self.W] @ D)

    def curvature(self, lane, thin=1, accuracy="near"):
        p = self.mean()[:, lane]
        return None if thin > 1 else Curve(self, self.w[:, lane] * p * (1 - p))

    def relative(self, curvature):
        return None


class Direction:
    def __init__(self, term, d):
        self.term, self.d = term, d

    def loss(self, t):
        self.eta = self.term.eta + t * self.d
        self.value = self.term.loss_at(self.eta)
        return self.value

    def commit(self):
        self.term.eta, self.term.loss = self.eta, self.value


class Curve:
    grouped = False
    convex = True

    def __init__(self, term, v):
        self.term, self.v = term, v

    def matrix(self, first=0, rough=False):
        X = self.term.X[:, self.term.W]
        return X.T @ (self.v[:, None] * X)

    def diagonal(self):
        return np.diag(self.matrix()).copy()

    uncentred = diagonal

    def by_columns(self):
        return None

    def on_device(self, known, rough=False):
        return None

    def sent(self, G):
        return None
