"""Sentences that people type, and what is read in them: every word is accounted for."""

import itertools
import math
import re
from dataclasses import replace
from functools import lru_cache

import pytest

from telic.composer._phases import arrange
from telic.composer.compose import compose
from telic.composer.lexicon import correct_spelling
from telic.composer.reader import parse
from telic.errors import (
    BadEnvironment,
    Contradiction,
    NotUnderstood,
    Refused,
    TelicError,
    UsageError,
)
from tests.composer.specs import named, spec_of

SIGN = {"about": "", "at_least": ">=", "at_most": "<="}


def lines_of(table):
    """Return (robot, sentence, rest) for each line "Robot: sentence | rest"."""
    found = re.findall(r"^(\w+): (.*?)(?: (?:=>|\||==)\s+(.*))?$", table, re.MULTILINE)
    return [pytest.param(*line, id=line[1]) for line in found]


@lru_cache
def read(sentence, robot="Humanoid"):
    return parse(sentence, spec_of(f"{robot}-v5"))


@lru_cache
def composed(sentence, robot="Humanoid"):
    return compose(sentence, spec_of(f"{robot}-v5"))


def titles(sentence, robot="Humanoid"):
    return [each.title for each in composed(sentence, robot).criteria]


def show(parsed):
    """Write what was read: frames, "!" and a limit, "?" and what was not understood."""
    lines = [show_frame(frame) for frame in parsed.frames]
    lines += [f"! {each.kind} {show_amount(each.amount)}".strip() for each in parsed.limits]
    unknown = [word for _, word in parsed.unknown]
    return lines + ([" ".join(("?", *unknown))] if unknown else [])


def show_amount(amount):
    return f"{SIGN[amount.rule]}{amount.value:.4g}{amount.unit}" if amount else ""


def show_frame(frame):
    degree = f"{frame.degree}/{frame.dimension}" if frame.degree else ""
    words = [
        f"{frame.phase})" if frame.phase else "",
        frame.verb,
        frame.gait,
        frame.direction,
        f"*{frame.factor:g}/{frame.dimension}" if frame.factor else degree,
        f"{show_amount(frame.amount)}/{frame.dimension}" if frame.amount else "",
        f"x{frame.count}" if frame.count else "",
        f"{frame.duration_s}s" if frame.duration_s else "",
        "until_end" if frame.until_end else "",
        f"[{frame.part}]" if frame.part else "",
        *frame.postures,
        *frame.styles,
        *(f"{each.name} {each.low:g}..{each.high:g}" for each in frame.held),
        f"to {frame.point}" if frame.point else "",
        f"at {show_amount(frame.pace)}" if frame.pace else "",
    ]
    return " ".join(word for word in words if word)


