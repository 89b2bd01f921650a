"""From a condensed graph to answers: the lower half of the paper's Figure 2.

A backbone is rebuilt from one or more files, frozen, and given a light head that learns from clean labels. The package
may know the method, whose encoders it rebuilds, and nothing of rivals or experiments.
"""
