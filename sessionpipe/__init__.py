"""sessionpipe: what your coding agents are doing, as a small private stream of events."""

__version__ = "0.1.0"