# What is read: the phase unless it is the first, verb, gait, direction, degree or amount with what
# it is about, count, duration, [part], postures and styles.
SENTENCES = """
HalfCheetah: run forward fast => go run forward fast/speed
Walker2d: walk slowly backward => go walk backward slow/speed
HalfCheetah: run at 3 m/s => go run 3m/s/speed
HalfCheetah: run at 1.5 +/- 0.1 m/s => go run 1.5m/s/speed
HalfCheetah: Please make the cheetah run as fast as you can! => go run most/speed
Humanoid: I want the robot to walk naturally like a human => go walk natural
Swimmer: swim forward as fast as possible => go swim forward most/speed
Humanoid: crawl => go crawl
HalfCheetah: run very fast => go run very_fast/speed
Ant: walk slightly faster => go walk *1.15/speed
Ant: run a little slower => go run *0.85/speed
Ant: jump a bit higher => jump *1.15/height
Ant: go sideways to the left at 1 m/s => go left 1m/s/speed
Ant: walk sideways => go walk sideways
Humanoid: strafe right => go walk right
Humanoid: sprint!!! => go sprint very_fast/speed
HalfCheetah: gallop like a real animal => go gallop natural
Ant: trot steadily with alternating legs => go trot steady alternating
Swimmer: slither slowly to the left => go swim left slow/speed
Swimmer: swim in a straight line => go swim straight_line
Ant: move forward smoothly with little energy => go forward smooth; ! low_energy
Humanoid: walk with as little energy as possible => go walk; ! low_energy
Ant: as smoothly as possible, walk forward => go walk forward smooth
Humanoid: run at half speed => go run *0.5/speed
Humanoid: run at 50% of top speed => go run 0.5share/speed
Humanoid: run at a speed of 2 => go run 2m/s/speed
Humanoid: run faster than 2 m/s => go run >=2m/s/speed
Humanoid: run no faster than 2 m/s => go run <=2m/s/speed
Humanoid: run at about two metres per second => go run 2m/s/speed
Humanoid: run at most 2.5 m per second => go run <=2.5m/s/speed
Humanoid: walk at 1-2 m/s => go walk 1.5m/s/speed
HalfCheetah: run between 2 and 3 m/s => go run 2.5m/s/speed
HalfCheetah: run at 10 km/h => go run 2.778m/s/speed
HalfCheetah: run at -2 m/s => go run backward 2m/s/speed
Humanoid: walk one and a half metres => go walk 1.5m/distance
Humanoid: walk twenty five centimeters => go walk 0.25m/distance
Humanoid: walk for half a second => go walk 0.5s
Humanoid: not too fast, walk forward => go walk forward moderate/speed
Humanoid: walk at a slow pace => go walk slow/speed
Humanoid: run forward as far as you can => go run forward most/distance
HalfCheetah: run as low as possible => go run most/height low
Humanoid: backwards quickly => go backward fast/speed
Hopper: jump as high as possible => jump most/height
Hopper: jump at least 1.5 m high => jump >=1.5m/height
Humanoid: jump 50 cm high => jump 0.5m/height
Humanoid: jump 3 feet high => jump 0.9144m/height
Hopper: jump forward 2 m => jump forward 2m/distance
Humanoid: jump forward as far as possible => jump forward most/distance
Ant: jump higher => jump *1.3/height
Ant: jump a little => jump little/height
Hopper: bounce up and down => jump; ? up and down
Hopper: hop forward on one leg => hop forward one_leg
Hopper: hop in place => hop in_place
Hopper: keep hopping => hop until_end
Humanoid: hop on the right foot five times => hop x5 [right foot] one_leg
Ant: the ant should jump in place three times => jump x3; ! no_drift
Ant: jump straight up => jump; ! no_drift
Humanoid: do ten jumps => jump x10
Hopper: take one step forward => go step forward 1steps/count
HalfCheetah: do a backflip and land on your feet => flip backward; 1) stand upright
HalfCheetah: do two front flips => flip forward x2
HalfCheetah: 2 backflips => flip backward x2
HalfCheetah: do a double backflip => flip backward x2
HalfCheetah: backflip repeatedly => flip backward until_end
HalfCheetah: somersault backwards => flip backward
HalfCheetah: front flip then back-flip => flip forward; 1) flip backward
Humanoid: do a cartwheel, then stand up => roll sideways; 1) stand_up
Humanoid: roll over => roll
HalfCheetah: raise your torso => stand [torso] high
Ant: spin in place clockwise => turn clockwise; ! no_drift
Ant: rotate counter-clockwise at 90 degrees per second => turn counterclockwise 1.571rad/s/turning
Ant: spin as fast as possible => turn most/turning
Ant: spin three turns => turn 3turns/turning
Ant: turn left 90 degrees => turn left 1.571rad/turning
Ant: turn half a turn to the right => turn right 0.5turns/turning
Ant: do a 360 => turn 6.283rad/turning
Humanoid: turn to face left => turn left 0.25turns/turning
Ant: face right => turn right 0.25turns/turning
Ant: face the other way => turn 0.5turns/turning
Ant: walk sideways to the right while facing forward => go walk right; ! no_turn
Ant: walk to the left facing right => go walk left; turn right 0.25turns/turning
Ant: walk in a circle => circle walk
Ant: move in small circles => circle little/distance
Ant: go in circles anticlockwise => circle counterclockwise
Humanoid: stand still => stand in_place until_end
Humanoid: stand for 5s => stand 5.0s
Humanoid: stand for a second => stand 1.0s
Humanoid: stay upright => stand until_end upright
Humanoid: stay in place => stand in_place until_end
Ant: stand on the rear legs => stand rear_legs
HalfCheetah: run on the hind legs => go run rear_legs
Humanoid: do a handstand => stand front_legs upside_down
Humanoid: do a headstand => stand upside_down
HalfCheetah: do a wheelie => stand rear_legs
Walker2d: stand on the left leg => stand [left leg] one_leg
Humanoid: balance on one leg for 10 seconds => balance 10.0s one_leg
Humanoid: stand straight => stand upright
Humanoid: run straight => go run straight_line
Humanoid: stand up and stay standing for 3 seconds => stand_up; stand 3.0s
Humanoid: get up => stand_up
Humanoid: rise to your feet => stand_up
Humanoid: sit down => sit
Humanoid: crouch low => sit low
Humanoid: lie down on your back and stay there => lie until_end lying on_back
InvertedPendulum: balance the pole => balance [pole]
InvertedPendulum: keep the pole upright without moving the cart =>
    balance until_end [pole] upright; ! no_drift
InvertedPendulum: hold the pole vertical for as long as possible => balance until_end [pole] upright
InvertedPendulum: keep the pole from falling => balance until_end [pole]; ! no_fall
InvertedPendulum: keep the pole balanced and the cart in the middle =>
    balance until_end [pole]; ! no_drift
InvertedPendulum: move the cart to the right without dropping the pole => go right [cart]; ! no_fall
InvertedPendulum: swing up the pole and keep it upright =>
    swing up [pole]; balance until_end upright
InvertedDoublePendulum: keep both poles up => balance until_end [poles] upright
Reacher: reach the target and hold still => reach; stand in_place until_end
Reacher: move the fingertip to the target quickly => reach fast/speed [tip]
Reacher: point at the target with the fingertip => reach [tip]
Reacher: keep the fingertip on the target => reach until_end [tip]
Ant: lift the front left leg => lift [front left leg]
Ant: lift leg 2 and hold it for 2 seconds => lift 2.0s [second leg]
Ant: keep your front legs off the ground => lift up until_end [front legs]
Humanoid: raise your left arm => lift [left arm]
Humanoid: can you make it kick with the right foot => kick [right foot]
Humanoid: wave with your left hand => swing [left hand]
Walker2d: walk without falling => go walk; ! no_fall
Ant: run forward without jumping or turning => go run forward; ! no_jump; ! no_turn
Humanoid: walk without jumping, turning or falling => go walk; ! no_jump; ! no_turn; ! no_fall
HalfCheetah: run backwards, quickly, but not falling over => go run backward fast/speed; ! no_fall
Humanoid: walk without using your hands => go walk; ! no_touch
Humanoid: walk but don't let the torso touch the ground => go walk; ! no_fall
Ant: stand without moving more than 1 m => stand; ! no_drift <=1m
Humanoid: squat down and hold that position for 3 seconds => sit 3.0s low
Humanoid: lie down, then rest for 2 seconds, then get up => lie 2.0s; 1) stand_up
Humanoid: squat three times, then rest => sit x3 low; 1) stop
Hopper: hop three times, then stick the landing => hop x3; 1) stand
Humanoid: lie down, wait 2 seconds, then get up => lie 2.0s; 1) stand_up
Ant: turn around. walk 2 m first => go walk 2m/distance; 1) turn 0.5turns/turning
Ant: walk 2 m first, then turn around => go walk 2m/distance; 1) turn 0.5turns/turning
Ant: jump first and then walk => jump; 1) go walk
Ant: walk at 1 m/s swinging the front legs => go walk 1m/s/speed; swing [front legs]
Ant: back away to the right => go walk backward; ? to right
Ant: run in a circle, then in a circle to the right => circle run; 1) circle run right
Ant: twist once, facing forward => turn x1; ? facing forward
Ant: lift the front left foot 10 cm above the ground => lift 0.1m/height [front left foot]
Humanoid: wave with the right one => swing [right hand]; ? one
Hopper: jump, then bounce back up => jump; 1) stand_up
Reacher: touch the target 3 times => reach x3
Ant: trot fast, head up => go trot fast/speed; ? head up
Humanoid: walk with the arms swinging, the head level => go walk; swing [arms]; ? head level
Humanoid: hold a plank for 20 seconds => stand 20.0s plank
Humanoid: walk with your head down => go walk; ? head down
Humanoid: rise your left hand => lift [left hand]
Humanoid: don't fall => stand; ! no_fall
Humanoid: don't fall, jump => jump; ! no_fall
HalfCheetah: run forward while keeping the torso low => go run forward low
HalfCheetah: keep the torso below 0.5 m while running => go run torso height -inf..0.5
HalfCheetah: Run forward. Keep the torso level. Don't fall. =>
    go run forward [torso] level; ! no_fall
Humanoid: run with the torso upright => go run upright
Humanoid: stay low and crawl forward => go crawl forward low
Humanoid: jump while staying in place => jump; ! no_drift
Humanoid: walk slowly without stopping => go walk slow/speed until_end
Ant: start walking and keep going => go walk until_end
Hopper: jump twice then stand still => jump x2; 1) stand in_place until_end
Walker2d: walk forward then backward => go walk forward; 1) go walk backward
Ant: walk forward and backward => go walk forward; 1) go walk backward
Ant: walk forward and to the left => go walk forward; go walk left
Ant: first walk slowly, then run fast => go walk slow/speed; 1) go run fast/speed
Ant: walk forward; then turn right; finally stop => go walk forward; 1) turn right; 2) stop
Humanoid: before running, jump twice => jump x2; 1) go run
Humanoid: jump before lying down => jump; 1) lie
Humanoid: stand still after jumping => jump; 1) stand in_place until_end
Humanoid: after jumping, stand still => jump; 1) stand in_place until_end
Humanoid: Jump twice followed by a roll => jump x2; 1) roll
HalfCheetah: run and then come to a halt => go run; 1) stop
Humanoid: stop walking => stop
Humanoid: walk forward for 3 seconds, then turn around and walk back =>
    go walk forward 3.0s; 1) turn 0.5turns/turning; 1) go walk backward
HalfCheetah: run at 2 m/s for 5 s, then jump as high as possible, then stand still until the end =>
    go run 2m/s/speed 5.0s; 1) jump most/height; 2) stand in_place until_end
Humanoid: do the splits => ? do the splits
Humanoid: dance => ? dance
Humanoid: lean forward => lean forward
Humanoid: don't run => ? don't run
Humanoid: walk, don't run => go walk; ? don't run
Humanoid: walk forward instead of backward => go walk forward; ? instead backward
Humanoid: walk without moving the arms => go walk; ? without moving arms
Reacher: stay away from the target => avoid
Humanoid: walk forward, staying as upright as possible => go walk forward upright
InvertedDoublePendulum: keep the poles upright and the cart still =>
    balance until_end [poles] upright; ! no_drift
Ant: walk forward with the torso 0.5 m high => go walk forward torso height 0.45..0.55
HalfCheetah: run 5 m at 2 m/s => go run 5m/distance at 2m/s
Ant: go to x = 2, y = -1 => go to (2.0, -1.0)
Ant: visit (1,0), (1, 1) and (-0.5, 2) =>
    go to (1.0, 0.0); 1) go to (1.0, 1.0); 2) go to (-0.5, 2.0)
Ant: trot to a point 3 m ahead and 1 m to the right => go trot to (3.0, -1.0)
Walker2d: walk without your torso dropping below 1 m => go walk torso height 1..inf
Walker2d: walk and never exceed a torso pitch of 0.2 rad => go walk pitch -inf..0.2
Ant: walk with joint speeds under 5 rad/s => go walk joint speed -inf..5
Ant: run 4 m, then strafe 2 m to the left, then go back to the start =>
    go run 4m/distance; 1) go walk left 2m/distance; 2) go return backward
Ant: go to (2, 2) as fast as possible => go most/speed to (2.0, 2.0)
Humanoid: jump and turn 180 degrees in the air => jump; turn 3.142rad/turning
Humanoid: I'd like the humanoid to run => go run
Humanoid: move like a snake => go; ? like snake
Humanoid: never stop running => go run until_end
Walker2d: skip forward => go skip forward
Humanoid: squat three times => sit x3 low
Humanoid: walk forward smoothly, efficiently and symmetrically =>
    go walk forward smooth symmetric efficient
Ant: turn clockwise twice, then walk forward for 2 s => turn clockwise x2; 1) go walk forward 2.0s
Humanoid: jog at a steady pace of 2 m/s => go jog 2m/s/speed steady
"""


