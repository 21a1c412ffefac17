"""A policy that runs in the page: MuJoCo as WebAssembly, and a person who pushes."""

from pathlib import Path

import pytest
import torch

from telic import bench
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.storage.layout import RunFolder
from telic.training.export.live import live_policy
from telic.training.folder import environment_of
from telic.training.plan import plan
from telic.training.policy import load_policy
from telic.training.run import execute
from tests.training.small import SETTINGS
from tests.web.browser.conftest import Tab, serving

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
HEIGHT = "() => Number(document.querySelector('#now').dataset.height)"
pytestmark = pytest.mark.slow


def test_the_page_simulates_what_telic_simulates_and_the_robot_can_be_pushed(
    tab, furnished, tmp_path
):
    tab.open(f"/live/{furnished.failed}", "Agreement with telic's simulation")
    shown = tab.page.locator("#agreement")
    states, actions = (float(shown.get_attribute(f"data-{name}")) for name in ("states", "actions"))
    print(f"\nstates differ by {states:.1e}, actions by {actions:.1e}")
    assert states < 1e-4 and actions < 1e-4
    tab.page.wait_for_function("() => document.querySelector('#seconds').textContent !== '0.0 s'")
    tab.page.get_by_role("button", name="Push forward").click()
    tab.page.get_by_label("friction", exact=False).fill("0.1")
    tab.page.get_by_text("10% of the training value").wait_for()
    tab.page.locator("body").press("r")
    for theme in ("light", "dark"):
        tab.theme(theme)
        tab.picture(tmp_path, f"live-{theme}")
        assert not tab.findings()


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    """Run of a commanded robot whose policy reacts only to commands."""
    root = tmp_path_factory.mktemp("driven")
    dog = str(build_robot(guessed(DOG), root, "dog"))
    job = plan(dog, env_args={"commands": {}}, steps=256, settings=SETTINGS, evaluations=1)
    made = execute(job, root / "runs", name="run_20260101_000000_cccc", confined=False)
    run = RunFolder(made.path)
    [file] = run.members()[0].checkpoints_dir.glob("policy_*.pt")
    saved = torch.load(file, weights_only=True)
    shown = live_policy(load_policy(file), environment_of(run)).about.deployment
    command = next(block for block in shown.observation if block.name == "command")
    saved["scale"].fill_(1.0)
    saved["shift"].zero_()
    saved["flat"].zero_()
    # The commanded speed alone moves every joint.
    first, second, last = load_policy(file).networks.views(saved["flat"].unsqueeze(0)).actor
    first.weight[0, command.first, 0] = second.weight[0, 0, 0] = 2.0
    last.weight[0, 0] = 1.0
    torch.save(saved, file)
    return root, run.name


def test_keys_drive_a_robot_that_takes_commands_over_stairs_too(browser, driven, tmp_path):
    root, run = driven
    with serving(root) as address:
        tab = Tab(browser, address, viewport={"width": 1360, "height": 900})
        page = tab.page
        page.set_default_timeout(180_000)
        tab.open(f"/live/{run}", "Velocity commands")
        page.wait_for_function(
            "() => parseFloat(document.querySelector('#seconds').textContent) > 1"
        )
        standing = page.evaluate(HEIGHT)
        page.keyboard.down("w")
        page.get_by_text("1.00 m/s forward, 0.00 m/s left").wait_for()
        page.wait_for_function(
            f"standing => Math.abs(({HEIGHT})() - standing) > 0.02", arg=standing
        )
        page.keyboard.up("w")
        page.get_by_text("0.00 m/s forward, 0.00 m/s left").wait_for()
        page.get_by_role("button", name="stairs").click()
        page.get_by_text("Agreement with telic's simulation").wait_for()
        page.get_by_role("button", name="Push forward").click()
        for theme in ("light", "dark"):
            tab.theme(theme)
            page.wait_for_timeout(500)
            tab.picture(tmp_path, f"driven-{theme}")
            assert not tab.findings()
        tab.context.close()
    assert not tab.faults


def test_what_cannot_run_in_a_page_says_why(tab, furnished):
    tab.page.goto(f"{tab.address}/live/{furnished.run}")
    tab.page.get_by_text("No trained policy").wait_for()
    tab.faults.clear()  # the answer that said so
