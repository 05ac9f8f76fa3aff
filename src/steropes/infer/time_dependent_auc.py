"""Cumulative/dynamic AUC of a score for survival outcomes, with standard errors.

With cases i (T_i ≤ t, event), controls j and the Kaplan–Meier curve Ĝ of censoring,

    AUC(t) = Σ_i Σ_j a_i b_j [I(s_i > s_j) + ½ I(s_i = s_j)] / (Σ_i a_i Σ_j b_j),
    a_i = w_i / Ĝ(T_i−),   b_j = w_j / Ĝ(t) if T_j > t

(Uno, Cai, Tian and Wei 2007, JASA 102:527; Hung and Chiang 2010, Can J Stat 38:8). People with a
competing event by t are controls, too, with b_j = w_j / Ĝ(T_j−) (Blanche, Dartigues and
Jacqmin-Gadda 2013, Statistics in Medicine 32:5381, eq. 4). Events precede censorings at equal
times, so that an event at T is seen with probability G(T−); the first two papers assume continuous
times, where G(T−) = G(T). With Ĝ(T−) the weighted share of cases is exactly one minus the
Kaplan–Meier curve at t (Satten and Datta 2001, American Statistician 55:207), whereas
scikit-survival uses Ĝ(T). The standard error is that of the infinitesimal jackknife: it uses the
derivatives with respect to the rows' weights, including those of Ĝ.
"""

from __future__ import annotations

import numpy as np

from ..errors import DataError

__all__ = ["CensoringWeights", "auc_at"]


class CensoringWeights:
    """Ĝ just before each row's time, with its derivatives with respect to the rows' weights.

    Parameters
    ----------
    time, event, weight : (n,) arrays
    """

    def __init__(self, time: np.ndarray, event: np.ndarray, weight: np.ndarray) -> None:
        self.weight = weight
        times, self.place = np.unique(time, return_inverse=True)
        self.m = len(times)
        self.censored = event == 0
        left = np.bincount(self.place, weights=weight * self.censored, minlength=self.m)
        later = np.append(np.cumsum(np.bincount(self.place, weights=weight)[::-1])[::-1][1:], 0.0)
        some = left > 0
        n = left + later
        self._n = np.where(some, n, 1.0)
        # If no one remains afterwards, Ĝ is not used after this time.
        self._later = np.where(some & (later > 0), later, 1.0)
        self._some = some & (later > 0)
        step = np.where(self._some, np.log(self._later / self._n), 0.0)
        self.before = np.exp(np.append(0.0, np.cumsum(step)))[self.place]  # Ĝ(T−)

    def derivative(self, c: np.ndarray) -> np.ndarray:
        """Compute Σ_i c_i w_l ∂ log Ĝ(T_i−) / ∂w_l for each row l, (n,)."""
        at = np.bincount(self.place, weights=c, minlength=self.m)
        P = np.append(np.cumsum(at[::-1])[::-1][1:], 0.0)  # Σ of c over the rows later than u
        drift = np.where(self._some, P * (1.0 / self._later - 1.0 / self._n), 0.0)
        own = np.where(self._some, P / self._n, 0.0)
        earlier = np.append(0.0, np.cumsum(drift))[self.place]
        return self.weight * (earlier - self.censored * own[self.place])


def auc_at(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    t: float,
    censoring: CensoringWeights,
    cause: int = 1,
) -> tuple[float, float]:
    """Compute AUC(t) and its standard error.

    Parameters
    ----------
    score, time, event : (n,) arrays
        Higher scores mean a higher risk.
    censoring : CensoringWeights
        Censoring weights of the same rows, with the rows' own weights.
    cause : int
        Code of the event of interest.

    Raises
    ------
    DataError
        There are no cases or no controls at t.
    """
    w = censoring.weight
    case = (event == cause) & (time <= t) & (w > 0)
    later = (time > t) & (w > 0)
    other = (event > 0) & (event != cause) & (time <= t) & (w > 0)
    control = later | other
    for some, missing in ((case, "had the event by then"), (control, "is known to be free of it")):
        if not some.any():
            raise DataError(f"The AUC at time {t:g} needs cases and controls: nobody {missing}.")
    a = np.where(case, w / censoring.before, 0.0)
    b = np.where(other, w / censoring.before, 0.0)
    # Ĝ(t) is Ĝ just before the next time at which anyone leaves observation.
    following = int(np.where(later, time, np.inf).argmin())
    if later.any():
        b[later] = w[later] / censoring.before[following]
    A, B = a.sum(), b.sum()
    below = _share_below(score[case], score[control], b[control])
    above = 1.0 - _share_below(score[control], score[case], a[case])
    auc = float(a[case] @ below / A)
    influence = np.zeros(len(time))
    influence[case] = a[case] * (below - auc) / A
    influence[control] = b[control] * (above - auc) / B
    own = np.where(case | other, influence, 0.0)
    own[following] += influence[later].sum()
    influence -= censoring.derivative(own)
    return auc, float(np.sqrt(influence @ influence))


def _share_below(x: np.ndarray, of: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Compute the weighted share of ``of`` below each x, counting ties one half."""
    by = np.argsort(of, kind="stable")
    sums = np.append(0.0, np.cumsum(weight[by]))
    lower = sums[np.searchsorted(of[by], x, side="left")]
    upper = sums[np.searchsorted(of[by], x, side="right")]
    return (lower + upper) / (2.0 * sums[-1])
