"""Identifiers agree with those that R's packages ship in their example results."""

from steropes.studies.result_files.hashed_ids import _murmur32, hashed_id


def test_murmur_hash_of_known_texts():
    # Test vectors of MurmurHash3_x86_32 with seed 0.
    assert _murmur32(b"") == 0
    assert _murmur32(b"hello") == 0x248BFA47
    assert _murmur32(b"The quick brown fox jumps over the lazy dog") == 0x2E4FF723


def test_target_comparator_ids_are_those_of_cohort_method():
    assert hashed_id(1, 2, None) == 894409308
    assert hashed_id(998, 999, None) == 518658498


def test_set_ids_are_those_of_self_controlled_case_series():
    assert hashed_id(3, None, 1, 2) == 284001738
    assert hashed_id(4, None, 999) == -1620551510
    assert hashed_id(999, None, 1) == -358070004


def test_ids_fit_into_32_bits():
    ids = [hashed_id(a, b, None) for a in range(40) for b in range(40)]
    assert min(ids) >= -(2**31)
    assert max(ids) < 2**31
    assert len({*ids}) == len(ids)
