"""A point mass on a table: it is to come to the middle and stop there."""

import numpy as np

HORIZON = 24
DT = 0.1
PUSH = 2.0
ARRIVED = 0.12
SLOW = 0.3


class PointMass:
    """Many points at once, each with a place and a speed in two directions."""

    def reset(self, rng, count):
        angle = rng.uniform(0, 2 * np.pi, count)
        away = rng.uniform(0.8, 1.6, (count, 1))
        self.place = away * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        self.speed = rng.normal(0, 0.4, (count, 2))
        self.push = np.zeros((count, 2))
        return self.observe()

    def observe(self):
        return np.stack([self.place, self.speed], axis=-1)  # (count, 2, 2)

    def step(self, push):
        before, self.push = self.push, np.clip(push, -PUSH, PUSH)
        self.speed = 0.98 * self.speed + DT * self.push
        self.place = self.place + DT * self.speed
        return self.observe(), before

    def distance(self):
        return np.linalg.norm(self.place, axis=-1)

    def pace(self):
        return np.linalg.norm(self.speed, axis=-1)

    def has_arrived(self):
        return (self.distance() < ARRIVED) & (self.pace() < SLOW)
