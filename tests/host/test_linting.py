import pytest

from jaxgrpo.host import linting
from jaxgrpo.host.linting import Linter, LinterMissingError, ruff_path

UNUSED = "import os\n"
UNDEFINED = "print(nobody)\n"
CLEAN = "print(1)\n"
TOO_DEEP = f"x = {'+'.join(['1'] * 50_000)}\n"
"""Ruff overflows its stack on it."""


@pytest.fixture(scope="module")
def linter() -> Linter:
    return Linter(("E4", "F", "W"))


def test_each_program_gets_its_own_violations_in_order(linter: Linter):
    both = f"{UNDEFINED}{UNUSED}"
    sources = [UNUSED, CLEAN, both, UNUSED]
    expected = [("F401",), (), ("F821", "E402", "F401"), ("F401",)]
    assert linter.violations(sources) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import os  # noqa\n",
        "# ruff: noqa\nimport os\n",
        "# flake8: noqa: F401\nimport os\n",
        "# ruff: disable[F401]\nimport os\n",
    ],
)
def test_program_cannot_excuse_itself(linter: Linter, source: str):
    assert linter.violations([source]) == [("F401",)]


def test_missing_newline_at_the_end_is_not_the_programs(linter: Linter):
    assert linter.violations(["x = 1"]) == [()]


def test_program_that_ruff_fails_on_takes_no_other_down(linter: Linter):
    found = linter.violations([UNUSED, TOO_DEEP, CLEAN])
    assert found == [("F401",), None, ()]


def test_what_is_no_python_is_a_syntax_error(linter: Linter):
    (codes,) = linter.violations(["def f(:\n"])
    assert codes is not None and set(codes) == {"invalid-syntax"}


def test_known_program_is_not_run_again(monkeypatch: pytest.MonkeyPatch):
    linter = Linter(("F",))
    expected = linter.violations([UNUSED, CLEAN])
    monkeypatch.setattr(linting, "ruff_path", lambda: "/nowhere")
    assert linter.violations([CLEAN, UNUSED]) == expected[::-1]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linting, "MAX_KNOWN", 2)
    linter = Linter(("F",))
    sources = [f"x = {n}\n" for n in range(5)]
    assert linter.violations(sources) == [()] * 5
    assert list(linter._known) == sources[-2:]


def test_configuration_around_it_plays_no_part(tmp_path, monkeypatch):
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F401"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("RUFF_OUTPUT_FORMAT", "concise")
    assert Linter(("F",)).violations([UNUSED]) == [("F401",)]


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match="ruff refuses the rules QQ9: .*QQ9"):
        Linter(("QQ9",)).violations([CLEAN])


def test_missing_program_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    ruff_path.cache_clear()
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(LinterMissingError, match=r"pip install 'jaxgrpo\[lint\]'"):
        Linter(("F",)).violations([CLEAN])
