"""Hostile (and a few merely odd) programs, each with what must come of it."""

from dataclasses import dataclass, field

from jaxgrpo.host.records import ExecutionStatus, Limits

SHORT = Limits(cpu_s=0.2, wall_s=4.0, memory_bytes=256 * 2**20)
SMALL = Limits(cpu_s=2.0, wall_s=10.0, memory_bytes=96 * 2**20)
IDLE = Limits(cpu_s=0.3, wall_s=0.4)

TRY = """
import errno, os
def attempt(action, *args):
    try:
        action(*args)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
"""Prints the name of the error, or `done`."""

SYSCALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(number, *args)
    print(errno.errorcode[ctypes.get_errno()] if result < 0 else "done")
"""
"""Makes a raw system call (numbers of x86_64) and prints how it failed."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program and its expected end."""

    name: str
    source: str
    status: ExecutionStatus = "OK"
    outputs: tuple[str, ...] = ()
    """Permitted standard outputs; empty permits any."""
    stdin: str = ""
    limits: Limits = field(default=SHORT)
    machine: str = ""
    """Only on this kind of processor."""


def refused(name: str, source: str, *errors: str) -> Case:
    """A program that tries something, prints the error, and goes on."""
    outputs = tuple(f"{error}\n" for error in errors or ("EPERM",))
    return Case(name=name, source=TRY + source, outputs=outputs)


def raw_call(name: str, number: int, arguments: str, error: str = "EPERM") -> Case:
    """A raw system call that must fail."""
    return Case(
        name=f"syscall_{name}",
        source=SYSCALL + f"call({number}, {arguments})",
        outputs=(f"{error}\n",),
        machine="x86_64",
    )


MISSING_OR_FORBIDDEN = ("ENOENT", "EACCES")
READ_ONLY = ("EROFS", "EACCES", "EPERM", "ENOENT")

PROCESSES = [
    refused("fork", "attempt(os.fork)"),
    refused("execve", "attempt(os.execv, '/bin/true', ['true'])", "EPERM", "ENOENT"),
    refused("posix_spawn", "attempt(os.posix_spawn, '/bin/true', ['true'], {})"),
    refused("subprocess", "import subprocess\nattempt(subprocess.run, ['/bin/true'])"),
    refused("shell", "attempt(os.popen, 'id')"),
    Case(
        name="fork_bomb",
        source="import os\nwhile True:\n    os.fork()",
        status="RE",
    ),
    refused("kill_parent", "attempt(os.kill, os.getppid(), 9)"),
    refused("kill_everyone", "attempt(os.kill, -1, 9)"),
    refused("kill_init", "attempt(os.kill, 1, 9)"),
    refused("kill_own_group", "attempt(os.kill, 0, 9)"),
    refused("kill_itself", "attempt(os.kill, os.getpid(), 9)"),
    refused(
        "signal_by_descriptor_owner",
        "import fcntl\nr, w = os.pipe()\n"
        "attempt(fcntl.fcntl, r, fcntl.F_SETOWN, os.getppid())",
    ),
    refused(
        "signal_choice",
        "import fcntl\nr, w = os.pipe()\nattempt(fcntl.fcntl, r, fcntl.F_SETSIG, 9)",
    ),
    Case(
        name="threads_without_end",
        source=(
            "import threading, time\nn = 0\ntry:\n    while True:\n"
            "        threading.Thread(target=time.sleep, args=(60,), daemon=True)"
            ".start()\n        n += 1\n"
            "except RuntimeError:\n    print(n < 200)"
        ),
        outputs=("True\n",),
        limits=Limits(cpu_s=2.0, wall_s=10.0, memory_bytes=256 * 2**20),
    ),
    Case(
        name="threads_that_are_never_joined",
        source=(
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(60,)).start()\nprint('main')"
        ),
        status="TLE",
        limits=IDLE,
    ),
    refused(
        "fork_by_ctypes",
        "import ctypes\nif ctypes.CDLL(None).fork() < 0: print('EPERM')",
    ),
    refused(
        "multiprocessing",
        "import multiprocessing as m\n"
        "attempt(m.get_context('fork').Process(target=print).start)",
    ),
    refused("spawn_by_path", "attempt(os.posix_spawnp, 'true', ['true'], {})"),
    refused("pseudo_terminal", "attempt(os.openpty)", "EPERM", "ENOENT", "EACCES"),
    refused("new_session", "attempt(os.setsid)"),
    refused("new_group", "attempt(os.setpgid, 0, 0)"),
    refused("kill_group", "attempt(os.killpg, os.getpgid(0), 9)"),
    refused("lower_priority", "attempt(os.nice, 1)"),
    refused("real_time", "attempt(os.sched_setscheduler, 0, 1, os.sched_param(1))"),
    refused("other_cores", "attempt(os.sched_setaffinity, 0, {0})"),
    refused("become_root", "attempt(os.setresuid, 0, 0, 0)"),
    refused("other_groups", "attempt(os.setgroups, [0])"),
    Case(
        name="kill_own_thread",
        source=(
            "import signal, threading\n"
            "try: signal.pthread_kill(threading.get_ident(), 9)\n"
            "except OSError as error: print(error.errno)"
        ),
        outputs=("1\n",),
    ),
    Case(
        name="terminate_itself",
        source="import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
        status="RE",
    ),
    Case(
        name="alarm_goes_off",
        source="import signal, time\nsignal.alarm(1)\ntime.sleep(9)",
        status="RE",
        limits=Limits(wall_s=8.0),
    ),
    Case(
        name="storm_of_signals",
        source=(
            "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\n"
            "signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)\nwhile True: pass"
        ),
        status="TLE",
    ),
    Case(
        name="processor_limit_ignored",
        source=(
            "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
            "while True: pass"
        ),
        status="TLE",
    ),
    Case(
        name="deadlock",
        source="import threading\nx = threading.Lock()\nx.acquire()\nx.acquire()",
        status="TLE",
        limits=IDLE,
    ),
    Case(
        name="threads_that_compute",
        source=(
            "import threading\ndef f():\n    while True: pass\n"
            "for _ in range(8): threading.Thread(target=f, daemon=True).start()\nf()"
        ),
        status="TLE",
    ),
]

