"""What the doctor finds here, and how it says so."""

import pytest
from typer.testing import CliRunner

from jaxgrpo import doctor
from jaxgrpo.cli import app
from jaxgrpo.doctor import Finding, report_lines


def test_doctor_finds_this_machine_fit():
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    for subject in ("python", "jax ", "devices", "sandbox", "memory", "wandb login"):
        assert f" {subject}" in result.output


def test_absent_package_is_missing_and_says_how_to_get_it():
    finding = doctor._package("no-such-package-anywhere")
    assert finding.mark == "missing"
    assert finding.advice == "pip install no-such-package-anywhere"


def test_missing_part_makes_the_exit_code_1(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package-anywhere",))
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 1


def test_advice_stands_below_its_finding():
    findings = [
        Finding(subject="a", mark="ok", value="1"),
        Finding(subject="long", mark="warn", value="2", advice="Do this."),
    ]
    assert list(report_lines(findings)) == [
        "ok      a     1",
        "warn    long  2",
        "              Do this.",
    ]
