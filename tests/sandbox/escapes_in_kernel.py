"""Escape attempts of one who got past the allow-list: all of Python, in the sandboxed process.

Each source defines attempt(), which returns evidence of success or raises. Names in scope: os, sys,
Path, syscall(number, *arguments), channel, and facts: parent (process id of the host), outside (a
file), readable (a file it was granted to read), folder (of the first), home, port and unix (sockets
that listen), secret (a planted key). Were an attempt to succeed, it would still do little harm.
"""

import platform
from typing import NamedTuple


class Attempt(NamedTuple):
    name: str
    source: str
    reasons: tuple[str, ...]


DENIED = ("Permission denied", "Operation not permitted")
GONE = (*DENIED, "Function not implemented")


def returns(
    name: str, expression: str, reasons: tuple[str, ...] = DENIED, setup: str = ""
) -> Attempt:
    """An attempt that is one expression."""
    lines = "\n".join(f"    {line}" for line in setup.splitlines())
    return Attempt(name, f"def attempt():\n{lines}\n    return {expression}\n", reasons)


FILES = [
    returns("read_passwd", "open('/etc/passwd').read()"),
    returns("read_shadow", "open('/etc/shadow').read()"),
    returns("read_outside", "open(facts['outside']).read()"),
    returns("read_by_dots", "open('../../outside.txt').read()"),
    returns("read_through_proc_root", "open('/proc/self/root' + facts['outside']).read()"),
    returns("read_through_proc_cwd", "open('/proc/self/cwd/../../outside.txt').read()"),
    returns("list_root", "os.listdir('/')"),
    returns("list_home", "os.listdir(facts['home'])"),
    returns("list_processes", "os.listdir('/proc')"),
    returns("read_parent_environment", "open(f'/proc/{facts[\"parent\"]}/environ').read()"),
    returns("read_parent_memory", "open(f'/proc/{facts[\"parent\"]}/mem', 'rb').read(1)"),
    returns("read_parent_command", "open(f'/proc/{facts[\"parent\"]}/cmdline').read()"),
    returns("read_parent_files", "os.listdir(f'/proc/{facts[\"parent\"]}/fd')"),
    returns("read_host_sockets", "open('/proc/self/net/unix').read()"),
    returns("read_own_environment", "open('/proc/self/environ').read()"),
    returns("read_host_ports", "open('/proc/thread-self/net/tcp').read()"),
    returns("read_host_mounts", "open('/proc/self/mountinfo').read()"),
    returns("list_host_services", "os.listdir('/sys/fs/cgroup')"),
    returns("read_init_environment", "open('/proc/1/environ').read()"),
    returns("write_outside", "open(facts['outside'], 'w').write('changed')"),
    returns("append_outside", "open(facts['outside'], 'a').write('changed')"),
    returns("truncate_outside", "os.truncate(facts['outside'], 0)"),
    returns("truncate_by_reading", "os.open(facts['readable'], os.O_RDONLY | os.O_TRUNC)"),
    returns("remove_outside", "os.remove(facts['outside'])"),
    returns("rename_in", "os.rename(facts['outside'], 'mine')", (*DENIED, "cross-device")),
    returns(
        "rename_out",
        "os.rename('own', facts['folder'] + '/planted')",
        (*DENIED, "cross-device"),
        "Path('own').write_text('x')",
    ),
    returns("make_folder_outside", "os.mkdir(facts['folder'] + '/planted')"),
    returns("create_in_tmp", "open('/tmp/telic_planted', 'w')"),
    returns("create_in_shared_memory", "open('/dev/shm/telic_planted', 'w')"),
    returns(
        "shared_memory",
        "SharedMemory(create=True, size=1000)",
        DENIED,
        "from multiprocessing.shared_memory import SharedMemory",
    ),
    returns("symlink_out", "os.symlink(facts['outside'], 'link')"),
    returns("hard_link_in", "os.link(facts['outside'], 'link')"),
    returns("named_pipe", "os.mkfifo('pipe')"),
    returns("device_node", "os.mknod('node', 0o600 | 0o060000, 0)"),
    returns("change_mode", "os.chmod(facts['outside'], 0o777)"),
    returns("write_readable", "open(facts['readable'], 'w')"),
    returns("change_mode_by_reading", "os.fchmod(os.open(facts['readable'], os.O_RDONLY), 0o777)"),
    returns("change_owner", "os.chown(facts['outside'], 1, 1)"),
    returns("change_times", "os.utime(facts['outside'], (0, 0))"),
    returns("extended_attribute", "os.setxattr(facts['outside'], 'user.x', b'1')"),
    returns("poison_packages", "open(os.__file__.replace('os.py', 'telic_planted.py'), 'w')"),
    returns("poison_telic", "open(sys.modules['telic.errors'].__file__, 'a')"),
    returns("poison_bytecode", "open(sys.modules['telic.errors'].__cached__, 'r+b')"),
    returns("open_memory_device", "open('/dev/mem', 'rb')", (*DENIED, "No such")),
    returns("open_kernel_log", "open('/dev/kmsg')", (*DENIED, "No such")),
    returns("write_own_memory_file", "open('/proc/self/mem', 'r+b')"),
    returns("oom_score", "open('/proc/self/oom_score_adj', 'w').write('-1000')"),
    returns("change_root", "os.chroot('.')"),
    returns(
        "mount",
        "'mounted'",
        setup="""\
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'x', b'.', b'tmpfs', 0, None) < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))""",
    ),
    returns("anonymous_file", "os.memfd_create('x')"),
]

