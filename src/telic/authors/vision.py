"""Have a vision model watch episodes: what should be seen, what is seen, and a second look.

First, without any picture, the model says what each criterion would look like; that is asked once
per session, as equal questions are answered from disk. Then it scores sheets of still pictures of
each episode, with the time on each. What it and the code judge disagree on it looks at again: at
other pictures, nearer and from another side, with measurements, and several times. Nothing on a
sheet tells how the episode was rewarded or judged.

An outage, a refusal, the end of the budget or an episode that cannot be drawn is an unknown
score. A request to stop is passed on.
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
from telic.judges.verdict import WHOLE, Disagreement, EpisodeMeasure, Verdict, unknown
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

REPEATS = LOOKS
_AT_ONCE = 4
_USUAL = ("height", "forward_velocity", "uprightness", "pitch_turns", "heading_turns")
"""measured over the time in doubt whatever the doubt is"""
_SYSTEM = (
    "You judge the motion of robots from pictures. You report what the pictures show and nothing "
    "that they do not. You say that something cannot be seen rather than guess, and you are as "
    "ready to say that a behaviour is absent as that it is there."
)


class VisionJudge:
    """A model that looks at episodes of one intent.

    Args:
        cast: the models.
        intent: what the robot should do.
        criteria: titles of what that means; those of the judge's leaves, to be compared with them.
        folder: where the pictures go.
        meant: what is measured of a criterion and how much of it is right, by title.
    """

    def __init__(
        self,
        cast: Cast,
        intent: str,
        criteria: Sequence[str],
        folder: Path,
        meant: Mapping[str, str] | None = None,
    ) -> None:
        self._cast = cast
        self._intent = intent
        self._titles = list(dict.fromkeys(criteria)) or [intent]
        self._folder = folder
        self._meant: Mapping[str, str] = meant or {}
        self.environment: Environment | None = None
        """where the episodes were played; None: what they say, for registered ids only"""

    def second_opinion(self, episodes: Sequence[Path], code: Sequence[Verdict]) -> list[Verdict]:
        """Return fused verdicts on all episodes of a policy, of which a few are watched.

        Watched are those at the 10th, 50th and 90th percentile of the code score; what they lose
        by it the others lose as well (`extend`). A single episode is looked at once.
        """
        chosen = worth_watching(code)
        repeats = REPEATS if len(chosen) > 1 else 1
        seen = self.watch([episodes[index] for index in chosen], repeats)

        def settled(index: int, vision: Verdict) -> Verdict:
            return self.settle(episodes[index], code[index], vision)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fused = dict(zip(chosen, pool.map(settled, chosen, seen), strict=True))
        return extend(code, fused)

    def watch(self, episodes: Sequence[Path], repeats: int = REPEATS) -> list[Verdict]:
        """Return what the model makes of episodes of one policy, from worst to best.

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
        over that time; never the code judge's score. As it decides, it is repeated.
        """
        fused = fuse(code, vision)
        if not fused.disagreements:
            return fused
        try:
            footage = Footage(episode, self._folder, self.environment)
            look_for = self._what_to_see(footage.spec)
            disputes = [_checked(dispute, look_for, footage) for dispute in fused.disagreements]
            again = self._look_again(look_for, disputes, footage)
        except Cancelled:
            raise
        except TelicError as error:
            return fused.model_copy(update={"reason": f"vision was not asked again: {error}"})
        return resolve(code, vision, again, disputes)

    def _watch_one(self, episode: Path, repeats: int) -> Verdict:
        try:
            footage = Footage(episode, self._folder, self.environment)
            look_for = self._what_to_see(footage.spec)
            looks = footage.overviews(repeats)
            if watches_video(self._name):
                looks = [[footage.film(), *sheets] for sheets in looks]
            shown = [self._shown(_listed(look_for), footage, sheets) for sheets in looks]
        except Cancelled:
            raise
        except TelicError as error:
            return unknown("vision", str(error))
        answers = self._ask_all("vision_judge", sighting_form(self._titles), shown, looks)
        forms = [answer for answer in answers if isinstance(answer, Record)]
        return verdict_of(forms, self._titles) if forms else unknown("vision", str(answers[0]))

    def _what_to_see(self, spec: EnvSpec) -> dict[str, LookFor]:
        """Return what each criterion would look like, by title."""
        offered = measurable(spec)
        values = {
            "intent": self._intent,
            "criteria": "\n".join(
                f"{number}. {self._meant.get(title, title)}"
                for number, title in enumerate(self._titles, 1)
            ),
            "robot": _robot(spec),
            "quantities": "\n".join(f"- `{q.name}` [{q.unit}]: {q.formula}" for q in offered),
        }
        form = look_for_form(self._titles, [quantity.name for quantity in offered])
        return filled(self._ask("vision_criteria", form, values), self._titles)

    def _look_again(
        self, look_for: dict[str, LookFor], disputes: Sequence[Disagreement], footage: Footage
    ) -> Verdict:
        named = [dispute.criterion for dispute in disputes if dispute.criterion != WHOLE]
        titles = named or self._titles  # a doubt about the whole is one about every part of it
        looks = footage.close_ups([_window(dispute) for dispute in disputes], REPEATS)
        doubted = _doubted({title: look_for[title] for title in titles}, disputes)
        measured = _measurements(disputes, look_for, footage)
        shown = [
            {**self._shown(doubted, footage, sheets), "measured": measured} for sheets in looks
        ]
        answers = self._ask_all("vision_again", sighting_form(titles), shown, looks)
        forms = [answer for answer in answers if isinstance(answer, Record)]
        if not forms:
            raise TelicError(str(answers[0]))
        return verdict_of(forms, titles)

    def _shown(self, criteria: str, footage: Footage, sheets: Sequence[Sheet]) -> dict[str, str]:
        pictures = [f"{number}. {sheet.words}" for number, sheet in enumerate(sheets, 1)]
        return {
            "intent": self._intent,
            "criteria": criteria,
            "robot": _robot(footage.spec),
            "pictures": "\n".join(pictures),
            "places": footage.places(),
        }

    @property
    def _name(self) -> str:
        return self._cast.player("vision_judge").provider.name

    def _ask_all(
        self,
        role: str,
        form: type[Record],
        shown: Sequence[dict[str, str]],
        looks: Sequence[Sequence[Sheet]],
    ) -> list[Record | TelicError]:
        """Ask about every look at an episode; what fails is its error.

        A person or agent is never asked the same question twice: looks that show the same pictures,
        because there are no others, are one.
        """
        different = {
            tuple(fingerprint(sheet.path.read_bytes()) for sheet in sheets): number
            for number, sheets in enumerate(looks)
        }
        numbers = sorted(different.values()) if self._name == HOST else list(range(len(looks)))

        def look(number: int) -> Record | TelicError:
            sample = 0 if self._name == HOST else number
            try:
                return self._ask(role, form, shown[number], looks[number], sample)
            except Cancelled:
                raise
            except TelicError as error:
                return error

        with ThreadPoolExecutor(max(1, len(numbers))) as pool:
            return list(pool.map(look, numbers))

    def _ask(
        self,
        role: str,
        form: type[Record],
        values: dict[str, str],
        sheets: Sequence[Sheet] = (),
        sample: int = 0,
    ) -> Record:
        images = [sheet.image for sheet in sheets]
        return self._cast.ask(role, form, values, system=_SYSTEM, images=images, sample=sample)


def _checked(dispute: Disagreement, look_for: dict[str, LookFor], footage: Footage) -> Disagreement:
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
    """Return quantities over the time in doubt: those that would settle it, else the usual ones."""
    offered = [quantity.name for quantity in measurable(footage.spec)]
    lines: list[str] = []
    for dispute in disputes:
        look = look_for.get(dispute.criterion)
        own = look_for.values() if look is None else (look,)
        named = [str(look.measure) for look in own if look.measure is not None]
        for name in dict.fromkeys((*named, *(usual for usual in _USUAL if usual in offered))):
            check = measure_between(footage.trajectory, footage.spec, name, _window(dispute))
            if check is not None:
                lines.append(_measure_words(check))
    return "\n".join(dict.fromkeys(lines)) or "Nothing."


def _measure_words(check: EpisodeMeasure) -> str:
    return (
        f"- `{check.quantity}` [{check.unit}] from {check.start_s:.2f} s to {check.end_s:.2f} s: "
        f"mean {check.mean:.3g}, lowest {check.lowest:.3g}, highest {check.highest:.3g}, at first "
        f"{check.first:.3g}, at last {check.last:.3g}"
    )
