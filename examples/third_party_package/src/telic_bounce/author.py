"""Author plugin "gentle": the composer with a request for smooth motion."""

from dataclasses import replace

from telic.authors.composer import ComposerAuthor


class Gentle(ComposerAuthor):
    """Compose an intent with additional words for smooth motion."""

    def __init__(self, brief):
        config = brief.config.replace(intent=f"{brief.config.intent} smoothly")
        super().__init__(replace(brief, config=config))
