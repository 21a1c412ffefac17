"""Listener that stores events as plain data."""

from telic.core.events import encode_event


class EventList(list):
    """Events as they are written, in order; called with each one."""

    def __call__(self, event):
        self.append(encode_event(event))
