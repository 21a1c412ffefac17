"""Configuration of a tracking run: groups of settings, presets and dotted overrides.

An unknown key raises an error that suggests the closest known keys. Names of bodies, joints and
terms are resolved against the robot when the environment is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from telic.core.config import Config
from telic.core.text import is_dict
from telic.envs.domain_randomization import RandomizationLevel
from telic.errors import UnknownName
from telic.training.job import PpoSettings

HiddenSizes = Annotated[tuple[int, ...], Field(min_length=1)]


Pair = tuple[float, float]


class RobotGroup(Config):
    """Robot, tracked bodies and action scaling."""

    name: str = Field(default="planar-biped", description="name of a robot, or a model file")
    control_s: float = Field(default=0.02, gt=0, description="control time step in s")
    bodies: tuple[str, ...] = Field(default=(), description="tracked bodies, or empty for all")
    points: dict[str, tuple[float, float, float]] = Field(
        default={}, description="tracked points, as offsets in m in the frame of a body"
    )
    ends: tuple[str, ...] = Field(default=(), description="bodies whose height is limited")
    feet: tuple[str, ...] = Field(default=(), description="foot bodies, or empty to detect them")
    lower_joints: tuple[str, ...] = Field(default=(), description="leg joints (detected if empty)")
    fine_joints: tuple[str, ...] = Field(default=(), description="wrist joints to observe")
    action_base: Literal["default", "reference"] = Field(
        default="default", description="pose to which actions are added"
    )
    action_scale: float = Field(
        default=0.25, gt=0, description="joint offset for action 1, in effort limit / stiffness"
    )
    action_limit: float = Field(
        default=4.0, gt=0, description="largest joint offset, in effort limit / stiffness"
    )


class MotionsGroup(Config):
    """Reference motions."""

    library: str | None = Field(default=None, description="library folder (generated if None)")
    generated: int = Field(default=40, ge=1, le=100_000, description="number of clips")
    families: tuple[str, ...] = Field(default=(), description="motion families, or empty for all")
    seed: int = Field(default=0, description="seed of generated motions")
    at_once: int | None = Field(
        default=None,
        ge=1,
        description="maximum number of training clips, drawn evenly, or None for all",
    )
    held_share: float = Field(
        default=0.2, ge=0, le=0.9, description="fraction of generated clips for validation and test"
    )
    person_points: int = Field(
        default=0, ge=0, description="minimum number of observed human points, padded with zeros"
    )
    proportions: Pair = Field(
        default=(1.2, 0.85), description="alternating scale factors of the stick figure's bones"
    )


class CommandGroup(Config):
    """Future reference frames in the command, and noise on initial states."""

    frames: int = Field(default=10, ge=1, description="number of frames, including the current one")
    spacing_s: float = Field(default=0.1, gt=0, description="interval between frames in s")
    human_frames: int = Field(default=10, ge=1, description="number of frames of human points")
    human_spacing_s: float = Field(default=0.02, gt=0, description="interval of human frames in s")
    start_place: Pair = Field(default=(0.05, 0.01), description="noise of (x and y, z) in m")
    start_turn: Pair = Field(default=(0.1, 0.2), description="tilt and yaw noise in rad")
    start_velocity: Pair = Field(default=(0.5, 0.2), description="noise of (x and y, z) in m/s")
    start_spin: Pair = Field(default=(0.52, 0.78), description="tilt and yaw rate noise in rad/s")
    start_joints: float = Field(default=0.1, ge=0, description="noise of joint positions in rad")


class ObservationsGroup(Config):
    """Observation terms of the policy and the critic, with noise amplitudes."""

    policy: dict[str, float] = Field(
        default={
            "angular_velocity": 0.2,
            "joint_position": 0.01,
            "joint_velocity": 0.5,
            "last_action": 0.0,
            "gravity": 0.05,
        },
        description="proprioceptive terms with their noise",
    )
    critic: tuple[str, ...] = Field(
        default=("future_joints", "anchor_place", "anchor_turn", "body_places", "body_turns"),
        description="privileged terms without history",
    )
    critic_history: tuple[str, ...] = Field(
        default=(
            "linear_velocity",
            "angular_velocity",
            "joint_position",
            "joint_velocity",
            "last_action",
        ),
        description="privileged terms with history",
    )
    history: int = Field(default=10, ge=1, description="history length in control steps")
    command_noise: float = Field(default=0.05, ge=0, description="noise of target poses")


class TrackingReward(Config):
    """Weight and parameters of a reward term."""

    weight: float = Field(description="weight per second")
    sigma: float | None = Field(default=None, gt=0, description="error that earns exp(-1)")
    limit: float | None = Field(default=None, description="threshold of a penalty")


_REWARDS = {
    "anchor_place": TrackingReward(weight=0.5, sigma=0.3),
    "anchor_turn": TrackingReward(weight=0.5, sigma=0.4),
    "body_places": TrackingReward(weight=1.0, sigma=0.3),
    "body_turns": TrackingReward(weight=1.0, sigma=0.4),
    "body_velocities": TrackingReward(weight=1.0, sigma=1.0),
    "body_spins": TrackingReward(weight=1.0, sigma=3.14),
    "points": TrackingReward(weight=2.0, sigma=0.1),
    "action_rate": TrackingReward(weight=-0.1),
    "joint_limits": TrackingReward(weight=-10.0, limit=0.9),
    "contacts": TrackingReward(weight=-0.1, limit=1.0),
    "shaking": TrackingReward(weight=-0.005, limit=1.5),
    "foot_acceleration": TrackingReward(weight=-2.5e-6),
}


class RewardsGroup(Config):
    """Reward terms. The step reward is their weighted sum times the control time step."""

    terms: dict[str, TrackingReward] = Field(default=_REWARDS, description="reward terms by name")


class TerminationsGroup(Config):
    """Error thresholds that terminate an episode, or None to disable a termination."""

    anchor_height_m: float | None = Field(default=0.15, description="root height error in m")
    anchor_turn_rad: float | None = Field(default=0.447, description="root angle error in rad")
    end_height_m: float | None = Field(
        default=0.15, description=("height error of hands and feet in m")
    )
    foot_place_m: float | None = Field(default=0.2, description="position error of feet in m")
    anchor_place_m: float | None = Field(default=None, description="horizontal root error in m")
    low_below_m: float | None = Field(default=0.5, description="root height of a low pose in m")
    low_height_m: float = Field(default=0.75, gt=0, description="height error in low poses in m")


class EventsGroup(Config):
    """Domain randomization and pushes."""

    variation: RandomizationLevel = Field(default="none", description="domain randomization")
    push_every_s: float = Field(default=5.0, gt=0, description="interval between pushes in s")
    push_velocity: Pair = Field(default=(0.0, 0.0), description="horizontal, vertical, in m/s")


class SamplingGroup(Config):
    """Adaptive sampling of initial states, weighted toward motion bins where episodes fail."""

    bin_s: float = Field(default=1.0, gt=0, description="length of a bin in s")
    uniform: float = Field(default=0.1, ge=0, le=1, description="fraction of uniform samples")
    lead_s: float = Field(default=1.0, ge=0, description="maximum time before a bin in s")
    most: float = Field(default=200.0, gt=1, description="cap on relative failure rates")
    half_life: float = Field(default=1000.0, gt=0, description="half-life of counts in episodes")
    by: Literal["failure", "error"] = Field(default="failure", description="difficulty measure")


class EncoderGroup(Config):
    """Configuration of a command encoder."""

    terms: tuple[str, ...] = Field(min_length=1, description="observation terms of the encoder")
    hidden: HiddenSizes = Field(description="hidden layer sizes of the encoder")
    share: float = Field(default=1.0, ge=0, description="relative share of the episodes")


class NetworksGroup(Config):
    """Encoders, tokens, decoders and critic."""

    encoders: dict[str, EncoderGroup] = Field(description="encoders, with the robot motion first")
    tokens: int = Field(default=2, ge=1, description="number of tokens per step")
    token_dim: int = Field(default=32, ge=1, description="dimensions per token")
    levels: int = Field(default=32, ge=2, le=4096, description="number of levels per dimension")
    control: HiddenSizes = Field(description="hidden layer sizes of the control decoder")
    kinematic: HiddenSizes = Field(description="hidden layer sizes of the kinematic decoder")
    critic: HiddenSizes = Field(description="hidden layer sizes of the critic")

    @model_validator(mode="after")
    def _has_driver(self) -> NetworksGroup:
        if not any(each.share > 0 for each in self.encoders.values()):
            raise ValueError("At least one encoder must have a share above 0.")
        return self


class LossesGroup(Config):
    """Weights of the auxiliary token losses."""

    reconstruction: float = Field(default=0.01, ge=0, description="weight of motion reconstruction")
    alignment: float = Field(default=1.0, ge=0, description="weight of the encoders' distance")
    cycle: float = Field(default=1.0, ge=0, description="weight of re-encoded motions")
    guide: float = Field(default=0.0, ge=0, description="weight for imitating the guide")
    rows: float = Field(default=1.0, gt=0, le=1, description="fraction of each minibatch used")
    constant: tuple[str, ...] = Field(default=(), description="encoders that alignment keeps")


class Schedule(Config):
    """Schedule of a value over training."""

    kind: Literal["constant", "linear", "step", "cosine"] = Field(
        default="linear", description="shape of the schedule"
    )
    start: float = Field(description="initial value")
    end: float = Field(description="final value")
    begins: float = Field(default=0.0, ge=0, le=1, description="start as a fraction of training")
    ends: float = Field(default=1.0, ge=0, le=1, description="end as a fraction of training")


class TrainerGroup(Config):
    """Training steps, PPO settings and schedules."""

    steps: int = Field(default=2_000_000, ge=1, description="number of control steps per seed")
    warm_up: int = Field(default=0, ge=0, description="initial batches that imitate the guide")
    settle: int = Field(default=0, ge=0, description="final batches that align the encoders")
    ppo: PpoSettings = Field(default_factory=PpoSettings, description="PPO settings")
    noise: Pair = Field(default=(0.001, 0.5), description="bounds of the action std")
    schedules: dict[str, Schedule] = Field(
        default={},
        description="schedules by name, for PPO settings, loss weights or curriculum factors "
        "(leniency, charges, pushes)",
    )


class EvaluationGroup(Config):
    """Success tolerances and the number of evaluated clips."""

    anchor_height_m: float = Field(default=0.25, gt=0, description="root height error in m")
    anchor_turn_rad: float = Field(default=1.0, gt=0, description="root orientation error in rad")
    end_height_m: float = Field(default=0.25, gt=0, description="hand and foot height error in m")
    global_m: float = Field(default=0.5, gt=0, description="mean body position error in m")
    clips: int | None = Field(
        default=None, ge=1, description="maximum number of clips, or None for all"
    )


class TrackingConfig(Config):
    """Configuration of a tracking run."""

    schema_version: Literal[1] = Field(default=1, description="version of this record")
    preset: str = Field(default="planar", description="preset on which the configuration is based")
    robot: RobotGroup = Field(description="robot and tracked parts")
    motions: MotionsGroup = Field(description="reference motions")
    command: CommandGroup = Field(default=CommandGroup(), description="future reference")
    observations: ObservationsGroup = Field(default=ObservationsGroup(), description="observed")
    rewards: RewardsGroup = Field(default=RewardsGroup(), description="terms")
    terminations: TerminationsGroup = Field(default=TerminationsGroup(), description="failures")
    events: EventsGroup = Field(default=EventsGroup(), description="randomization and pushes")
    sampling: SamplingGroup = Field(default=SamplingGroup(), description="initial states")
    networks: NetworksGroup = Field(description="encoders, tokens, decoders and critic")
    losses: LossesGroup = Field(description="token losses")
    trainer: TrainerGroup = Field(description="training")
    terms: str = Field(default="", description="source of own terms (--terms), not used to play")
    evaluation: EvaluationGroup = Field(default=EvaluationGroup(), description="evaluation")

    @model_validator(mode="before")
    @classmethod
    def _drop_old_fields(cls, values: Any) -> Any:
        """Drop settings that were removed in later versions."""
        for group, name in _OLD_FIELDS if is_dict(values) else ():
            if is_dict(values.get(group)):
                kept = {each: value for each, value in values[group].items() if each != name}
                values = {**values, group: kept}
        return values


_OLD_FIELDS = (("motions", "renew_every"), ("trainer", "processes"), ("losses", "distance"))
_SIDES = ("left", "right")
_G1_WRISTS = tuple(f"{s}_wrist_{axis}_joint" for s in _SIDES for axis in ("roll", "pitch", "yaw"))
_G1_ENDS = tuple(f"{s}_{part}_link" for part in ("ankle_roll", "wrist_yaw") for s in _SIDES)
_G1_BODIES = (
    "pelvis",
    *(f"{s}_{part}_link" for s in _SIDES for part in ("hip_roll", "knee")),
    *_G1_ENDS[:2],
    "torso_link",
    *(f"{s}_{part}_link" for s in _SIDES for part in ("shoulder_roll", "elbow", "wrist_yaw")),
)
_G1_POINTS = {
    "left_wrist_yaw_link": (0.18, -0.025, 0.0),
    "right_wrist_yaw_link": (0.18, 0.025, 0.0),
    "torso_link": (0.0, 0.0, 0.35),
}


def planar() -> TrackingConfig:
    """Return the preset for a planar biped on generated motions, for minutes on two cores.

    The action limit must cover the range of the motions: fast knee flexion by 1.2 rad requires ten
    units of effort / stiffness, and with three units no policy learns to walk.
    """
    encoder, decoder = (64, 64), (96, 96)
    targets = ("future_places", "future_heights", "anchor_place")
    return TrackingConfig(
        preset="planar",
        robot=RobotGroup(
            name="planar-biped",
            points={"left_foot": (0, 0, 0), "right_foot": (0, 0, 0), "torso": (0, 0, 0.6)},
            action_limit=10.0,
        ),
        motions=MotionsGroup(generated=80, held_share=0.25),
        command=CommandGroup(
            frames=5,
            human_frames=5,
            human_spacing_s=0.1,
            start_place=(0.02, 0.01),
            start_turn=(0.05, 0.0),
            start_velocity=(0.2, 0.1),
            start_spin=(0.2, 0.0),
            start_joints=0.05,
        ),
        observations=ObservationsGroup(
            policy={
                "angular_velocity": 0.0,
                "joint_position": 0.0,
                "joint_velocity": 0.0,
                "last_action": 0.0,
                "gravity": 0.0,
                "linear_velocity": 0.0,
            },
            critic=("future_joints", "anchor_place", "anchor_turn", "body_places"),
            critic_history=("linear_velocity", "angular_velocity", "joint_position"),
            history=1,
            command_noise=0.0,
        ),
        rewards=RewardsGroup(
            terms={
                "anchor_place": TrackingReward(weight=1.0, sigma=0.2),
                "anchor_turn": TrackingReward(weight=0.5, sigma=0.3),
                "body_places": TrackingReward(weight=2.0, sigma=0.12),
                "body_turns": TrackingReward(weight=1.0, sigma=0.4),
                "body_velocities": TrackingReward(weight=1.0, sigma=0.8),
                "points": TrackingReward(weight=1.0, sigma=0.1),
                "action_rate": TrackingReward(weight=-0.02),
                "joint_limits": TrackingReward(weight=-10.0, limit=0.95),
            }
        ),
        # Without a horizontal limit, the policy is rewarded for standing still.
        terminations=TerminationsGroup(anchor_turn_rad=0.6, low_below_m=None, anchor_place_m=0.3),
        networks=NetworksGroup(
            encoders={
                "robot": EncoderGroup(
                    terms=("future_joints", "future_turns", *targets), hidden=encoder, share=1.0
                ),
                "keypoint": EncoderGroup(
                    terms=("human_points", "human_turns", *targets), hidden=encoder, share=1.0
                ),
                "sparse": EncoderGroup(
                    terms=("points", "future_turns", *targets), hidden=encoder, share=1.0
                ),
            },
            tokens=2,
            token_dim=8,
            levels=32,
            control=decoder,
            kinematic=encoder,
            critic=decoder,
        ),
        losses=LossesGroup(reconstruction=0.05, alignment=0.2, cycle=0.05, rows=0.25),
        trainer=TrainerGroup(
            steps=1_500_000,
            warm_up=12,
            settle=10,
            # Smaller policy updates in the second half improve accuracy.
            schedules={"target_kl": Schedule(start=0.03, end=0.008, begins=0.5)},
            ppo=PpoSettings(
                num_envs=256,
                horizon=32,
                minibatch_size=1024,
                epochs=4,
                learning_rate=1e-3,
                schedule="adaptive",
                target_kl=0.03,
                gamma=0.99,
                log_std=-2.4,
                entropy_coef=0.0,
                max_grad_norm=1.0,
                scale_reward=True,
                stagger=False,
            ),
        ),
    )


def release(narrower: int = 1) -> TrackingConfig:
    """Return the preset for the Unitree G1 with three encoders and 25.9 million policy parameters.

    `narrower` divides the layer sizes, which remain at least 64 units.
    """
    encoder, decoder = (
        tuple(max(size // narrower, 64) for size in sizes)
        for sizes in ((2048, 1024, 512, 512), (2048, 2048, 1024, 1024, 512, 512))
    )
    return TrackingConfig(
        preset="release",
        robot=RobotGroup(
            name="unitree-g1",
            bodies=_G1_BODIES,
            points=_G1_POINTS,
            ends=_G1_ENDS,
            feet=_G1_ENDS[:2],
            fine_joints=_G1_WRISTS,
            action_limit=8.0,
        ),
        motions=MotionsGroup(generated=256, person_points=24),
        events=EventsGroup(variation="light", push_velocity=(0.5, 0.2)),
        sampling=SamplingGroup(lead_s=4.0),
        networks=NetworksGroup(
            encoders={
                "robot": EncoderGroup(
                    terms=("future_joints", "future_turns"), hidden=encoder, share=1.0
                ),
                "hybrid": EncoderGroup(
                    terms=("lower_joints", "points", "point_turns", "anchor_turn"),
                    hidden=encoder,
                    share=1.0,
                ),
                "human": EncoderGroup(
                    terms=("human_points", "human_turns", "fine_joints"), hidden=encoder, share=1.0
                ),
            },
            control=decoder,
            kinematic=encoder,
            critic=decoder,
        ),
        # With equal weights on alignment and reconstruction, encoders collapse to a constant token.
        losses=LossesGroup(
            reconstruction=1.0, alignment=1.0, cycle=0.05, constant=("robot",), rows=0.25
        ),
        trainer=TrainerGroup(
            steps=400_000_000,
            settle=10,
            ppo=PpoSettings(
                num_envs=4096,
                horizon=24,
                minibatch_size=24576,
                epochs=5,
                learning_rate=2e-5,
                schedule="adaptive",
                target_kl=0.01,
                entropy_coef=0.001,
                value_coef=1.0,
                max_grad_norm=0.5,
                log_std=-2.5,
                stagger=False,
                overlap=False,
            ),
        ),
    )


def quarter() -> TrackingConfig:
    """Return the `release` preset with a quarter of the layer width, for an hour on one GPU."""
    large = release(narrower=4)
    trainer = large.trainer.replace(
        ppo=large.trainer.ppo.replace(learning_rate=3e-4).model_dump(), warm_up=12
    )
    return large.model_copy(update={"preset": "quarter", "trainer": trainer})


def single() -> TrackingConfig:
    """Return the preset for the Unitree G1 on a few motions, with small layers and one encoder."""
    hidden = (512, 256, 128)
    targets = ("future_places", "future_heights", "anchor_place")
    large = release()
    return large.model_copy(
        update={
            "preset": "single",
            "motions": MotionsGroup(generated=1, families=("walk",)),
            "command": CommandGroup(frames=5),
            "observations": ObservationsGroup(
                policy={**ObservationsGroup().policy, "linear_velocity": 0.5}, history=1
            ),
            "terminations": TerminationsGroup(
                anchor_height_m=0.25,
                anchor_turn_rad=0.8,
                end_height_m=0.25,
                foot_place_m=None,
                anchor_place_m=0.5,
            ),
            "events": EventsGroup(),
            "sampling": SamplingGroup(),
            "networks": NetworksGroup(
                encoders={
                    "robot": EncoderGroup(
                        terms=("future_joints", "future_turns", *targets), hidden=hidden[:2]
                    )
                },
                control=hidden,
                kinematic=hidden[1:],
                critic=hidden,
            ),
            "losses": LossesGroup(reconstruction=0.05, alignment=0.0, cycle=0.0),
            "trainer": TrainerGroup(
                steps=50_000_000,
                warm_up=12,
                ppo=large.trainer.ppo.replace(
                    learning_rate=1e-3, entropy_coef=0.005, max_grad_norm=1.0, log_std=-2.1
                ),
            ),
        }
    )


PRESETS: dict[str, Callable[[], TrackingConfig]] = {
    "planar": planar,
    "quarter": quarter,
    "release": release,
    "single": single,
}


def preset(
    name: str,
    overrides: Sequence[str] = (),
    terms: str = "",
    rewards: Mapping[str, TrackingReward] = MappingProxyType({}),
) -> TrackingConfig:
    """Return a preset with dotted overrides applied. Raises UnknownName or ConfigError.

    `terms` is the source of own terms, and `rewards` are the settings of their rewards.
    """
    if name not in PRESETS:
        raise UnknownName("tracking preset", name, list(PRESETS))
    config = PRESETS[name]()
    own = RewardsGroup(terms={**config.rewards.terms, **rewards})
    return config.model_copy(update={"terms": terms, "rewards": own}).override(overrides)
