"""Data sets that users bring: found, converted once, and kept with their tests."""
