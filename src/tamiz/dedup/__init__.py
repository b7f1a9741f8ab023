"""Which documents are copies of an earlier one: signatures, band keys, and the first occurrence that wins."""
