"""Files of earlier versions, which spelled names the British way, stay readable."""

from telic import quantities
from telic.judges.measured import measured_names
from telic.motions.clip import MotionOrigin
from telic.training.job import PpoSettings


def test_settings_and_clips_of_earlier_versions_are_read():
    settings = PpoSettings.parse({"normalise_obs": False})
    assert settings.normalize_obs is False
    assert "normalise_obs" not in settings.model_dump()
    assert MotionOrigin.model_validate({"licence": "CC0-1.0"}).license == "CC0-1.0"


def test_rewards_and_criteria_of_earlier_versions_find_their_quantities():
    assert quantities.centre_of_mass_height is quantities.center_of_mass_height
    assert quantities.distance_travelled is quantities.distance_traveled
    found = measured_names("highest(centre_of_mass_height) / last(distance_travelled)")
    assert {"center_of_mass_height", "distance_traveled"} <= set(found)
