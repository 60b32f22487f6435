"""Stored programs of a TPU compiler, and a small run to plan."""

from pathlib import Path

import pytest

from jaxgrpo.plan.hlo import Module, parse_module

collect_ignore = ["programs/make_programs.py"]

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def tpu_update() -> Module:
    """Six layers of 1024 x 1024, 256 rows over 4 devices, weights split likewise."""
    return parse_module((PROGRAMS / "update_v5e_2x2.hlo").read_text())


@pytest.fixture(scope="session")
def tpu_decode() -> Module:
    """At most 64 turns over six layers of 512 x 512, 64 rows over 4 devices."""
    return parse_module((PROGRAMS / "decode_v5e_2x2.hlo").read_text())
