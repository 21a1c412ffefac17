"""The right to start one process once: only the gates give it, for a minute."""

from __future__ import annotations

import time
from typing import Final

from telic.studies.errors import GateRefused

LIFETIME_S = 60.0

_MINT: Final = object()


class LaunchPermit:
    """Allows one start of one command; bound to its nonce and the hash of its argv.

    Launchers ask for it, so code that has not passed the gates has nothing to start with. It guards
    against mistakes of our own, not against somebody who edits this module.
    """

    __slots__ = ("_argv_hash", "_expires", "_nonce", "_spent")

    def __init__(self, mint: object, nonce: str, argv_hash: str, expires: float) -> None:
        if mint is not _MINT:
            raise GateRefused(
                "E_PERMIT",
                "A launch permit cannot be made by hand.",
                hint="Start experiments with: telic study run CANDIDATE",
            )
        self._nonce = nonce
        self._argv_hash = argv_hash
        self._expires = expires
        self._spent = False

    def spend(self, nonce: str, argv_hash: str) -> None:
        """Use it up for this command, or raise GateRefused; a refused use spends it too."""
        spent, self._spent = self._spent, True
        if spent:
            raise GateRefused(
                "E_PERMIT", f"The launch permit of {self._nonce} was used before; it counts once."
            )
        if time.monotonic() > self._expires:
            raise GateRefused(
                "E_PERMIT",
                f"The launch permit of {self._nonce} is older than {LIFETIME_S:.0f} s.",
                hint="Run the command again; the gates will be checked anew.",
            )
        if (nonce, argv_hash) != (self._nonce, self._argv_hash):
            raise GateRefused(
                "E_PERMIT", f"The launch permit of {self._nonce} is for another command."
            )


def mint(nonce: str, argv_hash: str) -> LaunchPermit:
    """Give a permit; `gates.pass_gates` is the only caller, and a test holds that."""
    return LaunchPermit(_MINT, nonce, argv_hash, time.monotonic() + LIFETIME_S)