@pytest.mark.parametrize(("robot", "sentence", "meant"), lines_of(SENTENCES))
def test_a_sentence_is_read_as_meant(robot, sentence, meant):
    parsed = read(sentence, robot)
    assert "; ".join(show(parsed)) == meant


def test_words_are_used_or_left_out_on_purpose_or_not_understood():
    parsed = read("please bake the cake")
    assert parsed.frames == ()
    assert parsed.unread == ("please bake the cake",)
    parsed = read("Please run the marathon quickly")
    assert [claim.words for claim in parsed.claims] == ["run", "quickly"]
    assert parsed.unread == ("marathon",)


# What must be named as not judged; "refused" where the verb itself is not understood.
LEFT_OUT = """
HalfCheetah: kick every 3 seconds | every 3 seconds
HalfCheetah: kick twice per second | twice per second
HalfCheetah: run on the moon | moon
HalfCheetah: run forward if it rains | if it rains
HalfCheetah: run until you are tired | until you are tired
HalfCheetah: run with a stride of 30 cm | stride of 30 cm
HalfCheetah: run at 2 m/s with a tolerance of 5 percent | tolerance of 5 percent
HalfCheetah: run forward with 80 percent of the power | 80 percent
HalfCheetah: backflip over the moon | over the moon
HalfCheetah: run forward happily | happily
HalfCheetah: run forward without ever touching the ground | without ever touching the ground
Ant: walk without its feet touching the ground | without its feet touching the ground
HalfCheetah: run forward and again | again
HalfCheetah: run perfectly still | perfectly still
HalfCheetah: run forward with purple shoes | purple shoes
HalfCheetah: walk forward like a kangaroo | like a kangaroo
HalfCheetah: run faster than an ant | than an ant
HalfCheetah: blorp the fnord | refused
HalfCheetah: run forward, then blorp | blorp
HalfCheetah: run forward, then blorp at 9 m/s for 7 seconds | blorp at 9 m/s for 7 seconds
Hopper: jump, then go to the left | go to the left
Walker2d: walk at 1.2 m/s with left/right step lengths matching within 5 % | left/right step lengths
Ant: walk forward and face the camera | face the camera
Ant: walk forward three times | three times
Ant: walk to the kitchen | kitchen
Ant: walk around the chair | around the chair
Ant: walk towards the person | towards the person
Ant: jump over the dog | over the dog
Ant: run through the door | through the door
Ant: walk forward when the light is green | when the light is green
Ant: turn 90 degrees left every 5 seconds | every 5 seconds
Ant: walk forward but only with the front legs | only
Ant: walk forward using three legs | three
Ant: raise every leg | every
Ant: walk with a straight back | back
Ant: walk with small steps | steps
Ant: stand still for 3 seconds every minute | every minute
Ant: moonwalk to the left | to the left
InvertedPendulum: keep the pole upright and play the piano with it | play the piano
InvertedPendulum: play the piano | refused
InvertedPendulum: keep the pole happy | happy
InvertedDoublePendulum: balance both poles, one of them twice | twice
Humanoid: walk while juggling | juggling
Humanoid: walk forward with style | style
Humanoid: walk like a zombie | like a zombie
Humanoid: move like a snake | like a snake
Humanoid: walk with your hands on your hips | hips
Humanoid: walk with crossed arms | crossed
Humanoid: kick the ball into the goal | goal
Humanoid: stand on one leg with closed eyes | closed eyes
Humanoid: walk forward instead of backward | instead
Humanoid: walk without moving the arms | without moving
Humanoid: do ten push-ups | refused
Humanoid: bend your knees | bend your knees
Humanoid: grapevine to the left | grapevine
Humanoid: rise onto your toes | toes
Ant: walk next to me, not too fast | next to me
Ant: sit, count to five, stand | count to five
Humanoid: hold a bridge | refused
Humanoid: throw the ball | refused
Humanoid: juggle without falling | refused
Humanoid: jab with your left hand while your feet stay planted | planted
Hopper: hop to the rhythm | rhythm
Hopper: hop forward in purple jumps | purple
Hopper: hop forward quietly like a cat | like a cat
Walker2d: walk forward backwards | backwards
Walker2d: walk fast slowly | slowly
Walker2d: walk with long strides | strides
Humanoid: raise your arms above 45 degrees | above 45 degrees
Ant: roll less than 90 degrees to the left | less than 90 degrees
Swimmer: swim to the island | island
Swimmer: swim butterfly | butterfly
Reacher: touch the target gently for 2 seconds, avoiding the obstacle | avoiding the obstacle
""".strip().splitlines()
# Ordinary ways to say what is judged as a whole.
WHOLE = """
HalfCheetah: please run forward for me, thank you very much
HalfCheetah: I would like you to make the cheetah run forward as fast as it can!
HalfCheetah: could you teach the robot to do a backflip and land on its feet?
HalfCheetah: run forward and stop at 5 m
HalfCheetah: walk 3 m forward, then come back
HalfCheetah: just run forward if possible
HalfCheetah: first jump, then stand still again
Humanoid: squat and come back up
Ant: walk forward for three seconds, then walk back to where you started
Ant: walk on the ground at any speed
Humanoid: stand without touching the ground with your left hand
Humanoid: try to stay upright all the time
Ant: the ant should walk forward slowly without falling at all
Ant: walk across the floor in a straight line
Ant: walk without using the front left leg
InvertedPendulum: keep the pole upright and the cart in the middle of the rail
Reacher: reach for the target and stay there
""".strip().splitlines()


