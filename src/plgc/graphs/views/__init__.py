"""What of a graph, and of its labels, a method gets to see: splits, training edges or nodes, parts, noisy labels."""
