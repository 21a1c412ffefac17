"""Policy search: numbers of a small policy, proposed by a model or an optimiser, tried, revised."""

from telic import is_also_a_verb

is_also_a_verb(__name__)
