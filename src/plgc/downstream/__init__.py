"""From condensed graphs to predictions: the lower half of the paper's Figure 2.

A backbone is rebuilt from one or more files and frozen, and a light head is trained on it with clean labels. The
package may import the method, whose encoders it rebuilds, and nothing of rivals or experiments.
"""
