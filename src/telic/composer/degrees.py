"""Words for how much, as numbers: what "fast" and "a little" mean for a robot."""

from __future__ import annotations

from telic.composer.frames import Degree

SHARE_OF_TOP = {
    Degree.VERY_SLOW: 0.08,
    Degree.SLOW: 0.2,
    Degree.LITTLE: 0.2,
    Degree.MODERATE: 0.4,
    Degree.MUCH: 0.6,
    Degree.FAST: 0.6,
    Degree.VERY_FAST: 0.8,
    Degree.MOST: 0.8,
}
"""speed as a share of the top speed"""
GAIT = {"walk": Degree.MODERATE, "crawl": Degree.SLOW, "sprint": Degree.VERY_FAST}
QUICK = (Degree.FAST, Degree.VERY_FAST, Degree.MOST, Degree.MUCH)
GENTLE = (Degree.VERY_SLOW, Degree.SLOW, Degree.LITTLE)
