"""Write the reference page of all settings: docs/reference/settings.md."""

from __future__ import annotations

from pathlib import Path

from telic.training.job import MEMBER_FIELDS, PpoSettings

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"


def settings_page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Settings",
        "",
        "Write settings after the environment: `telic train Ant-v5 gamma=0.98`.",
        "`telic envs --presets` shows the preset of each environment. Settings marked with * can",
        "differ between the members of a run (`--vary`).",
        "",
        "|setting|default|meaning|",
        "|---|---|---|",
    ]
    for name, field in PpoSettings.model_fields.items():
        mark = " *" if name in MEMBER_FIELDS else ""
        lines.append(f"|`{name}`{mark}|`{field.default}`|{field.description}|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(settings_page())
