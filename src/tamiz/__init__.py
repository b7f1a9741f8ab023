"""tamiz: a sieve from the public web to training tokens."""

__version__ = "0.1.0"
