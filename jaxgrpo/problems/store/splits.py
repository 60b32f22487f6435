"""Which split a problem belongs to, where its data set does not say."""

from collections.abc import Mapping

from jaxgrpo.host.prompts import stable_hash

SPLITS = ("train", "validation", "test")


def split_of(problem_id: str, published: str, shares: Mapping[str, float]) -> str:
    """Returns the split of a problem: the published one, or one drawn by its id.

    Problems of the training split, and those without a split, are dealt out to the
    splits that the data set lacks. Which one a problem gets depends on its id alone,
    not on the other problems, so that it stays there when the data set grows.

    Args:
      problem_id: Stable.
      published: Name of a split; empty for none.
      shares: Of the problems of `train`, for each split that is missing; their sum is
        at most 1.

    Example:
      >>> split_of("a", "validation", {"test": 1.0})
      'validation'
      >>> [split_of(str(i), "", {"test": 0.2, "validation": 0.05}) for i in range(3)]
      ['train', 'test', 'train']
    """
    if published not in ("", "train"):
        return published
    place = (stable_hash(problem_id)[0] + 0.5) / 2**32
    for name, share in shares.items():
        if place < share:
            return name
        place -= share
    return "train"
