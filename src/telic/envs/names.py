"""Names for the bodies and joints of a model, and for the columns of its positions and actions."""

from __future__ import annotations

import mujoco

from telic.envs.spec import JointKind, JointSpec

_KINDS: dict[int, JointKind] = {
    mujoco.mjtJoint.mjJNT_FREE.value: "free",
    mujoco.mjtJoint.mjJNT_BALL.value: "ball",
    mujoco.mjtJoint.mjJNT_SLIDE.value: "slide",
    mujoco.mjtJoint.mjJNT_HINGE.value: "hinge",
}
_POSITIONS: dict[JointKind, tuple[str, ...]] = {
    "free": ("_x", "_y", "_z", "_qw", "_qx", "_qy", "_qz"),
    "ball": ("_qw", "_qx", "_qy", "_qz"),
    "slide": ("",),
    "hinge": ("",),
}
_VELOCITIES: dict[JointKind, tuple[str, ...]] = {
    "free": ("_vx", "_vy", "_vz", "_wx", "_wy", "_wz"),
    "ball": ("_wx", "_wy", "_wz"),
    "slide": ("_velocity",),
    "hinge": ("_velocity",),
}


def body_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for every body; one without a name is called after its parent ("aux_1.1")."""
    names: list[str] = []
    for body in range(model.nbody):
        parent = int(model.body_parentid[body])
        place = sum(int(each) == parent for each in model.body_parentid[1 : body + 1])
        names.append(model.body(body).name or f"{names[parent]}.{place}")
    return tuple(names)


def joint_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for every joint; one without is called after its body ("thigh.joint")."""
    bodies = body_names(model)
    return tuple(
        model.joint(j).name or f"{bodies[model.jnt_bodyid[j]]}.joint" for j in range(model.njnt)
    )


def joints(model: mujoco.MjModel) -> tuple[JointSpec, ...]:
    """Describe every joint of a model."""
    return tuple(
        JointSpec(
            name=name,
            kind=_KINDS[int(model.jnt_type[i])],
            qpos_address=int(model.jnt_qposadr[i]),
            dof_address=int(model.jnt_dofadr[i]),
            low=float(model.jnt_range[i, 0]) if model.jnt_limited[i] else None,
            high=float(model.jnt_range[i, 1]) if model.jnt_limited[i] else None,
        )
        for i, name in enumerate(joint_names(model))
    )


def position_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name per column of qpos: the joint's, with the part where it has several."""
    return tuple(each.name + part for each in joints(model) for part in _POSITIONS[each.kind])


def velocity_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name per column of qvel."""
    return tuple(each.name + part for each in joints(model) for part in _VELOCITIES[each.kind])


def action_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name per actuator: its own, else that of the joint it drives, else its number."""
    driven = joint_names(model)
    on_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value
    return tuple(
        model.actuator(i).name
        or (driven[int(model.actuator_trnid[i, 0])] if on_joint[i] else f"actuator_{i}")
        for i in range(model.nu)
    )


def by_body(kind: str, bodies: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return names such as "cfrc_ext/torso/fx" for a (bodies, parts) block."""
    return tuple(f"{kind}/{body}/{part}" for body in bodies for part in parts)