FILES = [
    refused("write_root", "attempt(open, '/x', 'w')", *READ_ONLY),
    refused("write_tmp", "attempt(open, '/tmp/jaxgrpo-attack', 'w')", *READ_ONLY),
    refused("write_shared_memory", "attempt(open, '/dev/shm/x', 'w')", *READ_ONLY),
    refused("write_library", "attempt(open, os.__file__, 'a')", *READ_ONLY),
    refused("unlink", "attempt(os.unlink, os.__file__)", *READ_ONLY),
    refused(
        "rename", "attempt(os.rename, os.__file__, '/tmp/jaxgrpo-attack')", *READ_ONLY
    ),
    refused("mkdir", "attempt(os.mkdir, '/tmp/d')", *READ_ONLY),
    refused("symlink", "attempt(os.symlink, '/etc', '/tmp/s')", *READ_ONLY),
    refused("chmod", "attempt(os.chmod, os.__file__, 0o777)", *READ_ONLY),
    refused("chown", "attempt(os.chown, os.__file__, 1, 1)", *READ_ONLY),
    refused("truncate", "attempt(os.truncate, os.__file__, 0)", *READ_ONLY),
    refused("set_times", "attempt(os.utime, os.__file__)", *READ_ONLY),
    Case(
        name="rmtree_root",
        source="import shutil\nshutil.rmtree('/', ignore_errors=True)\nprint(1)",
        outputs=("1\n",),
    ),
    refused("read_passwords", "attempt(open, '/etc/shadow')", *MISSING_OR_FORBIDDEN),
    refused("read_users", "attempt(open, '/etc/passwd')", *MISSING_OR_FORBIDDEN),
    refused("list_root_home", "attempt(os.listdir, '/root')", *MISSING_OR_FORBIDDEN),
    refused("list_temporary", "attempt(os.listdir, '/tmp')", *MISSING_OR_FORBIDDEN),
    refused(
        "read_environment_of_parent",
        "attempt(open, f'/proc/{os.getppid()}/environ')",
        *MISSING_OR_FORBIDDEN,
    ),
    refused(
        "read_memory_of_parent",
        "attempt(open, f'/proc/{os.getppid()}/mem', 'rb')",
        *MISSING_OR_FORBIDDEN,
    ),
    refused(
        "read_own_command_line",
        "attempt(open, '/proc/self/cmdline')",
        *MISSING_OR_FORBIDDEN,
    ),
    refused("read_disk", "attempt(open, '/dev/vda', 'rb')", *MISSING_OR_FORBIDDEN),
    refused("read_terminal", "attempt(open, '/dev/tty')", *MISSING_OR_FORBIDDEN),
    refused(
        "open_file_of_parent",
        "attempt(open, f'/proc/{os.getppid()}/fd/0')",
        *MISSING_OR_FORBIDDEN,
    ),
    Case(
        name="inherited_descriptors",
        source=(
            "import os\nfound = []\nfor i in range(4096):\n    try:\n"
            "        os.fstat(i)\n        found.append(i)\n"
            "    except OSError:\n        pass\nprint(found)"
        ),
        outputs=("[0, 1, 2]\n",),
    ),
    Case(
        name="many_open_files",
        source=(
            "import os\ntry:\n    while True:\n        os.pipe()\n"
            "except OSError as error:\n    print(error.errno == 24)"
        ),
        outputs=("True\n",),
    ),
    refused(
        "remove_tree",
        "import shutil\nattempt(shutil.rmtree, os.path.dirname(os.__file__))",
        *READ_ONLY,
    ),
    refused(
        "hard_link", "attempt(os.link, os.__file__, '/tmp/jaxgrpo-attack')", *READ_ONLY
    ),
    refused("named_pipe", "attempt(os.mkfifo, '/tmp/jaxgrpo-attack')", *READ_ONLY),
    refused(
        "device_node",
        "attempt(os.mknod, '/tmp/jaxgrpo-attack', 0o20666, 261)",
        *READ_ONLY,
    ),
    refused("file_times", "attempt(os.utime, os.__file__, (0, 0))", *READ_ONLY),
    refused(
        "nameless_file",
        "attempt(os.open, '/tmp', os.O_TMPFILE | os.O_RDWR)",
        *READ_ONLY,
    ),
    refused(
        "temporary_file",
        "import tempfile\nattempt(tempfile.NamedTemporaryFile)",
        *READ_ONLY,
    ),
    Case(
        name="database_file",
        source=(
            "import sqlite3\n"
            "try: sqlite3.connect('/tmp/jaxgrpo-attack').execute('create table t(a)')\n"
            "except sqlite3.OperationalError: print('no')"
        ),
        outputs=("no\n",),
    ),
    refused("own_memory", "attempt(open, '/proc/self/mem', 'r+b')", *READ_ONLY),
    refused(
        "file_system_through_itself",
        "attempt(open, '/proc/self/root/etc/passwd')",
        *MISSING_OR_FORBIDDEN,
    ),
    refused(
        "way_up", "attempt(open, '/usr/lib/../../etc/passwd')", *MISSING_OR_FORBIDDEN
    ),
    refused(
        "way_up_from_a_folder",
        "folder = os.open('/usr/lib', os.O_RDONLY)\n"
        "attempt(lambda: os.open('../../etc/passwd', os.O_RDONLY, dir_fd=folder))",
        *MISSING_OR_FORBIDDEN,
    ),
    refused("kernel_log", "attempt(open, '/dev/kmsg')", *MISSING_OR_FORBIDDEN),
    refused(
        "kernel_settings",
        "attempt(open, '/proc/sys/kernel/core_pattern', 'w')",
        *READ_ONLY,
    ),
    refused(
        "control_groups", "attempt(os.listdir, '/sys/fs/cgroup')", *MISSING_OR_FORBIDDEN
    ),
    refused(
        "other_processes", "attempt(os.listdir, '/proc/self/fd')", *MISSING_OR_FORBIDDEN
    ),
    refused("homes", "attempt(os.listdir, '/home')", *MISSING_OR_FORBIDDEN),
    refused("scheduled_jobs", "attempt(open, '/etc/crontab')", *MISSING_OR_FORBIDDEN),
    refused("change_root", "attempt(os.chroot, '/usr')"),
    refused(
        "writable_mapping_of_a_library",
        "import mmap\nfile = open(os.__file__, 'rb')\n"
        "attempt(mmap.mmap, file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_WRITE)",
        "EACCES",
    ),
    refused(
        "private_mapping_stays_private",
        "import mmap\nfile = open(os.__file__, 'rb')\n"
        "view = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, "
        "mmap.PROT_READ | mmap.PROT_WRITE)\nview[:4] = b'evil'\n"
        "print(open(os.__file__, 'rb').read(4) != b'evil')",
        "True",
    ),
    refused(
        "reserve_space", "attempt(os.posix_fallocate, 1, 0, 1 << 40)", "EPERM", "EFBIG"
    ),
    refused(
        "seek_and_write",
        "os.lseek(1, 1 << 40, 0)\nattempt(os.write, 1, b'x')\nos.lseek(1, 0, 0)",
        "EFBIG",
    ),
    Case(
        name="package_of_the_sandbox",
        source=(
            "import sys\nprint([m for m in sys.modules if 'jaxgrpo' in m "
            "or m.startswith('sandbox')], [p for p in sys.path if 'sandbox' in p])"
        ),
        outputs=("[] []\n",),
    ),
]

