"""GCond, GCond-X and DC-Graph: synthetic nodes that give models the same gradients as the graph does."""
