"""Escape attempts in the language itself: name, source, how it is stopped, and the reason given.

Each source is a whole reward file. "refused" means by the allow-list, "stopped" while running.
"""

from typing import NamedTuple


class Attempt(NamedTuple):
    name: str
    source: str
    stage: str
    reason: str


def body(lines: str) -> str:
    """Return a reward whose body is `lines` (statements, one per line)."""
    inner = "\n".join(f"    {line}" for line in lines.split("\n"))
    return f"def reward_fn(obs, action, next_obs, info):\n{inner}\n    return 0.0, {{}}\n"


def refused(name: str, source: str, reason: str) -> Attempt:
    return Attempt(name, source if "def reward_fn" in source else body(source), "refused", reason)


def stopped(name: str, source: str, reason: str) -> Attempt:
    return Attempt(name, source if "def reward_fn" in source else body(source), "stopped", reason)


ATTEMPTS = [
    # imports
    refused("import_os", "import os\nos.system('id')", 'import of "os"'),
    refused("import_sys", "import sys\nsys.modules", 'import of "sys"'),
    refused("import_subprocess", "import subprocess as s", 'import of "subprocess"'),
    refused("import_socket_from", "from socket import socket", "may import numpy"),
    refused("import_builtins", "import builtins", 'import of "builtins"'),
    refused("import_ctypes", "import ctypes", 'import of "ctypes"'),
    refused("import_pickle", "import pickle", 'import of "pickle"'),
    refused("import_importlib", "from importlib import import_module", 'import of "importlib"'),
    refused("import_threading", "import threading", "may import numpy"),
    refused(
        "import_star", "from numpy import *\ndef reward_fn(o, a, n, i):\n    return 0", "import *"
    ),
    refused("import_relative", "from . import x", "relative import"),
    refused("import_submodule", "import numpy.ctypeslib", 'import of "numpy.ctypeslib"'),
    refused("import_os_through_numpy", "from numpy import os", '"numpy.os"'),
    refused("import_the_evaluator", "import telic.training.evaluate", "telic.training.evaluate"),
    refused("import_the_sandbox", "from telic.sandbox import confine", "telic.sandbox"),
    refused("import_shadowing_a_module", "import torch as np\nimport numpy as np", "two modules"),
    refused("import_as_self", "from math import sin as self", 'an import as "self"'),
    refused("dunder_import", "__import__('os')", '"__import__"'),
    refused("import_unknown_quantity", "from telic.quantities import cheat", "quantities.cheat"),
    refused("import_in_lambda", "(lambda: __import__('os').system('id'))()", '"__import__"'),
    # walks over Python's object graph
    refused("subclasses", "().__class__.__base__.__subclasses__()", '"__subclasses__"'),
    refused("function_globals", "reward_fn.__globals__['__builtins__']", '"__globals__"'),
    refused("bound_method_self", "len.__self__", '"__self__"'),
    refused("code_object", "reward_fn.__code__.co_consts", '"co_consts"'),
    refused("mro_method", "int.mro()[1]", '"mro"'),
    refused("fstring_dunder", 'x = f"{obs.__class__.__mro__}"', '"__mro__"'),
    refused("fstring_nested_spec", 'x = f"{1:{obs.__class__}}"', '"__class__"'),
    refused("str_format", '"{0.__class__.__init__.__globals__}".format(obs)', "f-string"),
    refused("str_format_map", '"{x.__class__}".format_map({"x": obs})', "f-string"),
    refused("str_format_as_value", 'f = "{0.__class__}".format\nf(1)', "f-string"),
    refused(
        "match_class", "match obs:\n    case object(__class__=c):\n        c.mro", "class pattern"
    ),
    refused("generator_frame", "g = (i for i in (1,))\ng.gi_frame.f_back.f_globals", '"gi_frame"'),
    refused("yield_frame", "def g():\n    yield\ng().gi_frame", "yield"),
    refused(
        "traceback_frames",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.__traceback__.tb_frame.f_globals",
        '"tb_frame"',
    ),
    refused(
        "exception_context", "try:\n    1/0\nexcept Exception as e:\n    e.__cause__", "__cause__"
    ),
    refused("async_frame", "async def f():\n    pass\nf().cr_frame", "async def"),
    refused("unicode_dunder", "().__ｃlass__", '"__class__"'),
    refused("module_dict", "np.__dict__['os']", '"numpy.__dict__"'),
    refused("module_loader", "math.__loader__.load_module('os')", '"math.__loader__"'),
    refused("builtins_name", "__builtins__['open']", '"__builtins__"'),
    refused("class_cell", "class A:\n    def f(self):\n        return __class__", '"__class__"'),
    # reaching by name
    refused("getattr_dunder", "getattr(obs, '__class__')", "double underscores"),
    refused("getattr_computed", "getattr(obs, '__cla' + 'ss__')", "as a plain string"),
    refused("getattr_as_value", "g = getattr\ng(obs, '__class__')", '"getattr" as a value'),
    refused("getattr_walrus", "isinstance(1, (g := getattr))", '"getattr" as a value'),
    refused("getattr_mapped", "list(map(getattr, [obs], ['__class__']))", '"getattr" as a value'),
    refused("hasattr_probe", "hasattr(obs, '__array_interface__')", "double underscores"),
    refused("setattr_call", "setattr(np, 'sum', len)", '"setattr"'),
    refused("vars_call", "vars(np)", '"vars"'),
    refused("globals_call", "globals()['__builtins__']", '"globals"'),
    refused("type_call", "type('X', (), {})", '"type"'),
    refused("type_of", "type(obs).__mro__", '"type"'),
    refused("object_name", "object.__subclasses__()", '"object"'),
    refused("eval_call", "eval('1')", '"eval"'),
    refused("exec_call", "exec('import os')", '"exec"'),
    refused("compile_call", "compile('1', 'x', 'eval')", '"compile"'),
    refused("open_call", "open('/etc/passwd').read()", '"open"'),
    refused("breakpoint_call", "breakpoint()", '"breakpoint"'),
    refused("memoryview_call", "memoryview(obs)", '"memoryview"'),
    # classes as tools
    refused("metaclass", "class A(metaclass=print):\n    pass", "metaclass"),
    refused("decorator", "@print\ndef f():\n    pass", "decorator"),
    refused("class_decorator", "@staticmethod\nclass A:\n    pass", "decorator"),
    refused("descriptor", "class A:\n    def __get__(self, o, t):\n        return t", '"__get__"'),
    refused("getattribute", "class A:\n    def __getattr__(self, n):\n        pass", "__getattr__"),
    refused("equality_hook", "class A:\n    def __eq__(self, o):\n        return True", '"__eq__"'),
    refused("slots", "class A:\n    __slots__ = ('x',)", '"__slots__"'),
    refused("subclass_of_str", "class A(str):\n    pass", "base class"),
    refused("class_as_value", "class A:\n    pass\nx = [A]", 'the class "A" as a value'),
    refused(
        "class_through_defaultdict",
        "from collections import defaultdict\nclass A:\n    pass\nd = defaultdict(int)\n"
        "def f(x: d[A]): pass",
        'the class "A" as a value',
    ),
    refused(
        "private_state_of_an_input_through_a_method",
        "class A:\n    def m(self):\n        self._x = 1\n        return self._x\nA.m(info)",
        'the class "A" as a value',
    ),
    refused(
        "private_state_through_a_class_table",
        "class A:\n    def m(self):\n        self._x = 1\n    table = [m]\nA.table[0](info)",
        'the method "m" as a value',
    ),
    refused(
        "private_state_through_a_default",
        "class A:\n    def m(self):\n        self._x = 1\n    def n(self, f=m):\n        f(0)",
        'the method "m" as a value',
    ),
    refused(
        "private_state_through_rebound_self",
        "class A:\n    def m(self, o):\n        self = o\n        self._x = 1",
        'a new value for "self"',
    ),
    refused(
        "private_state_through_staticmethod",
        "class A:\n    @staticmethod\n    def m(self):\n        self._x = 1",
        "assignment to the attribute",
    ),
    refused(
        "private_state_through_a_keyword",
        "class A:\n    def m(*args, self):\n        self._x = 1\nA().m(self=info)",
        "assignment to the attribute",
    ),
    refused(
        "private_state_through_a_lambda",
        "class A:\n    x = lambda self: self._x\n    _x = 1",
        '"_x"',
    ),
    refused("class_registry", "from typing import Mapping\nMapping.register(int)", '"register"'),
    refused("private_attribute", "info._sim", '"_sim"'),
    refused(
        "patch_base_class",
        "from telic import RewardFunction\nRewardFunction.weights = {}",
        'assignment to the attribute "weights"',
    ),
    refused(
        "base_class_alias",
        "from telic import RewardFunction as R\nx = R",
        'the class "R" as a value',
    ),
    refused("super_with_arguments", "super(int, 1)", "super(...) with arguments"),
    # patching and settings
    refused("patch_numpy", "np.sum = lambda *a: 0.0", 'assignment to the attribute "sum"'),
    refused("patch_torch", "torch.Tensor.backward = None", "assignment to the attribute"),
    refused("patch_torch_alias", "t = torch\nt.sum = None", 'the module "torch" as a value'),
    refused(
        "patch_module_in_list", "for m in [np]:\n    m.sum = None", 'the module "np" as a value'
    ),
    refused("patch_quantity", "quantities.speed = lambda i: 9.0", 'the attribute "speed"'),
    refused("delete_attribute", "del np.sum", "deletion of the attribute"),
    refused("global_statement", "global reward_fn\nreward_fn = 1", "global"),
    refused("function_attribute", "reward_fn.state = 1", "assignment to the attribute"),
    refused("change_obs", "obs[0] = 100.0", "a change of an input"),
    refused("change_obs_in_place", "obs += 1", "in-place change"),
    refused("change_info", "info['x_velocity'] = 100.0", "a change of an input"),
    refused("change_info_tensor", "info['x_velocity'].fill_(9)", "changes an input"),
    refused("change_info_update", "info.update(x_velocity=9.0)", "changes an input"),
    refused("change_simulator", "info['mj_data'].qpos[2] = 9.0", "a change of an input"),
    refused("torch_default_dtype", "torch.set_default_dtype(torch.float64)", "Settings"),
    refused("torch_threads", "torch.set_num_threads(1)", "Settings"),
    refused("torch_seed", "torch.manual_seed(0)", "function of its inputs"),
    refused("numpy_error_state", "np.seterr(all='ignore')", "Settings"),
    refused("torch_random", "torch.rand(3)", "function of its inputs"),
    refused("numpy_random", "np.random.default_rng()", "function of its inputs"),
    refused("tensor_random", "torch.zeros(3).normal_()", "function of its inputs"),
    # files and memory through numpy and torch
    refused("numpy_load", "np.load('/etc/passwd', allow_pickle=True)", "files"),
    refused("numpy_save", "np.save('/tmp/x', obs)", "files"),
    refused("numpy_fromfile", "np.fromfile('/etc/passwd')", "files"),
    refused("numpy_memmap", "np.memmap('/etc/passwd')", "files"),
    refused("numpy_tofile", "obs.tofile('/tmp/x')", '"tofile"'),
    refused("numpy_dump", "obs.dump('/tmp/x')", '"dump"'),
    refused("numpy_ctypes", "obs.ctypes.data", '"ctypes"'),
    refused("numpy_ctypeslib", "np.ctypeslib.load_library('c', '/')", "Raw memory"),
    refused("numpy_strides", "np.lib.stride_tricks.as_strided(obs, (9**9,))", "Raw memory"),
    refused("numpy_array_base", "obs.base", '"base"'),
    refused("numpy_source", "np.f2py.compile('')", "not in the list"),
    refused("torch_load", "torch.load('/tmp/x')", "files"),
    refused("torch_save", "torch.save(obs, '/tmp/x')", "files"),
    refused("torch_hub", "torch.hub.load('a/b', 'c')", "files"),
    refused("torch_ops", "torch.ops.load_library('x.so')", "not in the list"),
    refused("torch_classes", "torch.classes.load_library('x.so')", "not in the list"),
    refused("torch_jit", "torch.jit.load('x')", "not in the list"),
    refused("torch_utils", "torch.utils.cpp_extension.load('x', [])", "not in the list"),
    refused("torch_multiprocessing", "torch.multiprocessing.spawn(len)", "not in the list"),
    refused("torch_os", "torch.os.system('id')", "not in the list"),
    refused("torch_storage", "torch.zeros(1).untyped_storage()", '"untyped_storage"'),
    refused("torch_set", "torch.zeros(1).set_(obs)", '"set_"'),
    refused("torch_as_strided", "torch.zeros(1).as_strided((9,), (1,))", '"as_strided"'),
    refused("torch_hook", "torch.zeros(1).register_hook(print)", '"register_hook"'),
    # leaving early, hiding errors
    refused("system_exit", "raise SystemExit", '"SystemExit"'),
    refused("keyboard_interrupt", "raise KeyboardInterrupt", '"KeyboardInterrupt"'),
    refused("base_exception", "try:\n    pass\nexcept BaseException:\n    pass", '"BaseException"'),
    refused(
        "bare_except", "while True:\n    try:\n        pass\n    except:\n        pass", "bare"
    ),
    refused("exit_call", "exit()", '"exit"'),
    # size
    refused("huge_source", body("x = 1\n" * 20_000), "characters"),
    refused("deep_nesting", body("x = " + "[" * 80 + "]" * 80), "levels of nesting"),
    refused("deep_operators", body("x = " + "-" * 5000 + "1"), "nest"),
    refused("many_nodes", body("x = [" + "1," * 25_000 + "]"), "syntax elements"),
    refused("huge_integer", "x = " + "9" * 100, "more than 64 bits"),
    refused("huge_text", body(f"x = {'a' * 30_000!r}"), "characters"),
    refused("null_byte", body("x = 1\x00"), "null bytes"),
    refused(
        "not_python", "def reward_fn(obs, action, next_obs, info)\n  return 0", "invalid Python"
    ),
    # what objects have besides what they offer
    refused("unpickle_by_a_record", "info.spec.parse_raw(b'', proto='pickle')", '"parse_raw"'),
    refused("change_a_record", "info.leaf.model_copy(update={'credit': 99.0})", '"model_copy"'),
    refused("rebuild_a_record", "info.spec.model_construct(id='x')", '"model_construct"'),
    refused("classmethod_as_value", "class A:\n    m = classmethod(print)", '"classmethod"'),
    refused("staticmethod_as_value", "s = staticmethod(print)", '"staticmethod"'),
    refused("property_as_value", "p = property(lambda self: self)", '"property"'),
    refused(
        "nested_class_by_getattr",
        "class A:\n    class B:\n        pass\nB = getattr(A(), 'B')",
        "this getattr",
    ),
    refused("attribute_in_a_pattern", "match obs:\n    case info.x:\n        pass", "in a pattern"),
    refused("sparse_tensor", "torch.zeros(3).to_sparse()", '"to_sparse"'),
    refused("sparse_places", "c.indices()[0, 0] = 10**9", '"c"'),
    refused("tensor_data", "torch.zeros(3).data", '"data"'),
    refused("tensor_apply", "torch.zeros(3).apply_(print)", '"apply_"'),
    refused("tensor_map", "torch.zeros(3).map_(obs, print)", '"map_"'),
    refused("tensor_new", "torch.zeros(3).new(4)", '"new"'),
    refused("tensor_storage_offset", "torch.zeros(3).storage_offset()", '"storage_offset"'),
    refused("tensor_record_stream", "torch.zeros(3).record_stream(0)", '"record_stream"'),
    refused("array_bytes", "obs.tobytes()", '"tobytes"'),
    refused("array_flags", "obs.flags.writeable", '"flags"'),
    refused("array_put", "obs.put(0, 1.0)", '"put"'),
    refused("function_of_a_quantity", "quantities.speed.function(info)", '"function"'),
    refused("need_of_a_quantity", "quantities.speed.need", '"need"'),
    refused("schema_of_an_info", "info.schema.bodies", '"schema"'),
    refused("vectorize", "np.vectorize(len)", '"numpy.vectorize"'),
    refused("object_of_an_error", "try:\n    obs.y\nexcept Exception as e:\n    e.obj", '"obj"'),
    refused("note_on_an_error", "ValueError('x').add_note('y')", '"add_note"'),
    refused("generator_send", "(i for i in (1,)).send(0)", '"send"'),
    refused("generator_throw", "(i for i in (1,)).throw(ValueError)", '"throw"'),
    refused("text_encode", "'x'.encode('idna')", '"encode"'),
    refused("text_translate", "'x'.translate({})", '"translate"'),
    refused("compiler_only_error", "[(y := 1) for x in (z := [1])]", "invalid Python"),
    # what passes by its name and is stopped by what the object is
    stopped(
        "own_name_on_an_array", "class A:\n    pickle_me = 1\nobs.pickle_me", "is not accessible"
    ),
    stopped("tensor_name_on_an_array", "obs.cuda()", "is not accessible"),
    stopped("array_name_on_a_number", "(1.5).tolist()", "is not accessible"),
    stopped("episode_name_on_info", "info.quantity('x')", "is not accessible"),
    stopped("attribute_of_a_function", "reward_fn.name", "is not accessible"),
    stopped("attribute_of_a_builtin", "len.name", "is not accessible"),
    stopped("attribute_of_a_type", "float.real", "is not accessible"),
    stopped("attribute_of_a_device", "torch.zeros(1).device.start", "is not accessible"),
    stopped("by_getattr", "getattr(obs, 'cuda')", "is not accessible"),
    # what passes the list and is stopped by the stand-ins, the interpreter or the memory limit
    stopped("recursion", "def f(x):\n    return f(x)\nf(1)", "RecursionError"),
    stopped("memory_text", "x = 'a' * 10 ** 11", "MemoryError"),
    stopped("memory_list", "x = [0.0] * 10 ** 11", "MemoryError"),
    stopped("memory_numpy", "x = np.ones((10 ** 6, 10 ** 6))", "Unable to allocate"),
    stopped("memory_torch", "x = torch.zeros(10 ** 12)", "tried to allocate"),
    stopped("memory_format", 'x = f"{1:>99999999999}"', "MemoryError"),
    stopped("memory_shift", "x = 1 << (1 << 40)", "MemoryError"),
    stopped("make_a_tensor_class", "torch.Tensor(4)", "only supports isinstance"),
    # the clock: numpy converts the text "now" to the current time if the type is a date
    *(
        stopped(f"clock_{number}", f"x = {expression}", reason)
        for number, (expression, reason) in enumerate(
            [
                ('np.array("now", dtype="M8[s]")', "is not available to rewards and judges"),
                ('np.array("now", b"M8[s]")', "is not available to rewards and judges"),
                ('np.full(1, "now", "datetime64[ms]")', "is not available"),
                ('np.array(["now"]).astype("".join(["M", "8[s]"]))', "is not available"),
                ('np.array("now", np.array(["M8[s]"])[0])', "is not available"),
                ('np.zeros(1, [("a", [("b", "<M8[s]")])])', "is not available"),
                ('np.zeros(1, {"names": ["a"], "formats": ["m8[s]"]})', "is not available"),
                ('np.zeros(1, "i4,M8[s]")', "is not available"),
                ('np.zeros(1, "(2,)M8[s]")', "is not available"),
                ('np.zeros(1, [("a", "2M8[s]")])', "is not available"),
                (
                    'np.linspace(0, 1, 3, retstep=True, dtype={"names": ["a"], "formats": '
                    'np.add(np.array(["M8[s"]), np.array(["]"]))})',
                    "Dates and records are not available",
                ),
                ('np.concatenate([["now"]], dtype="M8[s]", casting="unsafe")', "is not available"),
                ('np.maximum.reduce(["now"], dtype="M8[s]")', "is not available"),
                ('np.maximum("now", "now", signature="MM->M")', "argument signature"),
                ('np.float64(1.0).astype("M8[s]")', "is not available"),
            ]
        )
    ),
    stopped(
        "clock_by_attribute",
        "class A:\n    @property\n    def dtype(self):\n        return 'M8[s]'\n"
        + body("x = np.array('now', dtype=A())"),
        "was called with A",
    ),
    stopped("stop_iteration", "next(iter([]))", "StopIteration"),
]

