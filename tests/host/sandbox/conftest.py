"""One sandbox per level for a whole file of tests."""

from collections.abc import Iterator

import pytest

from jaxgrpo.host.sandbox import Sandbox, SandboxUnavailableError


@pytest.fixture(scope="module", params=["A", "B"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox at the best level, and one without namespaces."""
    try:
        opened = Sandbox(level=request.param)
    except SandboxUnavailableError as error:
        if request.param == "B":
            raise
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture(scope="module")
def plain_sandbox() -> Iterator[Sandbox]:
    """A sandbox that every test machine can have: level B."""
    with Sandbox(level="B") as opened:
        yield opened
