"""Compose intents about observations and returns, for environments without a known robot.

    keep the pole upright · swing up the pendulum · reach the flag · reach the goal
    keep cart position near 0.5 within 0.2 · keep obs 2 below 1 · keep obs[0] between -1 and 1
    get a return of at least 200 · get a high return

    push the block to the goal · pick up the block and lift it to the goal · lift the block 20 cm

Classic control tasks have their own phrases (`observed.toml`). Goal environments provide the
distance to the goal, and all others their columns and return. For an arm, the words determine the
contents of the environment: a block, and a goal either on the table or in the air.
"""

import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, NamedTuple

from telic.composer._amounts import Reading, denied, number_readers, read_amount
from telic.composer._draft import Draft, composition, edit
from telic.composer.lexicon import (
    Lexicon,
    Match,
    PhraseReader,
    Sense,
    Token,
    ignored_words,
    lexicon,
    quoted,
    quotes,
    read_tokens,
    vocabulary,
    word_table,
)
from telic.composer.scene import Observable, as_tuples, can_have_block, known_values, observables
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges import metrics, tracks
from telic.judges.criteria import Composition, CoveredPhrase, Criterion
from telic.judges.tracks import Measure
from telic.rewards import terms
from telic.rewards.node import shortened
from telic.rewards.signals import Above, Below, Block, Cycles, Given, Less, Measured, Observed, Part

_DIGITS = 6
_SHARE, _SHARE_OF_THE_WAY = 0.85, 0.6
"""fraction of the episode in which a condition must hold, and a lower one if it is reached late"""
_SIGNED = ("rad", "rad/s", "m/s", "m/step")
_UNLIMITED_STEPS = 500
"""episode length in steps for environments without a time limit"""
EXAMPLES = ("push the block to the goal", "pick up the block and lift it to the goal")
_LIFT_M, _MAX_LIFT_M = 0.15, 0.3
_SECONDS = {"push": 4.0, "pick": 5.0}
_STEPS = {"push": 1_500_000, "pick": 5_000_000}


class ObservedCondition(NamedTuple):
    """Condition on an observable or on the return."""

    kind: Literal["near", "above", "below", "reach", "return", "within", "swing"]
    what: str
    value: float
    tolerance: float | None = None
    title: str = ""
    helped_by: tuple[str, float, float] | None = None
    """observable used for reward shaping, with its values at the start and at the goal"""


# ---- reading


def is_observed(intent: str, spec: EnvSpec) -> bool:
    """Return whether an intent is about observations rather than a robot."""
    if spec.robot is None or is_about_block(intent, spec):
        return True
    data, tokens = word_table("observed"), read_tokens(intent)

    def names(phrases: Iterable[str]) -> bool:
        return _has(tokens, Lexicon(((each, Sense("", "")) for each in phrases), data["parts"]))

    return (
        re.search(r"\bobs(?:ervation)? ?\[?\d", intent.lower()) is not None
        or names(
            words
            for row in known_values(spec)[1]
            if not row.get("shared")
            for words in row["words"]
        )
        or names(word for each in known_values(spec)[0] for word in (each.name, *each.words))
        or ("env_reward" in spec.info_keys and names(data["returns"]["high"]))
    )


def _join(tokens: Sequence[Token], place: int) -> str | None:
    """Return the kind of the conjunction at a position."""
    join = lexicon().find(tokens, place, "join")
    return join.senses[0].value if join is not None else None


def _scan(
    tokens: Sequence[Token],
    phrases: Lexicon,
    readers: Mapping[str, PhraseReader],
    ignored: Collection[str],
) -> tuple[list[Match], tuple[str, ...], list[Match]]:
    """Match the longest phrase at each position, and collect the words outside of phrases.

    Also return the phrases that are negated.
    """
    matches: list[Match] = []
    unknown: set[int] = set()
    left_out: set[int] = set()
    place, denied, negated = 0, -2, list[Match]()
    while place < len(tokens):
        found = phrases.find(tokens, place, readers=readers)
        join, kind = lexicon().find(tokens, place, "join"), _join(tokens, place)
        if found is not None:
            matches.append(found)
            if place - denied <= 1:
                negated.append(found)
                unknown -= {*range(denied - 2, denied)}
            place = found.end
        elif join is not None and kind == "until_end":
            place = join.end  # the behavior lasts anyway
        else:
            denied = join.end if join is not None and kind == "negation" else denied
            reading = read_amount(tokens, place)
            is_idle = tokens[place].silent or tokens[place].word in ignored
            at = reading.at if reading is not None else (place,)
            (left_out if is_idle and reading is None else unknown).update(at)
            place = at[-1] + 1
    return matches, quotes(tokens, unknown, left_out), negated


