"""Presets of tracking: `planar` learns on two processors in minutes, `release` is the large one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telic.errors import UnknownName
from telic.tracking.config import (
    CommandGroup,
    EncoderGroup,
    EventsGroup,
    LossesGroup,
    MotionsGroup,
    NetworksGroup,
    ObservationsGroup,
    RewardsGroup,
    RobotGroup,
    SamplingGroup,
    Schedule,
    TerminationsGroup,
    TrackingConfig,
    TrackingReward,
    TrainerGroup,
)
from telic.training.job import PpoSettings

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


def _reward(
    weight: float, sigma: float | None = None, limit: float | None = None
) -> TrackingReward:
    return TrackingReward(weight=weight, sigma=sigma, limit=limit)


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
                "anchor_place": _reward(1.0, 0.2),
                "anchor_turn": _reward(0.5, 0.3),
                "body_places": _reward(2.0, 0.12),
                "body_turns": _reward(1.0, 0.4),
                "body_velocities": _reward(1.0, 0.8),
                "points": _reward(1.0, 0.1),
                "action_rate": _reward(-0.02),
                "joint_limits": _reward(-10.0, None, 0.95),
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
