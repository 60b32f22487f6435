"""Which tokens of a completion get the credit or the blame: judged by what it did."""
