"""Errors of the command line: one line and an exit code each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

EXIT_STOPPED = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


@contextmanager
def one_line_errors(after_interrupt: str) -> Iterator[None]:
    """Turns errors that are meant for the user into one line and an exit code.

    By the rules of the house a ValueError raised in jaxgrpo's own code speaks to the
    user, and so does a RuntimeError that ends a run. Those that come out of a library
    are defects, and keep their traceback.
    """
    try:
        yield
    except typer.Exit:  # which is a RuntimeError
        raise
    except KeyboardInterrupt:
        typer.echo(f"jaxgrpo: interrupted. {after_interrupt}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except OSError as error:
        if error.filename is None or os.environ.get("JAXGRPO_TRACEBACK"):
            raise
        typer.echo(
            f"jaxgrpo: {error.filename}: {error.strerror}. Choose another place, or "
            "mend its permissions.",
            err=True,
        )
        raise typer.Exit(EXIT_USER_ERROR) from None
    except (ValueError, RuntimeError) as error:
        if not _was_raised_here(error) or os.environ.get("JAXGRPO_TRACEBACK"):
            raise
        typer.echo(f"jaxgrpo: {error}", err=True)
        is_input = isinstance(error, ValueError)
        raise typer.Exit(EXIT_USER_ERROR if is_input else EXIT_STOPPED) from None


def _was_raised_here(error: BaseException) -> bool:
    traceback = error.__traceback__
    assert traceback is not None, "a caught exception has a traceback"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals.get("__name__", "").startswith("jaxgrpo.")
