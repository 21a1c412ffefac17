"""Judge plugin "patient": an episode is good if it does not end early."""

from telic import score
from telic.judges.criteria import total_score
from telic.judges.verdict import judged, unknown


class Patient:
    """Score the length of an episode, regardless of the intent."""

    def __init__(self, intent, spec):
        self._enough_s = 100 * (spec.dt_s or 1.0)

    def __call__(self, trajectory, spec):
        """Return a verdict, which is unknown for an episode without steps."""
        if len(trajectory) == 0:
            return unknown("code", "the episode has no steps")
        lasted = len(trajectory) * (spec.dt_s or 1.0)
        each = score("lasts", lasted, zero=0.0, goal=self._enough_s, unit="s", tag="ends_early")
        return judged([each], total_score([each]))
