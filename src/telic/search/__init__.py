"""Policy search: optimize a small number of policy parameters with a model or an optimizer."""

from telic import is_also_a_verb

is_also_a_verb(__name__)
