"""The other methods of the field, the controls, and the one table of all methods by name.

Read :mod:`~plgc.rivals.methods` (the table) and :mod:`~plgc.rivals.frame` (what rivals share: the graph without labels,
checkpoints, the file) first; a rival is a function within that frame. The package may import our own method and what is
built on it downstream, and nothing of evaluation or experiments.
"""
