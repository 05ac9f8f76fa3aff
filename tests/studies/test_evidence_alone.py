"""One archive combined alone gives its own numbers; no profile is guessed beyond its ends."""

import math
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from steropes.designs.effects.effect_estimate import estimate_effect
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.designs.evidence import Profile, combine_profiles, random_effects
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import combine_archives

NOT_BAYESIAN = ["fixed, profile", "fixed, normal", "random, normal"]
EFFECT = ["rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr"]
# people and events of the target, people and events of the comparator
ARMS = {
    "wide": (150, 5, 170, 1),
    "far above ten": (500, 12, 500, 1),
    "far below a tenth": (400, 1, 300, 12),
    "no events in the comparator": (300, 30, 300, 0),
    "no events in the target": (300, 0, 300, 10),
    "one event": (50, 1, 60, 0),
    "rare arm": (1000, 40, 3, 1),
    "precise": (9000, 1200, 9000, 1500),
}


def people(target, target_events, comparator, comparator_events, seed=0):
    rng = np.random.default_rng(seed)
    arms = ((1, target, target_events), (0, comparator, comparator_events))
    d = pd.DataFrame(
        {
            "treated": np.repeat([a for a, _, _ in arms], [n for _, n, _ in arms]),
            "event": np.concatenate([np.arange(n) < k for _, n, k in arms]).astype(int),
        }
    )
    d["time"] = np.where(d.event == 1, np.ceil(rng.uniform(0, 300, len(d))), 365.0)
    return d.assign(person_id=np.arange(len(d)), outcomes=d.event, days_at_risk=d.time)


def archive(path, estimate, database="d", **tables):
    key = {"target_comparator_id": 1, "outcome_id": 3, "analysis_id": 2, "database_id": database}
    effect = {
        "rr": ratio_of(estimate.log_rr), "ci_95_lb": ratio_of(estimate.lower),
        "ci_95_ub": ratio_of(estimate.upper), "log_rr": estimate.log_rr,
        "se_log_rr": estimate.se,
    }  # fmt: skip
    tables = {
        "cm_result": pd.DataFrame([{**key, **effect}]),
        "cm_diagnostics_summary": pd.DataFrame([{**key, "unblind_for_evidence_synthesis": 1}]),
        "cm_likelihood_profile": estimate.profile.assign(**key),
        "note": pd.DataFrame([{**key, "note": estimate.note, "interval": estimate.interval}]),
    } | tables
    with zipfile.ZipFile(path, "w") as file:
        for name, table in tables.items():
            if table is not None:
                file.writestr(f"{name}.csv", pd.DataFrame(table).to_csv(index=False))
    return path


def truncated(estimate, low, high):
    """The same estimate with a profile that is stored between two ratios only, as R's."""
    inside = estimate.profile["log_rr"].between(math.log(low), math.log(high))
    return replace(estimate, profile=estimate.profile[inside])


@pytest.mark.sampled
@pytest.mark.parametrize("arms", ARMS.values(), ids=ARMS)
def test_an_archive_combined_alone_gives_its_own_numbers(arms, tmp_path):
    own = estimate_effect(people(*arms))
    table = combine_archives([archive(tmp_path / "a.zip", own)]).set_index("method")
    wanted = [ratio_of(own.log_rr), ratio_of(own.lower), ratio_of(own.upper), own.log_rr, own.se]
    wanted = [x if math.isfinite(x) or k in (1, 2) else math.nan for k, x in enumerate(wanted)]
    for method in NOT_BAYESIAN:
        np.testing.assert_allclose(table.loc[method, EFFECT].astype(float), wanted, rtol=1e-12)
    assert table["databases"].tolist() == [1] * 4


@pytest.mark.parametrize("arms", ARMS.values(), ids=ARMS)
def test_a_stored_profile_has_the_estimate_and_the_limits_of_its_study(arms):
    d = people(*arms)
    groups, own = TwoGroupCox.of(d.time, d.event, d.treated), estimate_effect(d)
    stored = Profile(*(own.profile[c] for c in ("log_rr", "log_likelihood", "gradient")))
    found = combine_profiles([stored])
    assert (found.lower, found.upper) == pytest.approx(groups.interval(), abs=1e-9)
    assert found.log_rr == pytest.approx(groups.maximum(), abs=1e-6)
    span = np.linspace(max(stored.low, -40), min(stored.high, 40), 501)
    exact = groups.log_likelihood(span) - max(groups.log_likelihood(own.profile["log_rr"]))
    near = exact > -8
    np.testing.assert_allclose(stored(span)[near], exact[near], atol=1e-3)


