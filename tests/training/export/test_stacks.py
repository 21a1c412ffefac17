"""Deployment stacks read our files as they read their own, and compute the targets of run.py."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from ruamel.yaml import YAML

from telic.envs import make
from telic.errors import UsageError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.training.export.deployment import write_deployment
from telic.training.export.stacks import write_stack
from tests.training.export.test_deployment import DOG, policy_of

HISTORY, JOINTS, REALS = 3, 12, [float] * 12
SCHEMAS = {
    "base.yaml": {
        **{"dt": float, "decimation": int, "num_of_dofs": int, "wheel_indices": []},
        **{"fixed_kp": REALS, "fixed_kd": REALS, "torque_limits": REALS},
        **{"default_dof_pos": REALS, "joint_names": [str] * 12},
        **{"joint_controller_names": [str] * 12, "joint_mapping": [int] * 12},
    },
    "config.yaml": {
        **{"model_name": str, "num_observations": int, "observations": [str] * 6},
        **{"observations_history": [int] * HISTORY, "observations_history_priority": str},
        **{"clip_obs": float, "clip_actions_lower": REALS, "clip_actions_upper": REALS},
        **{"rl_kp": REALS, "rl_kd": REALS, "fixed_kp": REALS, "fixed_kd": REALS},
        **{"lin_vel_scale": float, "ang_vel_scale": float, "dof_pos_scale": float},
        **{"dof_vel_scale": float, "commands_scale": [float] * 3, "action_scale": REALS},
        **{"num_of_dofs": int, "wheel_indices": [], "torque_limits": REALS},
        **{"default_dof_pos": REALS, "joint_names": [str] * 12},
        **{"joint_controller_names": [str] * 12, "joint_mapping": [int] * 12},
    },
    "deploy.yaml": {
        **{"joint_ids_map": [int] * 12, "step_dt": float, "stiffness": REALS, "damping": REALS},
        "default_joint_pos": REALS,
        **{"commands": dict, "actions": dict, "observations": dict},
    },
    "policy.yaml": {"scene": dict, "articulations": dict, "actions": list, "observations": dict},
    "controllers.yaml": {
        name: {"ros__parameters": dict}
        for name in ("controller_manager", "imu_sensor_broadcaster", "pid_controller")
    },
}
"""fields and types of the files that the stacks publish"""
BLOCKS = {
    **{"base_ang_vel": "gyro", "ang_vel": "gyro"},
    **{"projected_gravity": "gravity", "gravity_vec": "gravity"},
    **{"velocity_commands": "command", "generated_commands": "command", "commands": "command"},
    **{"joint_pos_rel": "position", "dof_pos": "position"},
    **{"joint_vel_rel": "rate", "dof_vel": "rate", "last_action": "action", "actions": "action"},
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A policy and its bundle, with the joint names of a Unitree quadruped."""
    dog = str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))
    arguments = {"max_episode_steps": 20, "history": HISTORY, "commands": {"every_s": 0.3}}
    env = make(dog, num_envs=1, **arguments)
    policy, folder = policy_of(env), tmp_path_factory.mktemp("bundle") / "deploy"
    env.close()
    about = write_deployment(policy, (dog, arguments), folder)
    short = {"front": "F", "hind": "R", "left": "L", "right": "R", "shin": "calf"}
    parts = [[short.get(word, word) for word in name.split("_")] for name in about.joints.names]
    names = tuple(f"{end}{side}_{part}_joint" for end, side, part in parts)
    joints = about.joints.model_copy(update={"names": names})
    about = about.model_copy(update={"robot": "unitree-go2", "joints": joints})
    text = json.loads((folder / "deploy.json").read_text())
    text["joints"]["names"] = names
    (folder / "deploy.json").write_text(json.dumps(text))
    return policy, about, folder


def deployed(bundle, stack, **changes):
    policy, about, folder = bundle
    write_stack(stack, policy, about.model_copy(update=changes), folder / stack)
    return about, folder / stack


def conforms(value, schema):
    if isinstance(schema, dict):
        return value.keys() == schema.keys() and all(conforms(value[k], schema[k]) for k in schema)
    if isinstance(schema, list):
        return len(value) == len(schema) and all(map(conforms, value, schema))
    return type(value) is schema


def read(folder, name):
    (file,) = folder.rglob(name)
    values = YAML(typ="safe").load(file.read_text())
    values = values[next(iter(values))] if len(values) == 1 else values
    assert conforms(values, SCHEMAS[name]), (values, SCHEMAS[name])
    return values


