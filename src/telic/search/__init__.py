"""Policy search: optimize few policy parameters with proposals by a model or an optimizer."""

from telic import is_also_a_verb

is_also_a_verb(__name__)
