"""The child: runs one program as `__main__` and leaves a report of how it ended.

Loaded by the zygote: standard library only. Everything here shares a process with the
program, which may change any of it. That is harmless: nothing here decides a verdict,
and what a program can forge is only what it could have printed or returned.
"""

import atexit
import builtins
import ctypes
import importlib
import json
import linecache
import mmap
import os
import random
import struct
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import NoReturn

from . import plain_data, syntax_places
from .tracing.tracer import Tracer

FILENAME = "solution.py"
REPORT_BYTES = 1 << 16
MESSAGE_CHARACTERS = 500
SHOWN_FRAMES = 32
LIBC_EXIT = ctypes.CDLL(None)._exit
"""Not `os._exit`, which a program may replace so that its process lives on."""
FRAME_HEADER = struct.Struct("<I")
"""Length in bytes, before each message on the channel of calls."""
READ_BYTES = 1 << 16
FAILED_FLUSH_CODE = 120
BALLAST_BYTES = 4 << 20
"""Freed when memory runs out, so that the report can still be written."""
HIDDEN_MODULES: dict[str, types.ModuleType] = {}
"""The sandbox's own, which a program cannot import."""


def leave(code: int) -> NoReturn:
    """Ends this process at once; the program cannot make it return."""
    while True:
        LIBC_EXIT(code & 0xFF)


def prepare() -> None:
    """Makes the interpreter look freshly started to every program.

    Called once in the zygote: a child that did it would touch, and so have copied,
    dozens of pages of memory.
    """
    open_streams()
    # Programs print big integers. The owner keeps the limit.
    sys.set_int_max_str_digits(0)
    seed_random()
    # After the hook of `random` itself, which seeds anew in every child.
    os.register_at_fork(after_in_child=seed_random)
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        HIDDEN_MODULES[name] = sys.modules.pop(name)


