"""The report: condensed graphs, and runs, as one HTML page that opens anywhere (docs/report.md).

``inputs`` opens what is given, ``facts/`` computes, ``figures/`` draws charts, ``sections/`` puts facts into words,
charts and tables, ``page/`` has the templates, and ``build`` calls them in this order.
"""

from plgc.report.build import build_report, write_report
from plgc.report.inputs import ReportOptions

__all__ = ["ReportOptions", "build_report", "write_report"]
