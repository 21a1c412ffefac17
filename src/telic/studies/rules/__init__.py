"""Study rules: checks, gates, stop rules, phases and objections."""
