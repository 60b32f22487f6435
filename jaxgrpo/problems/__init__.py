"""Data sets of problems, and the stream that training draws from."""
