"""Rules of a study: candidate checks, launch gates, stop rules and phases."""
