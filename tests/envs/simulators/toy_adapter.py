"""A simulator of nothing, by numpy alone: each row counts up by its action from its seed."""

import os
import sys
import time


def open_simulator(order):
    if order["task"] == "absent":
        raise ModuleNotFoundError("No module named 'toy'")
    return Toy(order)


class Toy:
    def __init__(self, order):
        self.task = order["task"]
        self.facts = {
            "simulator": "toy 1",
            "description": "Counts up.",
            "obs_names": ["count", "clock"],
            "action_names": ["push"],
            "action_low": [-1.0],
            "action_high": [1.0],
            "dt_s": 0.1,
            "max_episode_steps": 7,
            "shows_final": self.task == "final",
            "can_stagger": True,
            "groups": {"critic": 1},
        }
        if self.task == "unclear":
            del self.facts["obs_names"]

    def reset(self, seeds):
        self.start = seeds[0] % 1000
        self.count = self.start + 0.25 * __import__("numpy").arange(len(seeds))
        self.clock = 0 * self.count
        self.show()

    def stagger(self):
        self.clock[:] = self.arrays["age"]

    def step(self):
        misbehave(self.task)
        self.count = self.count + self.arrays["action"][:, 0]
        self.clock = self.clock + 1
        ended = self.clock >= 7
        self.arrays["reward"][:] = self.count
        self.arrays["terminated"][:] = False
        self.arrays["truncated"][:] = ended
        if self.task == "final":
            self.arrays["final_obs"][:, 0] = self.count
            self.arrays["final_obs"][:, 1] = self.clock
        self.count[ended] = self.start
        self.clock[ended] = 0
        self.show()

    def show(self):
        self.arrays["obs"][:, 0] = self.count
        self.arrays["obs"][:, 1] = self.clock
        self.arrays["group:critic"][:, 0] = -self.count

    def close(self):
        if self.task == "stays":
            time.sleep(60)


def misbehave(task):
    if task == "raises":
        print("the ground gave way")
        raise ValueError("no contact")
    if task == "dies":
        print("cannot go on", file=sys.stderr)
        os._exit(7)
    if task == "hangs":
        print("thinking")
        time.sleep(60)
    if task == "talks":
        print("{}\n" * 1000)
        os.write(1, b'{"done": true}\n')
