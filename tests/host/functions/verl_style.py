"""Reward functions as verl's documentation has its readers write them."""

import asyncio


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if data_source != "openai/gsm8k":
        raise NotImplementedError(data_source)
    return solution_str.split("####")[-1].strip() == ground_truth


def with_details(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    assert extra_info is not None
    answer = solution_str.split("####")[-1].strip()
    is_right = answer == ground_truth
    score = 1.0 if is_right else 0.1 * ("####" in solution_str)
    return {"score": score, "acc": is_right, "pred": answer, "row": extra_info["index"]}


async def asynchronous(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0.01)
    return len(solution_str)


def hangs_on_six(data_source, solution_str, ground_truth, extra_info=None):
    while "#### 6" in solution_str:
        pass
    return 1