NETWORK = [
    returns(
        "tcp_connect",
        "socket.create_connection(('127.0.0.1', facts['port']))",
        setup="import socket",
    ),
    returns("tcp_listen", "socket.create_server(('127.0.0.1', 0))", setup="import socket"),
    returns(
        "udp_send",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', "
        "('127.0.0.1', facts['port']))",
        setup="import socket",
    ),
    returns("ipv6", "socket.socket(socket.AF_INET6)", setup="import socket"),
    returns(
        "unix_connect",
        "s.connect(facts['unix'])",
        setup="import socket\ns = socket.socket(socket.AF_UNIX)",
    ),
    returns(
        "unix_abstract",
        "s.bind('\\0telic')",
        setup="import socket\ns = socket.socket(socket.AF_UNIX)",
    ),
    returns(
        "raw_socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", setup="import socket"
    ),
    returns("packet_socket", "socket.socket(17, socket.SOCK_RAW)", setup="import socket"),
    returns("netlink", "socket.socket(16, socket.SOCK_RAW)", setup="import socket"),
    returns("vsock", "socket.socket(40, socket.SOCK_STREAM)", setup="import socket"),
    returns("socket_pair", "socket.socketpair()", setup="import socket"),
    returns(
        "name_lookup",
        "socket.getaddrinfo('example.org', 80)",
        (*DENIED, "Name or service", "name resolution", "System error"),
        "import socket",
    ),
    returns(
        "fetch",
        "urlopen(f'http://127.0.0.1:{facts[\"port\"]}')",
        setup="from urllib.request import urlopen",
    ),
]

PROCESSES = [
    returns("fork", "os.fork() or os._exit(0)"),
    returns("fork_bomb", "[os.fork() or os._exit(0) for _ in range(1000)]"),
    returns("forkpty", "os.forkpty()", (*DENIED, "No such")),
    returns("exec", "os.execv(sys.executable, ['python', '-c', ''])"),
    returns("exec_shell", "os.execve('/bin/sh', ['sh'], {})"),
    returns("spawn", "os.posix_spawn('/bin/sh', ['sh', '-c', 'true'], {})"),
    returns("subprocess", "subprocess.run(['/bin/true'])", setup="import subprocess"),
    returns(
        "multiprocessing",
        "Process(target=len).start()",
        setup="from multiprocessing import Process",
    ),
    returns("signal_parent", "os.kill(facts['parent'], 18)"),
    returns("probe_parent", "os.kill(facts['parent'], 0)"),
    returns("signal_everyone", "os.kill(-1, 18)"),
    returns("signal_group", "os.killpg(os.getpgid(facts['parent']), 18)"),
    returns("pidfd", "os.pidfd_open(facts['parent'])"),
    returns(
        "asynchronous_signal",
        "fcntl.fcntl(0, fcntl.F_SETOWN, facts['parent'])",
        setup="import fcntl",
    ),
    returns("priority_of_parent", "os.setpriority(os.PRIO_PROCESS, facts['parent'], 1)"),
    returns("affinity_of_parent", "os.sched_setaffinity(facts['parent'], os.sched_getaffinity(0))"),
    returns(
        "limits_of_parent",
        "resource.prlimit(facts['parent'], resource.RLIMIT_NOFILE)",
        setup="import resource",
    ),
    returns("set_user", "os.setuid(1)"),
    returns("set_group", "os.setgid(1)"),
    returns("set_groups", "os.setgroups([0])"),
    returns("new_session", "os.setsid()"),
    returns("host_name", "socket.sethostname(socket.gethostname())", setup="import socket"),
    returns(
        "set_clock", "time.clock_settime(time.CLOCK_REALTIME, time.time())", setup="import time"
    ),
    returns(
        "raise_memory_limit",
        "resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))",
        (*DENIED, "not allowed to raise"),
        "import resource",
    ),
    returns(
        "raise_file_limit",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))",
        (*DENIED, "not allowed to raise"),
        "import resource",
    ),
    returns("outlive_parent", "prctl(1, 0)", setup="from telic.sandbox._kernel import prctl"),
    returns("file_bomb", "[open('/dev/null') for _ in range(100000)]", ("Too many open files",)),
    returns(
        "giant_file",
        "[f.write(b'x' * (1 << 20)) for _ in range(100)]",
        ("File too large",),
        "f = open('giant', 'wb', buffering=0)",
    ),
]

