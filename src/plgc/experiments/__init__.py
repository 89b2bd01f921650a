"""The paper's tables and figures as experiments: a reviewed text file each, run cell by cell, shown as tables."""
