"""Names of devices."""

import pytest

from jaxgrpo.plan.hardware import GPUS, TPUS, known_chip, parse_topology


@pytest.mark.parametrize(
    ("name", "chip", "num_devices"),
    [
        ("v5e:4x4", "v5e", 16),
        ("v5p:2x2x2", "v5p", 8),
        ("v5p:2x2", "v5p", 4),
        ("v6e:16x16", "v6e", 256),
        ("v4:2x2x1", "v4", 4),
        ("tpu7x:2x2x1", "tpu7x", 8),
        ("gpu:h200", "h200", 1),
        ("gpu:a100x8", "a100", 8),
    ],
)
def test_a_name_stands_for_devices(name, chip, num_devices):
    topology = parse_topology(name)
    assert topology.chip.name == chip
    assert topology.num_devices == num_devices


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v9:2x2", "Write GENERATION:SHAPE with one of v4, v5e"),
        ("v5e", "v5e:4x4"),
        ("v5e:", "v5e:4x4"),
        ("v5e:16", "v5e:4x4"),
        ("v5e:0x4", "v5e:4x4"),
        ("v5e:2x2x2", "v5e slices have 2"),
        ("gpu:h900", "with one of a100, h100"),
        ("gpu:h200xx", "with one of a100, h100"),
        ("", "GENERATION:SHAPE"),
    ],
)
def test_other_names_are_refused_in_one_line(name, expected):
    with pytest.raises(ValueError) as caught:
        parse_topology(name)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_rate_is_known():
    for chip in (*TPUS.values(), *GPUS.values()):
        assert chip.memory_bytes > 10 * 2**30
        # A product of whole matrices is bound by compute, a vector's by memory.
        assert 100 < chip.flops_per_s / chip.memory_bytes_per_s < 1000
        assert chip.link_bytes_per_s < chip.memory_bytes_per_s


def test_kinds_of_present_devices_are_known():
    assert known_chip("NVIDIA A100-SXM4-80GB") == GPUS["a100"]
    assert known_chip("NVIDIA H100 80GB HBM3") == GPUS["h100"]
    assert known_chip("TPU v6 lite") == TPUS["v6e"]
    assert known_chip("cpu") is None
