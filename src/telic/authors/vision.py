"""Have a vision model watch episodes: what should be seen, what is seen, and a second look.

First, without any picture, the model states what each criterion would look like; that is asked once
per session, as equal questions are answered from disk. Then it scores sheets of still pictures of
each episode, with the time on each. Where it disagrees with the code judge it looks again: at other
pictures, nearer and from another side, with measurements, and several times. Nothing on a sheet
shows how the episode was rewarded or judged.

An outage, a refusal, the end of the budget or an episode that cannot be drawn is an unknown score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from telic.authors.cast import Cast
from telic.authors.footage import LOOKS, Footage, Sheet
from telic.core.config import Record
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.episode import measurable, measure_between
from telic.judges.fusion import extend, fuse, resolve
from telic.judges.verdict import WHOLE, Disagreement, Verdict, unknown
from telic.judges.vision import (
    LookFor,
    filled,
    look_for_form,
    sighting_form,
    verdict_of,
    worth_watching,
)
from telic.llm import Cancelled
from telic.llm.names import HOST, watches_video
from telic.llm.records import fingerprint
from telic.storage.trajectories import Environment

_AT_ONCE = 4
_USUAL = ("height", "forward_velocity", "uprightness", "pitch_turns", "heading_turns")
"""measured over the disputed time in any case"""
_SYSTEM = (
    "You judge the motion of robots from pictures. You report what the pictures show and nothing "
    "that they do not. You say that something cannot be seen rather than guess, and you are as "
    "ready to say that a behaviour is absent as that it is there."
)


class VisionJudge:
    """A model that watches episodes of one intent.

    Args:
        cast: the models.
        intent: what the robot should do.
        criteria: what is measured of each criterion and how much of it is right, by title.
        folder: where the pictures go.
        environment: where the episodes were played; None: as they say, for registered ids only.
    """

    def __init__(
        self,
        cast: Cast,
        intent: str,
        criteria: Mapping[str, str],
        folder: Path,
        environment: Environment | None = None,
    ) -> None:
        self._cast, self._intent, self._folder = cast, intent, folder
        self._criteria = dict(criteria) or {intent: intent}
        self._titles = list(self._criteria)
        self._environment = environment
        self._name = cast.player("vision_judge").provider.name

    def second_opinion(self, episodes: Sequence[Path], code: Sequence[Verdict]) -> list[Verdict]:
        """Return fused verdicts on all episodes of a policy, of which a few are watched.

        Watched are those at the 10th, 50th and 90th percentile of the code score; their loss of
        score is extended to the others (`extend`). A single episode is watched once.
        """
        chosen = worth_watching(code)
        seen = self.watch([episodes[index] for index in chosen], LOOKS if len(chosen) > 1 else 1)

        def settled(index: int, vision: Verdict) -> Verdict:
            return self.settle(episodes[index], code[index], vision)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fused = dict(zip(chosen, pool.map(settled, chosen, seen), strict=True))
        return extend(code, fused)

    def watch(self, episodes: Sequence[Path], repeats: int = LOOKS) -> list[Verdict]:
        """Return the model's verdicts on episodes of one policy, from worst to best.

        The middle one is judged `repeats` times, on other moments each time, to know the spread of
        the answers; every verdict carries that spread.
        """
        middle = len(episodes) // 2
        counts = [repeats if place == middle else 1 for place in range(len(episodes))]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            verdicts = list(pool.map(self._watch_one, episodes, counts))
        spread = verdicts[middle].spread if verdicts else None
        return [verdict.model_copy(update={"spread": spread}) for verdict in verdicts]

    def settle(self, episode: Path, code: Verdict, vision: Verdict) -> Verdict:
        """Fuse two verdicts on an episode after a second, closer look at what is in dispute.

        It has new pictures of the disputed time, nearer and from another side, and measurements
        over that time; never the code judge's score. It is repeated, because it decides.
        """
        fused = fuse(code, vision)
        if not fused.disagreements:
            return fused
        try:
            footage = Footage(episode, self._folder, self._environment)
            look_for = self._what_to_see(footage.spec)
            disputes = [_measured(dispute, look_for, footage) for dispute in fused.disagreements]
            named = [dispute.criterion for dispute in disputes if dispute.criterion != WHOLE]
            titles = named or self._titles  # a doubt about the whole is one about every part of it
            looks = footage.close_ups([_window(dispute) for dispute in disputes], LOOKS)
            doubted = _doubted({title: look_for[title] for title in titles}, disputes)
            measured = _measurements(disputes, look_for, footage)
            shown = [
                {**self._shown(doubted, footage, sheets), "measured": measured} for sheets in looks
            ]
            again = self._ask_all("vision_again", titles, shown, looks)
        except Cancelled:
            raise
        except TelicError as error:
            return fused.model_copy(update={"reason": f"vision was not asked again: {error}"})
        return resolve(code, vision, again, disputes)

    def _watch_one(self, episode: Path, repeats: int) -> Verdict:
        try:
            footage = Footage(episode, self._folder, self._environment)
            look_for = self._what_to_see(footage.spec)
            looks = footage.overviews(repeats)
            if watches_video(self._name):
                looks = [[footage.video(), *sheets] for sheets in looks]
            shown = [self._shown(_listed(look_for), footage, sheets) for sheets in looks]
            return self._ask_all("vision_judge", self._titles, shown, looks)
        except Cancelled:
            raise
        except TelicError as error:
            return unknown("vision", str(error))

    def _what_to_see(self, spec: EnvSpec) -> dict[str, LookFor]:
        """Return what each criterion would look like, by title."""
        offered = measurable(spec)
        meant = enumerate(self._criteria.values(), 1)
        values = {
            "intent": self._intent,
            "criteria": "\n".join(f"{number}. {words}" for number, words in meant),
            "robot": _robot(spec),
            "quantities": "\n".join(f"- `{q.name}` [{q.unit}]: {q.formula}" for q in offered),
        }
        form = look_for_form(self._titles, [quantity.name for quantity in offered])
        answer = self._cast.ask("vision_criteria", form, values, system=_SYSTEM)
        return filled(answer, self._titles)

    def _shown(self, criteria: str, footage: Footage, sheets: Sequence[Sheet]) -> dict[str, str]:
        pictures = [f"{number}. {sheet.words}" for number, sheet in enumerate(sheets, 1)]
        return {
            "intent": self._intent,
            "criteria": criteria,
            "robot": _robot(footage.spec),
            "pictures": "\n".join(pictures),
            "places": footage.places(),
        }

    def _ask_all(
        self,
        role: str,
        titles: Sequence[str],
        shown: Sequence[dict[str, str]],
        looks: Sequence[Sequence[Sheet]],
    ) -> Verdict:
        """Ask about every look at an episode; raises TelicError when none is answered.

        A person or agent is never asked the same question twice: looks that show the same pictures
        are one.
        """
        form, is_host = sighting_form(titles), self._name == HOST
        different = {
            tuple(fingerprint(sheet.path.read_bytes()) for sheet in sheets): number
            for number, sheets in enumerate(looks)
        }

        def look(number: int) -> Record | TelicError:
            try:
                return self._cast.ask(
                    role,
                    form,
                    shown[number],
                    system=_SYSTEM,
                    images=[sheet.image for sheet in looks[number]],
                    sample=0 if is_host else number,
                )
            except Cancelled:
                raise
            except TelicError as error:
                return error

        numbers = sorted(different.values()) if is_host else range(len(looks))
        with ThreadPoolExecutor(max(1, len(numbers))) as pool:
            answers = list(pool.map(look, numbers))
        forms = [answer for answer in answers if isinstance(answer, Record)]
        if not forms:
            raise TelicError(str(answers[0]))
        return verdict_of(forms, titles)


def _measured(
    dispute: Disagreement, look_for: dict[str, LookFor], footage: Footage
) -> Disagreement:
    """Return the dispute with the quantity that settles it, measured over its time."""
    look = look_for.get(dispute.criterion)
    if look is None or look.measure is None:
        return dispute
    check = measure_between(footage.trajectory, footage.spec, look.measure, _window(dispute))
    return dispute.model_copy(update={"check": check})


def _window(dispute: Disagreement) -> tuple[float, float] | None:
    if dispute.start_s is None or dispute.end_s is None:
        return None
    return dispute.start_s, dispute.end_s


def _robot(spec: EnvSpec) -> str:
    bodies = f" Its bodies: {', '.join(spec.body_names)}." if spec.body_names else ""
    feet = f" Its feet: {', '.join(spec.feet)}." if spec.feet else ""
    return f"{spec.id}: {spec.description}{bodies}{feet}"


def _listed(look_for: dict[str, LookFor]) -> str:
    return "\n".join(
        f"{number}. **{title}**. Seen as: {look.visible} How: {look.how} "
        f"Looks alike and is not it: {look.not_this}"
        for number, (title, look) in enumerate(look_for.items(), 1)
    )


def _doubted(look_for: dict[str, LookFor], disputes: Sequence[Disagreement]) -> str:
    """Return what is in doubt, when, and what to look for."""
    lines: list[str] = []
    for dispute in disputes:
        what = "The intent as a whole" if dispute.criterion == WHOLE else dispute.criterion
        window = _window(dispute)
        when = "" if window is None else f", from {window[0]:.2f} s to {window[1]:.2f} s"
        lines.append(f"- **{what}**{when}")
    return "\n".join((*lines, "", "What to look for:", "", _listed(look_for)))


def _measurements(
    disputes: Sequence[Disagreement], look_for: dict[str, LookFor], footage: Footage
) -> str:
    """Return quantities over the disputed time: those that would settle it, and the usual ones."""
    offered = [quantity.name for quantity in measurable(footage.spec)]
    usual = [name for name in _USUAL if name in offered]
    lines: dict[str, None] = {}
    for dispute in disputes:
        look = look_for.get(dispute.criterion)
        own = look_for.values() if look is None else (look,)
        named = [str(look.measure) for look in own if look.measure is not None]
        for name in dict.fromkeys((*named, *usual)):
            check = measure_between(footage.trajectory, footage.spec, name, _window(dispute))
            if check is not None:
                span = f"from {check.start_s:.2f} s to {check.end_s:.2f} s"
                ends = f"first {check.first:.3g}, last {check.last:.3g}"
                range_ = f"lowest {check.lowest:.3g}, highest {check.highest:.3g}"
                unit = f"`{check.quantity}` [{check.unit}]"
                lines[f"- {unit} {span}: mean {check.mean:.3g}, {range_}, {ends}"] = None
    return "\n".join(lines) or "Nothing."
