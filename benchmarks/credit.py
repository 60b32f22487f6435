"""What finding blame costs beside judging, for groups as a sampler draws them.

    python benchmarks/credit.py [ROUNDS]

A group is a problem of `mini_programs` with eight completions: its reference, the
careless program of its base model, and programs with one fault. Every round scores the
same groups in this process with and without blame, one right after the other, and
ratios are medians of the rounds' own ratios, so that a busy machine slows down both.
"""

import ast
import copy
import random
import statistics
import sys
import time

import numpy as np

from jaxgrpo.host.credit.blame import blaming
from jaxgrpo.host.credit.settings import LOCALIZATIONS, BlameSettings
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.messages import Job, SandboxSettings
from jaxgrpo.host.records import Completion, Limits, Problem, Test
from jaxgrpo.host.worker import LazySandbox, scores_of_job
from jaxgrpo.problems.mini_programs.generator import drafts

GROUP_SIZE = 8
NUM_GROUPS = 12
JUDGING = JudgeSettings(extraction="raw", limits=Limits(cpu_s=2.0))


def problem_of(draft):
    """A draft as a problem, with tests by what its reference does."""
    names = {}
    exec(draft.reference, names)
    tests = tuple(
        Test(
            kind="call", function="f", arguments=arguments,
            expected=names["f"](*copy.deepcopy(arguments)),
        )
        for arguments in draft.inputs
    )  # fmt: skip
    return Problem(
        id=draft.reference, kind="call", prompt="", reference=draft.reference,
        tests=tests,
    )  # fmt: skip


def with_fault(source, generator):
    """A program with one operator or constant changed."""
    tree = ast.parse(source)
    places = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and type(node.value) is int)
        or isinstance(node, ast.AugAssign | ast.BinOp)
    ]
    node = generator.choice(places) if places else None
    if isinstance(node, ast.Constant):
        node.value += generator.choice([-1, 1])
    elif node is not None:
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    return ast.unparse(tree)


def completion_of(text):
    ids = np.arange(len(text), dtype=np.int32)
    return Completion(
        problem_id="p", token_ids=ids, text=text,
        token_offsets=np.stack([ids, ids + 1], axis=1), finish_reason="eos",
        sampler_logprobs=np.zeros(len(ids), np.float32),
    )  # fmt: skip


def jobs():
    generator = random.Random(0)
    for number, draft in enumerate(drafts(5, 0, NUM_GROUPS)):
        faults = [with_fault(draft.reference, generator) for _ in range(GROUP_SIZE - 2)]
        texts = [draft.reference, draft.careless, *faults]
        completions = tuple(map(completion_of, texts))
        yield Job(
            id=number, problem=problem_of(draft), completions=completions,
            verdicts=(None,) * GROUP_SIZE,
        )  # fmt: skip


def scored(batch, sandbox, how):
    """Wall-clock seconds of scoring, and the scores."""
    started_s = time.perf_counter()
    scores = [
        score
        for job in batch
        for score in scores_of_job(job, lambda judged: {}, sandbox, JUDGING, how)
    ]
    return time.perf_counter() - started_s, scores


def main():
    num_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    batch = list(jobs())
    ways = {"judging alone": None} | {
        name: blaming(BlameSettings(localization=name)) for name in LOCALIZATIONS
    }
    seconds = {name: [] for name in ways}
    sandbox = LazySandbox(SandboxSettings(packages=("numpy",)))
    try:
        scored(batch[:1], sandbox, ways["earliest"])  # builds the sandbox
        for _ in range(num_rounds):
            for name, how in ways.items():
                spent_s, scores = scored(batch, sandbox, how)
                seconds[name].append(spent_s)
                if name == "earliest":
                    blames = [score.blame for score in scores]
    finally:
        sandbox.close()
    plain = seconds["judging alone"]
    num_rows = NUM_GROUPS * GROUP_SIZE
    print(f"{NUM_GROUPS} groups of {GROUP_SIZE}, {num_rounds} rounds, medians")
    for name, spent in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(spent, plain, strict=True))
        row_ms = 1e3 * statistics.median(spent) / num_rows
        print(f"{name:14}  {row_ms:6.2f} ms a completion  x {ratio:.2f}")
    modes = [blame.mode for blame in blames]
    print({mode: modes.count(mode) for mode in sorted(set(modes))})


if __name__ == "__main__":
    main()