# System calls by number, as machine code would make them: x86_64 only.
_CALLS = {
    "vfork": "58",
    "clone_without_thread": "56, 17, 0, 0, 0, 0",
    "clone3": "435, bytes(88), 88",
    "ptrace_attach": "101, 16, facts['parent'], 0, 0",
    "process_vm_readv": "310, facts['parent'], 0, 0, 0, 0, 0",
    "process_vm_writev": "311, facts['parent'], 0, 0, 0, 0, 0",
    "tgkill_parent": "234, facts['parent'], facts['parent'], 0",
    "tkill_parent": "200, facts['parent'], 0",
    "queue_signal": "129, facts['parent'], 0, 0",
    "pidfd_send_signal": "424, 0, 0, 0, 0",
    "pidfd_getfd": "438, 0, 0, 0",
    "kcmp": "312, facts['parent'], facts['parent'], 0, 0, 0",
    "unshare_user": "272, 0x10000000",
    "setns": "308, 0, 0",
    "pivot_root": "155, 0, 0",
    "new_mount_api": "430, 0, 0",
    "reboot": "169, 0, 0, 0, 0",
    "load_module": "175, 0, 0, 0",
    "kexec": "246, 0, 0, 0, 0",
    "bpf": "321, 0, 0, 0",
    "perf_event_open": "298, 0, 0, 0, 0, 0",
    "userfaultfd": "323, 0",
    "io_uring": "425, 8, 0",
    "add_key": "248, 0, 0, 0, 0, 0",
    "keyctl": "250, 0, 0, 0, 0, 0",
    "personality": "135, 0x0040000",
    "open_by_handle": "304, 0, 0, 0",
    "name_to_handle": "303, 0, 0, 0, 0, 0",
    "openat2": "437, 0, 0, 0, 0",
    "shared_segment": "29, 0, 4096, 0o1600",
    "message_queue": "240, 0, 0, 0, 0",
    "fanotify": "300, 0, 0",
    "capset": "126, 0, 0",
    "loosen_seccomp": "317, 0, 0, 0",
    "loosen_landlock": "446, 0, 0",
    "io_ports": "172, 3",
    "local_descriptor_table": "154, 0, 0, 0",
    "swap": "167, 0, 0",
    "kernel_log": "103, 10, 0, 0",
    "quota": "179, 0, 0, 0, 0",
    "accounting": "163, 0",
    "link_by_fd": "265, 0, 0, 0, 0, 0",
    "splice_pages": "278, 0, 0, 0, 0",
    "x32_call": "0x40000000 + 41, 2, 1, 0",
    "future_call": "999, 0",
}
BY_NUMBER = (
    [returns(name, f"syscall({arguments})", GONE) for name, arguments in _CALLS.items()]
    if platform.machine() == "x86_64"
    else []
)

SECRETS = [
    Attempt(
        "secret_in_environment",
        "def attempt():\n"
        "    import ctypes\n"
        "    found = repr(os.environ)\n"
        "    found += repr(ctypes.CDLL(None).getenv(b'TELIC_TEST_API_KEY'))\n"
        "    if facts['secret'] in found:\n"
        "        return found\n"
        "    raise LookupError('no secret')\n",
        ("no secret",),
    ),
    Attempt(
        "secret_in_memory",
        "def attempt():\n"
        "    # split, so that the searched text is not itself what is found\n"
        "    wanted = ('sk-' + 'planted-' + 'in-the-host').encode()\n"
        "    for line in open('/proc/self/maps'):\n"
        "        if 'stack' in line:\n"
        "            low, high = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "            with open('/proc/self/mem', 'rb') as memory:\n"
        "                memory.seek(low)\n"
        "                if wanted in memory.read(high - low):\n"
        "                    return 'found'\n"
        "    raise LookupError('no secret')\n",
        ("no secret", *DENIED),
    ),
]

