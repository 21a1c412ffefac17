"""What this machine and this installation have: environments, quantities, checks, servers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.verb import VerbRequest, argument, inner, option, place, verb

if TYPE_CHECKING:
    from telic.envs.catalogue import EnvSummary
    from telic.envs.spec import EnvSpec
    from telic.quantities.reference import QuantityDescription
    from telic.training.machine import Check


class EnvsRequest(VerbRequest):
    """All environments, or one."""

    env: str | None = argument("Describe this one: an id, module:Class or MJCF path.", default=None)
    every: bool = option("Also list Gymnasium's other ids.", "--all", default=False)


class EnvList(NamedTuple):
    """Environments in short; `every` of Gymnasium's is meant, or those that are fast."""

    envs: list[EnvSummary]
    every: bool

    def as_data(self) -> list[EnvSummary]:
        """Return all of them."""
        return self.envs


class EnvPage(NamedTuple):
    """One environment: observations, actions, info values, bodies, reward."""

    env: str
    spec: EnvSpec

    def as_data(self) -> EnvSpec:
        """Return its description."""
        return self.spec


@verb(EnvsRequest)
def envs(request: EnvsRequest) -> EnvList | EnvPage:
    """List environments, or describe one: observations, actions, info values, bodies, reward."""
    from telic.envs.catalogue import catalogue, describe

    if request.env is not None:
        return EnvPage(request.env, describe(request.env))
    return EnvList(catalogue(), request.every)


class QuantitiesRequest(VerbRequest):
    """All quantities, or those of an environment."""

    env: str | None = argument("Only those this environment has; all if left out.", default=None)


class QuantityList(NamedTuple):
    """What can be measured."""

    quantities: list[QuantityDescription]

    def as_data(self) -> list[QuantityDescription]:
        """Return the quantities alone."""
        return self.quantities


@verb(QuantitiesRequest)
def quantities(request: QuantitiesRequest) -> QuantityList:
    """List measured quantities for rewards and judges: quantities.forward_velocity(info)."""
    from telic.envs.catalogue import describe
    from telic.quantities.reference import describe_quantities

    return QuantityList(describe_quantities(describe(request.env) if request.env else None))


class DoctorRequest(VerbRequest):
    """All checks."""


class MachineReport(NamedTuple):
    """What was found on this machine."""

    checks: list[Check]

    def as_data(self) -> list[Check]:
        """Return the checks alone."""
        return self.checks


def _is_bad(report: MachineReport) -> int:
    return int(any(check.state == "bad" for check in report.checks))


@verb(DoctorRequest, exit_code=_is_bad)
def doctor(request: DoctorRequest) -> MachineReport:
    """Check versions, processors, rendering, confinement and optional parts."""
    from telic.training.machine import examine

    return MachineReport(examine())


# -------------------------------------------------------------------------------- coding agents


class PluginRequest(VerbRequest):
    """The package for coding agents."""

    root: Path | str = place("Folder that holds the catalogues.", "--root", default=Path())


class PluginFiles(NamedTuple):
    """Files of the package that were written."""

    plugin: str
    changed: list[str]


@verb(PluginRequest)
def build(request: PluginRequest) -> PluginFiles:
    """Write catalogues, manifests, skills, agents and hooks from the one source."""
    from telic.plugin.package import HOME, write_package

    root = Path(request.root)
    return PluginFiles(str(root / HOME), write_package(root))


class ValidateRequest(PluginRequest):
    """The package and the command line that its pages use."""

    commands: Any = inner("The command line as a tree.", default=None)


class PluginProblems(NamedTuple):
    """What is wrong with the package."""

    ok: bool
    problems: list[str]


@verb(ValidateRequest, exit_code=lambda found: 0 if found.ok else 4)
def validate(request: ValidateRequest) -> PluginProblems:
    """Check the package: formats, links, commands, and that there is one way to launch.

    Exit code 4 when something is wrong.
    """
    from telic.plugin.checks import problems

    found = problems(Path(request.root), request.commands)
    return PluginProblems(not found, found)


class HookRequest(VerbRequest):
    """What a host says on standard input."""


@verb(HookRequest)
def before_shell(request: HookRequest) -> None:
    """Deny a shell command that would train beside the launch gate."""
    _answer("before-shell")


@verb(HookRequest)
def at_stop(request: HookRequest) -> None:
    """Remind an agent that stops while an approved loop has something to do."""
    _answer("at-stop")


def _answer(name: str) -> None:
    from telic.plugin.hooks import answer

    sys.stdout.write(answer(name, sys.stdin.read()))
