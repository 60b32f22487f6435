"""The suite at both ends of what is supported.

    nox                     everything
    nox -s oldest           Python 3.11 with the oldest jax
    nox -s newest-3.13      Python 3.13 with the newest jax
    nox -s lint

Arguments after `--` go to pytest. Interpreters are looked up as python3.11 and so on.
"""

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

OLDEST_JAX = "jax==0.10.*"


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    session.install("-e", ".[test]", OLDEST_JAX)
    _run_tests(session)


@nox.session(python=["3.12", "3.13"])
def newest(session: nox.Session) -> None:
    session.install("--upgrade", "-e", ".[test]", "jax")
    _run_tests(session)


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    session.install("-e", ".[test,dev]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("pyright")


def _run_tests(session: nox.Session) -> None:
    code = (
        "import sys, jax, flax; print(sys.version, jax.__version__, flax.__version__)"
    )
    session.run("python", "-c", code)
    session.run("pytest", *session.posargs)
