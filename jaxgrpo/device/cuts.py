"""How an update's rows are cut into microbatches. Arithmetic only: loads no jax."""


def microbatch_sets(num_prompts: int, num_parts: int, num_shards: int) -> int:
    """Sets that prompts are cut into, where their rows are cut into so many parts.

    The largest divisor of the parts that leaves whole prompts, equally many on each
    shard. What is left of the parts cuts the rows of each prompt of a set.

    Args:
      num_prompts: P of an update.
      num_parts: Microbatches.
      num_shards: Devices along the mesh axes that split rows.

    Example:
      >>> microbatch_sets(8, 4, 1), microbatch_sets(8, 4, 4), microbatch_sets(4, 4, 4)
      (4, 2, 1)
    """
    divisors = (d for d in range(2, num_parts + 1) if num_parts % d == 0)
    return max((d for d in divisors if num_prompts % (d * num_shards) == 0), default=1)


def legal_microbatches(num_prompts: int, group_size: int, num_shards: int) -> list[int]:
    """Numbers of microbatches that leave equal parts, ascending.

    Args:
      num_prompts: P of an update; a multiple of the shards.
      group_size: G.
      num_shards: Devices along the mesh axes that split rows.

    Example:
      >>> legal_microbatches(4, 6, 2)
      [1, 2, 3, 4, 6, 12]
    """
    return [
        parts
        for parts in range(1, num_prompts // num_shards * group_size + 1)
        if not num_prompts * group_size % parts
        and not group_size % (parts / microbatch_sets(num_prompts, parts, num_shards))
    ]
