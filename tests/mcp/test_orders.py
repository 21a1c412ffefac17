"""A host agent answers what sessions and searches ask of a model."""

import base64
import shutil

import pytest

from telic.core.config import Record
from telic.llm import Image, Request
from telic.llm.work_orders import ORDERS, list_orders, publish
from telic.storage.keys import BEGUN, sign_folder
from tests.mcp.host import Refusal

pytestmark = pytest.mark.anyio


class Answer(Record):
    """Return a valid answer to an order."""

    source: str
    score: int


@pytest.fixture
def orders(repository):
    """The orders of one session: an old one, and a new one with a picture."""
    folder = repository / "runs" / "session_1" / ORDERS
    folder.mkdir(parents=True)
    sign_folder(folder.parent)
    publish(folder, "first", Request(role="reward_author", prompt="Write it.", answer=Answer))
    picture = Image(data=b"\x89PNG...")
    publish(
        folder, "second", Request(role="vision_judge", prompt="?", answer=Answer, images=(picture,))
    )
    return folder


GOOD = {"source": "x = 1\n", "score": 1}


async def test_an_order_is_answered_and_the_next_one_comes(host, orders):
    async with host() as call:
        order = (await call("next_work_order"))["order"]
        assert order["id"] == "session_1/first" and order["role"] == "reward_author"
        assert order["request"] == "Write it." and "score" in order["output_schema"]["properties"]
        handed = await call("submit_work_order", order=order["id"], answer=GOOD)
        assert handed["result"].endswith("first.answer.json")
        second = (await call("next_work_order"))["order"]
        assert second["id"] == "session_1/second"
        found = await call.client.read_resource(second["inputs"][0])
        assert base64.b64decode(found.contents[0].blob) == b"\x89PNG..."
    assert {each.key: each.state for each in list_orders(orders)} == {
        "first": "answered",
        "second": "open",
    }


@pytest.mark.parametrize(
    ("answer", "says"),
    [({"score": 1}, "source"), ({"source": "def (", "score": 1}, "line 1 of the code")],
)
async def test_a_bad_answer_is_refused_with_every_complaint(host, orders, answer, says):
    async with host() as call:
        order = (await call("next_work_order"))["order"]["id"]
        with pytest.raises(Refusal, match=rf"(?s)not accepted.*{says}"):
            await call("submit_work_order", order=order, answer=answer)
        assert (await call("next_work_order"))["order"]["id"] == order
    assert list_orders(orders)[0].state == "open"


async def test_the_orders_of_a_folder_that_another_user_made_are_not_offered(host, orders):
    foreign = orders.parent.with_name("session_2") / ORDERS
    publish(foreign, "evil", Request(role="reward_author", prompt="?", answer=Answer))
    for copied in ("", "session_1"):  # a signature of another folder is none
        if copied:
            shutil.copy(orders.parent / BEGUN, foreign.parent)
        async with host() as call:
            for _ in range(2):
                order = (await call("next_work_order"))["order"]["id"]
                assert order.startswith("session_1/")
                await call("decline_work_order", order=order, because="not now")
            with pytest.raises(Refusal, match="session_2"):
                await call("submit_work_order", order="session_2/evil", answer=GOOD)
            for path in orders.glob("*.declined.json"):
                path.unlink()
    assert not list(foreign.glob("*.answer.json"))


async def test_pictures_are_not_read_through_links(host, orders, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the key")
    (picture,) = orders.glob("*-image-*")
    picture.unlink()
    picture.symlink_to(secret)
    async with host() as call:
        with pytest.raises(Exception, match="link"):
            await call.client.read_resource(f"telic://orders/session_1/{picture.name}")
