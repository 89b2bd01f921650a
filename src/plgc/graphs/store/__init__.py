"""Graphs larger than memory: edge lists and node tables become a folder of npy files, in passes over blocks.

``parts`` finds the files of a source, ``blocks`` reads them some rows at a time, ``ids`` numbers the nodes, ``columns``
and ``nodes`` make features and labels, ``runs`` and ``edges`` sort the edges on disk, ``arrays`` does the same for
sources that are arrays already. ``budget`` has the bounds on memory and disk, ``work`` the folder of a run that can go
on, ``run`` the whole. The result is what :func:`plgc.graphs.save_stored` writes of a graph in memory.
"""
