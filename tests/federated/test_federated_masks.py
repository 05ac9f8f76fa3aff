"""Fixed-point sums are exact, and masks hide them and cancel."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from federated_data import OPEN, plan_of, run, site_tables
from owners import owners_of

from steropes import LogisticRegression
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, Message, PublicKeys, SiteKeys
from steropes.federated.answer_layout import layout, pack, total_of
from steropes.federated.federated_site import FederatedSite as Site
from steropes.federated.fixed_point_sums import (
    LARGEST,
    add,
    decode,
    encode,
    from_bytes,
    negate,
    to_bytes,
)
from steropes.studies.federation import federate


def numbers(rng, n=300):
    x = rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n)
    return np.concatenate([x, [0.0, 1.0, -1.0, LARGEST, -LARGEST, 2.0**-96, -(2.0**-96)]])


def test_a_number_is_rounded_to_the_nearest_multiple_of_the_unit(rng):
    x = numbers(rng)
    for value, limbs in zip(x, encode(x), strict=True):
        whole = sum(int(v) << (64 * k) for k, v in enumerate(limbs))
        whole -= (whole >> 191) << 192
        assert abs(Fraction(whole, 2**96) - Fraction(value)) <= Fraction(1, 2**97)
    np.testing.assert_allclose(decode(encode(x)), x, rtol=1e-15, atol=2.0**-96)


def test_addition_is_that_of_whole_numbers_modulo_2_192(rng):
    a, b = (rng.integers(0, 2**64, (200, 3), np.uint64) for _ in range(2))
    a[:3], b[:3] = np.uint64(2**64 - 1), np.uint64(1)

    def whole(x):
        return [sum(int(v) << (64 * k) for k, v in enumerate(row)) for row in x]

    for x, y, z in zip(whole(a), whole(b), whole(add(a, b)), strict=True):
        assert z == (x + y) % 2**192
    assert not add(a, negate(a)).any()


def test_totals_do_not_depend_on_the_order_of_the_sites(rng):
    parts = [encode(numbers(rng)) for _ in range(4)]
    totals = set()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        total = np.zeros_like(parts[0])
        for k in order:
            total = add(total, parts[k])
        totals.add(to_bytes(total))
    assert len(totals) == 1


@pytest.mark.parametrize("x", [np.inf, np.nan, 2.0**81, -(2.0**81)])
def test_numbers_that_overflow_are_refused(x):
    with pytest.raises(OverflowError):
        encode(np.array([1.0, x]))


@pytest.mark.parametrize("n", [3, 4, 7])
def test_masks_of_all_sites_cancel_and_those_of_fewer_do_not(n, rng):
    names = [f"s{k}" for k in range(n)]
    keys = {s: SiteKeys.generate() for s in names}
    public = {s: k.public for s, k in keys.items()}
    masks = [keys[s].mask(s, {o: p for o, p in public.items() if o != s}, b"a", 50) for s in names]
    total = np.zeros((50, 3), np.uint64)
    for k, mask in enumerate(masks):
        assert total.any() or k == 0
        total = add(total, mask)
    assert not total.any()
    other = keys["s0"].mask("s0", {o: p for o, p in public.items() if o != "s0"}, b"b", 50)
    assert (other != masks[0]).mean() > 0.99  # each context has masks of its own


def test_a_masked_answer_looks_random():
    """The same sums twice, under two requests: no limb is alike, and bits are balanced."""
    tables = site_tables("logistic")
    plan, heard = plan_of("logistic", tables), []
    sites = {s: FederatedSite(s, d, OPEN) for s, d in tables.items()}
    answer = Site.answer

    def listen(self, *given):
        heard.append(answer(self, *given))
        return heard[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "answer", listen)
        federate(plan, sites)
    for message in heard:
        bits = np.unpackbits(np.frombuffer(message.sums, np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(bits))
        assert not message.arrays
        assert not message.values


def test_sums_of_wrong_size_and_masks_that_do_not_cancel_are_refused():
    tables = site_tables("linear")
    plan = plan_of("linear", tables)
    request = Message("request", plan.study, 0, "describe", values={"sites": list(tables)})
    shapes = layout(plan, request)
    sums = pack(shapes, {name: np.ones(shape) for name, shape in shapes.items()})
    good = [request.reply("answer", s, sums=to_bytes(sums)) for s in tables]
    assert total_of(plan, request, tuple(good)).count("rows") == 3
    with pytest.raises(DataError, match=r"of site 'west' in round 0 .* has 24 bytes of sums"):
        total_of(plan, request, (*good[:2], request.reply("answer", "west", sums=bytes(24))))
    noise = request.reply("answer", "west", sums=np.random.default_rng(1).bytes(24 * len(sums)))
    with pytest.raises(DataError, match="the masks did not cancel"):
        total_of(plan, request, (*good[:2], noise)).count("rows")
    assert from_bytes(good[0].sums).shape == sums.shape


def test_sites_with_another_key_of_a_site_have_no_total():
    tables = site_tables("linear")
    owners = owners_of(tables)
    owners["north"].peers["west"] = PublicKeys(
        owners["west"].keys.public.signing, SiteKeys.generate().public.agreement
    )
    sites = {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}
    with pytest.raises(DataError, match="current public keys"):
        federate(plan_of("linear", tables), sites)


def test_a_site_that_does_not_know_the_others_keys_answers_nothing():
    tables = site_tables("linear")
    plan = plan_of("linear", tables)
    request = Message("request", plan.study, 0, "describe", values={"sites": list(tables)})
    with pytest.raises(DataError, match="'north': the public keys of site 'south' are not known"):
        FederatedSite("north", tables["north"], OPEN).answer(plan, request)


@pytest.mark.parametrize("sites", [("a",), ("a", "b")])
def test_a_total_of_fewer_than_three_sites_is_no_plan(sites):
    with pytest.raises(DataError, match="a total needs at least 3 sites"):
        FederatedPlan(model="logistic", columns=("x",), sites=sites)
    one = {"method": "profiles", "parameters": ("x",), "per_site": True}
    assert FederatedPlan(model="logistic", columns=("x",), sites=sites, **one)


def test_totals_under_masks_lose_no_digit_of_the_pooled_fit(rng):
    """All that separates the two fits is the tolerance at which each ends."""
    tables = {}
    for site in ("north", "south", "west"):
        d = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
        tables[site] = d.assign(y=(rng.random(300) < 1 / (1 + np.exp(1 - d.a))) * 1)
    plan = FederatedPlan(
        model="logistic", columns=("a", "b"), sites=tuple(tables), baseline="common", tol=1e-11
    )
    found = federate(plan, {s: FederatedSite(s, d, OPEN) for s, d in tables.items()})
    rows = pd.concat(tables.values(), ignore_index=True)
    pooled = LogisticRegression(tol=1e-12).fit(rows[["a", "b"]], rows.y.to_numpy())
    np.testing.assert_allclose(found.coef[1:], pooled.coef_, rtol=1e-12)
    assert found.log_likelihood == pytest.approx(pooled.log_likelihood_, rel=1e-14)
    assert found.to_dict()["disclosure"]["min_sites"] == 3


def test_results_do_not_depend_on_the_masks():
    """Other keys, other masks, the same total to the last bit."""
    tables = site_tables("cox")
    one, other = (run(plan_of("cox", tables), tables) for _ in range(2))
    assert np.array_equal(one.coef, other.coef)
    assert np.array_equal(one.vcov, other.vcov)


def test_keys_come_back_from_a_file_and_others_are_refused():
    keys = SiteKeys.generate()
    assert SiteKeys.from_dict(keys.to_dict(), "it").public == keys.public
    assert PublicKeys.from_dict(keys.public.to_dict(), "it") == keys.public
    assert len(keys.public.fingerprint.split()) == 16
    assert repr(keys) == "SiteKeys()"
    for wrong in ([], {"signing": "AAAA", "agreement": "AAAA"}, {"signing": "?"}):
        with pytest.raises(DataError, match="it"):
            PublicKeys.from_dict(wrong, "it")
    signature = keys.sign(b"a")
    assert keys.public.verify(signature, b"a")
    assert not keys.public.verify(signature, b"b")
    assert not SiteKeys.generate().public.verify(signature, b"a")
