"""The paper's tables and figures as experiments: a reviewed text file each, run cell by cell, shown as a table.

May import everything that condenses, learns and scores, and the engine of :mod:`plgc.sources`; never the report, the
demo or the command line.
"""
