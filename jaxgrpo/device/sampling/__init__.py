"""Sampling of completions: random keys, prefill and the decode loop."""
