"""Allow-list for untrusted code: syntax, builtins, and modules with their functions.

The check before execution and the objects available during execution (both in `source`) use this
list, so they always agree. Only add functions that compute numbers from numbers, without files,
global settings, randomness, raw memory or calls by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any

from telic.core.text import closest


def words(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


ANY = frozenset({"*"})
"""Placeholder for all public names, which higher layers replace with the actual list."""

MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp
exp2 expm1 fabs floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm
ldexp lgamma log log10 log1p log2 modf nan nextafter pi pow prod radians remainder sin sinh sqrt tan
tanh tau trunc ulp
"""

NUMPY = """
abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis arange arccos
arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort argwhere around
array array_equal array_split asarray ascontiguousarray asin asinh astype atan atan2 atanh
atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_not bitwise_or bitwise_xor
block bool bool_ broadcast_arrays broadcast_shapes broadcast_to cbrt ceil choose clip column_stack
complex128 complex64 compress concat concatenate conj convolve copy copysign corrcoef correlate cos
cosh count_nonzero cov cross cumprod cumsum deg2rad degrees delete diag diagonal diff digitize
divide divmod dot double dstack e ediff1d einsum empty empty_like equal errstate exp exp2
expand_dims expm1 extract eye fabs finfo flatnonzero flip fliplr flipud float16 float32 float64
float_power floating floor floor_divide fmax fmin fmod full full_like gcd geomspace gradient greater
greater_equal heaviside histogram hsplit hstack hypot identity iinfo imag inf inner insert int16
int32 int64 int8 int_ integer interp intersect1d invert isclose isfinite isin isinf isnan isneginf
isposinf isreal isscalar kron lcm less less_equal lexsort linspace log log10 log1p log2 logaddexp
logaddexp2 logical_and logical_not logical_or logical_xor logspace matmul matrix_transpose max
maximum mean median meshgrid min minimum mod modf moveaxis multiply nan nan_to_num nanargmax
nanargmin nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum
nanvar ndarray ndim negative newaxis nonzero not_equal number ones ones_like outer pad partition
percentile permute_dims pi piecewise polyfit polyval positive pow power prod ptp quantile rad2deg
radians ravel real reciprocal remainder repeat reshape resize rint roll rollaxis rot90 round
searchsorted select setdiff1d shape sign signbit sin sinc single sinh size sort split sqrt square
squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose
trapezoid tri tril triu true_divide trunc uint16 uint32 uint64 uint8 union1d unique unravel_index
unwrap vander var vdot vecdot vsplit vstack where zeros zeros_like
"""

NUMPY_LINALG = """
LinAlgError cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power
matrix_rank multi_dot norm pinv qr slogdet solve svd svdvals trace vecdot vector_norm
"""

NUMPY_FFT = "fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft rfft rfftfreq"

TORCH = """
Size Tensor abs absolute acos acosh add addcdiv addcmul all allclose amax amin aminmax angle any
arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_tensor
asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d baddbmm bfloat16 bincount bitwise_and
bitwise_not bitwise_or bitwise_xor block_diag bmm bool broadcast_shapes broadcast_tensors
broadcast_to bucketize cat cdist ceil chunk clamp clamp_max clamp_min clip clone column_stack
complex complex128 complex64 concat concatenate conj copysign corrcoef cos cosh cosine_similarity
count_nonzero cov cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad det device diag
diag_embed diagonal diff digamma dist div divide dot double dstack dtype e einsum empty empty_like
eq equal erf erfc erfinv exp exp2 expm1 eye finfo flatten flip fliplr flipud float float16 float32
float64 float_power floor floor_divide fmax fmin fmod frac from_numpy full full_like gather ge
gradient greater greater_equal gt half heaviside histc hsplit hstack hypot iinfo imag index_add
index_copy index_fill index_select inf inner int int16 int32 int64 int8 inverse is_complex
is_floating_point is_tensor isclose isfinite isin isinf isnan isneginf isposinf isreal kron kthvalue
le lerp less less_equal lgamma linspace log log10 log1p log2 log_softmax logaddexp logaddexp2
logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logspace logsumexp long lt
masked_fill masked_select matmul matrix_exp matrix_power max maximum mean median meshgrid min
minimum mm mode moveaxis movedim mul multiply mv nan nan_to_num nanmean nanmedian nanquantile nansum
narrow ne neg negative newaxis no_grad nonzero norm not_equal numel ones ones_like outer permute pi
polar positive pow prod quantile rad2deg ravel real reciprocal relu remainder repeat_interleave
reshape roll rot90 round rsqrt scatter scatter_add scatter_reduce searchsorted select sgn short
sigmoid sign signbit sin sinc sinh slogdet softmax sort split sqrt square squeeze stack std std_mean
sub subtract sum svd swapaxes swapdims t take take_along_dim tan tanh tensor tensor_split tensordot
tile topk trace transpose trapezoid trapz tril triu true_divide trunc uint8 unbind unflatten unique
unique_consecutive unsqueeze vander var var_mean vdot vstack where xlogy zeros zeros_like
"""