NETWORK = [
    refused("tcp", "import socket\nattempt(socket.socket)"),
    refused(
        "udp",
        "import socket\nattempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)",
    ),
    refused("unix_socket", "import socket\nattempt(socket.socket, socket.AF_UNIX)"),
    refused(
        "datagram_pair",
        "import socket\nattempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)",
    ),
    refused(
        "url",
        "import urllib.request\nurllib.request.urlopen.__name__\n"
        "import socket\nattempt(socket.create_connection, ('127.0.0.1', 80))",
    ),
    refused("netlink", "import socket\nattempt(socket.socket, 16, socket.SOCK_RAW, 0)"),
    refused(
        "virtual_machine_socket", "import socket\nattempt(socket.socket, 40, 1, 0)"
    ),
    refused("packet_socket", "import socket\nattempt(socket.socket, 17, 3, 0)"),
    refused("crypto_socket", "import socket\nattempt(socket.socket, 38, 5, 0)"),
    Case(
        name="name_lookup",
        source=(
            "import socket\ntry: socket.getaddrinfo('example.org', 80)\n"
            "except OSError: print('no')"
        ),
        outputs=("no\n",),
    ),
    refused(
        "metadata_server",
        "import socket\nattempt(socket.create_connection, ('169.254.169.254', 80))",
    ),
    refused(
        "descriptors_through_a_socket",
        "import array, socket\na, b = socket.socketpair()\n"
        "attempt(a.sendmsg, [b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, "
        "array.array('i', [0]))])",
    ),
]