@pytest.mark.parametrize(("robot", "sentence", "left"), lines_of("\n".join(LEFT_OUT)))
def test_what_no_criterion_carries_is_named(robot, sentence, left):
    if left == "refused":
        with pytest.raises(NotUnderstood, match="can: ") as caught:
            composed(sentence, robot)
        assert isinstance(caught.value, UsageError) and caught.value.exit_code == 2
    else:
        assert left in named(composed(sentence, robot))


@pytest.mark.parametrize(("robot", "sentence", "_"), lines_of("\n".join(WHOLE)))
def test_ordinary_words_leave_nothing_out(robot, sentence, _):
    assert named(composed(sentence, robot)) == ""


# Two sentences that are judged alike.
SAME = """
Ant: walk at 1 m/s or more == walk at at least 1 m/s
Ant: walk at between 0.5 m/s and 1 m/s == walk at 0.5 to 1 m/s
Ant: walk at 1.5 ± 0.1 m/s == walk at 1.4 to 1.6 m/s
Ant: walk 1 m forward and 1 m left == walk 1 m forward, then 1 m left
Walker2d: lean forward 10 degrees, then return to upright == lean forward 10 degrees, then stand
Ant: walk at 1 m/s or slower == walk at at most 1 m/s
Ant: walk until you reach 3 m == walk 3 m
Ant: walk no slower than 1 m/s == walk at at least 1 m/s
Ant: walk no farther than 2 m == walk at most 2 m
Ant: turn 0.5 rev == turn half a turn
Ant: turn 3/4 turn left == turn left 0.75 turns
Ant: walk ten feet == walk 3.048 m
Ant: walk at one point five m/s == walk at 1.5 m/s
Ant: run at 60 m a minute == run at 1 m/s
Ant: run at 3/4 of full speed == run at 75% of full speed
Ant: walk and stop after 3 seconds == walk for 3 seconds, then stop
Ant: stop walking after 3 seconds == walk for 3 seconds, then stop
Ant: walk, and after 3 seconds jump == walk for 3 seconds, then jump
Ant: after 3 seconds, jump == wait for 3 seconds, then jump
Ant: jump after 3 seconds == wait for 3 seconds, then jump
Ant: jump after 2 m == go 2 m, then jump
Ant: walk 2 m, turn left 90 degrees, walk 2 m == walk 2 m, then turn left 90 degrees, then walk 2 m
Ant: jump twice and run == jump twice, then run
Ant: stand still, but first jump twice == jump twice, then stand still
Ant: turn -90 degrees == turn 90 degrees to the right
Ant: turn to face the other way == turn around
Ant: turn round == turn around
Ant: walk at a trot == trot
Ant: jump 3 feet forward == jump forward 0.9144 m
Ant: jump exactly twice == jump twice
Ant: jump only twice == jump twice
Ant: do three hops == hop three times
Ant: walk, walk, walk == walk
Ant: walk 2 metres == walk 2 meters
Humanoid: march in place == walk in place
Humanoid: step in place == walk in place
Humanoid: turn anticlockwise == turn counterclockwise
Humanoid: walk hands up == walk with your hands up
Humanoid: walk, hands up == walk with your hands up
Walker2d: maintain a speed of 2 m/s == go at 2 m/s at all times
Walker2d: reach 1.2 m/s == go at 1.2 m/s
Ant: run never faster than 2 m/s == run at at most 2 m/s
Ant: run not slower than 2 m/s == run at at least 2 m/s
Ant: translate along +y at 0.5 m/s == move left at 0.5 m/s
Ant: 180, then walk == turn 180 degrees, then walk
Ant: left face! forward march! == face left, then march forward
Ant: step up the pace == speed up
HalfCheetah: run more fast than 4 m/s == run faster than 4 m/s
HalfCheetah: maximize speed subject to no flipping == go as fast as possible without flipping
Humanoid: touch your toes == bow
Humanoid: bend forward == lean forward
Humanoid: shift your weight from one foot to the other == lean left, then lean right
Humanoid: knees high, in place == march in place with high knees
Humanoid: um walk for i don't know three meters == walk for three meters
Humanoid: extend your right arm forward == raise your right arm
Hopper: do not terminate for 1000 steps == survive
Walker2d: symmetric gait at target speed 1.0 == go at 1.0 m/s, symmetric
"""


