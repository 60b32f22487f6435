"""The built-in data set of small specifications: write a function that does this."""
