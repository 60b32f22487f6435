"""The Qwen3 decoder: sizes, attention, forward passes."""
