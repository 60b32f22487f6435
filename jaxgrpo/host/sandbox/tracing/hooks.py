"""Where events come from: `sys.monitoring` from Python 3.12 on, `sys.settrace` before.

Both tell the recorder the same. Only the main thread is followed, since how threads
interleave is not the program's doing.
"""

import dis
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .recorder import Code, Recorder

MONITORING: Any = getattr(sys, "monitoring", None)
"""None before Python 3.12."""
TOOL_NAME = "jaxgrpo"


class TraceHook:
    """Follows the program by `sys.settrace`, as Python 3.11 has it.

    Args:
      recorder: Is told what happens.
      codes: The program's code objects by identity.
    """

    def __init__(self, recorder: Recorder, codes: dict[int, Code]) -> None:
        self._recorder = recorder
        self._codes = codes
        self._bytes = {id(code.code): code.code.co_code for code in codes.values()}
        self._in_air = 0
        """Identity of the frame through which an exception goes; 0 for none."""
        recorder.stop = self.stop

    def start(self) -> None:
        """Begins to follow what is called from now on."""
        sys.settrace(self._called)

    def stop(self) -> None:
        """Leaves the program to itself."""
        sys.settrace(None)

    def _called(
        self, frame: FrameType, event: str, argument: object
    ) -> Callable | None:
        code = self._codes.get(id(frame.f_code))
        if code is None:
            return None
        instruction = self._bytes[id(frame.f_code)][frame.f_lasti : frame.f_lasti + 2]
        self._in_air = 0
        is_start = instruction[0] == RESUME and not instruction[1] & 3
        if is_start:
            self._recorder.enter(frame, code)
        else:
            self._recorder.resume(frame, code)
        return self._followed

    def _followed(
        self, frame: FrameType, event: str, argument: object
    ) -> Callable | None:
        if event == "line":
            self._in_air = 0
            self._recorder.line(frame, frame.f_lineno, frame.f_lasti)
        elif event == "exception":
            assert isinstance(argument, tuple)
            exception = argument[1]
            if not isinstance(exception, BaseException):
                # Not made yet: an exception of this type without arguments.
                exception = argument[0]()
            # The end of a loop is told as if it were an exception of the loop's.
            if not isinstance(exception, StopIteration):
                self._in_air = id(frame)
            self._recorder.raising(frame, exception)
        elif event == "return":
            self._returned(frame, argument)
        return self._followed

    def _returned(self, frame: FrameType, value: object) -> None:
        operation = self._bytes[id(frame.f_code)][frame.f_lasti]
        if operation == RETURN_VALUE:
            self._recorder.leave(frame, value, has_value=True)
        elif operation == YIELD_VALUE and self._in_air != id(frame):
            self._recorder.suspend(frame, value)
        else:
            self._recorder.leave(frame, None, has_value=False)


class MonitoringHook:
    """Follows the program by `sys.monitoring`.

    Args:
      recorder: Is told what happens.
      codes: The program's code objects by identity.
    """

    def __init__(self, recorder: Recorder, codes: dict[int, Code]) -> None:
        self._recorder = recorder
        self._codes = codes
        self._thread = threading.get_ident()
        self._tool = -1
        recorder.stop = self.stop

    def start(self) -> None:
        """Begins to follow what is called from now on."""
        monitoring, events = MONITORING, MONITORING.events
        self._tool = next(n for n in (3, 4, 1, 0) if monitoring.get_tool(n) is None)
        monitoring.use_tool_id(self._tool, TOOL_NAME)
        local = {
            events.PY_START: self._started,
            events.PY_RESUME: self._resumed,
            events.LINE: self._line,
            events.PY_RETURN: self._returned,
            events.PY_YIELD: self._yielded,
        }
        everywhere = {
            events.PY_THROW: self._thrown,
            events.RAISE: self._raised,
            events.PY_UNWIND: self._unwound,
        }
        for event, callback in (local | everywhere).items():
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, sum(everywhere))
        for code in self._codes.values():
            monitoring.set_local_events(self._tool, code.code, sum(local))

    def stop(self) -> None:
        """Leaves the program to itself."""
        monitoring = MONITORING
        if self._tool < 0 or monitoring.get_tool(self._tool) != TOOL_NAME:
            return
        monitoring.set_events(self._tool, 0)
        for code in self._codes.values():
            monitoring.set_local_events(self._tool, code.code, 0)
        monitoring.free_tool_id(self._tool)
        self._tool = -1

    def _known(self, code: CodeType) -> Code | None:
        if self._tool < 0 or threading.get_ident() != self._thread:
            return None
        return self._codes.get(id(code))

    def _started(self, code: CodeType, offset: int) -> None:
        if (known := self._known(code)) is not None:
            self._recorder.enter(sys._getframe(1), known)

    def _resumed(self, code: CodeType, offset: int) -> None:
        if (known := self._known(code)) is not None:
            self._recorder.resume(sys._getframe(1), known)

    def _thrown(self, code: CodeType, offset: int, exception: BaseException) -> None:
        if (known := self._known(code)) is not None:
            self._recorder.resume(sys._getframe(1), known)

    def _line(self, code: CodeType, line: int) -> None:
        if self._known(code) is not None:
            frame = sys._getframe(1)
            self._recorder.line(frame, line, frame.f_lasti)

    def _returned(self, code: CodeType, offset: int, value: object) -> None:
        if self._known(code) is not None:
            self._recorder.leave(sys._getframe(1), value, has_value=True)

    def _yielded(self, code: CodeType, offset: int, value: object) -> None:
        if self._known(code) is not None:
            self._recorder.suspend(sys._getframe(1), value)

    def _raised(self, code: CodeType, offset: int, exception: BaseException) -> None:
        if self._known(code) is not None:
            self._recorder.raising(sys._getframe(1), exception)

    def _unwound(self, code: CodeType, offset: int, exception: BaseException) -> None:
        if self._known(code) is not None:
            self._recorder.leave(sys._getframe(1), None, has_value=False)


RESUME = dis.opmap["RESUME"]
RETURN_VALUE = dis.opmap["RETURN_VALUE"]
YIELD_VALUE = dis.opmap["YIELD_VALUE"]


def hook_for(recorder: Recorder, codes: dict[int, Code]) -> TraceHook | MonitoringHook:
    """The better one that this version of Python has."""
    return (MonitoringHook if MONITORING else TraceHook)(recorder, codes)
