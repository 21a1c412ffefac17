"""Show what a session is going to take, what it has taken, and what it waits for."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from telic.cli.output import duration, number
from telic.cli.progress import TrainingView
from telic.core.events import Event


class SteeredView(TrainingView):
    """Listens to what concerns money, time and people."""

    def _session_forecast(self, event: Event) -> None:
        first = _amount(event["first_steps"], event["first_seconds"])
        most = _amount(event["most_steps"], event["most_seconds"])
        self.say(f"forecast: {first} if the first try passes, at most {most}")
        if event["steps_per_second"] is None:
            self.say("  [dim]how long is unknown: this was never trained on this machine[/]")
        if event["calls"]:
            price = "at an unknown price" if event["usd"] is None else _dollars(event["usd"])
            self.say(f"  at most about {event['calls']} model calls, {price}")
        for name in event["short"]:
            self.say(f"  [yellow]the limit on {name} may end it before[/]")

    def _session_spent(self, event: Event) -> None:
        parts = [duration(event["seconds"]), f"{event['steps']:,} steps"]
        if event["calls"]:
            price = "unknown price" if event["usd"] is None else _dollars(event["usd"])
            parts.append(f"{event['calls']} model calls ({price})")
        left = _left(event["left"])
        self.say(f"[dim]spent: {', '.join(parts)}{f'; left: {left}' if left else ''}[/]")

    def _session_paused(self, event: Event) -> None:
        self.say(f"[bold]{escape(event['message'])}[/]")

    def _session_resumed(self, event: Event) -> None:
        self.say("going on")

    def _session_waiting(self, event: Event) -> None:
        self.say(escape(event["message"]))

    def _session_admitted(self, event: Event) -> None:
        self.say(f"going on after {duration(event['waited_s'])}")

    def _session_notes(self, event: Event) -> None:
        for note in event["notes"]:
            self.say(f"heeding {escape(note['author'])}: {escape(note['text'])}")


def _amount(steps: int, seconds: float | None) -> str:
    time = "" if seconds is None else f" (about {duration(seconds)} of training)"
    return f"{steps:,} steps{time}"


def _dollars(usd: float) -> str:
    return f"{number(usd, 2)} USD"


def _left(left: dict[str, Any]) -> str:
    parts: list[str] = []
    if left["hours"] is not None:
        parts.append(duration(left["hours"] * 3600))
    if left["steps"] is not None:
        parts.append(f"{left['steps']:,} steps")
    if left["usd"] is not None:
        parts.append(_dollars(left["usd"]))
    if left["calls"] is not None:
        parts.append(f"{left['calls']} calls")
    return ", ".join(parts)
