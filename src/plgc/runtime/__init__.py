"""What every other package stands on and that knows nothing of graphs: errors, files, progress, checkpoints.

The container format of our files, arrays mapped from disk, the device, threads and memory to compute with, recorded GPU
work, and the provenance of results are here too. It may know torch and the standard library, and no other package.
"""
