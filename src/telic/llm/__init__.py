"""Clients for language and vision models, with budgets, retries, caching and validation."""

from telic.errors import BudgetExceeded
from telic.llm.budget import Budget
from telic.llm.client import CallLimits, Models, choose, connect
from telic.llm.records import (
    Cancelled,
    Image,
    ModelAnswerError,
    ModelUnavailable,
    Outage,
    Provider,
    RawReply,
    Request,
    RequestRejected,
    Tokens,
    prompt_hash,
)
from telic.llm.work_orders import Host

__all__ = [
    "Budget",
    "BudgetExceeded",
    "CallLimits",
    "Cancelled",
    "Host",
    "Image",
    "ModelAnswerError",
    "ModelUnavailable",
    "Models",
    "Outage",
    "Provider",
    "RawReply",
    "Request",
    "RequestRejected",
    "Tokens",
    "choose",
    "connect",
    "prompt_hash",
]