@pytest.mark.parametrize("arms", ["wide", "no events in the target", "precise"])
def test_random_effects_of_a_stored_profile_are_those_of_the_exact_likelihood(arms):
    d = people(*ARMS[arms])
    groups, own = TwoGroupCox.of(d.time, d.event, d.treated), estimate_effect(d)
    stored = Profile(*(own.profile[c] for c in ("log_rr", "log_likelihood", "gradient")))
    found = random_effects([stored], points=201)
    exact = random_effects([groups.log_likelihood], points=201)
    for name in ("log_rr", "se", "lower", "upper", "predicted_lower", "predicted_upper"):
        apart = abs(getattr(found, name) - getattr(exact, name))
        assert apart < 0.01 * exact.se, name


def test_thirty_events_against_none_have_the_exact_posterior_of_one_database():
    """By a direct sum over μ and τ on fine grids, of the exact likelihood."""
    d = people(*ARMS["no events in the comparator"])
    groups, own = TwoGroupCox.of(d.time, d.event, d.treated), estimate_effect(d)
    b, tau = np.linspace(-6, 24, 1501), (np.arange(40) + 0.5) * 2.5 / 40
    likelihood = np.exp(groups.log_likelihood(b) - groups.log_likelihood(40.0))
    mean = np.linspace(-4, 16, 401)
    density = np.zeros(len(mean))
    for t in tau:
        kernel = np.exp(-0.5 * ((b - mean[:, None]) / t) ** 2) / t
        density += kernel @ likelihood * math.exp(-2 * t**2)
    density *= np.exp(-(mean**2) / 8)
    below = np.cumsum(density) - density / 2
    wanted = [mean @ density / density.sum(),
              *np.interp([0.025, 0.975], below / density.sum(), mean)]  # fmt: skip
    stored = Profile(*(own.profile[c] for c in ("log_rr", "log_likelihood", "gradient")))
    found = random_effects([stored])
    assert (found.log_rr, found.lower, found.upper) == pytest.approx(tuple(wanted), abs=0.01)


def test_random_effects_reach_as_far_as_the_likelihood():
    """300 events against none: the mean goes on beyond eight log units, where the grid ended."""
    d = people(300, 300, 3000, 0)
    d["time"] = np.where(d.treated == 1, 5.0, 365.0)
    groups = TwoGroupCox.of(d.time, d.event, d.treated)
    lower = groups.interval()[0]
    assert lower > 5
    found = random_effects([groups.log_likelihood])
    assert found.upper > 8
    far = random_effects([lambda b: -(((b - 30) / 0.1) ** 2) / 2], tau_sd=0.1)
    precision = 1 / (0.1**2) + 1 / 4
    assert found.lower < found.log_rr < found.upper
    assert far.log_rr == pytest.approx(30 * 100 / precision, abs=0.5)


def test_a_profile_refuses_to_be_evaluated_beyond_its_points():
    x = np.linspace(-2, 2, 21)
    profile = Profile(x, -2 * x**2, -4 * x, name="here")
    assert profile([-2.0, 2.0]).tolist() == pytest.approx([-8, -8])
    for beyond in (-2.01, 2.01, [0.0, 9.0]):
        with pytest.raises(DataError, match="the profile of here is stored between -2 and 2 and"):
            profile(beyond)


