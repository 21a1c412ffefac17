"""Generate clips from plans for any biped. Equal seeds give equal clips.

A plan defines trajectories of root, feet and hands, from which inverse kinematics computes the
joints. Plans that exceed the robot's limits are rejected with a reason.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import about, from_euler, multiply, rotate
from telic.core.seeds import derive
from telic.core.tensors import from_numpy
from telic.errors import UnknownName, UsageError
from telic.motions._figure import SIDES, RobotFigure, Side, person_like
from telic.motions.clip import MotionClip, MotionOrigin, Split
from telic.motions.families import FPS, Footing, Measures, MotionFamily, MotionPlan, Parameters
from telic.motions.families import families as all_families
from telic.motions.kinematics import (
    KinematicGoals,
    PointGoal,
    PoseBatch,
    TurnGoal,
    solve_trajectory,
)
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import MotionRobot
from telic.robots.catalogue import cache_folder
from telic.storage.files import make_folder

LICENSE = "CC0-1.0"
_STRETCH = 0.985
"""maximum leg extension as a fraction of the leg length"""
_HELD: dict[Split, tuple[float, float]] = {"test": (0.4, 0.52), "validation": (0.72, 0.8)}
"""parts of a parameter's range that training does not sample"""


def family_names(robot: MotionRobot) -> list[str]:
    """Return the names of the families a robot supports."""
    figure = RobotFigure(robot)
    planar = robot.facts.root.kind != "free"
    return [
        name
        for name, family in all_families().items()
        if (family.is_planar or not planar) and (figure.has_arms or not family.needs_arms)
    ]


def draw_parameters(
    family: MotionFamily, split: Split, rng: np.random.Generator
) -> dict[str, float]:
    """Sample the parameters of a family, excluding values reserved for other splits."""
    shares = {name: float(rng.random()) for name in family.ranges}
    while split == "train" and any(a <= shares[family.held] < b for a, b in _HELD.values()):
        shares[family.held] = float(rng.random())
    if split != "train":
        low, high = _HELD[split]
        shares[family.held] = low + (high - low) * shares[family.held]
    return {
        name: each.low + (each.high - each.low) * shares[name]
        for name, each in family.ranges.items()
    }


def generate(
    robot: MotionRobot,
    count: int,
    *,
    families: Sequence[str] = (),
    seed: int = 0,
    held_share: float = 0.2,
    skip: Container[str] = (),
) -> Iterator[MotionClip]:
    """Yield clips, cycling through the families. Clip n does not depend on `count`."""
    if not 0.0 <= held_share <= 0.9:
        raise UsageError(f"Invalid held-out share {held_share}.", hint="0.2 is typical.")
    known = family_names(robot)
    for name in families:
        if name not in known:
            raise UnknownName(f"family of motions for {robot.name}", name, known)
    names = list(families) or known
    for number in range(count):
        family = names[number % len(names)]
        own = number // len(names)
        name = f"{family}-{seed}-{own:04d}"
        if name in skip:
            continue
        rng = np.random.default_rng(derive(seed, "motions", family, own))
        lot = (0.5 + own * 0.6180339887498949) % 1.0  # a golden-ratio sequence balances the splits
        split: Split = "train"
        if lot < held_share:
            split = "test" if lot < held_share / 2 else "validation"
        parameters = draw_parameters(all_families()[family], split, rng)
        yield make_clip(robot, family, parameters, name=name, split=split)


def generated_library(
    robot: MotionRobot,
    count: int,
    *,
    families: Sequence[str] = (),
    seed: int = 0,
    held_share: float = 0.2,
) -> MotionLibrary:
    """Return the library of motions from `generate` (created on first use and cached)."""
    asked = (robot.name, robot.file.read_bytes(), count, families, seed, held_share, _code())
    key = hashlib.sha256(repr(asked).encode()).hexdigest()[:12]
    folder = cache_folder() / "motions" / f"{Path(robot.name).stem}-{count}-{key}"
    if not folder.is_dir():
        made = generate(robot, count, families=families, seed=seed, held_share=held_share)
        clips = list(made)
        make_folder(folder.parent)
        # Write to a temporary folder, then rename, so that no partial library is ever visible.
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            with LibraryWriter(Path(place) / "made", head_for(robot, clips)) as writer:
                for clip in clips:
                    writer.add(clip)
            try:
                os.rename(Path(place) / "made", folder)
            except OSError:
                if not folder.is_dir():  # not created by a concurrent process
                    raise
    return MotionLibrary.open(folder)


