"""What people write on a terminal and programs do not: words in any order, plans, questions.

A request here has a `meaning`: the verb and the request that its words stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from telic.cli.terminal_looks import Meaning
from telic.core.request import argument, option
from telic.errors import UsageError
from telic.training.request import TrainRequest
from telic.verbs.control import SessionNoteRequest, note
from telic.verbs.labels import LabelRequest, label
from telic.verbs.search import SearchRequest, search
from telic.verbs.session import IntentRequest, run
from telic.verbs.train import train

if TYPE_CHECKING:
    pass


class TerminalTrain(TrainRequest):
    """Words that name the environment and change settings, and a plan without a run."""

    words: Sequence[str] = argument(
        "Environment, then changes of settings.",
        default=(),
        many=True,
        metavar="ENV [key=value ...]",
    )
    env: str = option("Environment id, module:Class, or path of an MJCF file.", default="")
    dry_run: bool = option("Print the plan and stop.", default=False)

    def meaning(self) -> Meaning:
        """Tell the environment from `key=value` words."""
        settings = [word for word in self.words if "=" in word]
        envs = [word for word in self.words if "=" not in word]
        if self.env:
            envs.append(self.env)
        if len(envs) != 1:
            several = f"Expected one environment, not {' and '.join(envs)}."
            raise UsageError(
                several if envs else "Which environment?",
                hint="For example: telic train HalfCheetah-v5. See all with: telic envs",
            )
        assert not isinstance(self.settings, Mapping)
        request = self.replace(env=envs[0], settings=[*self.settings, *settings], words=())
        if not self.dry_run:
            return train, request
        from telic.training.plan import plan

        return plan, request


class TerminalRun(IntentRequest):
    """A session whose criteria are shown and asked about here."""

    interactive: bool = option(
        "Show the criteria and ask here.", "--interactive", "-i", default=False
    )

    def meaning(self) -> Meaning:
        """Let the session wait for an answer where one is asked for."""
        return run, self.replace(approve=self.approve or self.interactive)


class TerminalSearch(SearchRequest):
    """A search; without a task it says which there are."""

    env: str = option("Task: see telic search envs.", "--env", default="")

    def meaning(self) -> Meaning:
        """Refuse a search without a task."""
        if not self.env:
            raise UsageError("Which task?", hint="Name one with --env; see: telic search envs")
        return search, self


class TerminalNote(SessionNoteRequest):
    """The session first, if it is not the latest."""

    text: str = option("", default="", hidden=True)
    session: str = option("", default="latest", hidden=True)
    words: Sequence[str] = argument(
        'The latest session if left out: telic note "slower"', many=True, metavar="[SESSION] TEXT"
    )

    def meaning(self) -> Meaning:
        """Tell the session from the note."""
        if len(self.words) > 2:
            raise UsageError(
                "Put the note in quotes.", hint='For example: telic note "less bouncing please"'
            )
        *session, text = self.words
        return note, self.replace(text=text, session=session[0] if session else "latest")


class TerminalLabel(LabelRequest):
    """The session first, if it is not the latest; then yes or no."""

    answer: Literal["yes", "no"] | None = option("", default=None, hidden=True)
    session: str = option("", default="latest", hidden=True)
    words: Sequence[str] = argument(
        "The latest session if left out; without yes or no, the labels so far.",
        default=(),
        many=True,
        metavar="[SESSION] [yes|no]",
    )

    def meaning(self) -> Meaning:
        """Tell the session from the answer."""
        words = list(self.words)
        answer = words.pop().lower() if words and words[-1].lower() in ("yes", "no") else None
        if len(words) > 1:
            raise UsageError(
                f'"{words[-1]}" is neither yes nor no.',
                hint='For example: telic label no --why "it slides"',
            )
        session = words[0] if words else self.session
        return label, self.replace(answer=answer, session=session, words=())


train_on_terminal = train.asked_with(TerminalTrain)
run_on_terminal = run.asked_with(TerminalRun)
search_on_terminal = search.asked_with(TerminalSearch)
note_on_terminal = note.asked_with(TerminalNote)
label_on_terminal = label.asked_with(TerminalLabel)
