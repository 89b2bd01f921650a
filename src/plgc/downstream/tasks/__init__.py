"""What a rebuilt backbone is for: heads, fine-tuning, evaluation and prediction, one file a task."""