class _Reading:
    """Conditions of an intent, with their source words."""

    def __init__(self, intent: str, spec: EnvSpec) -> None:
        self.wants: dict[ObservedCondition, str] = {}
        self.doubts: list[str] = []
        self.known: dict[str, list[Observable]] = {}
        """observables by name and by alternative name"""
        for each in observables(spec):
            for name in (each.name, *each.words):
                self.known.setdefault(name, []).append(each)
        words = {word for name in self.known for word in (name, *name.split())}
        self._spec, self._tokens = spec, read_tokens(intent, words)
        names = Lexicon(
            (" ".join(token.word for token in read_tokens(name, [name])), Sense("", name))
            for name in self.known
            if not re.search(r"[(|){}]", name)
        )

        def named(tokens: Sequence[Token], place: int) -> tuple[tuple[int, ...], str] | None:
            found = names.find(tokens, place)
            return (found.at, found.senses[0].value) if found else None

        data, own = word_table("observed"), {*re.findall(r"[a-z]+", spec.id.lower())}
        entries = [(each, Sense("phrase", "", {"wants": None})) for each in data["opposite"]]
        for row in known_values(spec)[1]:
            wants = tuple(ObservedCondition(**as_tuples(each)) for each in row["wants"])
            says = {"wants": wants, "note": row.get("note")}
            entries += [(each, Sense("phrase", "", says)) for each in row["words"]]
        columns = {k: v for k, v in data["columns"].items() if k != "parts"}
        returns = data["returns"] if "env_reward" in spec.info_keys else {}
        for slot, rows in (("column", columns), ("return", returns)):
            for value, words in rows.items():
                entries += [(each, Sense(slot, value)) for each in words]
        entries += [("{time}", Sense("within", ""))] if spec.dt_s else []
        phrases = Lexicon(entries, data["parts"] | data["columns"]["parts"])
        readers = {"observable": named, **number_readers()}
        known = ignored_words() | own | {"and", "while", "with"}
        matches, left, negated = _scan(self._tokens, phrases, readers, known)
        unread, placed = list(left), dict[ObservedCondition, int]()
        thens = [k for k in range(len(self._tokens)) if _join(self._tokens, k) == "then"]
        for match in matches:
            is_denied = match in negated
            text = quoted(self._tokens[match.at[0] - is_denied : match.end])
            wanted = self._wants(match, is_denied)
            if wanted is None:  # incompatible unit, unknown verb, or the opposite is requested
                unread.append(text)
            for want in wanted or ():
                self.wants.setdefault(want, text)
                placed.setdefault(want, match.at[0])
                # Of two values in sequence, the last is judged.
                old = {e for e, at in placed.items() if any(at < k <= match.at[0] for k in thens)}
                old = {e for e in old & {*self.wants} if e.what == want.what and e != want}
                unread += [self.wants.pop(each) for each in old]
        self.not_understood = tuple(unread)

    def _wants(self, match: Match, is_denied: bool = False) -> tuple[ObservedCondition, ...] | None:
        """Return the conditions expressed by a phrase, or None if it is not understood."""
        sense, text = match.senses[0], match.read
        if is_denied and sense.slot != "column":
            return None
        if sense.slot == "phrase":
            self.doubts += [note] if (note := sense.says.get("note")) else []
            return sense.says["wants"]
        if sense.slot == "within":
            limit = text[0].amount
            seconds = limit.value * (self._spec.dt_s or 1.0 if limit.unit == "steps" else 1.0)
            return (ObservedCondition("within", "time", seconds),)
        if sense.slot == "return":
            value = text[0].bare if text else self._spec.solved_return
            if value is None or (text and text[0].rule == "at_most"):
                return None
            solved = f"a high return is interpreted as {value:g} (solved)"
            self.doubts += [] if text else [solved]
            title = f"earns a return of {value:g}"
            return (ObservedCondition("return", "return", value, None, title),)
        # A different verb or unit may be intended: "oscillate the cart", "at 1 Hz".
        words = [token.word for token in self._tokens]
        after = words[match.end : match.end + 1]
        before = [word for word in words[: match.at[0]] if word not in ignored_words()]
        is_plain = words[match.at[0]] == text[0].split()[0] and not is_denied
        is_other = is_plain and not {*before[-1:]} <= {"and", "while", "with", ",", "."}
        if is_other or (text[-1].bare is not None and after and after[0] not in vocabulary()):
            return None
        numbers = [each for each in text if isinstance(each, Reading)]
        units = {each.amount.unit for each in numbers if each.amount}
        fits = (each for each in self.known[text[0]] if units <= {each.unit})  # a cart's speed
        what, number = next(fits, self.known[text[0]][0]), numbers[0]
        number = denied(number) if is_denied else number
        want = self._column(sense.value, what, (number, *numbers[1:]))
        return None if want is None or (is_denied and number.rule is None) else (want,)

    def _column(
        self, kind: str, what: Observable, words: Sequence[Reading]
    ) -> ObservedCondition | None:
        """Return a condition on an observable, or None if a number has an incompatible unit."""
        units = {each.amount.unit for each in words if each.amount}
        if (what.unit and units - {what.unit}) or any(e.amount is e.bare is None for e in words):
            return None
        values = [each.amount.value if each.amount else each.bare or 0.0 for each in words]
        value, tolerance, rule = values[0], values[1:], words[0].rule if kind == "amount" else None
        value = -value if kind == "left" else value
        if kind == "between":
            middle, half = (value + values[1]) / 2.0, abs(value - values[1]) / 2.0
            title = f"goes back and forth between {min(values):g} and {max(values):g}"
            return ObservedCondition("swing", what.name, middle, 0.8 * half, title)
        if kind == "reach":
            is_up = words[0].rule == "at_least"
            return ObservedCondition("reach", what.name, value) if is_up else None
        if rule == "at_least":
            return ObservedCondition("above", what.name, value)
        # A small angle or speed means a small absolute value.
        if kind == "within" or (rule == "at_most" and what.unit in _SIGNED and value > 0.0):
            return ObservedCondition("near", what.name, 0.0, value) if value > 0.0 else None
        if rule == "at_most":
            return ObservedCondition("below", what.name, value)
        if not tolerance and words[0].spread > 0.0:
            factor = value / words[0].bare if words[0].bare else 1.0
            return ObservedCondition("near", what.name, value, words[0].spread * factor)
        if not tolerance:
            self.doubts.append(f"near is interpreted as within {what.near:g} of {value:g}")
        around = abs(tolerance[0]) if tolerance else what.near
        return ObservedCondition("near", what.name, value, around)