TORCH_LINALG = """
LinAlgError cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq lu matmul
matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve
solve_triangular svd svdvals vander vecdot vector_norm
"""

TORCH_SPECIAL = """
digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p
log_ndtr log_softmax logit logsumexp ndtr ndtri polygamma psi round sinc softmax xlog1py xlogy zeta
"""

TORCH_FUNCTIONAL = """
binary_cross_entropy binary_cross_entropy_with_logits celu conv1d cosine_similarity cross_entropy
elu gelu glu hardshrink hardsigmoid hardswish hardtanh huber_loss kl_div l1_loss layer_norm
leaky_relu linear log_softmax logsigmoid mish mse_loss nll_loss normalize one_hot pad
pairwise_distance relu relu6 selu sigmoid silu smooth_l1_loss softmax softmin softplus softshrink
softsign tanh tanhshrink threshold
"""

TYPING = """
Any Callable ClassVar Dict Final FrozenSet Iterable Iterator List Literal Mapping MutableMapping
Optional Sequence Set Tuple Union
"""

SYNTAX = frozenset(
    getattr(ast, name)
    for name in words("""
    Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Match
    Raise Try Assert Import ImportFrom Nonlocal Expr Pass Break Continue
    BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp
    Compare Call FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice
    Load Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd
    FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn
    comprehension ExceptHandler arguments arg keyword alias withitem match_case
    MatchValue MatchSingleton MatchSequence MatchStar MatchAs MatchOr
    """)
)

BUILTINS = words("""
    abs all any bool callable chr complex dict divmod enumerate filter float format frozenset
    getattr hasattr hex int isinstance issubclass iter len list map max min next ord pow print
    property range repr reversed round set slice sorted staticmethod classmethod str sum super
    tuple zip Ellipsis NotImplemented
    ArithmeticError AssertionError AttributeError Exception FloatingPointError IndexError KeyError
    LookupError NameError NotImplementedError OverflowError RecursionError RuntimeError
    StopIteration TypeError UserWarning ValueError Warning ZeroDivisionError
""")

MODULES: Mapping[str, Collection[str]] = {
    "__future__": frozenset({"annotations"}),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque"}),
    "math": words(MATH),
    "numpy": words(NUMPY),
    "numpy.fft": words(NUMPY_FFT),
    "numpy.linalg": words(NUMPY_LINALG),
    "telic": frozenset({"RewardFunction"}),
    "telic.quantities": ANY,
    "telic.rewards": frozenset(),
    "telic.rewards.composed": ANY,
    "telic.rewards.signals": ANY,
    "telic.rewards.terms": ANY,
    "torch": words(TORCH),
    "torch.linalg": words(TORCH_LINALG),
    "torch.nn": frozenset(),
    "torch.nn.functional": words(TORCH_FUNCTIONAL),
    "torch.special": words(TORCH_SPECIAL),
    "typing": words(TYPING),
}

PREDEFINED: Mapping[str, str] = {
    "math": "math",
    "np": "numpy",
    "numpy": "numpy",
    "quantities": "telic.quantities",
    "telic": "telic",
    "torch": "torch",
}
"""Names available without an import. The reference system also provides `np` in this way."""

CLASSES = frozenset({"ComposedReward", "RewardFunction"})
"""Classes that are allowed only as a base or as the second argument of isinstance."""

Provided = Mapping[str, Any]


