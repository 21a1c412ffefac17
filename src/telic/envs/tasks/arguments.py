"""Argument types that several tasks share, each with the description that is its help text."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

Range = tuple[float, float]
Camera = dict[str, float | tuple[float, float, float]]

FrameSkip = Annotated[PositiveInt, Field(description="physics steps per control step")]
ForwardWeight = Annotated[float, Field(description="reward per m/s forward")]
ControlWeight = Annotated[float, Field(description="cost per squared action")]
ContactWeight = Annotated[float, Field(description="cost per squared contact force")]
HealthyReward = Annotated[float, Field(description="reward per step while healthy")]
TerminateWhenUnhealthy = Annotated[bool, Field(description="end the episode when unhealthy")]
HealthyHeight = Annotated[Range, Field(description="heights of the torso that are healthy, m")]
HealthyAngle = Annotated[Range, Field(description="angles of the torso that are healthy, rad")]
NoiseScale = Annotated[float, Field(ge=0, description="noise of the initial pose and velocity")]
HidePosition = Annotated[
    bool, Field(description="leave the horizontal position out of what is seen")
]
IncludeBlock = Annotated[bool, Field(description="show this block of the observation")]