KERNEL = [
    raw_call("ptrace", 101, "16, 1, 0, 0"),
    raw_call("process_vm_readv", 310, "1, 0, 0, 0, 0, 0"),
    raw_call("unshare", 272, "0x10000000"),
    raw_call("mount", 165, "0, 0, 0, 0, 0"),
    raw_call("bpf", 321, "0, 0, 0"),
    raw_call("io_uring_setup", 425, "1, 0"),
    raw_call("keyctl", 250, "0, 0"),
    raw_call("clone_process", 56, "17, 0, 0, 0, 0"),
    raw_call("clone_user_namespace", 56, "0x10000011, 0, 0, 0, 0"),
    raw_call("clone3", 435, "0, 88", "ENOSYS"),
    raw_call("vfork", 58, ""),
    raw_call("seccomp", 317, "1, 0, 0"),
    raw_call("memfd_create", 319, "b'x', 0"),
    raw_call("chroot", 161, "b'/'"),
    raw_call("pidfd_open", 434, "1, 0"),
    raw_call("perf_event_open", 298, "0, 0, 0, 0, 0"),
    raw_call("userfaultfd", 323, "0"),
    raw_call("shmget", 29, "0, 4096, 0o1777"),
    raw_call("msgget", 68, "0, 0o1777"),
    raw_call("prctl_dumpable", 157, "4, 1, 0, 0, 0"),
    raw_call("setuid", 105, "0"),
    raw_call("sched_setaffinity", 203, "0, 8, b'12345678'"),
    raw_call("setpriority", 141, "0, 0, 0"),
    raw_call("open_by_handle_at", 304, "0, 0, 0"),
    raw_call("personality", 135, "0x0040000"),
    raw_call("rt_sigqueueinfo", 129, "1, 9, 0"),
    raw_call("tgkill_zygote", 234, "1, 1, 9"),
    raw_call("terminal_input", 16, "0, 0x5412, b'x'"),
    Case(
        name="x32_call",
        source=SYSCALL + "call(0x40000000 + 39)",
        status="RE",
        machine="x86_64",
    ),
    refused(
        "raise_cpu_limit",
        "import resource\n"
        "try: resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))\n"
        "except (OSError, ValueError): print('EPERM')",
    ),
    refused(
        "raise_memory_limit",
        "import resource\n"
        "try: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n"
        "except (OSError, ValueError): print('EPERM')",
    ),
    raw_call("memfd_secret", 447, "0"),
    raw_call("setns", 308, "0, 0"),
    raw_call("execveat", 322, "0, b'/bin/true', 0, 0, 0"),
    raw_call("process_vm_writev", 311, "1, 0, 0, 0, 0, 0"),
    raw_call("pidfd_getfd", 438, "0, 0, 0"),
    raw_call("pidfd_send_signal", 424, "0, 9, 0, 0"),
    raw_call("finit_module", 313, "0, b'', 0"),
    raw_call("kexec_load", 246, "0, 0, 0, 0"),
    raw_call("reboot", 169, "0, 0, 0, 0"),
    raw_call("clock_settime", 227, "0, b'1234567890123456'"),
    raw_call("iopl", 172, "3"),
    raw_call("modify_ldt", 154, "0, 0, 0"),
    raw_call("arch_prctl", 158, "0x1002, 0"),
    raw_call("add_key", 248, "b'user', b'x', b'y', 1, 0"),
    raw_call("fanotify_init", 300, "0, 0"),
    raw_call("inotify_init1", 294, "0"),
    raw_call("timer_create", 222, "0, 0, 0"),
    raw_call("mq_open", 240, "b'/x', 0o102, 0o600, 0"),
    raw_call("semget", 64, "0, 1, 0o1777"),
    raw_call("io_submit", 209, "0, 0, 0"),
    raw_call("vmsplice", 278, "1, 0, 0, 0"),
    raw_call("splice", 275, "0, 0, 1, 0, 1, 0"),
    raw_call("mbind", 237, "0, 0, 0, 0, 0, 0"),
    raw_call("move_pages", 279, "0, 0, 0, 0, 0, 0"),
    raw_call("open_tree", 428, "-100, b'/', 0"),
    raw_call("mount_setattr", 442, "-100, b'/', 0, 0, 0"),
    raw_call("landlock_create_ruleset", 444, "0, 0, 1"),
    raw_call("landlock_restrict_self", 446, "0, 0"),
    raw_call("wait4", 61, "-1, 0, 0, 0"),
    raw_call("recvmsg", 47, "0, 0, 0"),
    raw_call("setrlimit", 160, "7, b'1234567890123456'"),
    raw_call("chmod", 90, "b'/tmp', 0o777"),
    raw_call("sync", 162, ""),
    raw_call("kill_zygote", 62, "2, 9"),
    raw_call("tkill", 200, "1, 9"),
    Case(
        name="calls_of_32_bit_programs",
        source=(
            "import ctypes, mmap\n"
            "code = mmap.mmap(-1, 4096, prot=7)\n"
            "code.write(bytes.fromhex('b814000000cd80c3'))\n"
            "at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
            "print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())"
        ),
        status="RE",
        machine="x86_64",
    ),
]

