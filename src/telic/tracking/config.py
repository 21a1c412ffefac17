"""The configuration of a tracking run, in groups that presets compose and dotted overrides change.

Unknown keys are errors with the closest known ones, and names of bodies, joints and terms are
resolved against the robot when the environment is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from telic.core.config import Config
from telic.envs.domain_randomization import RandomizationLevel
from telic.errors import UnknownName
from telic.tracking.tokens import Distance, LossWeights
from telic.training.job import PpoSettings

Sizes = Annotated[tuple[int, ...], Field(min_length=1)]


class RobotGroup(Config):
    """The robot, and which of its parts matter."""

    name: str = Field(default="planar-biped", description="a robot by name, or a model's file")
    control_s: float = Field(default=0.02, gt=0, description="seconds between decisions")
    bodies: tuple[str, ...] = Field(
        default=(), description="bodies that are tracked; none named: all"
    )
    points: dict[str, tuple[float, float, float]] = Field(
        default={}, description="points that are given to follow: body, and place in its frame, m"
    )
    ends: tuple[str, ...] = Field(default=(), description="bodies whose height must be right")
    feet: tuple[str, ...] = Field(default=(), description="none named: as the model's")
    lower_joints: tuple[str, ...] = Field(default=(), description="none named: those of the legs")
    fine_joints: tuple[str, ...] = Field(
        default=(), description="given beside human points: wrists"
    )
    action_base: Literal["default", "reference"] = Field(
        default="default",
        description="what an action is an offset of: the resting pose, or the reference",
    )
    action_scale: float = Field(
        default=0.25,
        gt=0,
        description="offset of an action of 1, in units of effort limit / stiffness",
    )
    action_limit: float = Field(default=4.0, gt=0, description="largest action, in those units")


class MotionsGroup(Config):
    """The motions to follow."""

    library: str | None = Field(
        default=None, description="folder of a library; None: generated ones"
    )
    generated: int = Field(
        default=40, ge=1, description="clips to generate where no library is named"
    )
    families: tuple[str, ...] = Field(default=(), description="kinds to generate; none named: all")
    seed: int = Field(default=0, description="of the generator")
    at_once: int = Field(default=1024, ge=1, description="clips that are loaded at a time")
    renew_every: int = Field(
        default=0, ge=0, description="batches after which others are loaded; 0: never"
    )
    held_share: float = Field(
        default=0.2, ge=0, le=0.9, description="of generated clips: kept for validation and tests"
    )
    person_points: int = Field(
        default=0, ge=0, description="points of a person that encoders see at least; missing ones 0"
    )
    proportions: tuple[float, float] = Field(
        default=(1.2, 0.85), description="of the stick figure that stands in for a person, by turns"
    )


class CommandGroup(Config):
    """What is known of the motion ahead, and where episodes begin."""

    frames: int = Field(default=10, ge=1, description="frames ahead, the present one first")
    spacing_s: float = Field(default=0.1, gt=0, description="seconds between them")
    human_frames: int = Field(default=10, ge=1, description="frames of human points ahead")
    human_spacing_s: float = Field(default=0.02, gt=0, description="seconds between those")
    start_place: tuple[float, float] = Field(
        default=(0.05, 0.01), description="noise of x, y and of z, m"
    )
    start_turn: tuple[float, float] = Field(
        default=(0.1, 0.2), description="of roll, pitch; of yaw, rad"
    )
    start_velocity: tuple[float, float] = Field(
        default=(0.5, 0.2), description="of x, y and of z, m/s"
    )
    start_spin: tuple[float, float] = Field(
        default=(0.52, 0.78), description="roll, pitch; yaw, rad/s"
    )
    start_joints: float = Field(default=0.1, ge=0, description="of joints, rad")


class ObservationsGroup(Config):
    """What policy and critic see, by term, with the largest noise of each."""

    policy: dict[str, float] = Field(
        default={
            "angular_velocity": 0.2,
            "joint_position": 0.01,
            "joint_velocity": 0.5,
            "last_action": 0.0,
            "gravity": 0.05,
        },
        description="what the robot measures itself, and its noise",
    )
    critic: tuple[str, ...] = Field(
        default=("future_joints", "anchor_place", "anchor_turn", "body_places", "body_turns"),
        description="what the critic sees of the moment",
    )
    critic_history: tuple[str, ...] = Field(
        default=(
            "linear_velocity",
            "angular_velocity",
            "joint_position",
            "joint_velocity",
            "last_action",
        ),
        description="what the critic sees of the past, too",
    )
    history: int = Field(
        default=10, ge=1, description="control steps that are seen, the present included"
    )
    command_noise: float = Field(
        default=0.05, ge=0, description="of rotations and points that are given"
    )


class TrackingReward(Config):
    """A part of the reward."""

    weight: float = Field(description="how much it counts, per second")
    sigma: float | None = Field(default=None, gt=0, description="error that still earns 1/e")
    limit: float | None = Field(default=None, description="what is free of charge")


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
    """The reward of a step: seconds per step times the weighted sum of terms."""

    terms: dict[str, TrackingReward] = Field(default=_REWARDS, description="by name")


class TerminationsGroup(Config):
    """When an episode has failed."""

    anchor_height_m: float | None = Field(default=0.15, description="of the root; None: not asked")
    anchor_turn_rad: float | None = Field(default=0.447, description="of the root")
    end_height_m: float | None = Field(default=0.15, description="of hands and feet")
    foot_place_m: float | None = Field(default=0.2, description="of feet, in space")
    anchor_place_m: float | None = Field(
        default=None, description="of the root, along the ground: who stays behind has failed"
    )
    low_below_m: float | None = Field(
        default=0.5, description="height of root below which it is lenient"
    )
    low_height_m: float = Field(default=0.75, gt=0, description="allowed then")


class EventsGroup(Config):
    """What nobody knows exactly."""

    variation: RandomizationLevel = Field(
        default="none", description="how far masses, friction, drives and zeros vary"
    )
    push_every_s: float = Field(default=5.0, gt=0, description="seconds between pushes")
    push_velocity: tuple[float, float] = Field(default=(0.0, 0.0), description="x, y; z, m/s")


class SamplingGroup(Config):
    """Where episodes begin: more often where they fail."""

    bin_s: float = Field(
        default=1.0, gt=0, description="length of the pieces that failures are counted in"
    )
    uniform: float = Field(default=0.1, ge=0, le=1, description="share of starts that are anywhere")
    lead_s: float = Field(
        default=1.0, ge=0, description="how long before the piece an episode may begin"
    )
    most: float = Field(
        default=200.0, gt=1, description="largest failure rate, in units of their mean"
    )
    half_life: float = Field(
        default=1000.0, gt=0, description="episodes after which half is forgotten"
    )
    by: Literal["failure", "error"] = Field(
        default="failure", description="what makes a piece hard"
    )


class EncoderGroup(Config):
    """One way to say what is to be followed."""

    terms: tuple[str, ...] = Field(min_length=1, description="what it sees")
    hidden: Sizes = Field(description="sizes of its hidden layers")
    share: float = Field(default=1.0, ge=0, description="of the episodes that it drives")


class NetworksGroup(Config):
    """Encoders, token, decoders and critic."""

    encoders: dict[str, EncoderGroup] = Field(description="the robot's own motion first")
    tokens: int = Field(default=2, ge=1, description="tokens of a step")
    token_dim: int = Field(default=32, ge=1, description="numbers of a token")
    levels: int = Field(default=32, ge=2, le=4096, description="levels of a number")
    control: Sizes = Field(description="hidden layers of the control decoder")
    kinematic: Sizes = Field(description="hidden layers of the kinematic decoder")
    critic: Sizes = Field(description="hidden layers of the critic")

    @model_validator(mode="after")
    def _somebody_drives(self) -> NetworksGroup:
        if not any(each.share > 0 for each in self.encoders.values()):
            raise ValueError("No encoder has a share of the episodes. Give one a share above 0.")
        return self


class LossesGroup(Config):
    """What tokens learn beside the reward."""

    reconstruction: float = Field(default=0.01, ge=0, description="that a token says the motion")
    alignment: float = Field(default=1.0, ge=0, description="that encoders agree")
    cycle: float = Field(default=1.0, ge=0, description="that a decoded motion is encoded the same")
    guide: float = Field(
        default=0.0,
        ge=0,
        description="that actions are those which follow the joints alone; best with a schedule",
    )
    rows: float = Field(
        default=1.0, gt=0, le=1, description="share of each minibatch that they are learned from"
    )
    distance: Distance = Field(default="mse", description="between latents")
    constant: tuple[str, ...] = Field(default=(), description="encoders that others are drawn to")

    def weights(self) -> LossWeights:
        """Return them as the networks take them."""
        return LossWeights(**self.model_dump())


class Schedule(Config):
    """How a number changes over training."""

    kind: Literal["constant", "linear", "step", "cosine"] = Field(
        default="linear", description="its curve"
    )
    start: float = Field(description="value until `begins`")
    end: float = Field(description="value from `ends` on")
    begins: float = Field(default=0.0, ge=0, le=1, description="share of training")
    ends: float = Field(default=1.0, ge=0, le=1, description="share of training")


class TrainerGroup(Config):
    """How it learns."""

    steps: int = Field(default=2_000_000, ge=1, description="control steps per seed")
    processes: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="always 1; kept to read earlier configurations",
    )
    warm_up: int = Field(
        default=0, ge=0, description="batches that only learn to aim at the reference's joints"
    )
    settle: int = Field(
        default=0, ge=0, description="batches at the end that draw encoders to the first one"
    )
    ppo: PpoSettings = Field(default_factory=PpoSettings, description="of the learning algorithm")
    noise: tuple[float, float] = Field(default=(0.001, 0.5), description="least and most deviation")
    schedules: dict[str, Schedule] = Field(
        default={},
        description="by name: numbers of PPO, weights of losses, or the curriculum's factors "
        "(leniency of failures, charges, pushes)",
    )


class EvaluationGroup(Config):
    """When a played clip counts as followed, and what is played."""

    anchor_height_m: float = Field(default=0.25, gt=0, description="of the root")
    anchor_turn_rad: float = Field(default=1.0, gt=0, description="of the root")
    end_height_m: float = Field(default=0.25, gt=0, description="of hands and feet")
    global_m: float = Field(
        default=0.5, gt=0, description="mean error of bodies that is too much at large"
    )
    clips: int | None = Field(default=None, ge=1, description="most clips to play; None: all")


class TrackingConfig(Config):
    """Everything that decides a tracking run."""

    schema_version: Literal[1] = Field(default=1, description="of this record")
    preset: str = Field(default="planar", description="what it was made from")
    robot: RobotGroup = Field(description="who follows")
    motions: MotionsGroup = Field(description="what is followed")
    command: CommandGroup = Field(default=CommandGroup(), description="what is said of it")
    observations: ObservationsGroup = Field(default=ObservationsGroup(), description="what is seen")
    rewards: RewardsGroup = Field(default=RewardsGroup(), description="what is wanted")
    terminations: TerminationsGroup = Field(
        default=TerminationsGroup(), description="what has failed"
    )
    events: EventsGroup = Field(default=EventsGroup(), description="what varies")
    sampling: SamplingGroup = Field(default=SamplingGroup(), description="what is practised")
    networks: NetworksGroup = Field(description="what learns")
    losses: LossesGroup = Field(description="what tokens learn")
    trainer: TrainerGroup = Field(description="how it learns")
    evaluation: EvaluationGroup = Field(default=EvaluationGroup(), description="how it is measured")


_G1_BODIES = (
    "pelvis",
    *(f"{side}_{part}_link" for side in ("left", "right") for part in ("hip_roll", "knee")),
    *(f"{side}_ankle_roll_link" for side in ("left", "right")),
    "torso_link",
    *(
        f"{side}_{part}_link"
        for side in ("left", "right")
        for part in ("shoulder_roll", "elbow", "wrist_yaw")
    ),
)
_G1_ENDS = tuple(
    f"{side}_{part}_link" for part in ("ankle_roll", "wrist_yaw") for side in ("left", "right")
)
_G1_POINTS = {
    "left_wrist_yaw_link": (0.18, -0.025, 0.0),
    "right_wrist_yaw_link": (0.18, 0.025, 0.0),
    "torso_link": (0.0, 0.0, 0.35),
}
_G1_WRISTS = tuple(
    f"{side}_wrist_{axis}_joint" for side in ("left", "right") for axis in ("roll", "pitch", "yaw")
)


def planar() -> TrackingConfig:
    """The planar biped follows generated motions; minutes on two processors.

    Targets of joints reach as far as the motions do: a knee that bends by 1.2 rad at its fastest
    asks for ten units of effort / stiffness, and with three of them nobody walks.
    """
    encoder, decoder = (64, 64), (96, 96)
    told = ("future_places", "future_heights", "anchor_place")
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
        # Who stands still while the motion walks on has failed: without it, standing pays.
        terminations=TerminationsGroup(anchor_turn_rad=0.6, low_below_m=None, anchor_place_m=0.3),
        networks=NetworksGroup(
            encoders={
                "robot": EncoderGroup(
                    terms=("future_joints", "future_turns", *told), hidden=encoder, share=1.0
                ),
                "keypoint": EncoderGroup(
                    terms=("human_points", "human_turns", *told), hidden=encoder, share=1.0
                ),
                "sparse": EncoderGroup(
                    terms=("points", "future_turns", *told), hidden=encoder, share=1.0
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
            # The second half is for accuracy: policies stay ever nearer to what they were.
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


def release() -> TrackingConfig:
    """Unitree G1 with robot, hybrid and human encoders: 25.9 million parameters of policy."""
    encoder, decoder = (2048, 1024, 512, 512), (2048, 2048, 1024, 1024, 512, 512)
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
        # Encoders drawn to one another as strongly as to the motion agree on saying nothing.
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
    """As `release`, with layers of a quarter of the width: for one GPU and an hour."""
    large = release()
    nets = large.networks

    def narrow(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(size // 4, 64) for size in sizes)

    encoders = {
        name: each.replace(hidden=narrow(each.hidden)) for name, each in nets.encoders.items()
    }
    small = nets.replace(
        encoders={name: each.model_dump() for name, each in encoders.items()},
        control=narrow(nets.control),
        kinematic=narrow(nets.kinematic),
        critic=narrow(nets.critic),
    )
    ppo = large.trainer.ppo.replace(learning_rate=3e-4)
    return large.model_copy(
        update={
            "preset": "quarter",
            "networks": small,
            "trainer": large.trainer.model_copy(update={"ppo": ppo, "warm_up": 12}),
        }
    )


def single() -> TrackingConfig:
    """Unitree G1 follows one motion, or a few: small layers, one encoder; minutes on one GPU."""
    hidden = (512, 256, 128)
    told = ("future_places", "future_heights", "anchor_place")
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
                        terms=("future_joints", "future_turns", *told), hidden=hidden[:2]
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


def preset(name: str, overrides: Sequence[str] = ()) -> TrackingConfig:
    """Return a preset with dotted overrides applied; raises UnknownName or ConfigError."""
    if name not in PRESETS:
        raise UnknownName("tracking preset", name, list(PRESETS))
    return PRESETS[name]().override(overrides)
