import socket
from collections.abc import Iterator

import pytest

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Limits


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    first, second = socket.socketpair()
    ends = Channel(first), Channel(second)
    yield ends
    for end in ends:
        end.close()


def received_by(channel: Channel, sender: Channel, number: int) -> list[object]:
    messages: list[object] = []
    while len(messages) < number:
        sender.flush()
        messages += [message for message, _ in channel.receive()]
    return messages


def test_messages_arrive_whole_and_in_order(channels: tuple[Channel, Channel]):
    sender, receiver = channels
    sent = [{"text": "\ud800\0"}, [], b"x" * 10, None, *range(100)]
    for message in sent:
        sender.send(message)
    assert received_by(receiver, sender, len(sent)) == sent


def test_size_is_that_of_the_pickle(channels: tuple[Channel, Channel]):
    sender, receiver = channels
    sender.send(b"x" * 1000)
    ((_, size),) = receiver.receive()
    assert 1000 <= size < 1100


def test_two_ends_that_both_send_megabytes_do_not_wait_for_each_other(
    channels: tuple[Channel, Channel],
):
    first, second = channels
    first.send(b"1" * 5_000_000)
    second.send(b"2" * 5_000_000)
    assert first.has_unsent and second.has_unsent
    assert received_by(second, first, 1) == [b"1" * 5_000_000]
    assert received_by(first, second, 1) == [b"2" * 5_000_000]
    assert not first.has_unsent and not second.has_unsent


def test_part_of_a_message_is_none(channels: tuple[Channel, Channel]):
    sender, receiver = channels
    sender.send(b"1" * 5_000_000)
    assert receiver.receive() == []


def test_last_words_are_heard(channels: tuple[Channel, Channel]):
    sender, receiver = channels
    sender.send("last words")
    sender.close()
    assert [message for message, _ in receiver.receive()] == ["last words"]
    assert receiver.is_closed


def test_sending_to_nobody_is_noticed(channels: tuple[Channel, Channel]):
    sender, receiver = channels
    receiver.close()
    sender.send("anyone there?")
    assert sender.is_closed


def test_settings_carry_the_limits_of_programs():
    settings = SandboxSettings(cpu_s=1.0, wall_s=2.0, memory_bytes=3, output_bytes=4)
    limits = Limits(cpu_s=1.0, wall_s=2.0, memory_bytes=3, output_bytes=4)
    assert settings.limits == limits
