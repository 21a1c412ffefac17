"""Rules of a study: checks, gates, stop rules, phases and objections."""