@pytest.mark.parametrize(("robot", "sentence", "same"), lines_of(SAME))
def test_it_is_read_like_a_plainer_one(robot, sentence, same):
    one, other = composed(sentence, robot), composed(same, robot)
    assert titles(sentence, robot) == titles(same, robot)
    assert one.env_args == other.env_args and named(one) == named(other) == ""


# ---- what belongs to what

UNKNOWN = itertools.product(
    ["walk", "run fast", "jump twice", "walk for 3 seconds"],
    [" looking", " while peering", ", glancing", " and yodelling"],
    ["to the left", "backwards", "up", "forward", "low", "upside down"],
)
PARTS = itertools.product(
    ["walk", "run fast", "jump"],
    ["with your {} {}", "while you keep your {} {}"],
    ["arms", "left arm", "knees", "left foot"],
    ["forward", "down", "to the left", "backward", "low"],
)
OBJECTS = itertools.product(
    ["jump", "spin", "hop"],
    ["at {} bpm", "at {} paces", "with {} kg"],
    ["2", "three", "half"],
)
MULTIPLES = itertools.product(
    ["jump", "hop", "spin"],
    ["twice", "three times", "half", "double", "2 times"],
    ["your height", "its own length"],
)
COMPARED = itertools.product(
    ["as high as", "as fast as", "as far as", "as low as"],
    ["your leg is long", "a car", "you did before", "a kangaroo"],
)
SIZES = itertools.product(
    ["walk under a bar", "run to the fence", "walk to the gap"],
    ["50 cm high", "1 m wide", "30 cm tall"],
)
WHOLES = itertools.product(
    ["turn", "roll", "spin", "flip", "run"], ["head", "shoulders", "left arm"]
)
# A robot, a sentence, the same without what is not understood, and words that must be named.
PLAINER = [
    *(("Humanoid", f"{a}{b} {c}", a, f"{b.split()[-1]} {c.split()[-1]}") for a, b, c in UNKNOWN),
    *(("Humanoid", f"{a} {b.format(c, d)}", a, d.split()[-1]) for a, b, c, d in PARTS),
    *(("Ant", f"{a} {b.format(c)}", a, f"{c} {b.split()[-1]}") for a, b, c in OBJECTS),
    *(("Ant", f"{a} {b} {c}", a, b.split()[0]) for a, b, c in MULTIPLES),
    *(("Ant", f"jump {a} {b}", "jump", a.split()[1]) for a, b in COMPARED),
    *(("Humanoid", f"{a} {b}", a.split()[0], f"{a.split()[-1]} {b.split()[0]}") for a, b in SIZES),
    *(("Humanoid", f"jump and {a} your {b}", "jump", f"{a} your {b}") for a, b in WHOLES),
    *(("Humanoid", f"jump and {a} a box", "jump", a) for a in ("lift", "pick up", "raise")),
    ("Ant", "turn right by pi/2", "turn right", "pi/2"),
    ("Ant", "turn right by tau/4", "turn right", "tau/4"),
]


