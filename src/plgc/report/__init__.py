"""The report: condensed graphs, and runs, as one HTML page that opens anywhere (docs/report.md).

``opened`` opens what is given, ``study``, ``scores``, ``embedded``, ``atlas`` and ``runs`` find out, ``headline``,
``works``, ``looks``, ``health``, ``making`` and ``compare`` write the sections, ``build`` puts them on the page.
"""

from plgc.report.build import build_report, write_report

__all__ = ["build_report", "write_report"]
