"""One sandbox for all tests of the judge."""

from collections.abc import Iterator

import pytest

from jaxgrpo.host.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox at the best level that the machine has."""
    with Sandbox() as opened:
        yield opened
