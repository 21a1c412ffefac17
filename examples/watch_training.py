"""Follow training from Python, stop it when it is good enough, and resume it later."""

import telic
from telic.training.results import EvalDone

best = 0.0


def listen(event):
    global best
    if isinstance(event, EvalDone):
        returns = (record.mean_return for record in event.members.values())
        best = max((each for each in returns if each is not None), default=best)
        print(f"{event.step:,} steps: {best:.0f}")


if __name__ == "__main__":
    options = {"steps": 40_000, "evaluations": 8, "videos": "none", "on_event": listen}
    run = telic.train("InvertedPendulum-v5", should_stop=lambda: best > 20, **options)
    print(run.status)
    run = telic.train("InvertedPendulum-v5", **options)  # the same call goes on
    print(run.status)
