"""What each verb means: terms that teach it, and leaves that recognise it.

Terms are about 1 in size when the behaviour is right, so that weights near 1 are sensible. Every
behaviour brings guards against its look-alikes (falling forward is not running) and says when it
is done, for what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable

from telic.composer.draft import Draft
from telic.composer.frames import Frame, Verb
from telic.composer.going import circle, go
from telic.composer.jumping import hop, jump
from telic.composer.limbs import kick, lift, reach, swing
from telic.composer.resting import balance, lie, sit, stand, stand_up
from telic.composer.scene import Scene
from telic.composer.turning import flip, roll, turn
from telic.errors import BadEnvironment

BEHAVIOURS: dict[Verb, Callable[[Frame, Scene, Draft], None]] = {
    Verb.GO: go,
    Verb.CIRCLE: circle,
    Verb.JUMP: jump,
    Verb.HOP: hop,
    Verb.FLIP: flip,
    Verb.ROLL: roll,
    Verb.TURN: turn,
    Verb.STAND: stand,
    Verb.STOP: stand,
    Verb.BALANCE: balance,
    Verb.SIT: sit,
    Verb.LIE: lie,
    Verb.STAND_UP: stand_up,
    Verb.REACH: reach,
    Verb.SWING: swing,
    Verb.LIFT: lift,
    Verb.KICK: kick,
}

_EXAMPLES = {
    Verb.GO: "run forward fast",
    Verb.STAND: "stand still",
    Verb.JUMP: "jump as high as possible",
    Verb.FLIP: "do a backflip",
    Verb.BALANCE: "balance the pole",
    Verb.REACH: "reach the target",
    Verb.TURN: "turn 90 degrees left",
    Verb.CIRCLE: "walk in a circle",
    Verb.HOP: "hop in place",
    Verb.ROLL: "roll over",
    Verb.SIT: "crouch",
    Verb.LIE: "lie down",
    Verb.STAND_UP: "stand up",
    Verb.SWING: "wave",
    Verb.LIFT: "lift a foot",
    Verb.KICK: "kick",
}


def able(scene: Scene) -> list[str]:
    """Return an example of each thing this robot can be asked to do."""
    found: list[str] = []
    for verb, example in _EXAMPLES.items():
        if verb is Verb.BALANCE and not scene.has("pole_angle"):
            continue  # without a pole it is standing
        try:
            BEHAVIOURS[verb](Frame(verb=verb, word=verb.value), scene, Draft())
        except BadEnvironment:
            continue
        found.append(example)
    return found
