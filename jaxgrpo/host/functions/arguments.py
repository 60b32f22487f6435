"""What the user's function is told of a group, in either convention."""

from collections.abc import Mapping, Sequence

from jaxgrpo.host.functions.messages import Call
from jaxgrpo.host.functions.settings import FunctionSettings
from jaxgrpo.host.records import Completion, Problem

RESERVED = (
    "prompts",
    "completions",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
)
"""Arguments of the `trl` convention that no column may be called like."""


def calls_of(
    problem: Problem, completions: Sequence[Completion], settings: FunctionSettings
) -> tuple[Call, ...]:
    """Returns the calls that score some completions of a problem.

    Args:
      problem: Its columns become arguments.
      completions: In the order in which values are wanted.
      settings: The convention, and whether texts are messages.

    Raises:
      ValueError: A column has the name of another argument.
    """
    if settings.style == "verl":
        return tuple(
            Call(id=number, num_rows=1, arguments=_verl_arguments(problem, completion))
            for number, completion in enumerate(completions)
        )
    if not completions:
        return ()
    arguments = _trl_arguments(problem, completions, settings.conversational)
    return (Call(id=0, num_rows=len(completions), arguments=arguments),)


def _trl_arguments(
    problem: Problem, completions: Sequence[Completion], conversational: bool
) -> dict[str, object]:
    """Lists, one entry per completion."""
    clash = [name for name in problem.columns if name in RESERVED]
    if clash:
        raise ValueError(
            f"column {clash[0]!r} of problem {problem.id!r} has the name of an argument"
            f" that is always given. Rename it."
        )
    prompt: object = problem.prompt
    texts: list[object] = [completion.text for completion in completions]
    if conversational:
        prompt = [{"role": "user", "content": prompt}]
        texts = [[{"role": "assistant", "content": text}] for text in texts]
    arguments: dict[str, object] = {
        name: [value] * len(texts) for name, value in columns_of(problem).items()
    }
    arguments["prompts"] = [prompt] * len(texts)
    arguments["completions"] = texts
    arguments["completion_ids"] = [c.token_ids.tolist() for c in completions]
    return arguments


def columns_of(problem: Problem) -> dict[str, object]:
    """Returns the columns of a problem: its data set's, and those all problems have.

    Args:
      problem: A column of its own hides a common one.
    """
    common = {
        "problem_id": problem.id,
        "kind": problem.kind,
        "reference": problem.reference,
        "tags": dict(problem.tags),
    }
    return common | problem.columns


def _verl_arguments(problem: Problem, completion: Completion) -> dict[str, object]:
    """As verl's reward manager takes them from a row of its Parquet files.

    Problems that do not come from such files have their reference for a ground truth,
    and the tag `dataset` for a source.
    """
    columns = problem.columns
    model = columns.get("reward_model")
    truth = columns.get("ground_truth", problem.reference)
    if isinstance(model, Mapping) and "ground_truth" in model:
        truth = model["ground_truth"]
    extra = columns.get("extra_info")
    return {
        "data_source": columns.get("data_source", problem.tags.get("dataset", "")),
        "solution_str": completion.text,
        "ground_truth": truth,
        "extra_info": {
            **(extra if isinstance(extra, Mapping) else {}),
            "num_turns": None,
            "rollout_reward_scores": {},
        },
    }
