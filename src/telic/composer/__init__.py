"""The composer: an author without a model. Words become frames, criteria, and code."""
