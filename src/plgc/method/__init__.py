"""Pseudo-Labeled Graph Condensation itself: the upper half of the paper's Figure 2.

Read :mod:`~plgc.method.alternate` first: it takes stage I (:mod:`~plgc.method.stage_one`, with the losses of
:mod:`~plgc.method.losses`) and stage II (:mod:`~plgc.method.stage_two`) in turns. Graphs come without labels. From a
file of an earlier graph it starts warm (:mod:`~plgc.method.warm`), to update or to forget. The package may know graphs,
sparse products and the artifact it fills, and nothing of heads, tasks or rivals.
"""
