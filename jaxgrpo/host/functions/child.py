"""The process of a user's function: calls in, what they gave out.

Started by a scoring worker as `python -m jaxgrpo.host.functions.child DESCRIPTOR`. It
never imports jax by itself, and ends with the worker.
"""

import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.functions.calling import Caller
from jaxgrpo.host.functions.loading import NoFunctionError, loaded_function
from jaxgrpo.host.functions.messages import Calls, Load, Loaded, Refused, Returned

START_S = 60.0
"""Seconds that the user's file may take to load."""
_ORPHAN_CHECK_S = 5.0
_ORPHAN_GRACE_S = 2.0


def serve(channel: Channel) -> None:
    """Loads the function and calls it until the other end of the channel is gone.

    Args:
      channel: Carries what to load first, then calls.
    """
    messages: deque[Load | Calls] = deque()
    parent_pid = os.getppid()
    caller: Caller | None = None
    limit_s = 0.0

    def send(message: Loaded | Refused | Returned) -> None:
        channel.send(message)
        while channel.has_unsent and not channel.is_closed:
            channel.wait(_ORPHAN_CHECK_S)
            channel.flush()

    while not channel.is_closed and os.getppid() == parent_pid:
        if not messages:
            channel.wait(_ORPHAN_CHECK_S)
            messages.extend(message for message, _ in channel.receive())
            continue
        message = messages.popleft()
        # The worker ends a process that is late. If there is no worker any more, the
        # alarm does.
        if isinstance(message, Load):
            settings = message.settings
            signal.setitimer(signal.ITIMER_REAL, START_S + _ORPHAN_GRACE_S)
            try:
                caller = Caller(loaded_function(settings), settings.style)
            except NoFunctionError as error:
                send(Refused(reason=str(error)))
                return
            limit_s = settings.timeout_s + _ORPHAN_GRACE_S
            send(Loaded(is_async=caller.is_async, at_s=time.monotonic()))
        else:
            assert caller is not None, "what to load comes first"
            for part in [message] if caller.is_async else _one_by_one(message):
                signal.setitimer(signal.ITIMER_REAL, limit_s)
                caller.make(part, send)
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _one_by_one(calls: Calls) -> Iterator[Calls]:
    return (replace(calls, calls=(call,)) for call in calls.calls)


def main() -> None:
    """Runs the process on the inherited descriptor that the first argument names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(
            f"the process of a function got the arguments {sys.argv[1:]}, not one "
            "descriptor. It is started by jaxgrpo.host.functions.process."
        )
    descriptor = int(sys.argv[1])
    # What the function starts must not hold the other end open.
    os.set_inheritable(descriptor, False)
    del sys.argv[1:]
    channel = Channel(socket.socket(fileno=descriptor))
    serve(channel)
    channel.close()


if __name__ == "__main__":
    main()
