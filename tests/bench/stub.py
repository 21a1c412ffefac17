"""A stand-in for session.loop.run_session: writes the files a session leaves, without training."""

from pathlib import Path

from telic.authors.candidate import MemberScore, SessionIteration
from telic.authors.request import SessionConfig
from telic.judges.criteria import score
from telic.judges.verdict import judged, together
from telic.session.loop import Session
from telic.storage.files import write_json
from telic.storage.layout import SessionFolder, new_name
from tests.session.sessions import end, summary_of


class StubRunner:
    """Answers each intent with what `plan` says: an outcome, or an error to raise."""

    def __init__(self, plan):
        self.plan = plan
        self.asked = []

    def __call__(self, intent, *, env, runs_dir, on_event, should_stop, **options):
        self.asked.append(intent)
        config = SessionConfig.parse({"intent": intent, "env": env, **options})
        folder = SessionFolder(Path(runs_dir) / new_name("session"))
        write_json(folder.config, config)
        planned = self.plan[intent]
        if isinstance(planned, BaseException):
            raise planned
        value = 1.0 if planned == "passed" else 0.4
        verdict = judged(
            [score("goes", value, zero=0.0, goal=1.0, unit="m/s", tag="too_slow")], value
        )
        member = MemberScore(
            member="reward_seed_1", variant=0, seed=1, step=500, judgment=together([verdict] * 4)
        )
        write_json(
            folder.iteration(1).judgment,
            SessionIteration(
                number=1,
                parent=None,
                change="first try",
                passed=planned == "passed",
                score=value,
                variant=0,
                best=member.member,
                tags=() if value == 1.0 else ("too_slow",),
                members=(member,),
                training_s=2.0,
                judging_s=1.0,
            ),
        )
        is_stopped = planned == "used up"
        summary = summary_of(
            folder,
            outcome="stopped" if is_stopped else planned,
            out_of_budget=is_stopped,
            best_member=member.member,
            score=value,
            low=value,
            not_understood=("gracefully",),
        )
        end(folder, summary)
        return Session(folder.path, summary)
