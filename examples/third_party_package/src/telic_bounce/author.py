"""gentle: the composer, asked for the same thing smoothly."""

from dataclasses import replace

from telic.authors.composer import ComposerAuthor


class Gentle(ComposerAuthor):
    """Writes as the composer does for gentler words; everything else is the composer's."""

    def __init__(self, brief):
        config = brief.config.replace(intent=f"{brief.config.intent} smoothly")
        super().__init__(replace(brief, config=config))
