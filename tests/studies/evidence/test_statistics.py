"""The numbers of a claim: known answers, the same bits every time, and coverage."""

from telic.studies.evidence import _statistics as st


def test_the_interval_repeats_bit_by_bit():
    """Pinned, so that another machine or another numpy would show."""
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert st.iqm_interval(values, st.seed_of("a-0001")) == st.BootstrapInterval(4 / 3, 40 / 3)
    assert st.iqm_interval(values, st.seed_of("a-0002")) is not None
    assert st.iqm_interval([1.0], 0) is None
