"""Benchmarks: ``python -m tests.benchmarks [NAME…]`` prints ``name value unit budget ok|OVER``.

Where a machine's speed matters the figure is a ratio taken in one run, its two
sides measured alternately. No timing is an assertion of the test suite; these are to be read.
"""