# Each of these ends its worker, so each gets one of its own: name, source, error, reason.
KILLERS = [
    ("endless_loop", body("while True:\n    pass"), "WorkerDied", "no heartbeat"),
    ("endless_power", body("x = 9 ** 9 ** 9"), "WorkerDied", "no heartbeat"),
    (
        "endless_catch",
        body("while True:\n    try:\n        1 / 0\n    except Exception:\n        continue"),
        "WorkerDied",
        "no heartbeat",
    ),
    (
        "growing_list",
        body("x = []\nwhile True:\n    x.append(np.ones(10 ** 6))"),
        "ResourceError",
        "memory",
    ),
    (
        "growing_tensors",
        body("x = [torch.ones(10 ** 6) for _ in iter(int, 1)]"),
        "ResourceError",
        "memory",
    ),
]

# Harmless mischief: these run to the end, and must have had no effect.
WITHOUT_EFFECT = [
    *(
        (f"code_in_a_comment_{ord(end):x}", body(f"# harmless{end}info['planted'] = 1"))
        for end in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    ),
    ("spoofed_result", body('print(\'{"kind":"result","body":{"outcomes":{}}}\')')),
    ("flood_of_output", body("for i in range(100000):\n    print('x' * 1000)")),
    ("print_to_a_file", body("print('x', file=info)")),
    ("terminal_escape", body("print('\\x1b]0;owned\\x07')")),
]
