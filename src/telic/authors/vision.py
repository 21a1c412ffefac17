"""Have a vision model watch episodes: what should be seen, what is seen, and a second look.

First, without any picture, the model says what each criterion would look like; that is asked once
per session, as equal questions are answered from disk. Then it scores sheets of pictures of each
episode. What it and the code judge disagree on it looks at once more, closer.

An outage, a refusal, the end of the budget or an episode that cannot be drawn is an unknown
score. A request to stop is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from telic.authors.footage import Footage, Sheet
from telic.authors.roles import ask
from telic.core.config import Record
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.episode import measurable, measure_between
from telic.judges.verdict import WHOLE, Disagreement, Verdict, unknown
from telic.judges.vision import (
    LookFor,
    extend,
    filled,
    fuse,
    look_for_form,
    resolve,
    sighting_form,
    verdict_of,
    worth_watching,
)
from telic.llm import Cancelled, Models
from telic.llm.names import watches_video

REPEATS = 3
_AT_ONCE = 4
_SYSTEM = (
    "You judge the motion of robots from pictures. You report what the pictures show and nothing "
    "that they do not. You say that something cannot be seen rather than guess, and you are as "
    "ready to say that a behaviour is absent as that it is there."
)


def second_opinion(
    models: Models,
    intent: str,
    criteria: Sequence[str],
    episodes: Sequence[Path],
    code: Sequence[Verdict],
    folder: Path,
) -> list[Verdict]:
    """Return fused verdicts on all episodes of a policy, of which a few are watched.

    Watched are those at the 10th, 50th and 90th percentile of the code score; what they lose by it
    the others lose as well (`extend`). Arguments as for `watch`, and the code judge's verdicts.
    """
    chosen = worth_watching(code)
    seen = watch(models, intent, criteria, [episodes[index] for index in chosen], folder)

    def settled(index: int, vision: Verdict) -> Verdict:
        return settle(models, intent, criteria, episodes[index], code[index], vision, folder)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        fused = dict(zip(chosen, pool.map(settled, chosen, seen), strict=True))
    return extend(code, fused)


def watch(
    models: Models,
    intent: str,
    criteria: Sequence[str],
    episodes: Sequence[Path],
    folder: Path,
    *,
    repeats: int = REPEATS,
) -> list[Verdict]:
    """Return what a vision model makes of each episode.

    Args:
        models: who is asked.
        intent: what the robot should do.
        criteria: titles of what that means; those of the judge's leaves, to be compared with them.
        episodes: recorded episodes of one policy from worst to best (`worth_watching`).
        folder: where the pictures go.
        repeats: how often the middle episode is judged, to know the spread of the answers; every
            verdict carries that spread.
    """
    titles = list(dict.fromkeys(criteria)) or [intent]
    middle = len(episodes) // 2
    counts = [repeats if place == middle else 1 for place in range(len(episodes))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = [
            pool.submit(_watch_one, models, intent, titles, episode, folder, count)
            for episode, count in zip(episodes, counts, strict=True)
        ]
        verdicts = [future.result() for future in asked]
    spread = verdicts[middle].spread if verdicts else None
    return [verdict.model_copy(update={"spread": spread}) for verdict in verdicts]


def settle(
    models: Models,
    intent: str,
    criteria: Sequence[str],
    episode: Path,
    code: Verdict,
    vision: Verdict,
    folder: Path,
) -> Verdict:
    """Fuse two verdicts on an episode after a second, closer look at what is in dispute.

    The second look has denser pictures of the disputed time and, where the model named one, the
    quantity that settles it, measured over that time; never the code judge's score.
    """
    fused = fuse(code, vision)
    if not fused.disagreements:
        return fused
    titles = list(dict.fromkeys(criteria)) or [intent]
    try:
        footage = Footage(episode, folder)
        look_for = _what_to_see(models, intent, titles, footage.spec)
        disputes = [_checked(dispute, look_for, footage) for dispute in fused.disagreements]
        again = _look_again(models, intent, look_for, disputes, footage)
    except Cancelled:
        raise
    except TelicError as error:
        return fused.model_copy(update={"reason": f"vision was not asked again: {error}"})
    return resolve(code, vision, again, disputes)


def _watch_one(
    models: Models, intent: str, criteria: list[str], episode: Path, folder: Path, repeats: int
) -> Verdict:
    try:
        footage = Footage(episode, folder)
        look_for = _what_to_see(models, intent, criteria, footage.spec)
        sheets = footage.overview()
        if watches_video(models.provider.name):
            sheets = [footage.film(), *sheets]
    except Cancelled:
        raise
    except TelicError as error:
        return unknown("vision", str(error))
    values = {
        "intent": intent,
        "criteria": _listed(look_for),
        "robot": _robot(footage.spec),
        "pictures": _pictures(sheets),
        "places": footage.places(),
    }
    form = sighting_form(criteria)

    def look(sample: int) -> Record | TelicError:
        try:
            return _ask(models, "vision_judge", form, values, sheets, sample)
        except Cancelled:
            raise
        except TelicError as error:
            return error

    with ThreadPoolExecutor(repeats) as pool:
        answers = list(pool.map(look, range(repeats)))
    forms = [answer for answer in answers if isinstance(answer, Record)]
    return verdict_of(forms, criteria) if forms else unknown("vision", str(answers[0]))


def _what_to_see(
    models: Models, intent: str, criteria: list[str], spec: EnvSpec
) -> dict[str, LookFor]:
    """Return what each criterion would look like, by title."""
    offered = measurable(spec)
    values = {
        "intent": intent,
        "criteria": "\n".join(f"{n}. {title}" for n, title in enumerate(criteria, 1)),
        "robot": _robot(spec),
        "quantities": "\n".join(f"- `{q.name}` [{q.unit}]: {q.formula}" for q in offered),
    }
    form = look_for_form(criteria, [quantity.name for quantity in offered])
    return filled(_ask(models, "vision_criteria", form, values), criteria)


def _look_again(
    models: Models,
    intent: str,
    look_for: dict[str, LookFor],
    disputes: Sequence[Disagreement],
    footage: Footage,
) -> Verdict:
    titles = [dispute.criterion for dispute in disputes if dispute.criterion != WHOLE]
    sheets = [footage.overview()[0], *footage.close_ups([_window(dispute) for dispute in disputes])]
    values = {
        "intent": intent,
        "criteria": _listed({title: look_for[title] for title in titles}),
        "robot": _robot(footage.spec),
        "pictures": _pictures(sheets),
        "places": footage.places(),
        "measured": _measurements(disputes),
    }
    answer = _ask(models, "vision_again", sighting_form(titles), values, sheets)
    return verdict_of([answer], titles)


def _ask(
    models: Models,
    role: str,
    form: type[Record],
    values: dict[str, str],
    sheets: Sequence[Sheet] = (),
    sample: int = 0,
) -> Record:
    pictures = [sheet.image for sheet in sheets]
    return ask(models, role, form, values, system=_SYSTEM, images=pictures, sample=sample)


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


def _pictures(sheets: Sequence[Sheet]) -> str:
    return "\n".join(f"{number}. {sheet.words}" for number, sheet in enumerate(sheets, 1))


def _measurements(disputes: Sequence[Disagreement]) -> str:
    lines = [
        f"- `{check.quantity}` [{check.unit}] from {check.start_s:.2f} s to {check.end_s:.2f} s: "
        f"mean {check.mean:.3g}, lowest {check.lowest:.3g}, highest {check.highest:.3g}, at first "
        f"{check.first:.3g}, at last {check.last:.3g}"
        for check in (dispute.check for dispute in disputes)
        if check is not None
    ]
    return "\n".join(dict.fromkeys(lines)) or "Nothing."
