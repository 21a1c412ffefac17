"""A scan fills adapter.yaml and the card; hints stay guesses; people have the last word."""

from __future__ import annotations

import hashlib

import pytest

from telic.errors import UnknownName
from telic.studies.card import render_card
from telic.studies.documents.adapter import Adapter, confirm_field
from telic.studies.errors import InvalidDocument
from telic.studies.scan.audit import (
    MOST_CONFIDENCE,
    audit_repository,
    draft_adapter,
    keep_confirmed,
    load_presets,
    matching_presets,
)


@pytest.fixture
def drafted(unpack):
    root = unpack("presets_yaml")
    return draft_adapter(audit_repository(root), root), root


def test_every_field_says_how_sure_it_is_and_quotes_lines(drafted):
    adapter, root = drafted
    assert adapter.commands.train is not None
    told = ("gardener", "train", "--algo", "ppo", "--env", "CartPole-v1")
    assert adapter.commands.train.argv == (*told, "--seed", "{seed}", "{overrides}")
    held = adapter.provenance["commands.train"]
    assert held.status == "inferred"
    assert held.confidence is not None and held.confidence > 0.5
    quote = held.evidence[0]
    line = (root / quote.path).read_text().splitlines()[quote.line - 1].strip()
    assert quote.quote_hash == hashlib.sha256(line.encode()).hexdigest()
    assert adapter.files.reward.external
    assert {each.status for each in adapter.provenance.values()} <= {"inferred", "unknown"}


def test_a_library_gives_no_command(unpack):
    root = unpack("library_only")
    adapter = draft_adapter(audit_repository(root), root)
    assert adapter.commands.train is None
    assert adapter.provenance["commands.train"].status == "unknown"
    assert not adapter.seeds.controllable


def test_network_sinks_come_with_what_silences_them(unpack):
    root = unpack("tracker_on")
    sources = draft_adapter(audit_repository(root), root).logging.sources
    tracker = next(each for each in sources if each.kind == "wandb")
    assert tracker.network and tracker.default
    assert tracker.offline_env == {"WANDB_MODE": "disabled"}


def test_hints_fill_only_what_the_tree_did_not_answer(unpack):
    root = unpack("library_only")
    found = audit_repository(root)
    hints = matching_presets((*found.packages, "mjlab"))
    adapter = draft_adapter(found, root, hints)
    assert adapter.commands.train is not None and adapter.commands.train.argv[0] == "train"
    held = adapter.provenance["commands.train"]
    assert (held.status, held.confidence) == ("inferred", MOST_CONFIDENCE)
    # the tree says how settings are changed; the hint must not overrule it
    assert adapter.config.system == "custom"


def test_hints_apply_to_their_stack_only():
    assert {hint.name for hint in load_presets()} == {"generic", "holosoma", "mjlab"}
    assert [hint.name for hint in matching_presets(("torch",))] == ["generic"]
    assert all(hint.confidence <= MOST_CONFIDENCE for hint in load_presets())


def test_a_correction_confirms_and_survives_another_scan(drafted):
    adapter, root = drafted
    mended = confirm_field(adapter, "commands.train", "python -m gardener.train --seed {seed}")
    mended = confirm_field(mended, "metrics.map.return", "eval/mean_reward")
    again = keep_confirmed(draft_adapter(audit_repository(root), root), mended)
    assert again.commands.train is not None
    assert again.commands.train.argv == ("python", "-m", "gardener.train", "--seed", "{seed}")
    assert again.metrics.map["return"] == "eval/mean_reward"
    assert again.provenance["commands.train"].status == "confirmed"
    assert again.provenance["metrics"].status == "confirmed"
    assert again.provenance["seeds"].status == "inferred"
    assert Adapter.parse(again.as_data()) == again


def test_a_person_may_say_that_there_is_no_such_command(drafted):
    changed = confirm_field(drafted[0], "commands.eval", "null")
    assert changed.commands.eval is None
    assert changed.provenance["commands.eval"].status == "confirmed"


def test_confirming_without_a_value_keeps_it(drafted):
    adapter, _ = drafted
    assert confirm_field(adapter, "seeds").seeds == adapter.seeds


@pytest.mark.parametrize("name", ["command.train", "seeds.flagg", "hazards"])
def test_unknown_fields_are_refused(drafted, name):
    with pytest.raises(UnknownName):
        confirm_field(drafted[0], name, "x")


def test_a_value_that_does_not_fit_is_refused(drafted):
    with pytest.raises(InvalidDocument, match="placeholder"):
        confirm_field(drafted[0], "commands.train", "python x.py {oops}")


def test_the_card_keeps_what_people_wrote(audit):
    found = audit("class_attributes")
    card = render_card("quad", "walk", found)
    assert "python walker/scripts/train.py" in card
    assert "ghost_term" in card
    edited = card.replace("walk\n", "walk, but slowly\n", 1) + "\nMy own note.\n"
    again = render_card("quad", "ignored", found, edited)
    assert again == edited
    assert "walk, but slowly" in again and again.count("<!-- scan -->") == 1


def test_the_card_asks_what_only_a_person_knows(audit):
    card = render_card("x", "", audit("library_only"))
    assert "Which command trains" in card
    assert "How is the seed set?" in card
