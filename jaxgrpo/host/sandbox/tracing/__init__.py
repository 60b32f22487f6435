"""What a traced program runs under: standard library only, loaded by the zygote.

`statements` numbers a program's statements, `hooks` hears from the interpreter which of
them runs, `recorder` makes boundaries of that, `canonical` writes values down, and
`region` holds it all where the owner can read it.

The program does what it does untraced, with three exceptions. Line numbers that it asks
for itself are statement numbers, also in the traceback on its standard error. On Python
3.11 a dictionary that it has got from `locals()` is brought up to date at every
boundary. And a call that would have been the last before the recursion limit may be the
first beyond it.

Cost: some microseconds of processor time a boundary and a few milliseconds to prepare a
program (`benchmarks/sandbox.py`; figures in docs/scoring.md). It counts towards the
program's limit. After the largest number of boundaries (`Limits`)
the program runs at its own speed.

All of it lies in the program's own process. A trace is data about a program that may
have been forged; no reward may rest on it alone.
"""
