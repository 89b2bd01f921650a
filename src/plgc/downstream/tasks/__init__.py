"""One module per task: heads, training and metrics for node classification, link prediction and clustering."""
