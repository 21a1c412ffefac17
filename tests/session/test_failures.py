"""Eyes look at one failure, too: its score stays, and what they contradict is on record."""

from pathlib import Path
from types import SimpleNamespace

from telic.judges.fusion import fuse, judge_doubted
from telic.session._judgment import watch_failure
from telic.storage.layout import IterationFolder
from tests.judges.test_fusion import watched
from tests.session.test_report import score


class Eyes:
    """An author that sees every episode as good, and notes what it was shown."""

    def __init__(self, whole):
        self.shown, self._whole = [], whole

    def watch(self, episodes, verdicts):
        self.shown.append((episodes, verdicts))
        return [fuse(verdict, watched(self._whole, runs=self._whole)) for verdict in verdicts]


def look(eyes, *scores):
    work = SimpleNamespace(config=SimpleNamespace(threshold=0.8), author=eyes)
    after = list(scores)
    watch_failure(work, IterationFolder(Path("iter_1")), after)
    return after


def test_a_failure_that_looks_right_keeps_its_score_and_casts_doubt():
    eyes = Eyes(1.0)
    worse, best = score(0.1, seed=1), score(0.3, seed=2)
    after = look(eyes, worse, best)
    ((paths, shown),) = eyes.shown
    assert len(paths) == len(shown) == 1 and best.member in str(paths[0])
    assert after[0] == worse
    assert after[1].judgment.score == best.judgment.score and after[1].low == best.low
    reported = judge_doubted([verdict for each in after for verdict in each.judgment.verdicts])
    assert reported is not None and '"runs"' in reported and "vision 1.00" in reported


def test_what_passes_or_could_not_be_judged_is_not_looked_at_here():
    eyes = Eyes(1.0)
    for scores in ([score(1.0)], [score(None)], []):
        assert look(eyes, *scores) == scores
    assert eyes.shown == []


def test_a_failure_that_looks_like_one_casts_no_doubt():
    (after,) = look(Eyes(0.3), score(0.3))
    assert judge_doubted(after.judgment.verdicts) is None
