"""Language and vision models: one call path with budget, retries, cache, checks and trace."""

from telic.llm.answers import InvalidAnswer, read_answer
from telic.llm.budget import Budget, Charge, Spent
from telic.llm.choose import choose, connect
from telic.llm.errors import (
    BudgetExceeded,
    Cancelled,
    ModelAnswerError,
    ModelUnavailable,
    Outage,
    RequestRejected,
)
from telic.llm.keys import redact
from telic.llm.models import Models
from telic.llm.orders import Order, OrderLine, answer_order, list_orders, read_order
from telic.llm.prompts import prompt_hash, render
from telic.llm.provider import Provider
from telic.llm.providers.host import Host
from telic.llm.providers.hosted import Hosted
from telic.llm.providers.replay import Recorder, Replay
from telic.llm.providers.scripted import Fault, Scripted
from telic.llm.records import Effort, Image, RawReply, Reply, Request, Tokens
from telic.llm.waiting import Limits

__all__ = [
    "Budget",
    "BudgetExceeded",
    "Cancelled",
    "Charge",
    "Effort",
    "Fault",
    "Host",
    "Hosted",
    "Image",
    "InvalidAnswer",
    "Limits",
    "ModelAnswerError",
    "ModelUnavailable",
    "Models",
    "Order",
    "OrderLine",
    "Outage",
    "Provider",
    "RawReply",
    "Recorder",
    "Replay",
    "Reply",
    "Request",
    "RequestRejected",
    "Scripted",
    "Spent",
    "Tokens",
    "answer_order",
    "choose",
    "connect",
    "list_orders",
    "prompt_hash",
    "read_answer",
    "read_order",
    "redact",
    "render",
]
