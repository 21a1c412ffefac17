"""A policy that runs in the page: MuJoCo as WebAssembly, and a person who pushes."""

import pytest

pytestmark = pytest.mark.slow


def test_the_page_simulates_what_telic_simulates_and_the_robot_can_be_pushed(
    tab, furnished, tmp_path
):
    tab.open(f"/live/{furnished.failed}", "Is it the same robot?")
    told = tab.page.locator("#agreement")
    states, actions = (float(told.get_attribute(f"data-{name}")) for name in ("states", "actions"))
    print(f"\nstates differ by {states:.1e}, actions by {actions:.1e}")
    assert states < 1e-4 and actions < 1e-4
    tab.page.wait_for_function("() => document.querySelector('#seconds').textContent !== '0.0 s'")
    tab.page.get_by_role("button", name="Push ahead").click()
    tab.page.get_by_label("friction", exact=False).fill("0.1")
    tab.page.get_by_text("10 % of what").wait_for()
    tab.page.locator("body").press("r")
    for theme in ("light", "dark"):
        tab.theme(theme)
        tab.picture(tmp_path, f"live-{theme}")
        assert not tab.findings()


def test_what_cannot_run_in_a_page_says_why(tab, furnished):
    tab.page.goto(f"{tab.address}/live/{furnished.run}")
    tab.page.get_by_text("There is no trained policy").wait_for()
    tab.faults.clear()  # the answer that said so
