"""Settings of population PPO, and what a member of a population may choose for itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from telic.core.config import Config

MEMBER_FIELDS = (
    "learning_rate",
    "gamma",
    "gae_lambda",
    "clip",
    "entropy_coef",
    "value_coef",
    "max_grad_norm",
    "target_kl",
)
"""Settings that may differ between the members of one population."""


class PpoSettings(Config):
    """Proximal policy optimisation for a population of policies."""

    num_envs: int = Field(default=64, ge=1, description="parallel environments per member")
    horizon: int = Field(default=32, ge=1, description="steps per environment between updates")
    minibatch_size: int = Field(
        default=256, ge=1, description="samples per gradient step and member"
    )
    epochs: int = Field(default=10, ge=1, description="passes over each batch")
    learning_rate: float = Field(default=7e-4, gt=0, description="Adam step size at the start")
    schedule: Literal["constant", "linear", "adaptive"] = Field(
        default="constant",
        description="learning rate over time: fixed, annealed to 0, or steered by KL",
    )
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount per control step")
    gae_lambda: float = Field(
        default=0.95, ge=0, le=1, description="bias-variance trade of the advantages"
    )
    clip: float = Field(default=0.2, gt=0, description="PPO ratio clip")
    entropy_coef: float = Field(default=0.0, ge=0, description="weight of the entropy bonus")
    value_coef: float = Field(default=0.5, ge=0, description="weight of the value loss")
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradient norm limit per member")
    target_kl: float = Field(
        default=0.02,
        gt=0,
        description="KL per batch that ends its epochs, or that `adaptive` aims at",
    )
    hidden: tuple[int, ...] = Field(
        default=(64, 64), min_length=1, description="hidden layer sizes"
    )
    activation: Literal["tanh", "elu", "relu"] = Field(
        default="tanh", description="hidden activation"
    )
    shared_value: bool = Field(
        default=False,
        description="actor and critic share the hidden layers instead of having their own",
    )
    log_std: float = Field(default=-1.0, description="initial log standard deviation of actions")
    normalise_obs: bool = Field(
        default=True, description="scale observations by running mean and deviation"
    )
    scale_reward: bool = Field(
        default=True, description="scale rewards by the deviation of the return"
    )
    stagger: bool = Field(
        default=True, description="start episodes at random clocks to avoid lock-step resets"
    )
    overlap: bool = Field(
        default=True,
        description="collect the next batch while learning from this one (one update behind)",
    )
    critic_sees: tuple[str, ...] = Field(
        default=(), description="info fields the critic sees beside the observation"
    )

    @property
    def batch_size(self) -> int:
        """Samples per member and iteration."""
        return self.num_envs * self.horizon

    @property
    def minibatches(self) -> int:
        """Gradient steps per epoch."""
        return self.batch_size // self.minibatch_size

    @model_validator(mode="after")
    def _divides(self) -> PpoSettings:
        if self.batch_size % self.minibatch_size:
            fits = max(d for d in range(1, self.minibatch_size + 1) if self.batch_size % d == 0)
            raise ValueError(
                f"minibatch_size={self.minibatch_size} does not divide the batch of "
                f"{self.batch_size} (num_envs {self.num_envs} x horizon {self.horizon}). "
                f"Try minibatch_size={fits}."
            )
        return self


def settings_page() -> str:
    """Return the reference page of all settings, as Markdown."""
    lines = [
        "# Settings",
        "",
        "Change them with `--set name=value` or `name=value` after the environment;",
        "`telic presets` shows what each environment starts from. Those marked with * may differ",
        "between the members of one run (`--vary`).",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in PpoSettings.model_fields.items():
        mark = " *" if name in MEMBER_FIELDS else ""
        lines.append(f"| `{name}`{mark} | `{field.default}` | {field.description} |")
    return "\n".join(lines) + "\n"