@functools.cache
def _code() -> str:
    """Return a hash of the source files that determine generated clips, for the cache key."""
    names = ("families.py", "families.toml", "generate.py", "_figure.py", "kinematics.py")
    texts = [(Path(__file__).parent / name).read_bytes() for name in names]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def make_clip(
    robot: MotionRobot,
    family: str,
    parameters: Parameters,
    *,
    name: str | None = None,
    split: Split = "train",
) -> MotionClip:
    """Generate the clip of a family for the given parameters."""
    if family not in all_families():
        raise UnknownName("family of motions", family, list(all_families()))
    missing = set(all_families()[family].ranges) - set(parameters)
    if missing:
        raise UsageError(f"{family} requires the parameter {min(missing)}.")
    maker = _maker(robot)
    plan = all_families()[family].make(maker.measures, parameters)
    poses = maker.poses(plan)
    contacts = np.stack([plan.feet[side].stands for side in maker.figure.sides], axis=1)
    origin = MotionOrigin(
        source=f"telic motions generate, family {family}",
        license=LICENSE,
        parameters={"family": family} | {key: round(value, 6) for key, value in parameters.items()},
    )
    clip = MotionClip(
        name=name or family,
        robot=robot.name,
        fps=FPS,
        root_pos=poses.root_pos.numpy(),
        root_quat=poses.root_quat.numpy(),
        joint_pos=poses.joint_pos.numpy(),
        joint_names=robot.joint_names,
        contacts=contacts,
        origin=origin,
        split=split,
    )
    return clip.replace(human=person_like(maker.figure, clip))


def measures_of(robot: MotionRobot) -> Measures:
    """Return the body measurements of a robot on which plans depend."""
    return _maker(robot).measures


@functools.lru_cache(maxsize=8)
def _maker(robot: MotionRobot) -> _Maker:
    return _Maker(robot)


