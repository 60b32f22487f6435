"""A vocabulary's texts as a tree, so that what they begin with is walked once."""

from collections.abc import Sequence

import numpy as np


class Trie:
    """Byte strings by their prefixes: a node for each, level by level.

    The children of a node are neighbours, and all children of neighbours too.

    Args:
      texts: Each of at least one byte; texts may repeat.
    """

    ROOT = 0

    def __init__(self, texts: Sequence[bytes]):
        assert all(texts)
        order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
        data = np.frombuffer(b"".join(texts), np.uint8)
        lengths = np.array([len(text) for text in texts], np.int64)
        firsts = np.cumsum(lengths) - lengths
        self.node_of_text = np.zeros(len(texts), np.int64)
        self.byte_of_node = np.zeros(1, np.uint8)
        parents = [np.array([-1])]
        # Sorted texts that begin alike are neighbours: one node where that changes.
        level_of = np.zeros(len(texts), np.int64)
        depth = 0
        while (is_longer := lengths[order] > depth).any():
            order, level_of = order[is_longer], level_of[is_longer]
            here = data[firsts[order] + depth]
            is_new = np.ones(len(order), bool)
            is_new[1:] = (here[1:] != here[:-1]) | (level_of[1:] != level_of[:-1])
            parents.append(level_of[is_new])
            level_of = len(self.byte_of_node) - 1 + np.cumsum(is_new)
            self.byte_of_node = np.append(self.byte_of_node, here[is_new])
            depth += 1
            is_over = lengths[order] == depth
            self.node_of_text[order[is_over]] = level_of[is_over]
        parent_of_node = np.concatenate(parents)
        size = len(parent_of_node)
        self.num_children_of_node = np.bincount(parent_of_node[1:], minlength=size)
        ends = 1 + np.cumsum(self.num_children_of_node)
        self._first_child_of_node = ends - self.num_children_of_node

    def children(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the children of some nodes, parent by parent."""
        counts = self.num_children_of_node[nodes]
        skipped = self._first_child_of_node[nodes] - (np.cumsum(counts) - counts)
        return np.repeat(skipped, counts) + np.arange(counts.sum())
