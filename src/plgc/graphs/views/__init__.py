"""Parts of a graph and of its labels: splits, training edges or nodes, parts for owners, noisy and shifted labels.

A function here takes a loaded graph and returns another, or the masks, nodes or pairs of one. Whatever is random has a
seed. It may know everything in :mod:`plgc.graphs`, and nothing of methods or models.
"""
