"""Evidence of several databases: profiles, normal estimates, random effects, archives."""

import dataclasses
import math
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.designs.evidence import Profile, combine_normal, combine_profiles, random_effects
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import combine_archives
from steropes.studies.cli.command_line import run

Y, S = np.array([0.3, 0.1, 0.7, -0.2]), np.array([0.2, 0.35, 0.3, 0.15])


def normal(y, s, points=None):
    x = np.linspace(-3, 3, 61) if points is None else points
    return Profile(x, -(((x - y) / s) ** 2) / 2, -(x - y) / s**2)


def test_fixed_effects_are_weighted_means():
    """R: meta::metagen(Y, S), common effect."""
    w = 1 / S**2
    found = combine_normal(Y, S)
    assert found.log_rr == pytest.approx((w * Y).sum() / w.sum())
    assert found.se == pytest.approx(w.sum() ** -0.5)
    q = (w * (Y - found.log_rr) ** 2).sum()
    assert found.i_squared == pytest.approx(max(0, (q - 3) / q))
    random = combine_normal(Y, S, random=True)
    tau2 = (q - 3) / (w.sum() - (w**2).sum() / w.sum())
    assert random.tau == pytest.approx(math.sqrt(tau2))
    assert random.se == pytest.approx((1 / (S**2 + tau2)).sum() ** -0.5)


def test_normal_profiles_give_what_their_estimates_give():
    wanted = combine_normal(Y, S)
    found = combine_profiles([normal(y, s) for y, s in zip(Y, S, strict=True)])
    np.testing.assert_allclose(
        [found.log_rr, found.se, found.lower, found.upper],
        [wanted.log_rr, wanted.se, wanted.lower, wanted.upper],
        atol=2e-4,
    )


def test_profiles_of_parts_give_the_fit_stratified_by_part():
    rng = np.random.default_rng(1)
    part, treated = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    time = np.ceil(rng.exponential(30 * np.exp(-0.5 * treated) * (1 + part)))
    event = time < 60
    points = np.linspace(-3, 3, 25)
    profiles = []
    for k in range(3):
        g = TwoGroupCox.of(*(a[part == k] for a in (time, event, treated)))
        profiles.append(Profile(points, g.log_likelihood(points), g.gradient(points)))
    whole = TwoGroupCox.of(time, event, treated, strata=part)
    found = combine_profiles(profiles)
    assert found.log_rr == pytest.approx(whole.maximum(), abs=1e-4)
    np.testing.assert_allclose([found.lower, found.upper], whole.interval(), atol=1e-4)


def test_a_database_without_events_in_an_arm_takes_part():
    one_sided = Profile(np.linspace(-3, 3, 30), -np.exp(np.linspace(-3, 3, 30)))
    alone = normal(0.5, 0.3)
    both = combine_profiles([alone, one_sided])
    assert both.log_rr < 0.5
    with pytest.raises(DataError, match="keep rising"):
        combine_profiles([Profile([-1, 1], [0.0, 1.0])])


def test_random_effects_without_spread_between_databases_are_near_the_fixed():
    likelihoods = [normal(0.4, 0.2) for _ in range(12)]
    found = random_effects(likelihoods, tau_sd=1e-4)
    # with hardly any τ the posterior is normal: precision 12 / 0.04 and the prior's 1/4
    precision = 12 / 0.04 + 0.25
    assert found.log_rr == pytest.approx(0.4 * 12 / 0.04 / precision, abs=1e-3)
    assert found.se == pytest.approx(precision**-0.5, rel=1e-2)
    assert found.lower == pytest.approx(found.log_rr - 1.96 * found.se, abs=5e-3)


@pytest.mark.parametrize(
    "parameters",  # of R's approximation "custom", which rises to the same level as the maximum
    [
        [(0.636, 0.085, -0.456), (1.217, 0.186, -0.292)],
        [(1.8, 0.598, 0.5), (-0.206, 0.067, -0.129), (-0.953, 0.341, -0.5), (0.561, 0.45, -0.183)],
    ],
)
def test_narrow_likelihoods_that_rise_again_far_away_agree_with_a_direct_double_integral(
    parameters,
):
    def custom(b, mu, sigma, gamma):
        return -np.exp(gamma * (b - mu)) * ((b - mu) / sigma) ** 2 / 2

    found = random_effects([lambda b, p=p: custom(b, *p) for p in parameters])
    b, m, t = np.linspace(-5, 7, 601), np.linspace(-3, 5, 161), np.linspace(0.02, 2.46, 62)
    posterior = np.exp(-(m[:, None] ** 2) / 8 - t**2 / 0.5)
    density = np.exp(-0.5 * ((b[:, None, None] - m[:, None]) / t) ** 2) / t
    for p in parameters:
        posterior *= np.tensordot(np.exp(custom(b, *p)), density, 1)
    posterior /= posterior.sum()
    of_m, below = posterior.sum(axis=1), np.cumsum(posterior.sum(axis=0))
    assert found.log_rr == pytest.approx(m @ of_m, abs=2e-3)
    assert found.se == pytest.approx(math.sqrt((m - m @ of_m) ** 2 @ of_m), rel=0.01)
    assert found.tau == pytest.approx(np.interp(0.5, below, t + 0.02), rel=0.01)


