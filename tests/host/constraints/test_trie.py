import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.constraints.trie import Trie

TEXTS = st.lists(st.text("ab", min_size=1, max_size=5).map(str.encode), max_size=20)


@given(TEXTS)
def test_every_text_is_found_from_the_root(texts: list[bytes]):
    trie = Trie(texts)
    for text, node in zip(texts, trie.node_of_text.tolist(), strict=True):
        here = np.array([Trie.ROOT])
        for byte in text:
            children = trie.children(here)
            here = children[trie.byte_of_node[children] == byte]
            assert len(here) == 1
        assert here.tolist() == [node]


@given(TEXTS)
def test_there_is_one_node_for_each_beginning(texts: list[bytes]):
    beginnings = {text[:end] for text in texts for end in range(len(text) + 1)}
    assert len(Trie(texts).byte_of_node) == len(beginnings | {b""})


@given(TEXTS)
def test_children_come_parent_by_parent(texts: list[bytes]):
    trie = Trie(texts)
    nodes = np.arange(len(trie.byte_of_node))
    children = trie.children(nodes)
    assert children.tolist() == nodes[1:].tolist()
    assert trie.num_children_of_node.sum() == len(nodes) - 1
