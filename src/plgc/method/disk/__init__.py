"""Condensing a graph whose edges and features stay in their files: mini-batches, and a last pass over all nodes."""
