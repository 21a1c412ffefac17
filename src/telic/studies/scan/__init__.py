"""Read a repository without running it: how it trains, evaluates, logs, and what is risky."""

from telic.studies.scan.audit import audit_repository
from telic.studies.scan.records import RepositoryAudit

__all__ = ["RepositoryAudit", "audit_repository"]