def example_intents(spec: EnvSpec) -> str:
    """Return example intents for an environment."""
    names, phrases = [each.name for each in observables(spec)], known_values(spec)[1]
    is_solved = spec.solved_return is not None
    examples = [
        *(f'"{phrase["example"]}"' for phrase in phrases),
        f'"keep {names[0]} near 0 within 0.1", "keep obs {len(spec.obs_names) - 1} below 1"',
        '"get a high return"' if is_solved else '"get a return of at least 100"',
    ]
    listed = ", ".join(dict.fromkeys(names[:12])) + (", ..." if len(names) > 12 else "")
    missing = " To move an object to a goal, observe both by name, e.g. a Dict with puck and goal."
    missing *= not any("goal" in phrase["example"] for phrase in phrases)
    return f"Examples: {', '.join(examples)}. Observed values: {listed}.{missing}"


# ---- criteria and terms


def compose_observed(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None
) -> Composition:
    """Compose criteria, reward and judge for an intent about observations. See `compose`."""
    if is_about_block(intent, spec):
        return compose_block(intent, spec, criteria)
    reading = _Reading(intent, spec)
    if not reading.wants:
        raise Refused(
            f'Nothing in "{intent}" can be measured in {spec.id}.', hint=example_intents(spec)
        )
    draft = Draft(doubts=reading.doubts)
    titles: dict[str, tuple[str, ...]] = {}
    known = {name: each[0] for name, each in reading.known.items()}
    done: list[Measure] = []
    for want, words in sorted(reading.wants.items(), key=lambda each: each[0].kind == "within"):
        before = len(draft.parts)
        if want.kind != "within":
            done += _ask(want, known, draft)
        elif done:
            value, limit = tracks.longest(reduce(operator.and_, done) < 0.5), want.value
            draft.score("is done within %s", value, 1.5 * limit, limit, tag="too_slow")
        own = tuple(part.title for part in draft.parts[before:])
        titles[words] = (*titles.get(words, ()), *own)
    used = [k for want in reading.wants if want.what in known for k in known[want.what].columns]
    has_block = max(used, default=0) >= (*spec.obs_names, "block_x").index("block_x")
    task = {"task": "push"} if has_block and can_have_block(spec) else {}
    if all(want.kind in ("near", "above", "below") for want in reading.wants):
        draft.pay("alive", 1.0, terms.Alive(), "the episode continues")
    steps = spec.max_episode_steps
    if steps is None:
        draft.doubt(f"episodes have no time limit, so {_UNLIMITED_STEPS} steps are used")
    return _finished(
        (intent, spec, criteria),
        draft,
        titles,
        env_args={"max_episode_steps": steps or _UNLIMITED_STEPS} | task,
        settings=draft.settings,
        steps=known_values(spec)[2],
        not_understood=reading.not_understood,
    )