def test_a_flat_side_is_known_without_end_and_a_maximum_at_the_last_point_is_not_flat():
    x = np.linspace(-5, 30, 141)
    rising = Profile(x, -30 * np.log1p(np.exp(-x)), 30 / (1 + np.exp(x)))
    assert rising.high == math.inf
    assert rising(1e6) == pytest.approx(0, abs=1e-9)
    found = combine_profiles([rising])
    assert (found.log_rr, found.upper, found.se) == (math.inf,) * 3
    assert found.lower == pytest.approx(-math.log(math.expm1(1.92073 / 30)), abs=1e-4)
    half = np.linspace(-3, 0, 31)
    assert Profile(half, -2 * half**2, -4 * half).high == 0.0


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("wide", "the interval reaches beyond the upper end"),
        ("far below a tenth", "they rise to the lower end"),
        ("no events in the comparator", "they rise to the upper end"),
        ("no events in the target", "they rise to the lower end"),
    ],
)
def test_a_narrow_profile_gives_no_pooled_number_but_a_reason(arms, message, tmp_path):
    own = truncated(estimate_effect(people(*ARMS[arms])), 0.1, 10)
    other = truncated(estimate_effect(people(*ARMS[arms], seed=1)), 0.1, 10)
    paths = [archive(tmp_path / f"{k}.zip", e, f"d{k}") for k, e in enumerate((own, other))]
    table = combine_archives(paths).set_index("method")
    for method in ("fixed, profile", "random, Bayesian"):
        assert table.loc[method, ["rr", "ci_95_lb", "ci_95_ub"]].isna().all()
        assert "the profile of d" in table.loc[method, "note"]
    assert message in table.loc["fixed, profile", "note"]
    alone = combine_archives(paths[:1]).set_index("method").loc["fixed, profile"]
    assert alone["ci_95_ub"] == pytest.approx(ratio_of(own.upper))


def test_a_narrow_profile_takes_part_where_another_decides():
    wide = truncated(estimate_effect(people(*ARMS["wide"])), 0.1, 10).profile
    precise = estimate_effect(people(*ARMS["precise"])).profile
    whole = estimate_effect(people(*ARMS["wide"])).profile
    columns = ["log_rr", "log_likelihood", "gradient"]
    narrow, full, sharp = (Profile(*t[columns].to_numpy().T) for t in (wide, whole, precise))
    found, wanted = combine_profiles([narrow, sharp]), combine_profiles([full, sharp])
    assert (found.log_rr, found.lower, found.upper) == pytest.approx(
        (wanted.log_rr, wanted.lower, wanted.upper), abs=1e-6
    )


def test_profiles_without_a_common_effect_are_named():
    x = np.linspace(-1, 1, 9)
    left, right = (Profile(x + c, -(x**2), -2 * x, name=n) for c, n in ((0, "a"), (5, "b")))
    with pytest.raises(DataError, match=r"profile of a between -1 and 1, the profile of b betw"):
        combine_profiles([left, right])


def test_several_databases_without_events_in_one_arm_have_the_interval_of_the_pooled_strata():
    parts = [people(*ARMS[k], seed=s) for s, k in enumerate(("one event", "one event"))]
    both = pd.concat(parts, ignore_index=True)
    groups = TwoGroupCox.of(both.time, both.event, both.treated, strata=np.repeat([0, 1], 110))
    stored = [estimate_effect(d).profile for d in parts]
    found = combine_profiles([Profile(*t.to_numpy().T) for t in stored])
    assert (found.log_rr, found.upper) == (math.inf, math.inf)
    assert found.lower == pytest.approx(groups.interval()[0], abs=1e-4)


def test_a_combination_without_a_finite_ratio_says_so_and_has_one_limit(tmp_path):
    paths = [
        archive(tmp_path / f"{k}.zip", estimate_effect(people(*ARMS["one event"], seed=k)), f"d{k}")
        for k in range(2)
    ]
    line = combine_archives(paths).set_index("method").loc["fixed, profile"]
    assert math.isnan(line["rr"])
    assert 0 < line["ci_95_lb"] < math.inf == line["ci_95_ub"]
    assert "keeps rising, so there is no finite estimate" in line["note"]


@pytest.mark.parametrize(("arms", "lowest", "highest"), [("wide", 0.5, 2), ("precise", 0.01, 50)])
def test_a_profile_is_stored_over_its_interval_and_over_the_range_that_is_asked(
    arms, lowest, highest
):
    own = estimate_effect(people(*ARMS[arms]), OutcomeModel(lowest=lowest, highest=highest))
    low, high = own.profile["log_rr"].min(), own.profile["log_rr"].max()
    assert low <= math.log(lowest)
    assert high >= math.log(highest)
    assert low < own.lower < own.upper < high
    assert own.profile["log_likelihood"].iloc[[0, -1]].max() < -15


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_profiles_by_refits_are_stored_as_far(kind):
    own = estimate_effect(people(*ARMS["wide"]), OutcomeModel(kind=kind))
    stored = Profile(*own.profile.to_numpy().T)
    found = combine_profiles([stored])
    assert (found.log_rr, found.lower, found.upper) == pytest.approx(
        (own.log_rr, own.lower, own.upper), abs=1e-6
    )
    assert own.profile["log_likelihood"].iloc[[0, -1]].max() < -15
