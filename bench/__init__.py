"""Benchmarks: ratios within one run, against the least that the same rows can cost."""