def _finished(
    asked: tuple[str, EnvSpec, Sequence[Criterion] | None],
    draft: Draft,
    titles: Mapping[str, Sequence[str]],
    **settings: Any,
) -> Composition:
    """Return the composition of a draft with edited criteria and the words they cover."""
    intent, spec, criteria = asked
    if criteria is not None:
        edit([draft], criteria)
    made = composition(intent, spec.id, (), draft, doubts=tuple(draft.doubts), **settings)
    judged = {each.title for each in made.criteria}
    carried = [(words, tuple(t for t in own if t in judged)) for words, own in titles.items()]
    covered = tuple(CoveredPhrase(words=words, criteria=own) for words, own in carried if own)
    dropped = tuple(words for words, own in carried if not own)
    return made.model_copy(update={"covered": covered, "dropped": dropped})


def _ask(
    want: ObservedCondition, known: dict[str, Observable], draft: Draft
) -> tuple[Measure, ...]:
    """Add the reward terms and criteria of one condition. Return where it holds."""
    number = sum(name.startswith(("near", "there", "earned")) for name in draft.names) + 1
    if want.kind == "return":
        draft.pay(f"earned_{number}", 1.0, terms.Pay(Given("env_reward")), "built-in reward")
        zero = want.value - max(abs(want.value), 1.0)
        value, meaning = tracks.total("env_reward"), "return of the episode"
        _once(want.title, value, meaning, zero, want.value, "", draft)
        return ()
    what = known[want.what]
    x, seen = Observed(what.kind, what.columns), tracks.observed(what.kind, what.columns)
    seen = replace(seen, digits=_DIGITS)
    unit, at = f" {what.unit}" if what.unit else "", shortened(want.value, _DIGITS)
    if want.kind == "reach":
        # Reach the value once. Each step before is penalized because many environments end there.
        start, led, low, high = want.value - what.span, what, want.value - what.span, want.value
        if want.helped_by is not None:
            led, low, high = known[want.helped_by[0]], *want.helped_by[1:]
        pays = terms.Missing(Observed(led.kind, led.columns), high, shortened(high - low))
        draft.pay(f"way_{number}", 1.0, pays, f"missing {what.name}")
        there = terms.Reached(x, want.value)
        draft.pay(f"there_{number}", 20.0, there, f"{what.name} from {want.value:g} on")
        title, meaning = want.title or f"gets {what.name} to {want.value:g}", f"highest {what.name}"
        _once(title, tracks.highest(seen), meaning, start, want.value, what.unit, draft)
        return (seen >= want.value,)
    if want.kind == "swing":
        high, low = at + (want.tolerance or what.near), at - (want.tolerance or what.near)
        swings = Cycles(x, high, low)
        draft.pay("swing", 1.0, terms.Done(swings), f"{what.name}: once per swing")
        draft.pay("next", 0.5, terms.Toward(swings), "on the way to the other side")
        times = tracks.last(tracks.cycles(seen, high, low))
        draft.score(f"{want.title}, %s times", times, 0.0, 3.0, weight=3.0, tag="too_low")
        return ()
    if want.kind == "near":
        tolerance = shortened(want.tolerance or what.near, _DIGITS)
        words = f"{what.name} within {tolerance:g} of {want.value:g}"
        held = abs(seen - at) < tolerance
        draft.pay(f"near_{number}", 1.0, terms.Hill(x, at, tolerance), words)
        pays = terms.Off(x, at, max(what.span, tolerance))
        draft.pay(f"way_{number}", 0.5, pays, f"{what.name}: way to {want.value:g}")
        title = want.title or f"keeps {what.name} within {tolerance:g}{unit} of {want.value:g}"
    else:
        is_above = want.kind == "above"
        words = f"{what.name} {'above' if is_above else 'below'} {want.value:g}"
        held = seen > at if is_above else seen < at
        pays = terms.Sigmoid(Less(x, at, sign=1 if is_above else -1), what.near)
        draft.pay(f"there_{number}", 1.0, pays, words)
        title = want.title or f"keeps {words}{unit}"
    goal = _SHARE_OF_THE_WAY if what.is_far and (want.value or not what.starts_at_0) else _SHARE
    value = replace(tracks.share(held), words=f"share of the time with {words}")
    draft.score(title, value, 0.2 * goal, goal, weight=2.0, tag="too_far")
    return (held,)


