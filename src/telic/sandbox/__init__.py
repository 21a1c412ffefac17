"""Run untrusted code in a confined process after a check against an allow-list."""
