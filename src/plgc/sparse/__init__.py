"""The graph as encoders compute with it: Â as a sparse matrix, its products on CPU and GPU, and scaled features.

It may know :mod:`plgc.runtime` and :mod:`plgc.graphs`, and nothing of the method.
"""
