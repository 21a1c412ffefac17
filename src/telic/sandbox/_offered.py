"""Attributes and methods that untrusted code may use, for each kind of object.

In addition to `_allowed`, this lists the names that rewards and judges need. Other names are
refused, even if the object has them. The list is used by the check before execution, which refuses
names that no kind of object offers, by the guard during execution (`_guard`), when the kind is
known, and by the reference page. Classes that telic passes to untrusted code specify their kind in
`__offered__`. Objects without a kind offer nothing.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any

from telic.sandbox._allowed import FUNCTIONS, words

_SHAPES = """
T astype copy diagonal dtype flatten item itemsize nbytes ndim ravel repeat reshape shape size
squeeze strides swapaxes take tolist transpose
"""
_ARITHMETIC = """
all any argmax argmin argpartition argsort choose clip compress conj cumprod cumsum dot fill imag
max mean min nonzero partition prod real round searchsorted sort std sum trace var
"""
_TENSOR_ONLY = """
H T bool byte char clip_ contiguous cpu cuda detach device dim double dtype element_size expand
expand_as fill_ float half int is_contiguous is_cuda item itemsize long mH mT masked_fill_
masked_scatter masked_scatter_ nbytes ndim ndimension new_full new_ones new_tensor
new_zeros nelement numpy permute repeat requires_grad reshape_as scatter_ scatter_add_
scatter_reduce_ shape short size stride sum_to_size to tolist type type_as unfold unsqueeze_ view
view_as where zero_
"""
_TENSOR_IN_PLACE = """
abs_ add_ addcdiv_ addcmul_ atan2_ ceil_ clamp_ clamp_max_ clamp_min_ copy_ cos_ cumprod_ cumsum_
div_ eq_ exp_ floor_ floor_divide_ fmod_ ge_ gt_ index_add_ index_copy_ index_fill_ le_ lerp_ log_
logical_and_ logical_not_ logical_or_ logical_xor_ lt_ mul_ nan_to_num_ ne_ neg_ pow_ reciprocal_
remainder_ round_ rsqrt_ sigmoid_ sign_ sin_ sqrt_ square_ squeeze_ sub_ tanh_ tril_ triu_ trunc_
"""
_NO_METHODS = """
Size Tensor arange as_tensor atleast_1d atleast_2d atleast_3d block_diag bool broadcast_shapes
broadcast_tensors bucketize cat cdist column_stack complex complex128 complex64 concat concatenate
cosine_similarity cumulative_trapezoid device dstack dtype e einsum empty empty_like eye finfo float
float16 float32 float64 from_numpy full full_like gradient hstack iinfo inf int int16 int32 int64
int8 is_tensor isin linspace logspace meshgrid nan newaxis no_grad ones ones_like pi polar
searchsorted stack std_mean tensor tensordot trapezoid trapz uint8 vander var_mean vstack zeros
zeros_like
"""
_SEQUENCE = "count index"

OFFERED: Mapping[str, frozenset[str]] = {
    "a tensor": (FUNCTIONS["torch"] - words(_NO_METHODS))
    | words(_TENSOR_ONLY)
    | words(_TENSOR_IN_PLACE),
    "a numpy array": words(_SHAPES) | words(_ARITHMETIC) | words("flat"),
    "a numpy number": words(_SHAPES)
    | words("is_integer")
    | (words(_ARITHMETIC) - words("argpartition dot partition")),
    "a numpy function": words("accumulate at outer reduce reduceat"),
    "limits of a number type": words("bits dtype eps max min resolution smallest_normal tiny"),
    "a number type": words("is_complex is_floating_point is_signed itemsize kind name type"),
    "a device": words("index type"),
    "several results": words("""
        L LU P Q R S U V Vh counts eigenvalues eigenvectors indices info inverse_indices
        logabsdet max min pivots rank residuals sign singular_values solution values
    """)
    | words(_SEQUENCE),
    "a number": words("as_integer_ratio conjugate denominator imag is_integer numerator real")
    | words("bit_count bit_length"),
    "a text": words("""
        capitalize casefold center count endswith find index isalnum isalpha isdigit islower
        isnumeric isspace isupper join ljust lower lstrip partition removeprefix removesuffix
        replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip
        swapcase title upper zfill
    """),
    "a list": words("append clear copy extend insert pop remove reverse sort") | words(_SEQUENCE),
    "a tuple": words(_SEQUENCE),
    "a dictionary": words("clear copy fromkeys get items keys pop popitem setdefault update values")
    | words("move_to_end"),
    "a set": words("""
        add clear copy difference difference_update discard intersection intersection_update
        isdisjoint issubset issuperset pop remove symmetric_difference update union
    """),
    "a queue": words("append appendleft clear copy extend extendleft insert maxlen pop popleft")
    | words("remove reverse rotate")
    | words(_SEQUENCE),
    "a range": words("start step stop") | words(_SEQUENCE),
    "an error": words("args"),
    "a reward": words("compute description latex memory memory_to phases reset terms weights"),
    "a term": frozenset(),
    "info": words("body exact get items keys robot spec values"),
    "a body": words("cfrc_ext contact cvel subtree_com xpos xquat"),
    "a recording": words("get items keys spec values"),
    "a quantity": words("arguments available formula kind latex memory name over per start unit")
    | words("update"),
    "an episode": words("""
        after before count dt first full_seconds highest last left longest lowest mean pace
        quantity seconds share since when
    """),
    "a score": words("counted credit goal is_guard passed tag title unit value weight zero"),
    "an environment": words("""
        act_dim action_high action_low action_names arguments body_names description dt_s feet id
        info_keys joint_names joints max_episode_steps notes num_actions obs_dim obs_names robot
        torso
    """),
    "a robot": words("""
        axis bias body_center body_mass body_root contact_threshold control_range dof dof_address
        feet force_range gain gear high hinge kind limbs low mass motors moves name offset pointer
        poles qpos qpos_address quaternion range rest_height rest_qpos root side_names sides sign
        slide slides spin target tip torso turns upright
    """),
}
"""offered names by kind of object, as the reference page calls it"""

EVERYTHING: frozenset[str] = frozenset[str]().union(*OFFERED.values())
"""names that at least one kind offers"""

_BUILT_IN: Mapping[type, str] = {
    **dict.fromkeys((bool, complex, float, int), "a number"),
    str: "a text",
    list: "a list",
    tuple: "a tuple",
    **dict.fromkeys((dict, OrderedDict, defaultdict), "a dictionary"),
    **dict.fromkeys((set, frozenset), "a set"),
    deque: "a queue",
    range: "a range",
}


@functools.cache
def _known() -> dict[type, str]:
    """Return the kind of every third-party class. torch and numpy must be loaded."""
    import numpy
    import torch

    return {
        **_BUILT_IN,
        torch.Tensor: "a tensor",
        torch.nn.Parameter: "a tensor",
        torch.Size: "a tuple",
        torch.dtype: "a number type",
        torch.device: "a device",
        torch.finfo: "limits of a number type",
        torch.iinfo: "limits of a number type",
        numpy.ndarray: "a numpy array",
        numpy.ufunc: "a numpy function",
        numpy.finfo: "limits of a number type",
        numpy.iinfo: "limits of a number type",
    }


def kind_of(cls: type) -> str | None:
    """Return the kind of a class's objects, or None if their attributes are not accessible."""
    own: Any = getattr(cls, "__offered__", None)
    if isinstance(own, str):
        return own
    known = _known().get(cls)
    if known is not None:
        return known
    import numpy

    if issubclass(cls, numpy.generic):
        return "a numpy number"
    if issubclass(cls, numpy.dtype):
        return "a number type"
    if issubclass(cls, BaseException):
        return "an error"
    # named tuples of results: torch.return_types.max, numpy's EigResult, …
    if issubclass(cls, tuple) and cls.__module__.partition(".")[0] in {"torch", "numpy"}:
        return "several results"
    return None


@functools.lru_cache(maxsize=256)  # untrusted code may create any number of classes
def names_of(cls: type) -> frozenset[str]:
    """Return the attribute names that untrusted code may access on objects of a class."""
    kind = kind_of(cls)
    return frozenset() if kind is None else OFFERED[kind]
