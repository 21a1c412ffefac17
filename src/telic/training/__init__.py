"""Training: learners for populations of policies, evaluation, checkpoints and export."""