def _once(
    title: str, value: Measure, meaning: str, zero: float, goal: float, unit: str, draft: Draft
) -> None:
    """Add a binary criterion, and partial credit for values just below its threshold."""
    value = replace(value, words=meaning, unit=unit, digits=_DIGITS)
    done = replace(value >= goal, words=f"1 if {meaning} is {goal:g} or more")
    draft.score(title, done, 0.0, 1.0, weight=3.0, tag="too_low")
    draft.score(f"{title}, nearly", value, zero, goal, tag="too_low")


# ---- the block of an arm; the words decide whether its goal is on the table or in the air


def _phrases() -> Lexicon:
    data = word_table("blocks")
    rows = data["phrases"].items()
    return Lexicon(
        [(each, Sense(about, about)) for about, row in rows for each in row], data["parts"]
    )


def is_about_block(intent: str, spec: EnvSpec) -> bool:
    """Return whether an intent mentions a block that can be added to this environment."""
    return can_have_block(spec) and _has(read_tokens(intent), _phrases(), "push", "pick")


def _has(tokens: Sequence[Token], phrases: Lexicon, *about: str) -> bool:
    return any(phrases.find(tokens, place, *about) for place in range(len(tokens)))


def compose_block(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None
) -> Composition:
    """Compose criteria, reward and judge for an intent about a block. See `compose`.

    Raises:
        Refused: the intent does not use the block, or lifts it too high.
    """
    tokens = read_tokens(intent)
    known = ignored_words() | {"and", "then", "it", "arm", "gripper", "robot"}
    readers = number_readers()
    matches, unread, negated = _scan(tokens, _phrases(), readers, known)
    words: dict[str, str] = {}
    heights: list[Reading] = []
    for match in matches:
        words.setdefault(match.senses[0].value, quoted(tokens[match.at[0] : match.end]))
        heights += match.read
    task = "pick" if "pick" in words else "push"
    is_kept_down = words.pop("denied", None) is not None and task == "pick"
    if task not in words or is_kept_down or negated:
        raise Refused(
            f'"{intent}" does not specify an action for the block.',
            hint=f"Examples: {', '.join(EXAMPLES)}.",
        )
    draft, lift = Draft(), None
    if not _has(tokens, _phrases(), "where"):
        if task == "push":
            draft.doubt("no target is given: the goal, the red ball, is assumed")
        elif heights and heights[0].amount:
            lift = heights[0].amount.value
        else:
            lift = _LIFT_M
            draft.doubt(f"no height is given: {lift:g} m above its initial position is assumed")
    if lift is not None and not 0.0 < lift <= _MAX_LIFT_M:
        raise Refused(
            f"The maximum lifting height of a block is {_MAX_LIFT_M:g} m, not {lift:g} m.",
            hint=f'Example: "lift the block {100 * _LIFT_M:g} cm".',
        )
    titles = _push(draft) if task == "push" else _pick(lift, draft)
    if "soon" in words:
        done = metrics.block("target") < 0.05
        if lift is not None:
            done = metrics.block("start") > 0.7 * lift
        title, value = "is done in the first 40% of the time", tracks.share_until(done)
        titles["soon"] = (draft.score(title, value, 0.8, 0.4, weight=1.0, tag="too_slow"),)
    draft.pay("calm", 0.05, terms.Cost(Measured("effort")), "effort")
    steps = round(_SECONDS[task] / (spec.dt_s or 0.02))
    return _finished(
        (intent, spec, criteria),
        draft,
        {text: titles.get(about, ()) for about, text in words.items()},
        env_args={"task": task, "max_episode_steps": steps},
        settings={"log_std": -1.0},  # large actions throw the block off the table
        steps=_STEPS[task],
        not_understood=unread,
    )