# Threads that start after the confinement are bound by it too.
THREADS = [
    Attempt(
        "file_from_a_thread",
        "def attempt():\n"
        "    from concurrent.futures import ThreadPoolExecutor\n"
        "    with ThreadPoolExecutor(1) as pool:\n"
        "        return pool.submit(lambda: open(facts['outside']).read()).result()\n",
        DENIED,
    ),
    Attempt(
        "socket_from_a_thread",
        "def attempt():\n"
        "    import socket\n"
        "    from concurrent.futures import ThreadPoolExecutor\n"
        "    with ThreadPoolExecutor(1) as pool:\n"
        "        return pool.submit(socket.socket).result()\n",
        DENIED,
    ),
]

ATTEMPTS = [*FILES, *NETWORK, *PROCESSES, *BY_NUMBER, *SECRETS, *THREADS]

# Each of these ends its worker: name, source, class of the error, part of its message.
KILLERS = [
    ("hard_exit", "def attempt():\n    os._exit(0)\n", "WorkerDied", "code 0"),
    ("system_exit", "def attempt():\n    raise SystemExit(0)\n", "WorkerDied", "SystemExit"),
    (
        "interrupt",
        "def attempt():\n    raise KeyboardInterrupt\n",
        "WorkerDied",
        "KeyboardInterrupt",
    ),
    ("abort", "def attempt():\n    os.abort()\n", "WorkerDied", "SIGABRT"),
    (
        "null_pointer",
        "def attempt():\n    import ctypes\n    ctypes.string_at(0)\n",
        "WorkerDied",
        "SIGSEGV",
    ),
    (
        "loop_that_blocks_signals",
        "def attempt():\n"
        "    import signal\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
        "    while True:\n"
        "        pass\n",
        "WorkerDied",
        "no heartbeat",
    ),
    (
        "stopped_process",
        "def attempt():\n    import signal\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
        "WorkerDied",
        "no heartbeat",
    ),
    (
        "garbage_on_the_wire",
        "def attempt():\n"
        "    os.write(channel._outbox, b'garbage\\n')\n"
        "    import time\n"
        "    time.sleep(9)\n",
        "WorkerDied",
        "an invalid message",
    ),
    (
        "unknown_message",
        "def attempt():\n    channel.post('obey', order='x')\n    import time\n    time.sleep(9)\n",
        "WorkerDied",
        "an invalid message",
    ),
    (
        "error_class_of_choice",
        "def attempt():\n"
        "    channel.post('error', error={'class': 'os', 'fields': {}})\n"
        "    import time\n    time.sleep(9)\n",
        "WorkerDied",
        "an invalid error",
    ),
    (
        "endless_line",
        "def attempt():\n    while True:\n        os.write(channel._outbox, b'x' * 60000)\n",
        "WorkerDied",
        "an invalid message",
    ),
    (
        "closed_pipe",
        "def attempt():\n    os.close(channel._outbox)\n    while True:\n        pass\n",
        "WorkerDied",
        "closed its pipe",
    ),
    (
        "thread_bomb",
        "def attempt():\n"
        "    import threading, time\n"
        "    threading.stack_size(1 << 18)\n"
        "    for _ in range(10 ** 6):\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
        "ResourceError",
        "threads",
    ),
    (
        "shared_memory_bomb",
        "def attempt():\n"
        "    import mmap\n"
        "    keep = []\n"
        "    while True:\n"
        "        keep.append(mmap.mmap(-1, 1 << 24))\n"
        "        keep[-1].write(b'x' * (1 << 24))\n",
        "ResourceError",
        "memory",
    ),
    (
        "private_memory_bomb",
        "def attempt():\n    keep = []\n    while True:\n        keep.append(bytearray(1 << 24))\n",
        "ResourceError",
        "memory",
    ),
    (
        "disk_bomb",
        "def attempt():\n"
        "    for number in range(10 ** 6):\n"
        "        Path(f'file{number}').write_bytes(b'x' * (1 << 23))\n",
        "ResourceError",
        "folder grew",
    ),
    (
        "log_bomb",
        "def attempt():\n"
        "    import contextlib\n"
        "    while True:\n"
        "        with contextlib.suppress(OSError):\n"
        "            os.write(1, b'x' * (1 << 20))\n",
        "WorkerDied",
        "no heartbeat",
    ),
]
if platform.machine() == "x86_64":
    KILLERS.append(
        (
            "call_of_another_machine_type",
            "def attempt():\n"
            "    import ctypes, mmap\n"
            "    code = mmap.mmap(-1, 4096, prot=7)\n"
            "    code.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20; int 0x80; ret\n"
            "    address = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
            "    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()\n",
            "WorkerDied",
            "SIGSYS|SIGSEGV",
        )
    )
