"""The authors that ask a model: criteria, reward, judge and revisions."""
