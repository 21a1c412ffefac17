"""Provider plugin "dice:SIDES": answer every question with random numbers within the schema."""

import json
import random

from telic.llm import RawReply


class Dice:
    """Provider that needs no network connection."""

    def __init__(self, model):
        self._sides = int(model or 6)

    @property
    def name(self):
        """Return the full name, which is part of every cache key."""
        return f"dice:{self._sides}"

    async def complete(self, request, deadline_s):
        """Return an object that fits the schema. The same question always has the same answer."""
        throw = random.Random(request.key(self.name))
        fields = request.answer_schema["properties"]
        answer = {name: self._value(field, throw) for name, field in fields.items()}
        return RawReply(text=json.dumps(answer), price_usd=0.0)

    def _value(self, field, throw):
        if field.get("type") == "array":
            return [throw.randint(1, self._sides) - 3 for _ in range(field.get("minItems", 1))]
        if field.get("type") in ("number", "integer"):
            return throw.randint(1, self._sides)
        return f"thrown with {self._sides} sides"
