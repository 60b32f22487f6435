"""One sandbox per level for a whole file of tests."""

import os
from collections.abc import Iterator

import pytest

from jaxgrpo.host.sandbox import Sandbox, SandboxUnavailableError

from .other_user import RemoteSandbox

CORPUS_SETTINGS = ("A-root", "B-root", "A-unprivileged", "B-unprivileged")
"""Level and user of the hostile programs' sandboxes."""
corpus_report: dict[str, str] = {}
"""What became of each of them, for the summary."""


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


@pytest.fixture(scope="module", params=CORPUS_SETTINGS)
def corpus_sandbox(
    request: pytest.FixtureRequest,
) -> Iterator[Sandbox | RemoteSandbox]:
    """A sandbox at each level as root and as an unprivileged user.

    Level B as whoever runs the tests cannot be skipped.
    """
    setting = request.param
    level, user = setting.split("-")
    is_own = (os.geteuid() == 0) == (user == "root")
    try:
        if not is_own and user == "root":
            raise SandboxUnavailableError("the tests do not run as root")
        opened = Sandbox(level=level) if is_own else RemoteSandbox(level)
    except SandboxUnavailableError as error:
        if is_own and level == "B":
            raise
        corpus_report[setting] = f"skipped: {error}"
        pytest.skip(f"hostile programs at {setting}: {error}")
    corpus_report[setting] = "run"
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def plain_sandbox() -> Iterator[Sandbox]:
    """A sandbox that every test machine can have: level B."""
    with Sandbox(level="B") as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the levels and users at which the hostile programs were (not) run."""
    if not corpus_report:
        return
    num_run = sum(outcome == "run" for outcome in corpus_report.values())
    terminalreporter.section("sandbox")
    terminalreporter.line(
        f"hostile programs at {num_run} of {len(CORPUS_SETTINGS)} levels and users"
    )
    for setting, outcome in corpus_report.items():
        terminalreporter.line(f"  {setting}: {outcome}")
