"""Our settings of Spark are defaults: whatever else is set wins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.errors import ConfigError, RunError
from anabranch.spark.start import spark_session
from anabranch.spark.start.given_conf import given_conf
from anabranch.spark.start.spark_session import (
    DEFAULTS,
    JAVA_OPTIONS,
    LOOPBACK,
    await_executor,
    settings_to_start,
)


def test_where_nothing_is_set_all_defaults_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "archive_options", lambda: "")
    assert settings_to_start(None, {}, {}) == DEFAULTS | LOOPBACK | {"spark.master": "local[*]"}


def test_an_archive_of_classes_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "archive_options", lambda: "-XX:SharedArchiveFile=a.jsa")
    options = settings_to_start(None, {}, {})[JAVA_OPTIONS]
    assert options == f"{DEFAULTS[JAVA_OPTIONS]} -XX:SharedArchiveFile=a.jsa"


@pytest.mark.parametrize(
    "given",
    [
        {"spark.master": "yarn", "spark.app.name": "theirs"},
        {"spark.driver.memory": "8g", "spark.ui.enabled": "true", "spark.driver.host": "10.0.0.1"},
        {"spark.driver.extraJavaOptions": "-Xss8m"},
    ],
)
def test_what_is_given_is_left_alone(given: dict[str, str]) -> None:
    assert not settings_to_start(None, {}, given).keys() & given.keys()


def test_what_is_asked_for_wins_over_what_is_given() -> None:
    given = {"spark.master": "yarn", "spark.driver.memory": "8g"}
    settings = settings_to_start("local[2]", {"spark.driver.memory": "1g"}, given)
    assert (settings["spark.master"], settings["spark.driver.memory"]) == ("local[2]", "1g")


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host"])
def test_the_driver_is_on_the_loopback_only_where_all_of_spark_is(master: str) -> None:
    assert not settings_to_start(master, {}, {}).keys() & LOOPBACK.keys()
    assert not settings_to_start(None, {}, {"spark.master": master}).keys() & LOOPBACK.keys()
    assert settings_to_start("local[2]", {}, {"spark.master": master}).keys() >= LOOPBACK.keys()


def test_settings_of_the_defaults_file_and_of_the_environment_are_seen(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    lines = "# a comment\nspark.master   spark://a:1\nspark.ui.enabled=true\n\nother 1\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(lines)
    home = {"SPARK_HOME": str(tmp_path)}
    assert given_conf(home) == {"spark.master": "spark://a:1", "spark.ui.enabled": "true"}
    submitted = home | {"PYSPARK_SUBMIT_ARGS": "--master yarn --driver-memory 3g pyspark-shell"}
    assert given_conf(submitted) == {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.driver.memory": "3g",
    }
    assert given_conf({}) == {}


def _cluster(collect: Callable[[], object]) -> Any:
    conf = SimpleNamespace(get=lambda key, default: {"spark.master": "spark://far:7077"}.get(key, default))
    return SimpleNamespace(range=lambda _: SimpleNamespace(collect=collect), conf=conf)


def test_a_cluster_without_executors_is_told_after_a_bounded_wait() -> None:
    never = threading.Event()
    with pytest.raises(ConfigError, match=r"no executor could connect: spark://far:7077"):
        await_executor(_cluster(never.wait), seconds=0.01)
    never.set()


def test_a_cluster_that_runs_a_task_or_fails_at_it_is_not_waited_for() -> None:
    await_executor(_cluster(list), seconds=3600)

    def fail() -> None:
        raise OSError("Connection refused")

    with pytest.raises(RunError, match="JVM has ended"):
        await_executor(_cluster(fail), seconds=3600)
