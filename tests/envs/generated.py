"""Draws robots at random: trees of bodies, joints, motors and scenes that no table has seen."""

import numpy as np

_NAMES = ("", "left leg", "right_arm", "a.b", "Körper", "x-1", "foot", "torso", "link[0]")
_GEOMS = (
    ("sphere", 1),
    ("capsule", 2),
    ("box", 3),
    ("ellipsoid", 3),
    ("cylinder", 2),
)
_ROOTS = (
    "<freejoint/>",
    '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>',
    '<joint type="slide" axis="1 0 0" range="-2 2" limited="true"/>',
    '<joint axis="0 0 1"/>',
    "",
)
_FLOORS = (
    '<geom type="plane" size="5 5 1"/>',
    '<geom type="hfield" hfield="hills"/>',
    '<geom type="box" size="9 9 0.1" pos="0 0 -0.1"/>',
    "",
)
_HILLS = (
    '<asset><hfield name="hills" nrow="2" ncol="2" elevation="0 1 1 0" size="5 5 .1 .1"/></asset>'
)


class RandomRobot:
    """One model, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.joints: list[str] = []
        self.sites: list[str] = []
        self.taken: set[str] = set()

    def text(self) -> str:
        """Return it as MJCF."""
        trees = "".join(
            self.body(0, f'pos="{place} 0 {self.number(0.3, 1.5)}"', self.one(_ROOTS))
            for place in range(int(self.random.integers(1, 3)))
        )
        motors = "".join(self.actuator(joint) for joint in self.joints if self.chance(0.8))
        if self.joints and not motors:
            motors = self.actuator(self.joints[0])
        floor = self.one(_FLOORS)
        loose = '<body pos="1 1 .5"><freejoint/><geom size=".05"/></body>'
        mocap = (
            '<body name="guide" mocap="true"><geom size=".02" contype="0" conaffinity="0"/></body>'
        )
        return (
            f'<mujoco><compiler autolimits="true"/>{_HILLS if "hfield" in floor else ""}<worldbody>'
            f"{floor}{trees}{loose if self.chance(0.3) else ''}{mocap if self.chance(0.3) else ''}"
            f"</worldbody>{self.tendon()}<actuator>{motors}</actuator>{self.sensors()}</mujoco>"
        )

    def body(self, depth: int, where: str, joint: str) -> str:
        """Return a body with all that hangs on it."""
        name = self.name()
        inside = [joint, self.geom()]
        if self.chance(0.3):
            site = f"site{len(self.sites)}"
            self.sites.append(site)
            inside.append(f'<site name="{site}"/>')
        if depth < 3:
            for _ in range(int(self.random.integers(0 if depth else 1, 3))):
                x, y, z = (self.number(-0.3, 0.3) for _ in range(3))
                inside.append(self.body(depth + 1, f'pos="{x} {y} {z}"', self.joint()))
        return f"<body {name} {where}>{''.join(inside)}</body>"

    def joint(self) -> str:
        """Return the joint of a limb, perhaps none."""
        kind = self.one(("hinge", "hinge", "hinge", "slide", "ball", ""))
        if not kind:
            return ""
        name = f"joint {len(self.joints)}"
        limits = f'range="{self.number(-90, -5)} {self.number(5, 90)}"' if self.chance(0.5) else ""
        if kind == "ball":
            return '<joint type="ball"/>'
        self.joints.append(name)
        axis = self.one(("1 0 0", "0 1 0", "0 0 1", "1 1 0"))
        return f'<joint name="{name}" type="{kind}" axis="{axis}" {limits}/>'

    def geom(self) -> str:
        """Return a geom; one that weighs nothing hangs on a body that does."""
        kind, count = self.one(_GEOMS)
        size = " ".join(str(self.number(0.02, 0.1)) for _ in range(count))
        shape = f'type="{kind}" size="{size}"'
        copy = '<geom size=".01" mass="0" contype="0" conaffinity="0"/>' if self.chance(0.2) else ""
        return f"<geom {shape}/>{copy}"

    def actuator(self, joint: str) -> str:
        """Return what drives a joint."""
        limits = self.one(("", 'ctrlrange="-35 35"', 'ctrlrange="0 1"', 'ctrlrange="-0.4 2"'))
        strength = self.one(("", 'forcerange="-5 5"', 'gear="20"'))
        kind = self.one(("motor", "motor", "position", "velocity", "general", "damper"))
        extra = {"position": 'kp="20"', "velocity": 'kv="1"', "damper": 'kv="1"'}.get(kind, "")
        if kind == "damper":
            limits = 'ctrlrange="0 1"'
        return f'<{kind} joint="{joint}" {limits} {strength} {extra}/>'

    def tendon(self) -> str:
        """Return a tendon between two joints, perhaps."""
        if len(self.joints) < 2 or self.chance(0.6):
            return ""
        joints = "".join(f'<joint joint="{name}" coef="1"/>' for name in self.joints[:2])
        return f'<tendon><fixed name="rope">{joints}</fixed></tendon>'

    def sensors(self) -> str:
        """Return sensors, perhaps."""
        found = "".join(f'<accelerometer site="{site}"/>' for site in self.sites[:2])
        return f"<sensor>{found}</sensor>" if found and self.chance(0.5) else ""

    def name(self) -> str:
        """Return the attribute of a name, or none."""
        name = self.one(_NAMES)
        if not name or name in self.taken:
            return ""
        self.taken.add(name)
        return f'name="{name}"'

    def one(self, choices):
        """Draw one of several."""
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        """Draw whether."""
        return bool(self.random.random() < share)

    def number(self, low: float, high: float) -> float:
        """Draw a number."""
        return round(float(self.random.uniform(low, high)), 3)
