import pytest

from jaxgrpo.host.sandbox.protocol import (
    KILL,
    KILLERS,
    MAX_LIMIT,
    MODES,
    Reply,
    Request,
    unpacked_reply,
    unpacked_request,
)


def request(**changes) -> Request:
    fields = {
        "mode": "main",
        "watches_clock": True,
        "cpu_s": 0.5,
        "wall_s": 3.25,
        "cpu_limit_s": 2,
        "memory_bytes": 1 << 29,
        "file_bytes": 1001,
        "value_bytes": 1000,
        "trace_bytes": 1 << 20,
        "trace_events": 2000,
    }
    return Request(**(fields | changes))


@pytest.mark.parametrize("mode", MODES[1:])
def test_request_arrives_as_it_was_sent(mode: str):
    sent = request(mode=mode, watches_clock=mode == "calls")
    assert unpacked_request(sent.packed()) == sent


def test_limit_beyond_the_kernels_is_the_largest_that_it_takes():
    sent = request(memory_bytes=10**30, cpu_limit_s=10**30)
    arrived = unpacked_request(sent.packed())
    assert arrived.memory_bytes == arrived.cpu_limit_s == MAX_LIMIT


def test_no_request_begins_like_the_message_that_kills():
    assert not any(request(mode=mode).packed().startswith(KILL) for mode in MODES[1:])


@pytest.mark.parametrize("killer", KILLERS)
def test_reply_arrives_as_it_was_sent(killer: str):
    sent = Reply(killer, True, 9, 0.25, 1.5, 12345)
    assert unpacked_reply(sent.packed()) == sent


def test_error_arrives_with_its_text():
    sent = Reply(error="fork: Cannot allocate memory ü")
    assert unpacked_reply(sent.packed()) == sent
