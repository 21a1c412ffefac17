import socket
import threading
import time

import pytest

from telic.core.config import Record
from telic.errors import Refused, TelicError, UnknownName, UsageError
from telic.llm import (
    Cancelled,
    Host,
    Image,
    ModelUnavailable,
    Request,
    Tokens,
    connect,
    work_orders,
)
from telic.llm.answers import InvalidAnswer
from telic.llm.work_orders import (
    answer_order,
    close_orders,
    list_orders,
    publish,
    read_order,
)
from telic.storage.files import write_json
from tests.llm.conftest import FAST

from .conftest import GOOD, Plan, question

REQUEST = question(system="Be brief.", images=(Image(data=b"picture"),))
KEY = REQUEST.key("host")


def wait_for(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


class Asking(threading.Thread):
    """Asks in the background, as a session does."""

    def __init__(self, path, request=REQUEST):
        super().__init__(daemon=True)
        self.path, self.request = path, request
        self.reply = self.error = None
        self.start()

    def run(self):
        try:
            self.reply = self.path.ask(self.request)
        except Exception as error:
            self.error = error


def test_an_order_is_published_answered_and_returned(models, tmp_path):
    orders = tmp_path / "orders"
    asking = Asking(models(Host(orders)))
    wait_for((orders / f"{KEY}.json").exists)
    assert [(line.key, line.role, line.state) for line in list_orders(orders)] == [
        (KEY, "elicitor", "open")
    ]
    answer_order(orders, KEY[:6], GOOD.model_dump_json())
    asking.join(300)
    assert asking.reply.answer == GOOD and asking.reply.model == "host"
    assert asking.reply.price_usd is None and asking.reply.tokens == Tokens()
    assert list_orders(orders)[0].state == "answered"


def test_the_order_says_everything_to_people_and_to_programs(tmp_path):
    publish(tmp_path, KEY, REQUEST)
    text = (tmp_path / f"{KEY}.md").read_text()
    picture = f"{KEY}-image-1.png"
    for part in ("elicitor", "Be brief.", "How?", picture, '"weights"', f"{KEY}.answer.json"):
        assert part in text
    assert (tmp_path / picture).read_bytes() == b"picture"
    order = read_order(tmp_path, KEY)
    assert order.prompt == "How?" and order.images == (str(tmp_path / picture),)
    assert order.answer_schema == Plan.model_json_schema()


def test_a_wrong_answer_file_is_rejected_with_the_reason_and_waited_for_again(models, tmp_path):
    orders = tmp_path / "orders"
    asking = Asking(models(Host(orders)))
    wait_for((orders / f"{KEY}.json").exists)
    (orders / f"{KEY}.answer.json").write_text('{"titel": "run"}')
    wait_for((orders / f"{KEY}.rejected.txt").exists)
    wait_for(lambda: list_orders(orders)[0].state == "rejected")
    assert "title: Field required" in list_orders(orders)[0].reason
    answer_order(orders, KEY, GOOD.model_dump_json())
    asking.join(300)
    assert asking.reply.answer == GOOD
    assert not (orders / f"{KEY}.rejected.txt").exists()


def test_waiting_for_an_order_stops_when_asked(tmp_path):
    asked = time.monotonic() + 0.5
    path = connect("host", tmp_path, should_stop=lambda: time.monotonic() > asked)
    assert path.limits.deadline_s > 24 * 3600, "people take their time"
    with pytest.raises(Cancelled):
        path.ask(REQUEST)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("not JSON", "not valid JSON"),
        ("[1]", "not of type 'object'"),
        ("{}", "'title' is a required property"),
        ('{"title": 1}', "title: 1 is not of type 'string'"),
        ('{"title": "a", "extra": 1}', "'extra' was unexpected"),
        ('{"title": "a", "weights": {"x": "y"}}', r"weights\.x: 'y' is not of type 'number'"),
    ],
)
def test_an_answer_is_checked_before_it_is_handed_in(tmp_path, text, complaint):
    publish(tmp_path, KEY, REQUEST)
    with pytest.raises(InvalidAnswer, match=complaint):
        answer_order(tmp_path, KEY, text)
    assert list_orders(tmp_path)[0].state == "open"


