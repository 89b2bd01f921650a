"""Membership inference: does a condensed graph reveal which nodes it was made from?

A random half of a graph's nodes are members: the subgraph they induce is condensed. The attacker has the file and the
whole graph, with features and edges of members and non-members, and gives every node a score. The attack is measured by
the area under the ROC curve (AUC, 0.5 is guessing) and by the true-positive rate at 1 % false positives.

The sign of a score is fixed beforehand (closer means member) or learned from shadows: other random sets of members,
condensed in the same way, whose members the attacker knows. The target's members are used for scoring only.
"""

from plgc.evaluation.membership.suite import attack, infer_membership, publish_members

__all__ = ["attack", "infer_membership", "publish_members"]
