"""How methods are compared: scores beside controls, the theorem's bounds, and what a file reveals about its nodes.

It may import every method and every task, and nothing of experiments, which say what is compared.
"""

from plgc.evaluation.audits import audit
from plgc.evaluation.cross_validated import cross_validate
from plgc.evaluation.over_seeds import evaluate

__all__ = ["audit", "cross_validate", "evaluate"]