@pytest.mark.parametrize(
    ("y", "s"),
    [
        pytest.param(Y, S, marks=pytest.mark.slow),
        ([0.5], [0.02]),
        ([-0.653, 0.659, -0.612], [0.579, 0.016, 0.564]),  # the precise one contradicts the rest
        ([2.4, -0.1, 1.0], [0.7, 0.065, 0.3]),
    ],
)
def test_random_effects_agree_with_a_direct_double_integral(y, s):
    m, t = np.linspace(-8, 8, 8001), (np.arange(1000) + 0.5) * 0.003
    log_joint = -(m[:, None] ** 2) / 8 - t**2 / 0.5
    for y_, s_ in zip(y, s, strict=True):
        v = s_**2 + t**2
        log_joint = log_joint - (y_ - m[:, None]) ** 2 / (2 * v) - np.log(v) / 2
    p = np.exp(log_joint - log_joint.max()).sum(axis=1)
    p /= p.sum()
    found = random_effects(
        [lambda b, y=y_, s=s_: -(((b - y) / s) ** 2) / 2 for y_, s_ in zip(y, s, strict=True)]
    )
    assert found.log_rr == pytest.approx(float(m @ p), abs=2e-3)
    assert found.se == pytest.approx(math.sqrt(float((m - m @ p) ** 2 @ p)), abs=2e-3)
    ends = np.interp([0.025, 0.975], np.cumsum(p) - p / 2, m)
    assert (found.lower, found.upper) == pytest.approx(tuple(ends), abs=5e-3)
    assert found.predicted_lower < found.lower < found.log_rr < found.upper < found.predicted_upper


def given_tau(y, s):
    """Posterior of μ by a fine grid of τ: given τ it is normal. Mean, sd, limits; those of τ."""
    y, s, t = np.array(y)[:, None], np.array(s)[:, None], np.linspace(0, 1, 20001) ** 3 * 2.75
    v = s**2 + t**2
    precision = (1 / v).sum(axis=0) + 0.25
    m, sd = (y / v).sum(axis=0) / precision, precision**-0.5
    log_p = -(np.log(v) + y**2 / v).sum(axis=0) / 2 + m**2 * precision / 2
    log_p += -np.log(precision) / 2 - 2 * t**2
    p = np.exp(log_p - log_p.max()) * np.gradient(t)
    p /= p.sum()
    mean = float(m @ p)
    spread = math.sqrt(float((sd**2 + (m - mean) ** 2) @ p))
    ends = [brentq(lambda x, q=q: p @ ndtr((x - m) / sd) - q, -20, 20) for q in (0.025, 0.975)]
    wide = np.hypot(sd, t)
    new = [brentq(lambda x, q=q: p @ ndtr((x - m) / wide) - q, -20, 20) for q in (0.025, 0.975)]
    taus = np.interp([0.5, 0.025, 0.975], np.cumsum(p) - p / 2, t)
    return np.array([mean, spread, *ends, *taus, *new])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("y", "s"),
    [
        ([0.3001, 0.3013, 0.2987, 0.3003], [0.0011, 0.0015, 0.0018, 0.0012]),
        ([0.1234] * 10, [0.004] * 10),
        ([0.46, 0.5, 0.39, 0.5, 0.57, 0.51], [0.426, 0.23, 0.2, 0.131, 0.307, 0.037]),
        (
            [-0.32, 2.1, 1.25, 4.06, 1.02, 3.0, -0.79, 0.65, 0.82, 3.3],
            [0.153, 0.366, 0.215, 0.053, 2.563, 0.724, 1.391, 0.156, 2.328, 1.265],
        ),
    ],
)
def test_random_effects_are_as_exact_however_narrow_or_contradictory_the_likelihoods(y, s):
    found = random_effects(
        [lambda b, y=y_, s=s_: -(((b - y) / s) ** 2) / 2 for y_, s_ in zip(y, s, strict=True)]
    )
    exact = given_tau(y, s)
    apart = np.abs(np.array(dataclasses.astuple(found)[:-1]) - exact) / exact[1]
    assert apart[:4].max() < 0.02, apart.round(3)
    assert apart[4:].max() < 0.06, apart.round(3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: random_effects([lambda b: b * np.nan]), "likelihood 0 .* not a number"),
        (lambda: random_effects([lambda b: b * 0, lambda b: b * 0 - np.inf]), "likelihood 1 "),
        (lambda: random_effects([lambda b: 0.0]), "likelihood 0 returns"),
        (lambda: random_effects([normal(0, 1)], tau_sd=0), "tau_sd must be a positive number"),
        (lambda: random_effects([normal(0, 1)], mean_sd=np.nan), "mean_sd must be a positive"),
        (lambda: random_effects([normal(0, 1)], points=1), "points must be 10 or more"),
        (lambda: combine_normal([0.1, 0.2, 0.3], [0.1, 0.2]), "shapes must agree"),
        (lambda: Profile([-1, 0, 1], [0, 1]), "one value per point"),
        (lambda: Profile([-1, 0, 1], [0, 1, 0], [1, -1]), "one value per point"),
        (lambda: Profile([-1, 0, 1], [0, 1, 0], [1, np.nan, -1]), "missing or infinite"),
    ],
)
def test_what_cannot_be_combined_is_refused_by_name(make, said):
    with pytest.raises(DataError, match=said):
        make()