def test_remarks_about_something_else_are_named_and_ignored():
    def asked(parsed):
        return [replace(frame, word="") for frame in parsed.frames], parsed.limits

    for robot, text, plain, printed in PLAINER:
        parsed = read(text, robot)
        assert asked(parsed) == asked(read(plain, robot)), text
        assert {*printed.split()} <= {*" ".join(parsed.unread).split()}, text


NOTHING = "turn your head, roll your shoulders, run your wrist, lift the box, raise a flag"


@pytest.mark.parametrize("text", NOTHING.split(", "))
def test_what_is_done_to_something_else_is_nothing_to_do(text):
    assert not read(text).frames


@pytest.mark.parametrize("unknown", ["look up", "gaze left", "bob down"])
def test_an_unknown_deed_before_a_known_one_does_not_lend_it_a_direction(unknown):
    for joint in (" and walk", ", then walk", " and jump"):
        parsed = read(unknown + joint)
        assert all(frame.direction is None for frame in parsed.frames)
        assert parsed.lost, unknown + joint


def test_a_limb_moves_in_the_pose_that_was_named():
    for pose, kept in {"lie down": "lies on", "crouch": "holds its torso below"}.items():
        for limb in ("kick", "raise your left arm"):
            made = titles(f"{pose} and {limb}")
            assert any(title.startswith(kept) for title in made), (pose, limb)
            assert ("is on its feet" in made) == (pose != "lie down"), (pose, limb)
    for words in ("with your torso raised", "and keep your torso raised"):
        made = " ".join(titles(f"stand on your hind legs {words}", "HalfCheetah"))
        assert "is on its rear feet only" in made and "holds its torso above" in made
    for deed, stays in {"wave": True, "walk and wave": False, "hop and wave": True}.items():
        assert ("stays where it is" in " ".join(titles(deed))) == stays, deed


