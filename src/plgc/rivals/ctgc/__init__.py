"""CTGC, the label-free rival: contrastive condensation with a learned graph."""