RESOURCES = [
    Case(name="endless_loop", source="while True: pass", status="TLE"),
    Case(name="endless_c_loop", source="x = 3 ** (10 ** 9)", status="TLE"),
    Case(name="sleep", source="import time\ntime.sleep(60)", status="TLE", limits=IDLE),
    Case(
        name="stop_itself",
        source="import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        status="TLE",
        limits=IDLE,
    ),
    Case(
        name="ignore_signals",
        source=(
            "import signal\nfor s in range(1, 65):\n"
            "    try: signal.signal(s, signal.SIG_IGN)\n"
            "    except (OSError, ValueError): pass\nwhile True: pass"
        ),
        status="TLE",
    ),
    Case(
        name="hanging_exit_handler",
        source="import atexit, time\natexit.register(time.sleep, 60)\nprint(1)",
        status="TLE",
        limits=IDLE,
    ),
    Case(
        name="hanging_exception_text",
        source=(
            "class E(Exception):\n    def __str__(self):\n        while True: pass\n"
            "raise E"
        ),
        status="TLE",
    ),
    Case(name="large_allocation", source="x = bytearray(4 << 30)", status="MLE"),
    Case(
        name="growing_list",
        source="x = []\nwhile True: x.append(bytearray(1 << 20))",
        status="MLE",
        limits=SMALL,
    ),
    Case(
        name="shared_mapping",
        source="import mmap\nx = mmap.mmap(-1, 4 << 30)",
        status="RE",
    ),
    Case(name="output_flood", source="while True: print('a' * 100000)", status="OLE"),
    Case(
        name="output_flood_with_errors_caught",
        source=(
            "import os\nwhile True:\n"
            "    try: os.write(1, b'a' * 100000)\n    except OSError: break"
        ),
        status="OLE",
    ),
    Case(
        name="error_flood",
        source="import sys\nwhile True: sys.stderr.write('a' * 100000)",
        status="OLE",
    ),
    refused("sparse_output", "attempt(os.ftruncate, 1, 1 << 40)", "EFBIG"),
    Case(
        name="recursion_in_c",
        source=(
            "import sys\nsys.setrecursionlimit(10 ** 9)\nclass A:\n"
            "    def __getattr__(self, name): return getattr(self, name)\n"
            "A().b"
        ),
        status="RE",
        limits=Limits(cpu_s=5.0),
    ),
    Case(
        name="endless_match",
        source="import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
        status="TLE",
    ),
    Case(
        name="growing_text",
        source="x = 'a'\nwhile True: x += x",
        status="MLE",
        limits=SMALL,
    ),
    Case(
        name="growing_dictionary",
        source="x = {}\nwhile True: x[len(x)] = [0] * 1000",
        status="MLE",
        limits=SMALL,
    ),
    Case(
        name="unpacked_bomb",
        source=(
            "import zlib\nx = zlib.compressobj()\n"
            "bomb = b''.join(x.compress(bytes(1 << 20)) for _ in range(64))\n"
            "y = zlib.decompress(bomb + x.flush()) * 8"
        ),
        status="MLE",
        limits=Limits(cpu_s=5.0, memory_bytes=128 * 2**20),
    ),
    Case(name="endless_recursion", source="def f(): return f()\nf()", status="RE"),
    Case(
        name="memory_error_in_an_exception_handler",
        source=(
            "x = []\ntry:\n    while True: x.append(bytearray(1 << 20))\n"
            "except MemoryError:\n    while True: x.append(bytearray(1 << 10))"
        ),
        status="MLE",
        limits=SMALL,
    ),
    Case(
        name="full_pipe",
        source="import os\nr, w = os.pipe()\nwhile True: os.write(w, bytes(4096))",
        status="TLE",
        limits=IDLE,
    ),
    Case(
        name="wait_without_end",
        source="import select\nselect.select([], [], [])",
        status="TLE",
        limits=IDLE,
    ),
    Case(
        name="hanging_finalizer",
        source=("class A:\n    def __del__(self):\n        while True: pass\nx = A()"),
        status="TLE",
    ),
    Case(
        name="endless_exit_code",
        source=(
            "class A:\n    def __str__(self):\n        while True: pass\n"
            "raise SystemExit(A())"
        ),
        status="TLE",
    ),
    Case(
        name="floods_on_both_streams",
        source=(
            "import os\nwhile True:\n"
            "    os.write(1, bytes(9999))\n    os.write(2, bytes(9999))"
        ),
        status="OLE",
    ),
]

