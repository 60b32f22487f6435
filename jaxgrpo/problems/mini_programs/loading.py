"""The data set `mini_programs` as sequences of problems."""

from functools import partial

from jaxgrpo.problems.generated_loading import load_generated
from jaxgrpo.problems.mini_programs.builder import MiniPrograms
from jaxgrpo.problems.mini_programs.problem import mini_problem

load = partial(load_generated, MiniPrograms, mini_problem)
"""Returns a split; its arguments are those of `load_generated` from `split` on."""