def open_streams() -> None:
    """Standard streams as the interpreter makes them for files, in UTF-8.

    The files themselves are put in their place in each child.
    """
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", newline="\n", closefd=False)
    sys.stderr = open(
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    os.dup2(kept, 2)
    os.close(kept)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def fresh_main_module() -> types.ModuleType:
    """An empty `__main__`, as for a script."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=FILENAME, __builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    sys.argv = [FILENAME]
    return module


def seed_random() -> None:
    """Makes unseeded random numbers the same in every run, so that verdicts are."""
    random.seed(0)
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random").seed(0)


class Report:
    """How the program ended, for the owner: shared memory it reads afterwards."""

    def __init__(self) -> None:
        self.line_of = same_line
        self.memory: mmap.mmap | None = None
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        # Its pages are never touched, so it costs nothing but address space.
        self.ballast: mmap.mmap | None = mmap.mmap(-1, BALLAST_BYTES, flags=flags)

    def open(self, descriptor: int) -> None:
        """Maps the file in which it is written."""
        self.memory = mmap.mmap(descriptor, REPORT_BYTES)

    def write(self, stage: str, error: BaseException, source: str = "") -> None:
        """Notes an uncaught exception; what does not fit is left out."""
        self.ballast = None
        text = json.dumps(describe(stage, error, self.line_of, source)).encode()
        assert self.memory is not None, "it is opened before the program runs"
        self.memory[: len(text)] = text


def same_line(line: int) -> int | None:
    """The line of the source for a line that Python tells: the same."""
    return line


def describe(
    stage: str,
    error: BaseException,
    line_of: Callable[[int], int | None] = same_line,
    source: str = "",
) -> dict[str, object]:
    """Type, message and place of an exception, as plain data.

    Args:
      stage: In which it was raised: `compile`, `run`, `call` or `test`.
      error: The exception.
      line_of: The line of the source for a line that Python tells.
      source: The program, in stage `compile`.
    """
    try:
        message = str(error)[:MESSAGE_CHARACTERS]
    except BaseException:
        message = ""
    found: dict[str, object] = {
        "stage": stage,
        "type": type(error).__name__[:MESSAGE_CHARACTERS],
        "message": message,
        "is_memory": isinstance(error, MemoryError),
        "is_output": isinstance(error, plain_data.TooMuchDataError),
    }
    if isinstance(error, SyntaxError) and stage == "compile":
        found["message"] = str(error.msg)[:MESSAGE_CHARACTERS]
        return found | syntax_places.syntax_place(error, source)._asdict()
    line = program_line(error)
    found["line"] = None if line is None else line_of(line)
    return found


def program_line(error: BaseException) -> int | None:
    """The innermost line of the program that the exception passed through."""
    line = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILENAME:
            line = step.tb_lineno
        step = step.tb_next
    return line


def show(error: BaseException) -> None:
    """Prints a traceback on standard error, the sandbox's own frames left out."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != FILENAME:
        step = step.tb_next
    try:
        traceback.print_exception(type(error), error, step, limit=-SHOWN_FRAMES)
    except BaseException:
        return


def exit_code(request: SystemExit) -> int:
    """The code a process ends with on `sys.exit(...)`."""
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code & 0xFF
    print(request.code, file=sys.stderr)
    return 1


def compile_or_leave(source: bytes, report: Report) -> types.CodeType:
    """The program's code; ends this process where it is none."""
    text = source.decode("utf-8", "replace")
    linecache.cache[FILENAME] = (len(text), None, text.splitlines(True), FILENAME)
    try:
        return compile(source, FILENAME, "exec", dont_inherit=True)
    except BaseException as error:
        report.write("compile", error, text)
        show(error)
        leave(1)


def wind_down(module: types.ModuleType) -> int:
    """Waits for threads, runs exit handlers and flushes, as the interpreter does.

    Returns:
      The interpreter's exit code for output that could not be written, or 0.
    """
    if len(threading._active) > 1 or threading._threading_atexits:  # pyright: ignore
        threading._shutdown()  # pyright: ignore
    atexit._run_exitfuncs()
    code = 0 if flush_output() else FAILED_FLUSH_CODE
    # Files that the program opened are flushed by being dropped.
    module.__dict__.clear()
    return code


class Untraced:
    """Leaves a program as it is; `tracer.Tracer` does more by the same names."""

    def prepared(self, plain: types.CodeType) -> types.CodeType:
        """The program to run."""
        return plain

    def start(self) -> None:
        """Before what is to be traced."""

    def stop(self) -> None:
        """After it."""


UNTRACED = Untraced()
Watcher = Untraced | Tracer


def run_main(source: bytes, report: Report, watcher: Watcher = UNTRACED) -> NoReturn:
    """Runs the program as a script would run, then ends the process."""
    module = fresh_main_module()
    program = watcher.prepared(compile_or_leave(source, report))
    code = 1
    try:
        watcher.start()
        exec(program, module.__dict__)
        code = 0
    except SystemExit as request:
        code = exit_code(request)
        if code:
            report.write("run", request)
    except BaseException as error:
        report.write("run", error)
        show(error)
    watcher.stop()
    code = wind_down(module) or code
    leave(code)


def read_all(descriptor: int) -> bytes:
    """A passed file's content from its beginning."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    content = b""
    while len(content) < size:
        piece = os.pread(descriptor, size - len(content), len(content))
        assert piece, "the program's file is shorter than its size"
        content += piece
    return content


def run_calls(
    source: bytes,
    report: Report,
    channel: int,
    max_bytes: int,
    watcher: Watcher = UNTRACED,
) -> NoReturn:
    """Runs the program's top level once, then one call after the other."""
    module = fresh_main_module()
    program = watcher.prepared(compile_or_leave(source, report))
    try:
        exec(program, module.__dict__)
    except BaseException as error:
        report.write("run", error)
        show(error)
        flush_output()
        leave(1)
    flush_output()
    write_frame(channel, b"{}")
    while (frame := read_frame(channel)) is not None:
        answer = answer_call(module, report, frame, max_bytes, watcher)
        write_frame(channel, answer)
    leave(0)


def answer_call(
    module: types.ModuleType,
    report: Report,
    frame: bytes,
    max_bytes: int,
    watcher: Watcher,
) -> bytes:
    """The reply to one call: its value, or the exception it ended with."""
    name, is_drained, returns_arguments, given, named = json.loads(frame.decode())
    arguments, keywords = plain_data.untagged(given), plain_data.untagged(named)
    assert isinstance(arguments, list), "positional arguments come as a list"
    assert isinstance(keywords, dict), "keyword arguments come as a dict"
    started = time.process_time()
    try:
        watcher.start()
        value = named_function(module, name)(*arguments, **keywords)
        value = list(value) if is_drained else value
        watcher.stop()
        fields = f'"value": {plain_data.to_bytes(value, max_bytes).decode()}'
        if returns_arguments:
            after = plain_data.to_bytes(arguments, max_bytes + len(frame)).decode()
            if after != json.dumps(given):
                fields += f', "arguments": {after}'
    except BaseException as error:
        watcher.stop()
        report.ballast = None
        fields = f'"error": {json.dumps(describe("call", error, report.line_of))}'
    cpu_s = time.process_time() - started
    flush_output()
    return f'{{"cpu_s": {cpu_s!r}, {fields}}}'.encode()


def named_function(module: types.ModuleType, name: str) -> Callable:
    """A top-level function, or `Class.method` of a fresh instance."""
    owner, _, method = name.rpartition(".")
    found = module if not owner else getattr(module, owner)()
    if not hasattr(found, method):
        raise NameError(f"name {name!r} is not defined")
    return getattr(found, method)


def flush_output() -> bool:
    """Hands on what was printed so far; False where that failed."""
    is_flushed = True
    for stream in (sys.stdout, sys.__stdout__, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            is_flushed = False
    return is_flushed


def read_frame(channel: int) -> bytes | None:
    """The next frame; None at the end."""
    # The owner waits for an answer before it sends another one.
    pieces = [os.read(channel, READ_BYTES)]
    if len(pieces[0]) < FRAME_HEADER.size:
        return None
    (size,) = FRAME_HEADER.unpack_from(pieces[0])
    missing = FRAME_HEADER.size + size - len(pieces[0])
    while missing:
        pieces.append(os.read(channel, missing))
        missing -= len(pieces[-1])
        if not pieces[-1]:
            return None
    return b"".join(pieces)[FRAME_HEADER.size :]


def write_frame(channel: int, content: bytes) -> None:
    """Sends one message."""
    view = memoryview(FRAME_HEADER.pack(len(content)) + content)
    while view:
        view = view[os.write(channel, view) :]
