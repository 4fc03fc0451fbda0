"""Bundles read back as they were made, and nothing else reads at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.reports.report_bundle import bundle, unbundle

BODIES = st.lists(st.binary(max_size=20), max_size=6)


@given(BODIES, BODIES)
def test_read_as_made_and_bundles_may_be_joined(first: list[bytes], second: list[bytes]) -> None:
    assert unbundle(bundle(first)) == first
    assert unbundle(bundle(first) + bundle(second)) == first + second


@given(BODIES.filter(lambda bodies: bodies != []), st.data())
def test_a_bundle_that_is_cut_off_is_an_error(bodies: list[bytes], data: st.DataObject) -> None:
    whole = bundle(bodies)
    ends = [len(bundle(bodies[:count])) for count in range(len(bodies) + 1)]
    cut = data.draw(st.integers(0, len(whole)).filter(lambda at: at not in ends))
    with pytest.raises(ValueError, match="cut off"):
        unbundle(whole[:cut])
