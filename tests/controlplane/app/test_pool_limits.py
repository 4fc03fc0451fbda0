"""What pages a pool's people is what a rollout to it must keep."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlmodel import Session

import controlplane.alerts.tables  # noqa: F401
from controlplane.alerts import store
from controlplane.app.pool_limits import pool_limits
from controlplane.contract.bodies.alerts import AbsoluteCondition, AlertRuleCreate, RegressionCondition
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.db.database import Database
from tests.made_tables import create_tables

NOW = datetime(2025, 3, 1, tzinfo=UTC)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    database = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    create_tables(database)
    with database.session() as found:
        yield found
    database.close()


def limit(metric: str, limit_s: float, q: float = 0.95) -> Limit:
    return Limit(metric=metric, q=q, limit_s=limit_s)


def test_the_tightest_limit_of_each_quantile_that_its_rules_page_for(session: Session) -> None:
    def rule(name: str, pool: str | None, *limits: Limit, profile: UseCase | None = None, enabled: bool = True) -> None:
        condition = AbsoluteCondition(limits=list(limits), profile=profile)
        store.create_rule(session, AlertRuleCreate(name=name, pool=pool, condition=condition, enabled=enabled), NOW)

    rule("everybody", None, limit("e2e", 9.0))
    rule("chat", "chat", limit("e2e", 4.0), limit("ttft", 2.0))
    rule("use case", "chat", profile=UseCase.CHAT)
    rule("another pool", "code", limit("e2e", 0.1))
    rule("off", "chat", limit("e2e", 0.2), enabled=False)
    store.create_rule(session, AlertRuleCreate(name="regression", condition=RegressionCondition()), NOW)
    assert pool_limits(session, "chat") == [limit("e2e", 4.0), limit("itl", 0.2, 0.99), limit("ttft", 1.0)]
    assert pool_limits(session, "batch") == [limit("e2e", 9.0)]
