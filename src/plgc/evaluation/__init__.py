"""How methods are compared: what a method may see, what it is scored on, and what a file gives away.

It may know every method and every task, and nothing of experiments, which name what is to be compared.
"""

from plgc.evaluation.over_seeds import evaluate

__all__ = ["evaluate"]