class _Maker:
    """Convert plans to poses of one robot."""

    def __init__(self, robot: MotionRobot) -> None:
        self.robot, self.figure = robot, RobotFigure(robot)
        data, points = self.figure.rest, self.figure.points
        self.center = data.subtree_com[robot.root].copy()
        self.soles: dict[Side, Tensor] = {}
        low = np.inf
        stance: dict[Side, Footing] = {}
        for side in SIDES:
            heel, toe = self.figure.at_rest(f"{side}_heel"), self.figure.at_rest(f"{side}_toe")
            low = min(low, float(heel[2]), float(toe[2]))
            offsets = (points[f"{side}_heel"].offset, points[f"{side}_toe"].offset)
            self.soles[side] = torch.tensor(offsets, dtype=torch.float32).mean(0)
            stance[side] = Footing(float((heel[0] + toe[0]) / 2), float((heel[1] + toe[1]) / 2))
        self.floor = low
        middle = np.mean([(each.x, each.y) for each in stance.values()], axis=0)
        # Plans start with the center of mass above the midpoint of the feet.
        stance = {s: Footing(f.x - middle[0], f.y - middle[1]) for s, f in stance.items()}
        self.ahead = data.xpos[robot.root][:2] - self.center[:2]
        self.measures = Measures(self.figure.leg_length, float(self.center[2]) - low, stance)
        self.near = self.figure.bent()

    def poses(self, plan: MotionPlan) -> PoseBatch:
        """Return the robot's poses for a plan."""
        root_quat = from_euler("ZY", _tensor(np.stack([plan.yaw, plan.pitch], axis=1)))
        ahead = rotate(
            about(2, _tensor(plan.yaw)),
            _tensor(np.array([*self.ahead, 0.0])).expand(plan.frames, 3),
        )
        rest = float(self.robot.home.root_pos[2]) - self.floor
        ground = _tensor(plan.root) + ahead[:, :2]
        if "y" not in self.robot.facts.root.moves:
            ground[:, 1] = float(self.robot.home.root_pos[1])
        root_pos = torch.cat((ground, _tensor(plan.height)[:, None] + rest), dim=-1)
        root_quat = multiply(root_quat, from_numpy(self.robot.home.root_quat).expand_as(root_quat))
        root_pos = self._within_reach(plan, root_pos, root_quat)
        near = self.near.expand(plan.frames, -1)
        start = PoseBatch(root_pos, root_quat, near)
        feet = [self._foot(plan, side) for side in SIDES]
        hands, turns = self._upper(plan, root_pos, root_quat)
        wishes = KinematicGoals(
            points=(*(point for point, _ in feet), *hands),
            turns=(*(turn for _, turn in feet), *turns),
            near_weight=0.01,
            moves_root=False,
            margin=0.01,
        )
        return solve_trajectory(self.robot, start, wishes, FPS)

    def _foot(self, plan: MotionPlan, side: Side) -> tuple[PointGoal, TurnGoal]:
        path, body = plan.feet[side], self.figure.points[f"{side}_ankle"].body
        flat = _tensor(self.figure.foot_rest_quat(side)).expand(plan.frames, 4)
        place = _tensor(path.place)
        turned = multiply(about(2, _tensor(path.yaw)), flat)
        strong = torch.tensor(0.3 if self.figure.has_ankle(side) else 0.0)
        return (
            PointGoal(body, self.soles[side], place, torch.tensor(3.0)),
            TurnGoal(body, turned, strong),
        )

    def _within_reach(self, plan: MotionPlan, root_pos: Tensor, root_quat: Tensor) -> Tensor:
        """Lower the root smoothly where the feet would be out of reach."""
        drop = np.zeros(plan.frames)
        for side in SIDES:
            hip = _tensor(self.figure.at_rest(f"{side}_hip")) - from_numpy(self.robot.home.root_pos)
            ankle = _tensor(self.figure.at_rest(f"{side}_ankle"))
            sole = (self.figure.at_rest(f"{side}_heel") + self.figure.at_rest(f"{side}_toe")) / 2
            path = plan.feet[side]
            above = rotate(
                about(2, _tensor(path.yaw)), (ankle - _tensor(sole)).expand(plan.frames, 3)
            )
            arm = (
                root_pos
                + rotate(root_quat, hip.expand(plan.frames, 3))
                - _tensor(path.place)
                - above
            )
            flat = (arm[:, :2] ** 2).sum(-1)
            most = torch.sqrt(torch.clamp((_STRETCH * self.measures.leg_m) ** 2 - flat, min=0.0))
            drop = np.maximum(drop, (arm[:, 2] - most).clamp_min(0.0).numpy())
        lowered = root_pos.clone()
        lowered[:, 2] -= _tensor(_smooth_above(drop))
        return lowered

    def _upper(
        self, plan: MotionPlan, root_pos: Tensor, root_quat: Tensor
    ) -> tuple[list[PointGoal], list[TurnGoal]]:
        """Return the goals for hands and chest, or no goals for a robot without arms."""
        if not self.figure.has_arms:
            return [], []
        own = multiply(
            root_quat,
            from_numpy(self.robot.home.root_quat * [1, -1, -1, -1]).float().expand_as(root_quat),
        )
        chest = multiply(own, about(2, _tensor(plan.twist)))
        hands: list[PointGoal] = []
        for side, sign in zip(SIDES, (1.0, -1.0), strict=True):
            shoulder = _tensor(self.figure.at_rest(f"{side}_shoulder")) - from_numpy(
                self.robot.home.root_pos
            )
            arm = self.figure.length(f"{side}_shoulder", f"{side}_elbow", f"{side}_hand")
            away = (
                _tensor(plan.hands[side]) if side in plan.hands else self._swing(plan, side, sign)
            )
            place = root_pos + rotate(chest, shoulder.expand(plan.frames, 3) + arm * away)
            strong = torch.tensor(1.0 if side in plan.hands else 0.3)
            point = self.figure.points[f"{side}_hand"]
            hands.append(PointGoal(point.body, torch.tensor(point.offset), place, strong))
        body = self.figure.points["left_shoulder"].body
        rest = _tensor(self.figure.rest_quat("left_shoulder")).expand(plan.frames, 4)
        return hands, [TurnGoal(body, multiply(chest, rest), torch.tensor(0.3))]

    def _swing(self, plan: MotionPlan, side: Side, sign: float) -> Tensor:
        """Return the path of a hand that swings in antiphase with the legs, in arm lengths."""
        other: Side = "right" if side == "left" else "left"
        along = np.stack([np.cos(plan.yaw), np.sin(plan.yaw)], axis=1)
        apart = (plan.feet[other].place - plan.feet[side].place)[:, :2]
        step = (apart * along).sum(-1) / self.measures.leg_m
        ahead = 0.15 + 0.45 * np.clip(step, -0.6, 0.6)
        return _tensor(
            np.stack([ahead, np.full(plan.frames, sign * 0.18), np.full(plan.frames, -0.85)], 1)
        )


def _tensor(values: np.ndarray) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def _smooth_above(values: np.ndarray) -> np.ndarray:
    """Return a smooth upper envelope of values."""
    if not values.any():
        return values
    wide = round(0.12 * FPS)
    padded = np.pad(values, 2 * wide, mode="edge")
    highest = np.lib.stride_tricks.sliding_window_view(padded, 2 * wide + 1).max(axis=-1)
    bell = np.exp(-0.5 * (np.arange(-wide, wide + 1) / (wide / 2.5)) ** 2)
    return np.convolve(highest, bell / bell.sum(), mode="valid")
