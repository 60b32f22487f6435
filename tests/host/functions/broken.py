"""Everything that a user's function can do wrong."""

import math
import os
import subprocess
import sys
import time


def raises(completions, **kwargs):
    return [1 / (len(completion) - len(completion)) for completion in completions]


def too_few(completions, **kwargs):
    return [1.0]


def a_number(completions, **kwargs):
    return 1.0


def a_text(completions, **kwargs):
    return ["1.0" for _ in completions]


def not_finite(completions, **kwargs):
    return [math.inf, math.nan, 1.0][: len(completions)]


def asks_for_more(completions, gold):
    return [1.0 for _ in completions]


def logs_too_little(completions, log_extra, **kwargs):
    log_extra("a", [1])
    return [1.0 for _ in completions]


def hangs(completions, **kwargs):
    time.sleep(1000)


def hangs_with_a_child(completions, **kwargs):
    child = subprocess.Popen(["sleep", "1000"])
    print(child.pid)
    child.wait()


def dies(completions, **kwargs):
    os._exit(3)


def leaves(completions, **kwargs):
    sys.exit("enough")


def talks(completions, **kwargs):
    print("how are you?")
    print("very well", file=sys.stderr)
    os.write(1, b"x" * 200_000)
    return [1.0 for _ in completions]


def by_position(completions, /):
    return [1.0 for _ in completions]


def loaded_modules(completions, log_extra, **kwargs):
    heavy = {"jax", "pydantic", "jaxgrpo.config"} & sys.modules.keys()
    log_extra("modules", [sorted(heavy)] * len(completions))
    log_extra("platform", [os.environ["JAX_PLATFORMS"]] * len(completions))
    return [1.0 for _ in completions]


class Uncalled:
    def __call__(self, completions):
        return completions


number = 3