LENGTHS = {"m": 1.0, "cm": 0.01, "km": 1000.0, "yards": 0.9144, "miles": 1609.344}
ANGLES = {"rad": 1.0, "degrees": math.pi / 180.0, "turns": 2.0 * math.pi}
TIMES = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "hour": 3600.0}


def test_a_rate_is_an_amount_per_time_in_any_units():
    for (unit, size), (time, seconds) in itertools.product(
        (*LENGTHS.items(), *ANGLES.items()), TIMES.items()
    ):
        verb = "run" if unit in LENGTHS else "spin"
        for per in (f" per {time}", f"/{time}", f" a {time}" if len(time) > 3 else f" per {time}"):
            amount = read(f"{verb} at 3 {unit}{per}", "Ant").frames[0].amount
            assert amount.unit == ("m/s" if verb == "run" else "rad/s"), (unit, per)
            assert amount.value == pytest.approx(3.0 * size / seconds, rel=1e-6, abs=1e-8)
    period = read("jump three times every 2 seconds", "Ant").frames[0].period_s
    assert period == pytest.approx(2 / 3)


def test_sequential_and_simultaneous_parts_are_distinguished():
    for text in ("walk 2 m, turning left", "turn left while walking", "run, jumping twice"):
        assert not any(title.startswith("phase") for title in titles(text, "Ant")), text
    for one, other in itertools.permutations(["walk", "wave", "stand"], 2):
        assert any(t.startswith("phase 2: ") for t in titles(f"{one} for 3 s and {other} for 3 s"))
    for joint, change in itertools.product((" and ", ", ", ", then "), ("slow down", "speed up")):
        phases = [frame.phase for frame in read(f"run{joint}{change}", "Walker2d").frames]
        assert phases == [0, 1], joint
    made = titles("walk forward, then walk backward without falling", "Ant")
    assert "phase 1: does not terminate early" in made and "does not terminate early" not in made
    with pytest.raises(Refused, match="in sequence"):
        composed(", then ".join(["walk forward", "jump"] * 5), "Ant")


# The verbs of each phase.
PHASES = """
Humanoid: jump, then stand still => jump > stand
Humanoid: jump and stand still => jump > stand
Humanoid: do a backflip and land on your feet => flip
Humanoid: stand up and stay standing for 3 seconds => stand_up
Humanoid: walk forward and to the left => go go
Humanoid: walk forward then backward => go > go
Humanoid: jump and turn 180 degrees in the air => jump turn
Humanoid: crouch and walk forward => go
Humanoid: stand on one leg and hop => hop
Humanoid: crouch, then walk forward => sit > go
Humanoid: crouch for 2 seconds and walk forward => sit > go
Humanoid: walk for 3 seconds, then turn around and walk back => go > turn > go
Humanoid: stand up, then walk => stand_up > go
Humanoid: do a forward roll and come back up to a crouch or a stand => roll > sit
Humanoid: get up into a squat => sit
Humanoid: stand up and crouch => stand_up > sit
Humanoid: do a forward roll and stand up => roll > stand_up
Humanoid: do a backflip and come back up => flip > stand_up
Humanoid: jump and stand up => jump > stand_up
Humanoid: turn left and come back up => turn > stand_up
Humanoid: walk 2 m and stand up => go > stand_up
Humanoid: spin twice, then stop facing left => turn > stop > turn
"""


@pytest.mark.parametrize(("robot", "sentence", "phases"), lines_of(PHASES))
def test_what_goes_together_and_what_comes_after(robot, sentence, phases):
    found = arrange(read(sentence, robot))
    assert " > ".join(" ".join(frame.verb for frame in phase) for phase in found) == phases


# ---- what cannot be had together

IMPOSSIBLE = """
HalfCheetah: run forward and stand still
HalfCheetah: run while standing still
HalfCheetah: jump without leaving the ground
HalfCheetah: hop in place without jumping
HalfCheetah: do a backflip while keeping the torso upright
HalfCheetah: run at at least 3 m/s and at most 1 m/s
Ant: run forward without moving forward
Ant: run forward without moving more than 1 m
Ant: walk 5 m without moving more than 1 m
Ant: spin without turning
Ant: turn 180 degrees left without turning more than 90 degrees
Ant: walk in a circle without turning
Humanoid: lie down while keeping your torso upright
Humanoid: do a handstand without using your hands
Humanoid: stand tall and stay low
Humanoid: walk upside down, upright
""".strip().splitlines()
POSSIBLE = """
HalfCheetah: run at least 1 m/s and at most 3 m/s
HalfCheetah: run forward, then stand still
HalfCheetah: do a backflip and land on your feet
HalfCheetah: jump and stand still
Humanoid: walk 3 m and stand still
Humanoid: lie down, then stand up
Ant: walk 1 m without moving more than 3 m
Ant: turn 90 degrees left without turning more than 180 degrees
Ant: jump in place three times
Ant: walk in place without drifting
Ant: stand still without moving
""".strip().splitlines()


@pytest.mark.parametrize(("robot", "sentence", "_"), lines_of("\n".join(IMPOSSIBLE)))
def test_what_cannot_be_had_together_is_refused(robot, sentence, _):
    with pytest.raises(Contradiction, match=r'".+" and ".+" cannot both be done') as caught:
        composed(sentence, robot)
    assert isinstance(caught.value, UsageError) and caught.value.exit_code == 2