def _be_there(draft: Draft, farthest: float) -> tuple[str, str]:
    """Reward and judge a block that reaches the goal and stays there."""
    block, away = Block(), metrics.block("target")
    draft.pay("near", 1.0, terms.Near(Part(block, "near"), 8.0), "hand close to the block")
    draft.pay("bring", 4.0, terms.Pay(Part(block, "way")), "share of the block's way done")
    draft.pay("there", 2.0, terms.Pay(Below(Part(block, "away"), 0.05)), "block at the goal")
    title, value = "brings the block within 0.04 m of the goal", tracks.mean_of_last(away, 1.0)
    close = draft.score(title, value, farthest, 0.04, weight=3.0, tag="too_far")
    value = tracks.share(away < 0.05)
    return close, draft.score("keeps it there", value, 0.05, 0.4, weight=2.0, tag="drifts")


def _push(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Push the block along the table to the goal."""
    there = _be_there(draft, 0.07)
    value = tracks.share(abs(metrics.block("start")) < 0.03)
    pushes = draft.require("pushes it along the table", value, 0.7, 0.95, tag="flails")
    return {"push": (*there, pushes), "where": there, "keeps": there[1:], "holds": there}


def _pick(lift: float | None, draft: Draft) -> dict[str, tuple[str, ...]]:
    """Lift the block with the gripper to the goal or to a height."""
    height, block, risen = lift or 0.1, Block(), metrics.block("start")
    draft.pay("near", 1.0, terms.Near(Part(block, "near"), 8.0), "hand close to the block")
    draft.pay("lift", 4.0, terms.LiftBlock(block, height), "block off the table, in the hand")
    title, value = f"lifts the block {height:.2g} m", tracks.highest(risen)
    draft.score(title, value, 0.2 * height, 0.9 * height, weight=1.5, tag="too_low")
    if lift is None:
        there = _be_there(draft, 0.1)
    else:
        up = 0.7 * height
        draft.pay("up", 2.0, terms.Pay(Above(Part(block, "rise"), up)), "block up")
        value = tracks.share(risen > up)
        there = title, draft.score("keeps it up", value, 0.05, 0.4, weight=3.0)
    holds = draft.require("holds it", metrics.block_in_hand(), 0.5, 0.9, tag="too_far")
    return {
        "pick": (title, *there, holds),
        "where": there,
        "height": (title,),
        "keeps": there[1:],
        "holds": (holds, there[1]),
    }