CRASHES = [
    Case(
        name="segmentation_fault",
        source="import ctypes\nctypes.string_at(0)",
        status="RE",
    ),
    Case(name="abort", source="import os\nos.abort()", status="RE"),
    Case(name="read_past_end", source="input()", status="RE"),
    Case(name="lone_surrogate", source="print('\\ud800')", status="RE"),
    Case(name="nul_in_source", source="print(1)\0", status="CE"),
    Case(name="surrogate_in_source", source="x = '\ud800'", status="CE"),
    Case(name="deep_nesting", source="(" * 5000 + ")" * 5000, status="CE"),
    Case(
        name="exit_early",
        source="import os\nos._exit(0)\nprint(1)",
        outputs=("",),
    ),
    Case(
        name="random_memory",
        source="import ctypes\nctypes.memset(4096, 1, 1 << 30)",
        status="RE",
    ),
    Case(
        name="broken_code_object",
        source=(
            "def f(): pass\n"
            "f.__code__ = f.__code__.replace(co_code=bytes([255, 255] * 4))\nf()"
        ),
        status="RE",
    ),
    Case(
        name="finalized_interpreter",
        source="import ctypes\nctypes.pythonapi.Py_FinalizeEx()\nctypes.string_at(0)",
        status="RE",
    ),
    Case(
        name="exception_without_text",
        source="class E(Exception):\n    def __str__(self): return 3\nraise E",
        status="RE",
    ),
    Case(
        name="exception_with_a_megabyte_of_text",
        source="raise ValueError('x' * 900000)",
        status="RE",
    ),
    Case(
        name="chain_of_exceptions_that_goes_round",
        source=(
            "a, b = ValueError(1), ValueError(2)\n"
            "a.__cause__, b.__cause__ = b, a\nraise a"
        ),
        status="RE",
    ),
    Case(
        name="syntax_error_with_nonsense_inside",
        source="e = SyntaxError('x')\ne.lineno, e.offset, e.text = 'a', [], 7\nraise e",
        status="RE",
    ),
    Case(
        name="type_with_a_hostile_name",
        source="raise type('\\ud800' * 9, (Exception,), {})",
        status="RE",
    ),
    Case(
        name="exception_group",
        source="raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
        status="RE",
    ),
]