@pytest.mark.parametrize(("robot", "sentence", "_"), lines_of("\n".join(POSSIBLE)))
def test_what_can_be_had_together_is_not_and_unchanged_criteria_change_nothing(robot, sentence, _):
    made = composed(sentence, robot)
    assert compose(sentence, spec_of(f"{robot}-v5"), criteria=made.criteria) == made


CANNOT = """
Hopper: go to the left | moves along y
Hopper: kick | no other foot
HalfCheetah: turn right | turns about z
HalfCheetah: walk in a circle | turns about z
HalfCheetah: wave your hands | its bodies are torso
HalfCheetah: raise your left arm | its bodies are torso
HalfCheetah: skip forward | fore and aft, not left and right
HalfCheetah: jump every 20 seconds | shorter than two periods
Swimmer: jump | moves along z
Swimmer: gallop forward | no feet
Walker2d: stand on the rear legs | in front and behind
Walker2d: pace forward | four feet at the corners of the body, but it has two
Hopper: walk forward | one foot
Ant: reach the target | a target
Ant: go up | name the terrain to climb
Ant: skip forward | two feet, but it has four
Ant: run 100000 m | at most
Ant: run at 100000 m/s | at most
Ant: jump 100000 m high | at most
Ant: walk in a circle with a radius of 0.001 m | too small to judge
Ant: turn 0.001 degrees | too small to judge
Humanoid: wave 500 times | at most 100 times
"""


@pytest.mark.parametrize(("robot", "sentence", "reason"), lines_of(CANNOT))
def test_what_a_robot_cannot_do_is_refused_with_what_it_can(robot, sentence, reason):
    with pytest.raises(BadEnvironment, match=reason) as caught:
        composed(sentence, robot)
    assert f"{robot}-v5 can: {'go' if robot == 'Swimmer' else 'run'} forward fast" in str(
        caught.value
    )


def test_a_cart_does_not_leave_its_rail():
    with pytest.raises(BadEnvironment, match="at most 1 m"):
        composed("translate the cart by 2.5 m", "InvertedDoublePendulum")
    assert composed("translate the cart by 0.5 m", "InvertedDoublePendulum")


# ---- parts and spelling


@pytest.mark.parametrize(
    ("robot", "name", "part", "bodies"),
    [
        ("HalfCheetah", "front leg", "front legs", "fthigh fshin ffoot"),
        ("HalfCheetah", "hind foot", "rear feet", "bfoot"),
        ("HalfCheetah", "fshin", "fshin", "fshin"),
        ("Ant", "front right leg", "front right leg", "right_back_leg aux_4 aux_4.1"),
        ("Ant", "left feet", "left feet", "aux_1.1 aux_2.1"),
        ("Ant", "third leg", "third leg", "back_leg aux_3 aux_3.1"),
        ("Ant", "front_right_leg", "front_right_leg", "front_right_leg"),
        ("Ant", "left arm", "left arm", ""),
        ("Walker2d", "right foot", "right foot", "foot"),
        ("Humanoid", "right hand", "right hand", "right_lower_arm"),
        ("HumanoidStandup", "lower left leg", "lower left leg", ""),
        ("HumanoidStandup", "left lower leg", "left shin", "left_shin"),
        ("Swimmer", "tail", "tail", "back"),
        ("Reacher", "end effector", "tip", "fingertip"),
        ("InvertedPendulum", "tip of the pole", "tip", "pole"),
        ("InvertedDoublePendulum", "upper pole", "upper pole", "pole2"),
    ],
)
def test_a_part_is_found_by_its_everyday_name(robot, name, part, bodies):
    (frame,) = read(f"lift the {name}", robot).frames
    assert (frame.part, " ".join(frame.bodies)) == (part, bodies)


def test_another_model_is_known_by_its_own_names():
    models = {
        "quadruped": {"front left leg": "fl", "rear legs": "bl br", "body": "base"},
        "walker": {"back leg": "rear_leg", "front_leg": "front_leg", "torso": "trunk"},
    }
    for model, names in models.items():
        spec = spec_of(f"tests/envs/robots/{model}.xml")
        for name, bodies in names.items():
            assert " ".join(parse(f"lift the {name}", spec).frames[0].bodies) == bodies
    assert parse("swing up and hold the pole up", spec_of("Pendulum-v1")).frames[0].verb == "swing"


def test_one_typo_is_corrected_with_a_note_and_more_are_not_guessed():
    for typed, meant in {"backflp": "flip", "balanse": "balance", "cirlce": "circle"}.items():
        parsed = read(typed)
        assert (parsed.frames[0].verb, parsed.claims[0].words) == (meant, typed)
        assert f'"{typed}" is interpreted as' in parsed.corrected[0]
    assert {correct_spelling(typed) for typed in ("jummping", "jmping", "jupming")} == {"jumping"}
    for typed in ("bakflpi", "rum", "jumpers", "jpuimng"):
        assert correct_spelling(typed) == typed and read(typed).frames == ()


def test_a_refusal_says_the_nearest_intent_that_is_understood():
    with pytest.raises(NotUnderstood, match='Nearest: "lie down"'):
        composed("sleep, then run forward", "Ant")
    with pytest.raises(TelicError, match="does not contain a movement"):
        composed("blorp the fnord", "Reacher")