def test_answered_order_is_closed_despite_concurrent_answers(tmp_path):
    publish(tmp_path, KEY, REQUEST)
    answers = [GOOD.model_copy(update={"title": f"run {number}"}) for number in range(8)]
    taken = []

    def hand_in(answer):
        try:
            answer_order(tmp_path, KEY, answer.model_dump_json())
            taken.append(answer)
        except UsageError as error:
            assert "has already been answered" in error.message and error.exit_code == 2

    threads = [threading.Thread(target=hand_in, args=(answer,)) for answer in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (first,) = taken
    kept = (tmp_path / f"{KEY}.answer.json").read_text()
    assert Plan.model_validate_json(kept) == first
    with pytest.raises(UsageError, match="has already been answered"):
        answer_order(tmp_path, KEY, GOOD.model_dump_json())
    assert (tmp_path / f"{KEY}.answer.json").read_text() == kept
    assert not list(tmp_path.glob(".unfinished-*"))


def test_an_order_of_what_has_ended_takes_no_answer(tmp_path):
    publish(tmp_path, KEY, REQUEST)
    work_orders.close_orders(tmp_path, "the session has ended.")
    assert list_orders(tmp_path)[0].state == "closed"
    with pytest.raises(UsageError, match="is closed: the session has ended"):
        answer_order(tmp_path, KEY, GOOD.model_dump_json())
    assert not (tmp_path / f"{KEY}.answer.json").exists()


def test_an_order_names_no_files_itself(tmp_path):
    folder = tmp_path / "runs" / "session_1" / "orders"
    order = publish(folder, "ab12", Request(role="reviser", prompt="p", answer=Record))
    led = {
        "key": "../../../planted",
        "answer_file": "../../../planted",
        "images": ("/etc/hostname",),
    }
    write_json(folder / "ab12.json", order.model_copy(update=led))
    (line,) = list_orders(folder)
    assert line.key == "ab12" and read_order(folder, "ab12").images == ()
    close_orders(folder, "over")
    (folder / "ab12.closed.txt").unlink()
    assert answer_order(folder, "ab12", "{}") == folder / "ab12.answer.json"
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    (folder / "cd34.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="link"):
        list_orders(folder)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a"},
        {"type": 3},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "http://127.0.0.1:{port}/schema"},
    ],
    ids=str,
)
def test_a_foreign_schema_is_refused_and_fetches_nothing(tmp_path, schema):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        address = str(schema.get("$ref", "#")).format(port=server.getsockname()[1])
        order = publish(tmp_path, KEY, REQUEST)
        foreign = order.model_copy(update={"answer_schema": {**schema, "$ref": address}})
        write_json(tmp_path / f"{KEY}.json", foreign.model_dump(mode="json"))
        with pytest.raises(UsageError, match="schema"):
            answer_order(tmp_path, KEY, GOOD.model_dump_json())
        with pytest.raises(BlockingIOError):
            server.accept()


def test_answer_written_while_stopped_is_accepted(models, tmp_path):
    path = models(Host(tmp_path / "orders"), limits=FAST.replace(deadline_s=0.3))
    with pytest.raises(ModelUnavailable, match=f"{KEY} .elicitor"):
        path.ask(REQUEST)
    answer_order(tmp_path / "orders", KEY, GOOD.model_dump_json())
    assert models(Host(tmp_path / "orders")).ask(REQUEST).answer == GOOD


def test_an_unknown_or_ambiguous_key_is_explained(tmp_path):
    publish(tmp_path, "aa1", REQUEST)
    publish(tmp_path, "aa2", REQUEST)
    with pytest.raises(UnknownName):
        read_order(tmp_path, "zz")
    with pytest.raises(UsageError, match="matches 2 work orders: aa1, aa2"):
        read_order(tmp_path, "aa")
    assert list_orders(tmp_path / "nowhere") == []


def test_an_answer_that_is_nested_too_deeply_is_refused(tmp_path):
    publish(tmp_path, KEY, REQUEST)
    with pytest.raises(TelicError, match="nested too deeply"):
        answer_order(tmp_path, KEY, "[" * 100_000)
