"""Which tests of a problem are kept where there are too many, or too large ones."""

from collections.abc import Sequence


def kept_tests(sizes: Sequence[int], max_tests: int, max_bytes: int) -> list[int]:
    """Returns the positions of the tests to keep, in order.

    The rule, which depends on nothing but the sizes:

    1. A test larger than `max_bytes` is left out.
    2. Of more than `max_tests` others, as many are taken at even distances, the first
       and the last among them: sets often begin with the small examples of the
       statement and end with the large cases.
    3. While these are larger than `max_bytes` together, the largest is left out, of
       equal ones the last.

    Args:
      sizes: Bytes of each test.
      max_tests: Largest number; 0 for no limit.
      max_bytes: Largest sum of sizes; 0 for no limit.

    Example:
      >>> kept_tests([1] * 10, max_tests=4, max_bytes=0)
      [0, 3, 6, 9]
      >>> kept_tests([5, 90, 20, 80, 20], max_tests=0, max_bytes=85)
      [0, 2, 4]
    """
    kept = [i for i, size in enumerate(sizes) if not max_bytes or size <= max_bytes]
    if max_tests and len(kept) > max_tests:
        kept = [kept[place] for place in _even_places(len(kept), max_tests)]
    if not max_bytes:
        return kept
    total = sum(sizes[i] for i in kept)
    by_size = sorted(kept, key=lambda i: (sizes[i], i))
    while total > max_bytes:
        total -= sizes[by_size.pop()]
    return sorted(by_size)


def _even_places(number: int, wanted: int) -> list[int]:
    if wanted == 1:
        return [0]
    last = number - 1
    return [i * last // (wanted - 1) for i in range(wanted)]
