"""What a condensed graph tells about the nodes it was made from: who they were, and what their rows hold.

A random half of a graph's nodes are members: the subgraph they induce is condensed. The attacker has the file and the
whole graph, with features and edges of members and non-members, and knows the release, its settings and public seeds.
Every node gets a score. An attack is measured by the area under the ROC curve (AUC, 0.5 is guessing) and by the
true-positive rate at 1 % false positives; the strongest one counts.

The sign of a score is fixed beforehand or learned from shadows: other random sets of members, condensed in the same
way, whose members the attacker knows. The target's members are used for scoring only.
"""

from plgc.evaluation.membership.controls import publish_members, publish_noise
from plgc.evaluation.membership.suite import attack, infer_membership

__all__ = ["attack", "infer_membership", "publish_members", "publish_noise"]
