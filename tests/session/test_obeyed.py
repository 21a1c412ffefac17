"""What a report says of a policy that was commanded."""

from types import SimpleNamespace

from telic.judges.obedience import ObeyedCommands
from telic.report import document as doc
from telic.session.report.sections import SECTIONS

obeys = SECTIONS["Velocity tracking"]

ROWS = [
    ObeyedCommands("go ahead, faster", 12.0, 0.7, 0.14, "m/s"),
    ObeyedCommands("go back, faster", 0.0, 0.0, 0.0, "m/s"),
    ObeyedCommands("stand: speed", 4.0, 0.0, 0.03, "m/s"),
]


def test_a_report_tells_the_error_of_each_kind_of_command():
    table, note = obeys(SimpleNamespace(obeyed=ROWS))
    assert isinstance(table, doc.Table) and isinstance(note, doc.Text)
    assert list(table.rows) == [
        ("go ahead, faster", "12 s", "0.70 m/s", "0.14 m/s", "20%"),
        ("stand: speed", "4 s", "0.00 m/s", "0.03 m/s", "–"),
    ]


def test_who_was_told_nothing_has_no_table():
    assert obeys(SimpleNamespace(obeyed=[])) == []
