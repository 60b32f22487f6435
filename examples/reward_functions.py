"""Reward functions of one's own, in the conventions of TRL and of verl.

Try them on completions that are written down:

    jaxgrpo score problems.jsonl completions.jsonl \
        --reward examples/reward_functions.py:mentions_the_answer

and learn from them in a run:

    [rewards.brief]
    function = "examples/reward_functions.py:brief"
    weight = 0.1
    gate = "exact"            # only right answers are paid for being brief
"""


def mentions_the_answer(completions, reference, log_extra, **kwargs):
    """TRL's convention: one call for a group, lists by keyword, a list of numbers back.

    `reference` is a column of the problem, repeated for every completion.
    """
    found = [
        answer in text for text, answer in zip(completions, reference, strict=True)
    ]
    log_extra("mentions_it", found)
    return [1.0 if is_there else 0.0 for is_there in found]


def brief(completion_ids, log_metric, **kwargs):
    """Abstains, with None, where there is nothing to judge."""
    lengths = [len(ids) for ids in completion_ids]
    log_metric("longest", max(lengths))
    return [1.0 / length if length else None for length in lengths]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """The convention of verl: a call per completion, a number or a mapping back."""
    answer = solution_str.strip().splitlines()[-1:]
    is_right = answer == [ground_truth]
    return {"score": float(is_right), "last_line": "".join(answer)}
