"""Results of trackers in the dashboard."""

import numpy as np

from telic.motions.robot import motion_robot
from telic.storage.trajectories import REFERENCE, Trajectory, TrajectoryFacts, write_trajectory
from telic.tracking.config import preset
from telic.tracking.reports import ClipResult, FollowErrors, TrackingReport, summarize_encoder
from telic.tracking.train import CONFIG
from tests.web.conftest import client_of
from tests.web.made import RUN, write

FRAMES = 30


def clip(number: int, error: float) -> ClipResult:
    errors = FollowErrors(
        mpjpe_g_mm=error,
        mpjpe_l_mm=error,
        mpjpe_pa_mm=error,
        velocity_mm=None,
        velocity_m_s=None,
        acceleration_mm=None,
        acceleration_m_s2=None,
        drift_m=0.1,
    )
    return ClipResult(
        clip=f"walk_{number}",
        encoder="robot",
        success=error < 50.0,
        global_success=False,
        progress=0.5,
        frames=100,
        joint_rad=0.1,
        turn_rad=0.1,
        errors=errors,
    )


def write_tracking(root) -> None:
    """Make the written run one of trackers, measured twice."""
    run = root / "runs" / RUN
    write(
        run / CONFIG, preset("planar", ["motions.library=/home/me/secret/walks"]).model_dump_json()
    )
    for step in (2000, 1000):
        clips = tuple(clip(number, number * 10.0 * 1000 / step) for number in range(20))
        report = TrackingReport(
            step=step,
            member="own_seed_1",
            split="validation",
            encoders=(summarize_encoder("robot", clips),),
            tokens=(),
            agreement=(),
            clips=clips,
        )
        folder = run / "own_seed_1" / "evaluations"
        write(folder / f"report_{step}.json", report.model_dump_json())
    write(folder / "eval_2000_validation_worst_1.mp4", b"film")


def test_a_run_of_trackers_says_how_each_encoder_follows_and_what_worst(own):
    write_tracking(own)
    client = client_of(own)
    reported = client.get(f"/api/artifacts/{RUN}/tracking").json()
    assert [report["step"] for report in reported] == [1000, 2000]
    first, last = reported
    assert first["encoders"][0]["success_rate"] < last["encoders"][0]["success_rate"]
    assert first["clips"][0]["clip"] == "walk_19" and not first["clips"][0]["success"]
    assert len(first["clips"]) == 12 and first["encoders"][0]["clips"] == 20
    files = client.get(f"/api/artifacts/{RUN}/files", params={"kind": "video"}).json()
    assert [file for file in files if "/evaluations/" in file["name"]]


def write_clip(root) -> None:
    """Record a clip that the robot of a run of trackers follows half as fast as it should."""
    robot = motion_robot(preset("planar", []).robot.name)
    states = np.tile(np.asarray(robot.facts.rest_qpos, np.float32), (FRAMES, 1))
    reference = states.copy()
    ahead = robot.facts.root.slides[0].qpos
    states[:, ahead] += np.linspace(0, 1, FRAMES)
    reference[:, ahead] += np.linspace(0, 2, FRAMES)
    clip = Trajectory(
        {"qpos": states, REFERENCE: reference}, TrajectoryFacts(env_id=str(robot.file), dt_s=0.02)
    )
    folder = root / "runs" / RUN / "own_seed_1" / "evaluations"
    write_trajectory(folder / "clip_2000_median.npz", clip)


def test_reference_is_recorded_next_to_the_tracked_motion(own):
    write_tracking(own)
    write_clip(own)
    client = client_of(own)
    [file] = client.get(f"/api/artifacts/{RUN}/files", params={"kind": "recording"}).json()
    assert (file["step"], file["label"]) == (2000, "median")
    address = f"/api/artifacts/{RUN}/playback/{file['key']}"
    facts = client.get(address).json()
    assert facts["has_reference"] and facts["bodies"] > 1
    robot, reference = (
        np.frombuffer(client.get(f"{address}/poses", params={"of": of}).content, "<f4")
        for of in ("robot", "reference")
    )
    ways = [poses.reshape(FRAMES, facts["bodies"], 7)[:, 1:, 0] for poses in (robot, reference)]
    moved = [way[-1] - way[0] for way in ways]
    assert np.allclose(moved[0], 1, atol=1e-5) and np.allclose(moved[1], 2, atol=1e-5)


def test_a_run_that_trains_something_else_says_nothing_of_trackers(client):
    assert client.get(f"/api/artifacts/{RUN}/tracking").json() == []