INTERPRETER = [
    Case(
        name="patched_builtins",
        source=(
            "import builtins, json, os, sys, threading, atexit\n"
            "os._exit = lambda code: None\nos.write = lambda *a: 0\n"
            "json.dumps = lambda *a: '42'\nsys.exit = lambda *a: None\n"
            "threading._shutdown = atexit._run_exitfuncs = lambda: None\n"
            "builtins.print = builtins.open = builtins.exec = None"
        ),
        outputs=("",),
    ),
    Case(
        name="replaced_exit_of_the_child",
        source=(
            "import sys\nframe = sys._getframe(1)\n"
            "frame.f_globals['leave'] = lambda code: None\n"
            "frame.f_globals['LIBC_EXIT'] = lambda code: None\n"
            "raise SystemExit(7)"
        ),
        status="RE",
    ),
    Case(
        name="cleared_globals_of_the_sandbox",
        source="import sys\nsys._getframe(1).f_globals.clear()",
        status="RE",
    ),
    Case(
        name="import_of_the_sandbox",
        source="import sandbox.plain_data",
        status="RE",
    ),
    Case(
        name="forged_report",
        source=(
            "import sys, json\nreport = sys._getframe(1).f_locals['report']\n"
            "text = json.dumps({'stage': 'compile', 'type': 'Forged', "
            "'message': 'x' * 60000}).encode()\nreport.memory[:len(text)] = text"
        ),
        outputs=("",),
    ),
    Case(
        name="broken_report",
        source=(
            "import sys\nreport = sys._getframe(1).f_locals['report']\n"
            "report.memory[:4] = b'[[[['\nraise SystemExit(3)"
        ),
        status="RE",
    ),
    Case(
        name="cleared_modules",
        source="import sys\nprint(1, flush=True)\nsys.modules.clear()\ndel sys.path[:]",
        outputs=("1\n",),
    ),
    Case(
        name="import_taken_away",
        source="import builtins\nprint(1)\ndel builtins.__import__\nimport json",
        status="RE",
    ),
    Case(
        name="streams_closed",
        source="import os\nos.write(1, b'1')\nfor i in range(3): os.close(i)",
        outputs=("1",),
    ),
    Case(
        name="streams_swapped",
        source="import os\nos.dup2(2, 1)\nprint(1)",
        outputs=("",),
    ),
    Case(
        name="output_opened_for_reading",
        source="import os\nprint(1, flush=True)\nprint(os.pread(1, 9, 0))",
        outputs=("1\nb'1\\n'\n",),
    ),
    Case(
        name="report_closed",
        source="import sys\nsys._getframe(1).f_locals['report'].memory.close()\n1 / 0",
        status="RE",
    ),
    Case(
        name="report_of_something_else",
        source=(
            "import sys, json\nreport = sys._getframe(1).f_locals['report']\n"
            "text = json.dumps({'type': 7, 'line': -1, 'message': [1]}).encode()\n"
            "report.memory[:len(text)] = text\nimport os\nos._exit(4)"
        ),
        status="RE",
    ),
    Case(
        name="all_objects_cleared",
        source=(
            "import gc\nfor x in gc.get_objects():\n"
            "    if type(x) is dict and x is not globals(): x.clear()"
        ),
        outputs=("",),
    ),
    Case(
        name="raising_exit_handler",
        source="import atexit\nprint(1)\natexit.register(lambda: 1 / 0)",
        outputs=("1\n",),
    ),
    Case(
        name="raising_hooks",
        source=(
            "import sys, threading\ndef f(*a): raise ValueError\n"
            "sys.excepthook = threading.excepthook = sys.unraisablehook = f\n1 / 0"
        ),
        status="RE",
    ),
    Case(
        name="patched_exit_in_the_library",
        source=(
            "import ctypes\nlibc = ctypes.CDLL(None)\n"
            "at = ctypes.cast(libc._exit, ctypes.c_void_p).value\n"
            "ctypes.memset(at, 0xC3, 1)"
        ),
        status="RE",
    ),
]