def by_terms(terms, model, default, scale, offset):
    """Isaac Lab: the history of each term on its own, oldest first."""
    return {
        "pick": lambda past: [past[i][name] for name, n in terms for i in reversed(range(n))],
        **{"model": model, "default": default, "scale": scale, "offset": offset},
    }


def unitree_sdk2(folder):
    values = read(folder, "deploy.yaml")
    action = values["actions"]["JointPositionAction"]
    terms = [(name, each["history_length"]) for name, each in values["observations"].items()]
    model, default = folder / "exported/policy.onnx", values["default_joint_pos"]
    return by_terms(terms, model, default, action["scale"], action["offset"])


def robojudo(folder):
    values = read(folder, "policy.yaml")
    (action,), robot = values["actions"], values["articulations"]["robot"]
    seen = values["observations"]["policy"]
    terms = [(each["name"], each["overloads"]["history_length"]) for each in seen]
    assert all(len(each["shape"]) == 1 for each in seen)
    model = folder / "assets/models/g1/telic/policy.onnx"
    return by_terms(terms, model, robot["default_joint_pos"], action["scale"], action["offset"])


def rl_sar(folder):
    """Whole observations, the latest first; one default pose for observations and actions."""
    read(folder, "base.yaml")
    values = read(folder, "config.yaml")
    frames, names = values["observations_history"], values["observations"]
    default = values["default_dof_pos"]
    return {
        "pick": lambda past: [past[frame][name] for frame in frames for name in names],
        "model": folder / "policy/go2/telic" / values["model_name"],
        **{"default": default, "offset": default, "scale": values["action_scale"]},
    }


def targets_of(stack, sensed):
    """Compute position targets as the stack does."""
    policy, past, targets = onnxruntime.InferenceSession(str(stack["model"])), [], []
    action = np.zeros(JOINTS)
    for sensors in sensed:
        own = {**sensors, "position": sensors["position"] - stack["default"], "action": action}
        past.insert(0, {name: own[block] for name, block in BLOCKS.items()})
        nothing = {name: 0.0 * value for name, value in past[0].items()}
        obs = np.concatenate(stack["pick"](past + [nothing] * HISTORY))
        action = policy.run(None, {"obs": obs[None].astype("f4")})[0][0]
        targets.append(np.array(stack["offset"]) + np.array(stack["scale"]) * action)
    return np.array(targets)


def sensor_values(about, count=6):
    random = np.random.default_rng(0)
    sizes = {"gyro": 3, "gravity": 3, "command": 3, "rate": JOINTS}
    for _ in range(count):
        values = {name: random.normal(size=size) for name, size in sizes.items()}
        yield {**values, "position": about.joints.rest + random.normal(0.0, 0.1, JOINTS)}


