"""Compilations are counted by program, and too many are told once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from jaxgrpo.compile_watch import CompileWatch

INPUTS = [jnp.arange(float(size)) for size in (3, 4, 5)]


@pytest.fixture
def halve() -> Callable[[jax.Array], jax.Array]:
    """A function that no other test has compiled."""

    def halve_for_the_watch(x: jax.Array) -> jax.Array:
        return x / 2

    return jax.jit(halve_for_the_watch)


def test_one_shape_is_one_program(halve: Callable) -> None:
    with CompileWatch(expected={}) as watch:
        for x in (INPUTS[0], INPUTS[0] + 1.0):
            halve(x)
        watch.take()
    assert watch.programs["halve_for_the_watch"] == 1


def test_a_span_counts_what_it_compiled(halve: Callable) -> None:
    with CompileWatch(expected={}) as watch:
        halve(INPUTS[0])
        first = watch.take()
        halve(INPUTS[0])
        second = watch.take()
    assert first["perf/compilations"] == 1
    assert first["perf/compile_s"] > 0
    assert second == {"perf/compilations": 0, "perf/compile_s": 0}


def test_what_is_skipped_is_not_of_the_loop(halve: Callable) -> None:
    with CompileWatch(expected={"halve_for_the_watch": 1}) as watch:
        for x in INPUTS[:2]:
            halve(x)
        watch.skip()
        halve(INPUTS[2])
        watch.take()
    assert watch.excess() == []


def test_excess_is_told_once(halve: Callable) -> None:
    with CompileWatch(expected={"halve_for_the_watch": 2}) as watch:
        for x in INPUTS:
            halve(x)
        watch.take()
        lines = watch.excess()
        assert watch.excess() == []
    assert lines == [
        "program halve_for_the_watch was compiled for 3 shapes, expected 2"
    ]


def test_a_closed_watch_hears_nothing(halve: Callable) -> None:
    with CompileWatch(expected={}) as watch:
        pass
    halve(INPUTS[0])
    watch.take()
    assert watch.programs == {}
