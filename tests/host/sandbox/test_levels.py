import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.host.records import Call, Limits, Program
from jaxgrpo.host.sandbox import (
    Sandbox,
    SandboxLevel,
    SandboxUnavailableError,
    probe,
)
from jaxgrpo.host.sandbox.confinement import python_folders, site_folders
from jaxgrpo.host.sandbox.landlock import covering_paths

REPOSITORY = Path(__file__).parents[3]

WITHOUT_CALLS = """
import sys
sys.path.insert(0, "")
from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox import Sandbox, SandboxUnavailableError, probe
from tests.host.sandbox.restricted import deny_calls

deny_calls(sys.argv[1:])
"""
"""Runs the rest of the script where some system calls fail, as in a container."""


def run_without(calls: list[str], script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CALLS + script, *calls],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_best_level_is_taken(sandbox: Sandbox):
    with Sandbox() as best:
        assert best.level.is_at_least(sandbox.level)


def test_level_b_is_taken_where_namespaces_are_forbidden():
    script = (
        "with Sandbox() as sandbox:\n"
        "    print(sandbox.level, sandbox.run(Program(source='print(1)')).stdout)"
    )
    assert run_without(["unshare"], script) == "B 1\n\n"


def test_probe_tells_what_is_missing_and_how_to_get_it():
    script = "report = probe()\nprint(report.level, report.missing, report.remedies)"
    printed = run_without(["unshare"], script)
    assert printed.startswith("B ")
    assert "unshare: Operation not permitted" in printed
    assert "user.max_user_namespaces" in printed


def test_refusal_below_the_minimum_names_what_is_missing():
    script = """
try:
    Sandbox()
except SandboxUnavailableError as error:
    print(error)
"""
    printed = run_without(["unshare", "landlock_create_ruleset"], script)
    assert "level A: unshare" in printed
    assert "level B: landlock_create_ruleset" in printed
    assert "use Linux 5.13 or newer with Landlock" in printed


def test_filters_that_are_forbidden_leave_level_d_alone():
    script = """
try:
    Sandbox(minimum='C')
except SandboxUnavailableError as error:
    print(error)
print(Sandbox(minimum='D', allow_unsafe=True).level)
"""
    printed = run_without(["seccomp"], script)
    assert "level C: seccomp: Operation not permitted" in printed
    assert printed.endswith("\nD\n")


def test_level_c_runs_where_landlock_is_missing():
    script = (
        "with Sandbox(minimum='C') as sandbox:\n"
        '    source = \'open("/tmp/jaxgrpo-attack", "w")\'\n'
        "    e = sandbox.run(Program(source=source))\n"
        "    print(sandbox.level, e.exception.type_name)"
    )
    printed = run_without(["unshare", "landlock_create_ruleset"], script)
    assert printed == "C PermissionError\n"


def test_level_below_the_minimum_is_refused():
    with pytest.raises(
        SandboxUnavailableError, match="level C is below the minimum, B"
    ):
        Sandbox(level="C")


def test_level_d_needs_consent():
    with pytest.raises(SandboxUnavailableError, match="allow_unsafe=True"):
        Sandbox(level="D", minimum="D")


def test_unknown_level_is_refused():
    with pytest.raises(ValueError, match="sandbox level 'E'. Use auto, A, B, C or D"):
        Sandbox(level="E")


def test_unknown_minimum_is_refused():
    with pytest.raises(ValueError, match="sandbox minimum 'auto'. Use A, B, C or D"):
        Sandbox(minimum="auto")


def test_package_that_is_not_installed_is_refused():
    with pytest.raises(ValueError, match="'no_such_package' is not installed"):
        Sandbox(packages=("no_such_package",))


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("print(input())", "OK"),
        ("x =", "CE"),
        ("1 / 0", "RE"),
        ("while True: print('a' * 1000)", "OLE"),
        ("x = bytearray(1 << 40)", "MLE"),
        ("import time\ntime.sleep(60)", "TLE"),
        ("import os\nos.abort()", "RE"),
    ],
)
def test_level_d_gives_the_same_verdicts(source: str, status: str):
    with Sandbox(level="D", minimum="D", allow_unsafe=True) as sandbox:
        limits = Limits(cpu_s=1.0, wall_s=1.0)
        execution = sandbox.run(Program(source=source, stdin="1", limits=limits))
    assert execution.status == status


def test_level_d_repeats_random_numbers():
    with Sandbox(level="D", minimum="D", allow_unsafe=True) as sandbox:
        program = Program(source="import random\nprint(random.random())")
        assert len({sandbox.run(program).stdout for _ in range(2)}) == 1


def test_level_d_makes_calls():
    with Sandbox(level="D", minimum="D", allow_unsafe=True) as sandbox:
        program = Program(
            source="def f(x): return x",
            mode="calls",
            calls=(Call(function="f", arguments=((1, "a"),)),),
        )
        assert sandbox.run(program).results[0].value == (1, "a")


def test_levels_are_ordered():
    assert [level for level in SandboxLevel if level.is_at_least(SandboxLevel.B)] == [
        SandboxLevel.A,
        SandboxLevel.B,
    ]


def test_probe_attains_at_least_level_b():
    report = probe()
    assert report.level is not None
    assert report.level.is_at_least(SandboxLevel.B)
    assert len(report.missing) == len(report.remedies)
    assert report.details[0].startswith("Landlock ABI ")
    assert "exact processor time" in report.details


def test_covering_paths_leave_out_what_is_excluded(tmp_path: Path):
    for name in ("a/x", "a/y/hidden", "b"):
        (tmp_path / name).mkdir(parents=True)
    excluded = (str(tmp_path / "a/y/hidden"),)
    covered = covering_paths(str(tmp_path), excluded)
    assert covered == [str(tmp_path / "a/x"), str(tmp_path / "b")]


def test_covering_paths_of_a_plain_folder_is_the_folder(tmp_path: Path):
    assert covering_paths(str(tmp_path), ("/elsewhere",)) == [str(tmp_path)]


def test_no_folder_of_installed_packages_is_readable():
    folders = python_folders()
    excluded = site_folders(folders)
    covered = [path for folder in folders for path in covering_paths(folder, excluded)]
    assert not [path for path in covered if "site-packages" in path.split("/")]