def controller_of(folder):
    spec = importlib.util.spec_from_file_location("run_of_bundle", folder / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    return run.Controller(json.loads((folder / "deploy.json").read_text()))


@pytest.mark.parametrize("stack", [unitree_sdk2, rl_sar, robojudo])
def test_a_stack_computes_the_targets_of_the_bundle(bundle, stack):
    robot = "unitree-g1" if stack is robojudo else "unitree-go2"
    about, folder = deployed(bundle, stack.__name__, robot=robot)
    sensed = list(sensor_values(about))
    controller = controller_of(folder.parent)
    wanted = [controller.act(sensors)["ctrl"] for sensors in sensed]
    got, joints = targets_of(stack(folder), sensed), about.joints
    assert np.ptp(got, axis=0).min() > 1e-3
    assert np.allclose(got.clip(joints.target_low, joints.target_high), wanted, atol=1e-5)


def test_motors_are_those_of_the_robot(bundle):
    about, folder = deployed(bundle, "rl_sar")
    legs, parts = ("FR", "FL", "RR", "RL"), ("hip", "thigh", "calf")
    robot = [f"{leg}_{part}_joint" for leg in legs for part in parts]
    mapping = read(folder, "base.yaml")["joint_mapping"]
    assert [robot[motor] for motor in mapping] == list(about.joints.names)


STUB = """
import json, sys, types
from types import SimpleNamespace as Some

def module(name, **contents):
    sys.modules[name] = made = types.ModuleType(name)
    made.__dict__.update(contents)

pose = json.loads(sys.argv.pop(1))
motors = [Some(q=q, dq=0.0, mode=0, tau=0.0, kp=0.0, kd=0.0) for q in pose]
state = Some(motor_state=motors, imu_state=Some(quaternion=(1, 0, 0, 0), gyroscope=(0, 0, 0)))

class Channel:
    def __init__(self, topic, kind): self.topic = topic
    def Init(self, handler=None, depth=0): handler and handler(state)
    def Write(self, order):
        print(self.topic, json.dumps([[m.q, m.kp, m.kd] for m in order.motor_cmd[:12]]), order.crc)

order = Some(head=[0, 0], motor_cmd=[Some() for _ in range(20)], mode_machine=0)
for name in ("unitree_sdk2py", "unitree_sdk2py.core", "unitree_sdk2py.idl", "unitree_sdk2py.utils"):
    module(name)
module("unitree_sdk2py.core.channel", ChannelPublisher=Channel, ChannelSubscriber=Channel,
       ChannelFactoryInitialize=lambda domain, interface: None)
module("unitree_sdk2py.idl.default", unitree_go_msg_dds__LowCmd_=lambda: order)
module("unitree_sdk2py.idl.unitree_go.msg.dds_", LowCmd_=None, LowState_=None)
module("unitree_sdk2py.utils.crc", CRC=lambda: Some(Crc=lambda order: order.head[0]))

class Node:
    handlers = {}
    def create_subscription(self, kind, topic, handler, depth): self.handlers[topic] = handler
    def create_publisher(self, kind, topic, depth):
        return Some(publish=lambda m: print(topic, json.dumps([m.dof_names, m.values])))

def spin_once(node, timeout_sec=None):
    zero = Some(x=0.0, y=0.0, z=0.0)
    names = json.loads(open("../deploy.json").read())["joints"]["names"][::-1]
    node.handlers["/joint_states"](Some(name=names, position=pose[::-1], velocity=[0.0] * 12))
    turn = Some(w=1.0, x=0.0, y=0.0, z=0.0)
    node.handlers["/imu_sensor_broadcaster/imu"](Some(orientation=turn, angular_velocity=zero))

module("rclpy", init=lambda: None, create_node=lambda name: Node(), spin_once=spin_once)
module("sensor_msgs.msg", JointState=None, Imu=None)
module("control_msgs.msg", MultiDOFCommand=Some)
module("geometry_msgs.msg", Twist=None)
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""the message interfaces of unitree_sdk2py and rclpy, with a robot that stands still"""


@pytest.mark.parametrize(("stack", "where"), [("unitree_sdk2", ["eth0"]), ("ros2", [])])
def test_a_node_sends_the_targets_of_the_bundle(bundle, stack, where):
    about, folder = deployed(bundle, stack)
    joints, motors = about.joints, list(range(JOINTS))
    if stack == "unitree_sdk2":
        motors = read(folder, "deploy.yaml")["joint_ids_map"]
    position, pose = np.array(joints.rest) + 0.05, np.zeros(JOINTS)
    pose[motors] = position
    call = [
        sys.executable,
        "-c",
        STUB,
        json.dumps(pose.tolist()),
        "node.py",
        *where,
        "--steps",
        "2",
    ]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sensors = {"gyro": np.zeros(3), "gravity": np.array([0.0, 0.0, -1.0]), "command": np.zeros(3)}
    sensors |= {"rate": np.zeros(JOINTS), "position": position}
    controller, lines = controller_of(folder.parent), done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        topic, text = line.split(" ", 1)
        sent, wanted = json.loads(text[: text.rindex("]") + 1]), controller.act(sensors)["ctrl"]
        if stack == "ros2":
            assert topic == "/pid_controller/reference" and sent[0] == list(joints.names)
            assert np.allclose(sent[1], wanted, atol=1e-6)
        else:
            assert topic == "rt/lowcmd" and text.endswith(str(0xFE))
            orders = np.array([wanted, joints.stiffness, joints.damping]).T
            assert np.allclose(np.array(sent)[motors], orders, atol=1e-6)


def test_names_of_a_robot_add_no_parameters(bundle):
    """The model may be of another user, and names may contain line breaks."""
    first, *others = bundle[1].joints.names
    names = (f"{first}: {{p: 0}}\n      evil", *others)
    joints = bundle[1].joints.model_copy(update={"names": names})
    _, folder = deployed(bundle, "ros2", joints=joints, base="trunk}\nevil: {a: 1")
    (file,) = folder.rglob("controllers.yaml")
    values = YAML(typ="safe").load(file.read_text())
    gains = values["pid_controller"]["ros__parameters"]["gains"]
    assert set(gains) == set(names) and "evil" not in values


def test_what_a_stack_cannot_run_is_refused(bundle):
    seen = bundle[1].observation
    velocity = (*seen, seen[0].model_copy(update={"name": "velocity"}))
    for stack, match, change in (
        ("unitree_sdk2", "velocity", {"observation": velocity}),
        ("rl_sar", "phase", {"phase_hz": 1.5}),
        ("robojudo", "not provide an environment", {}),
    ):
        with pytest.raises(UsageError, match=match):
            deployed(bundle, stack, **change)