def archive(path, database, y, s, unblind=1):
    key = {"target_comparator_id": 1, "outcome_id": 3, "analysis_id": 2, "database_id": database}
    x = np.linspace(-2, 2, 21)
    tables = {
        "cm_result": pd.DataFrame([{**key, "log_rr": y, "se_log_rr": s}]),
        "cm_diagnostics_summary": pd.DataFrame(
            [{**key, "unblind_for_evidence_synthesis": unblind}]
        ),
        "cm_likelihood_profile": pd.DataFrame(
            {"log_rr": x, "log_likelihood": -(((x - y) / s) ** 2) / 2, "gradient": -(x - y) / s**2}
        ).assign(**key),
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, table in tables.items():
            file.writestr(f"{name}.csv", table.to_csv(index=False))
    return path


def test_archives_are_combined_and_blinded_results_left_out(tmp_path):
    paths = [
        archive(tmp_path / f"{i}.zip", f"d{i}", y, s, int(i < 3))
        for i, (y, s) in enumerate(zip(Y, S, strict=True))
    ]
    found = combine_archives(paths).set_index("method")
    wanted = combine_normal(Y[:3], S[:3])
    assert found.loc["fixed, normal", "databases"] == 3
    assert found.loc["fixed, profile", "log_rr"] == pytest.approx(wanted.log_rr, abs=1e-4)
    assert combine_archives(paths, unblind=True)["databases"].tolist() == [4] * 4
    with pytest.raises(DataError, match=r"2 archives contain 1 database: d0 is in .*0\.zip and in"):
        combine_archives([paths[0], paths[0]])
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(DataError, match="is not an archive"):
        combine_archives([tmp_path / "no.zip"])


def flagged(path, unblind, truth=None):
    """An archive whose result takes part in synthesis, with the flag that pages follow."""
    head, row = b",unblind\n", f",{unblind}\n".encode()
    rewritten(
        path,
        "cm_diagnostics_summary",
        lambda text: text.splitlines()[0] + head + text.splitlines()[1] + row,
    )
    known = "" if truth is None else truth
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(
            "cm_target_comparator_outcome.csv",
            "target_comparator_id,outcome_id,true_effect_size,outcome_of_interest\n"
            f"1,3,{known},{int(truth is None)}\n",
        )
    return path


def test_the_hidden_estimate_of_the_only_database_is_in_no_output(tmp_path, capsys):
    y = 1.2345678
    path = flagged(archive(tmp_path / "a.zip", "north", y, 0.4), unblind=0)
    found = combine_archives([path])
    assert found[["rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr", "tau"]].isna().all(axis=None)
    assert found["note"].str.startswith("not shown: the only database").all()
    run(["combine", str(path), "--output", str(tmp_path / "all.csv")])
    texts = capsys.readouterr().out + (tmp_path / "all.csv").read_text()
    assert "not shown" in texts
    for x in (y, math.exp(y), math.exp(y - 1.96 * 0.4), math.exp(y + 1.96 * 0.4)):
        assert f"{x:.2f}" not in texts
    shown = combine_archives([path], unblind=True)
    assert shown.set_index("method").loc["fixed, normal", "log_rr"] == pytest.approx(y)


def test_a_database_without_an_estimate_does_not_reveal_the_hidden_one(tmp_path):
    hidden = flagged(archive(tmp_path / "a.zip", "north", 1.2, 0.4), unblind=0)
    empty = archive(tmp_path / "b.zip", "south", math.nan, math.nan)
    flat = "log_rr,log_likelihood,target_comparator_id,outcome_id,analysis_id,database_id\n"
    flat += "".join(f"{x},0,1,3,2,south\n" for x in (-2, -1, 0, 1, 2))
    rewritten(empty, "cm_likelihood_profile", lambda _: flat.encode())
    assert combine_archives([hidden, empty])["rr"].isna().all()


@pytest.mark.parametrize(("unblind", "truth"), [(1, None), (0, 1.0)])
def test_an_estimate_that_passes_and_that_of_a_control_are_shown_alone(tmp_path, unblind, truth):
    path = flagged(archive(tmp_path / "a.zip", "north", 0.3, 0.4), unblind, truth)
    found = combine_archives([path]).set_index("method")
    assert found.loc["fixed, normal", "log_rr"] == pytest.approx(0.3)


def test_hidden_estimates_are_combined_with_others(tmp_path):
    """Databases without power are the reason for a meta-analysis."""
    paths = [
        flagged(archive(tmp_path / f"{i}.zip", f"d{i}", y, s), unblind=0)
        for i, (y, s) in enumerate(zip(Y, S, strict=True))
    ]
    found = combine_archives(paths).set_index("method")
    assert found.loc["fixed, normal", "log_rr"] == pytest.approx(combine_normal(Y, S).log_rr)


def rewritten(path, table, change):
    """An archive with another text of one of its tables."""
    with zipfile.ZipFile(path) as file:
        texts = {name: file.read(name) for name in file.namelist()}
    texts[f"{table}.csv"] = change(texts[f"{table}.csv"])
    with zipfile.ZipFile(path, "w") as file:
        for name, text in texts.items():
            file.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("cm_result", lambda text: b"", "b.zip is not an archive of results: No columns"),
        ("cm_result", lambda text: b"\xff\xfe\x00", "b.zip is not an archive of results"),
        ("cm_result", lambda text: text.replace(b"0.5", b"much"), "is not an archive of results"),
        (
            "cm_likelihood_profile",
            lambda text: text.replace(b"log_likelihood", b"value"),
            "b.zip: cm_likelihood_profile.csv lacks the columns log_likelihood",
        ),
        (
            "cm_result",
            lambda text: text.replace(b"database_id", b"database"),
            "b.zip: cm_result.csv lacks the columns database_id",
        ),
    ],
)
def test_archives_that_cannot_be_read_are_named(tmp_path, table, change, message):
    good = archive(tmp_path / "a.zip", "a", 0.1, 0.2)
    bad = rewritten(archive(tmp_path / "b.zip", "b", 0.5, 0.2), table, change)
    with pytest.raises(DataError, match=message):
        combine_archives([good, bad])


def test_a_database_without_any_result_takes_no_part(tmp_path):
    good = archive(tmp_path / "a.zip", "a", 0.1, 0.2)
    empty = archive(tmp_path / "b.zip", "b", 0.5, 0.2)
    for table in ("cm_result", "cm_diagnostics_summary", "cm_likelihood_profile"):
        rewritten(empty, table, lambda text: text.splitlines()[0] + b"\n")
    found = combine_archives([good, empty])
    assert found["databases"].tolist() == [1] * 4
    pd.testing.assert_frame_equal(found, combine_archives([good]))
    assert combine_archives([empty]).empty


def test_a_profile_with_gaps_is_told_by_database_and_stops_its_own_lines_alone(tmp_path):
    good = archive(tmp_path / "a.zip", "a", 0.1, 0.2)
    bad = archive(tmp_path / "b.zip", "b", 0.5, 0.2)
    rewritten(bad, "cm_likelihood_profile", lambda text: text.replace(b"\n-2.0,", b"\n,"))
    found = combine_archives([good, bad]).set_index("method")
    assert found.loc["fixed, normal", "databases"] == 2
    for method in ("fixed, profile", "random, Bayesian"):
        assert found.loc[method, "note"].startswith("database b: a profile has points")
