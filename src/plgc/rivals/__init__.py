"""The other methods of the field, the controls, and the one table of all methods by name.

A rival brings its loop; opening the graph, checkpoints and the artifact are shared. It may know everything that our own
method is made of, and what is built on it downstream.
"""
