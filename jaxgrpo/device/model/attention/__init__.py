"""Attention: one function for each shape the package needs, several ways to compute it.

joined     rows of keys in which a completion follows its prompt
xla        all scores in memory; also a decoded token's attention
chunked    XLA in blocks: no scores of a whole row, forward or backward
splash     the fused kernel of TPUs
cudnn      the fused kernel of NVIDIA GPUs
choice     `self_attention` and `completion_attention`, by name of implementation
"""