LEGITIMATE = [
    Case(
        name="deep_recursion",
        source=(
            "import sys\nsys.setrecursionlimit(10 ** 9)\n"
            "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(100000))"
        ),
        outputs=("100000\n",),
        limits=Limits(cpu_s=5.0),
    ),
    Case(
        name="large_stack_thread",
        source=(
            "import sys, threading\nthreading.stack_size(1 << 27)\n"
            "def main(): print(sum(map(int, sys.stdin.buffer.read().split())))\n"
            "t = threading.Thread(target=main)\nt.start()\nt.join()"
        ),
        stdin="1 2 3",
        outputs=("6\n",),
    ),
    Case(
        name="asyncio",
        source=(
            "import asyncio\nasync def f():\n"
            "    print(await asyncio.to_thread(sum, [1, 2]))\nasyncio.run(f())"
        ),
        outputs=("3\n",),
    ),
    Case(
        name="huge_integer",
        source="print(len(str(10 ** 20000)))",
        outputs=("20001\n",),
    ),
    Case(name="nul_in_output", source="print('a\\0b')", outputs=("a\0b\n",)),
    Case(
        name="long_line", source="print('9' * 900000)", outputs=("9" * 900000 + "\n",)
    ),
    Case(name="exit_builtin", source="print(1)\nexit()", outputs=("1\n",)),
    Case(
        name="read_descriptor_zero",
        source="import os\nprint(os.read(0, 9), open(0).read())",
        stdin="a\nb",
        outputs=("b'a\\nb' \n",),
    ),
    Case(
        name="file_that_is_never_closed",
        source="out = open(1, 'w', closefd=False)\nout.write('1')",
        outputs=("1",),
    ),
    Case(
        name="replaced_output",
        source="import sys, io\nprint(1)\nsys.stdout = io.StringIO()\nprint(2)",
        outputs=("1\n",),
    ),
    Case(
        name="closed_output",
        source="import sys\nprint(1)\nsys.stdout.close()",
        outputs=("1\n",),
    ),
    Case(
        name="pickle_of_own_class",
        source=(
            "import pickle\nclass A: pass\n"
            "print(type(pickle.loads(pickle.dumps(A()))).__name__)"
        ),
        outputs=("A\n",),
    ),
    Case(
        name="dataclass_of_main",
        source=(
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
            "print(A(1), __name__)"
        ),
        outputs=("A(x=1) __main__\n",),
    ),
    Case(
        name="discarded_output",
        source="print(1, file=open('/dev/null', 'w'))",
        outputs=("",),
    ),
]

CASES = [
    *PROCESSES,
    *FILES,
    *NETWORK,
    *KERNEL,
    *RESOURCES,
    *CRASHES,
    *INTERPRETER,
    *LEGITIMATE,
]
