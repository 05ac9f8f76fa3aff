"""The row likelihood: derivatives and tails."""

import numpy as np
import pytest
from scipy import special, stats

from steropes.likelihoods.cumulative import CODES
from steropes.likelihoods.cumulative.interval_log_probabilities import interval

DIST = {
    "logit": stats.logistic,
    "probit": stats.norm,
    "loglog": stats.gumbel_r,
    "cloglog": stats.gumbel_l,
    "cauchit": stats.cauchy,
}
POINTS = [(-3.0, 0.4), (-0.5, 0.02), (0.0, 1.0), (0.7, 2.5), (1.5, 6.0)]


@pytest.mark.parametrize("link", CODES)
@pytest.mark.parametrize(("b", "gap"), POINTS)
def test_value_is_log_difference_of_scipys_cdf(link, b, gap):
    F = DIST[link].cdf
    value = interval(CODES[link], b + gap, b, gap, True, True)[0]
    assert value == pytest.approx(np.log(F(b + gap) - F(b)), rel=1e-10)


@pytest.mark.parametrize("link", CODES)
@pytest.mark.parametrize(("b", "gap"), POINTS)
@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("up", [True, False])
def test_derivatives_are_those_of_the_value(link, b, gap, low, up):
    if not (low or up):
        return
    a, h = b + gap, 1e-5 * min(gap, 1.0)

    def at(da, db):
        return interval(CODES[link], a + da, b + db, gap + da - db, low, up)

    _, la, lb, s, ua, ub, w = at(0, 0)
    assert (at(h, 0)[0] - at(-h, 0)[0]) / (2 * h) == pytest.approx(la, rel=1e-6, abs=1e-8)
    assert (at(0, h)[0] - at(0, -h)[0]) / (2 * h) == pytest.approx(lb, rel=1e-6, abs=1e-8)
    assert la + lb == pytest.approx(s, rel=1e-9, abs=1e-12)
    scale = abs(w) * 1e-5 + 1e-6
    assert -(at(h, 0)[3] - at(-h, 0)[3]) / (2 * h) == pytest.approx(ua, rel=1e-5, abs=scale)
    assert -(at(0, h)[3] - at(0, -h)[3]) / (2 * h) == pytest.approx(ub, rel=1e-5, abs=scale)
    assert (at(0, h)[1] - at(0, -h)[1]) / (2 * h) == pytest.approx(w, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("link", CODES)
@pytest.mark.parametrize("m", [-3.0, -0.4, 0.0, 1.1, 2.5])
def test_narrow_intervals_tend_to_the_density(link, m):
    """D = gap f(m) and u = −(log f)''/2 as the interval closes, at any width of double."""
    h = 1e-4
    g = DIST[link].logpdf
    curvature = -(g(m + h) - 2 * g(m) + g(m - h)) / h**2
    slope = (g(m + h) - g(m - h)) / (2 * h)
    for gap in (1e-4, 1e-8, 1e-12):
        value, _, _, s, ua, ub, w = interval(CODES[link], m + gap / 2, m - gap / 2, gap, True, True)
        assert value == pytest.approx(np.log(gap) + g(m), rel=1e-7)
        assert s == pytest.approx(slope, rel=1e-3, abs=1e-6)
        assert ua == pytest.approx(curvature / 2, rel=1e-3, abs=1e-3)
        assert ub == pytest.approx(curvature / 2, rel=1e-3, abs=1e-3)
        assert w == pytest.approx(1 / gap**2, rel=1e-3)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_tails_keep_their_digits(sign):
    a, b = (sign * 40.0, sign * 40.0 - 0.5)
    value = interval(CODES["probit"], a, b, 0.5, True, True)[0]
    inner = min(abs(a), abs(b))
    expected = special.log_ndtr(-inner) + np.log1p(
        -np.exp(special.log_ndtr(-inner - 0.5) - special.log_ndtr(-inner))
    )
    assert value == pytest.approx(expected, rel=1e-12)
    logit = interval(CODES["logit"], sign * 300.0 + 1, sign * 300.0, 1.0, True, True)
    assert np.isfinite(logit).all()
    assert logit[0] == pytest.approx(-300.0 + (0 if sign > 0 else 1) + np.log(1 - np.exp(-1.0)))
    for link in ("loglog", "cloglog"):
        out = interval(CODES[link], sign * 6.0 + 1e-3, sign * 6.0, 1e-3, True, True)
        assert np.isfinite(out).all()


@pytest.mark.parametrize("x", [-30.0, -8.0, 0.0, 5.5, 30.0])
def test_one_sided_probit_is_log_ndtr(x):
    left = interval(CODES["probit"], x, 0.0, 0.0, False, True)
    right = interval(CODES["probit"], 0.0, -x, 0.0, True, False)
    assert left[0] == pytest.approx(special.log_ndtr(x), rel=1e-12)
    assert right[0] == pytest.approx(left[0], rel=1e-14)
    assert left[4] >= 0
    assert right[5] == pytest.approx(left[4], rel=1e-12)
