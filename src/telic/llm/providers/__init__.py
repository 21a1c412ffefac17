"""Who may answer: hosted models, a host agent, a script, a recording."""
