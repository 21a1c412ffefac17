"""The numbers of a claim: known answers, the same bits every time, and coverage."""

import pytest
import scipy  # which imports its parts where they are used

from telic.studies.evidence import _statistics as st


def test_iqm_is_the_trimmed_mean_and_the_mean_for_few():
    values = [9.0, 1.0, 4.0, 7.0, 100.0, 3.0, 2.0, 8.0]
    assert st.iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), abs=1e-9)
    assert st.iqm([1.0, 2.0, 9.0]) == 4.0
    assert st.iqm([]) is None


def test_the_interval_repeats_bit_by_bit():
    """Pinned, so that another machine or another numpy would show."""
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert st.iqm_interval(values, st.seed_of("a-0001")) == st.BootstrapInterval(4 / 3, 40 / 3)
    assert st.iqm_interval(values, st.seed_of("a-0002")) is not None
    assert st.iqm_interval([1.0], 0) is None


def test_differences_between_arms():
    ours, theirs = [5.0, 6, 7, 8, 9], [1.0, 2, 3, 4, 5]
    found = st.difference(ours, theirs, 1)
    assert found.delta == 4.0 and not found.is_paired
    assert found.welch_p == pytest.approx(
        scipy.stats.ttest_ind(ours, theirs, equal_var=False, alternative="greater").pvalue
    )
    assert found.poi == pytest.approx(24.5 / 25) and found.ci[0] > 0


def test_common_seeds_that_agree_are_paired():
    theirs = [1.0, 5.0, 9.0, 13.0, 17.0]
    ours = [each + gain for each, gain in zip(theirs, (1.0, 1.2, 0.9, 1.1, 0.8), strict=True)]
    paired = st.difference(ours, theirs, 1, common_seeds=True)
    apart = st.difference(ours, theirs, 1)
    assert paired.is_paired and paired.welch_p < 0.001 < apart.welch_p
    against = st.difference(ours[::-1], theirs, 1, common_seeds=True)
    assert not against.is_paired, "seeds that disagree do not pair"
