"""Train with a reward written for a single environment, and print its cost per step."""

import telic
from telic.rewards.probe import ProbeReport

SOURCE = '''
import numpy as np

def reward_fn(obs, action, next_obs, info):
    """r = v_x - 0.1 |a|^2 with a bonus above 1 m/s."""
    speed = float(info.get("x_velocity", 0.0))
    bonus = 1.0 if speed > 1.0 else 0.0
    control = -0.1 * float(np.sum(np.square(action)))
    terms = {"speed": speed, "bonus": bonus, "control": control}
    return sum(terms.values()), terms
'''


def listen(event):
    if isinstance(event, ProbeReport):
        print(f"{event.mode}: {event.microseconds_per_step:.2f} µs per step")


if __name__ == "__main__":
    run = telic.train("HalfCheetah-v5", SOURCE, steps=10_000, videos="none", on_event=listen)
    print(f"{run.status}: return {run.best_return:.1f}")
