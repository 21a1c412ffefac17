"""Where a dashboard works: the runs and the studies that it shows, found by exact id.

An id is looked up among the things that are there; it is never joined to a path. What a thing's
folder holds is served only if it really lies there: a link that leads out is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from telic.errors import Refused, UnknownName, UsageError
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.workspace import Kind, Thing
from telic.web.index import ThingIndex


@dataclass(frozen=True)
class WebPlace:
    """The folder of runs, the repository of the studies, and what is known of them."""

    runs_dir: Path
    root: Path
    index: ThingIndex = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", ThingIndex(self.runs_dir, self.root))

    def thing(self, name: str, *kinds: Kind) -> Thing:
        """Return what has exactly this id; raises UnknownName, or UsageError for another kind."""
        thing = self.index.find(name)
        if thing is None:
            raise UnknownName("session, run, search or study", name[:200], self.index.names())
        if kinds and thing.kind not in kinds:
            raise UsageError(f"{name} is a {thing.kind}; this is for a {' or '.join(kinds)}.")
        return thing

    def session(self, name: str) -> SessionFolder:
        """Return a session."""
        return SessionFolder(self.thing(name, "session").path)

    def iteration(self, name: str, number: int) -> IterationFolder:
        """Return an iteration of a session."""
        session = self.session(name)
        known = session.iterations()
        if number not in known:
            raise UnknownName("iteration", str(number), list(map(str, known)))
        return session.iteration(number)

    def run(self, name: str, iteration: int | None = None) -> RunFolder:
        """Return a run, or the training of an iteration of a session: the last if none is said."""
        thing = self.thing(name, "run", "session")
        if thing.kind == "run":
            return RunFolder(thing.path)
        known = SessionFolder(thing.path).iterations()
        if iteration is None and not known:
            raise UsageError(f"{name} has trained nothing yet.")
        number = known[-1] if iteration is None else iteration
        run = self.iteration(name, number).run
        if not run.path.is_dir():
            raise UsageError(f"Iteration {number} of {name} has trained nothing yet.")
        return run

    def member(self, run: RunFolder, name: str) -> MemberFolder:
        """Return a member of a run by its exact name."""
        known = {member.name: member for member in run.members()}
        if name not in known:
            raise UnknownName("member", name[:200], list(known))
        return known[name]

    def inside(self, path: Path) -> Path:
        """Return a file of a thing, if it lies in the workspace; raises Refused where it leads out.

        A confined worker fills some folders, and what it wrote may be a link to anywhere.
        """
        real = path.resolve()
        homes = (self.runs_dir.resolve(), (self.root / ".telic").resolve())
        if not any(real.is_relative_to(home) for home in homes) or not real.is_file():
            raise Refused(f"{path.name} is not a file of this workspace.")
        return real
