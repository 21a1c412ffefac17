"""Run untrusted code in a sandboxed process after a check against an allow-list."""
