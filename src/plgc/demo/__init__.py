"""The demo: the whole method on one graph, with a table and a figure. It may know all but the command line."""

from plgc.demo.run import run_demo

__all__ = ["run_demo"]