def flatten(provided: Provided, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Flatten {"telic": {"quantities": {...}}} to {"telic": {}, "telic.quantities": {...}}."""
    flat: dict[str, dict[str, Any]] = {}
    for name, members in provided.items():
        path = f"{prefix}{name}"
        nested: Provided = {k: v for k, v in members.items() if isinstance(v, Mapping)}
        flat[path] = {key: value for key, value in members.items() if key not in nested}
        flat |= flatten(nested, f"{path}.")
    return flat


def modules_with(provided: Provided) -> dict[str, Collection[str]]:
    """Return the allowed modules and names, including those registered by other packages."""
    return {**MODULES, **{path: frozenset(names) for path, names in flatten(provided).items()}}


# # Reasons for refusals, and what to write instead.

NO_CHANCE = "A reward must be a function of its inputs: remove the randomness."
NUMBERS_ONLY = "Untrusted code may only compute with numbers: remove it."
NO_FILES = "Untrusted code must not read or write files: return numbers instead."
NO_MEMORY = "Raw memory and shared storage are not accessible: use clone(), copy() or indexing."
NO_GRADIENT = "A reward is not differentiated: compute with plain values."
NO_CLASSES = "Use isinstance(x, ...) to check a type."
OFFERED = "A reward may import numpy, math, torch, telic, typing and collections."
STATE = "Keep state in self, or in a closure with nonlocal."

REFUSED_SYNTAX: dict[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFunctionDef: ("async def", "Use a plain def."),
    ast.AsyncFor: ("async for", "Use a plain for."),
    ast.AsyncWith: ("async with", "Use a plain with."),
    ast.Await: ("await", "Use plain, synchronous code."),
    ast.Yield: ("yield", "Return a value or a list."),
    ast.YieldFrom: ("yield from", "Return a value or a list."),
    ast.Global: ("global", STATE),
    ast.MatchClass: ("a class pattern in match", "Use isinstance(x, ...) in an if."),
    ast.MatchMapping: ("a dictionary pattern in match", "Use x.get(name) in an if."),
    ast.TryStar: ("except*", "Use a plain except."),
}

REFUSED_BUILTINS: dict[str, str] = {
    **dict.fromkeys(("open", "input", "file"), NO_FILES),
    **dict.fromkeys(("exec", "eval", "compile", "__import__"), "Write the code out directly."),
    **dict.fromkeys(("globals", "locals", "vars", "dir"), "Refer to the required values directly."),
    **dict.fromkeys(("type", "object", "__build_class__"), NO_CLASSES),
    **dict.fromkeys(("setattr", "delattr"), "Assign with self.name = value."),
    **dict.fromkeys(("id", "hash", "memoryview", "bytearray", "bytes", "ascii"), NUMBERS_ONLY),
    **dict.fromkeys(("breakpoint", "help", "exit", "quit"), "Raise a ValueError instead."),
    **dict.fromkeys(
        ("BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit"),
        "Catch or raise Exception, or a narrower error such as KeyError or ValueError.",
    ),
    "__debug__": "Remove it.",
}

REFUSED_IMPORTS: dict[str, str] = {
    **dict.fromkeys(("random", "secrets"), NO_CHANCE),
    **dict.fromkeys(("time", "datetime"), 'Use info["time"] and info["dt"] for simulated time.'),
    **dict.fromkeys(("io", "os", "pathlib", "shutil", "tempfile"), NO_FILES),
    **dict.fromkeys(("builtins", "ctypes", "importlib", "pickle", "sys", "types"), NUMBERS_ONLY),
}

REFUSED_ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("format", "format_map"), 'Use an f-string: f"{value:.2f}".'),
    **dict.fromkeys(("tofile", "dump", "dumps", "save", "load", "loads", "from_file"), NO_FILES),
    **dict.fromkeys(
        words("""
        base ctypes setflags setfield getfield resize data_ptr const_data_ptr as_strided as_strided_
        as_strided_scatter as_subclass set_ resize_ resize_as_ share_memory_ pin_memory storage
        untyped_storage storage_type module_load sparse_resize_ sparse_resize_and_clear_
        """),
        NO_MEMORY,
    ),
    **dict.fromkeys(
        words("""
        backward grad grad_fn register_hook register_post_accumulate_grad_hook requires_grad_
        retain_grad reinforce
        """),
        NO_GRADIENT,
    ),
    **dict.fromkeys(
        words("""
        bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random
        random_ uniform_ manual_seed
        """),
        NO_CHANCE,
    ),
    **dict.fromkeys(("mro", "register", "func_globals", "func_code", "im_func"), NUMBERS_ONLY),
    **dict.fromkeys(("fget", "fset", "fdel", "getter", "setter", "deleter"), NUMBERS_ONLY),
    "with_traceback": "Raise the error unchanged.",
}

INSPECTION = re.compile(r"(gi|cr|ag|f|tb|co)_[a-z]+$")
"""Attributes of frames, code, generators and tracebacks, through which everything is accessible."""

CHANGES_ITS_OBJECT = words("clear fill itemset pop popitem setdefault update")
"""Methods without a trailing underscore that modify their object in place."""

_RANDOM_NAMES = re.compile(
    r"rand|bernoulli|multinomial|normal$|poisson|binomial|seed|shuffle|dropout"
)
_FILE_NAMES = re.compile(r"load|save|fromfile|memmap|genfromtxt|fromregex|from_file|hub")


def why_not_member(path: str, name: str, offered: Collection[str]) -> str | None:
    """Return the reason why `path.name` is refused, or None if it is allowed."""
    if name in offered or (offered == ANY and not name.startswith("_")):
        return None
    if _RANDOM_NAMES.search(name):
        return NO_CHANCE
    if _FILE_NAMES.search(name):
        return NO_FILES
    if name.startswith("set_") or name in {"seterr", "seterrcall", "setbufsize"}:
        return "Settings belong to the trainer: remove the call."
    if name in {"ctypeslib", "lib", "as_strided", "frombuffer", "from_dlpack"}:
        return NO_MEMORY
    near = ", ".join(f"{path}.{each}" for each in closest(name, offered))
    return "It is not in the list of numerical functions." + (f" Closest: {near}." if near else "")


def why_not_attribute(name: str) -> str | None:
    """Return the reason why the attribute `name` is always refused, or None if it is allowed."""
    if name.startswith("__") and name.endswith("__"):
        return "Names with double underscores are internal to Python: remove it."
    if name.startswith("_"):
        return "Use public attributes, or private ones of this code as self._name."
    if name in REFUSED_ATTRIBUTES:
        return REFUSED_ATTRIBUTES[name]
    if INSPECTION.match(name):
        return "Attributes of frames, code and generators are not accessible: choose another name."
    return None
