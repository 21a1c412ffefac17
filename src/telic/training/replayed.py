"""Run a function of many small operations on a GPU: once as it is, from then on as a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from telic.errors import TelicError
from telic.sim.recording import Recording

Result = TypeVar("Result")


class Carrier(Protocol):
    """Something that replaces its tensors as it goes, such as an environment or a reward."""

    def carried(self) -> dict[str, Tensor]:
        """Return those tensors by name."""
        ...

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Go on with other tensors."""
        ...


class Replayed(Generic[Result]):
    """A function without arguments whose work is recorded at its second call.

    What varies between calls must lie in tensors that keep their place, and results are overwritten
    by the next call. The first call runs as it is: libraries set themselves up, rewards decide how
    they are run, lazy fields are found. Where recording is impossible, every call runs as it is
    and `obstacle` says why.
    """

    def __init__(
        self, function: Callable[[], Result], carriers: Sequence[Carrier], device: torch.device
    ) -> None:
        """Wrap a function that also changes what `carriers` hold."""
        self._function = function
        self._carriers = carriers
        self._recording: Recording[Result] | None = None
        self._homes: list[dict[str, Tensor]] = []  # where the recording finds what is carried
        self._is_warm = False
        self.obstacle: str | None = None
        if device.type != "cuda":
            self.obstacle = "only a GPU gains from it"

    @property
    def is_recorded(self) -> bool | None:
        """Whether calls replay a recording; None: not known before the second call."""
        if self.obstacle is not None:
            return False
        return None if self._recording is None else True

    def __call__(self) -> Result:
        """Do the work; on a GPU, returns before it is done."""
        if self.obstacle is None and self._is_warm and self._recording is None:
            self._record()
        self._is_warm = True
        if self._recording is None:
            return self._function()
        self._bring_home()  # a reset or a restored state has put new tensors in their place
        self._recording.replay()
        return self._recording.result

    def _record(self) -> None:
        self._homes = [each.carried() for each in self._carriers]
        try:
            self._recording = Recording(self._recorded)
        except (RuntimeError, TelicError) as error:
            self.obstacle = str(error).splitlines()[0]
        # Nothing was executed: the tensors from before hold the present.
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            carrier.carry(home)

    def _recorded(self) -> Result:
        result = self._function()
        self._bring_home()
        return result

    def _bring_home(self) -> None:
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            now = carrier.carried()
            away = [name for name, value in now.items() if value is not home[name]]
            for name in away:
                home[name].copy_(now[name])
            if away:
                carrier.carry(home)
