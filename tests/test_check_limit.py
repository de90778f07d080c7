"""`fw.check_limit`: verdicts on services whose truth is known, and "unknown" wherever it cannot be told."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import fanwidth as fw
from fanwidth.recommendation import LimitCheck

SERVICE = 0.05
TIMES = [SERVICE, fw.uniform(0.01, 0.09), fw.exponential(SERVICE), fw.lognormal(0.03, 0.3)]


def check(action: Any, limit: int, items: Any = None, **options: Any) -> LimitCheck:
    return fw.check_limit(action, limit, items, **{"clock": "virtual", "seed": 1, **options})


@pytest.mark.parametrize("time", TIMES, ids=str)
@pytest.mark.parametrize(("limit", "wanted"), [(5, "too_low"), (10, "too_low"), (20, "ok"), (30, "ok"), (60, "too_high")])
def test_verdict_by_known_capacity(time: Any, limit: int, wanted: str) -> None:
    found = check(fw.service(time, capacity=20), limit)
    assert found.verdict == wanted, str(found)
    assert str(found) == f"limit {limit} is {wanted.replace('_', ' ')}: {found.reason}"
    assert f"{limit} gives" in found.reason and repr(found) == str(found)


@pytest.mark.parametrize("time", TIMES, ids=str)
@pytest.mark.parametrize("capacity", [1, 2, 7, 24, 100, 200])
def test_a_recommended_limit_is_ok(time: Any, capacity: int) -> None:
    action = fw.service(time, capacity)
    limit = fw.recommend(action, clock="virtual", seed=3, progress=False).limit
    assert limit is not None and check(action, limit).verdict in ("ok", "unknown"), (limit, check(action, limit))


@pytest.mark.parametrize(
    ("action", "limit", "options", "wanted", "words"),
    [
        (fw.service(SERVICE, 1), 1, {}, "ok", "1 gives 20"),
        (fw.service(SERVICE, 4), 1, {}, "too_low", "2 gives 40"),
        (fw.service(SERVICE, 20, queue=4), 40, {}, "too_high", "limit 40 fails"),
        (fw.service(SERVICE, 20), 40, {"max_p99": 0.06}, "too_high", "more than 0.06 s"),
        (fw.service(SERVICE, 20), 15, {"min_throughput": 290}, "ok", "15 gives 300"),
        (fw.service(SERVICE, 20), 10, {"min_throughput": 290}, "too_low", "20 gives 400"),
        (fw.service(SERVICE, 20), 16, {"min_throughput": 150}, "too_high", "8 gives 160"),
        (fw.service(SERVICE, 20), 16, {"min_throughput": 1_000}, "unknown", "no limit measured reaches 1,000 items/s"),
        (fw.service(SERVICE, 20), 19, {"tolerance": 0.1}, "ok", "19 gives 380"),
        (fw.service(SERVICE, 20), 18, {}, "too_low", "36 gives 400"),
        (fw.service(SERVICE, 20), 19, {}, "ok", "38 gives 400"),
        (fw.service(SERVICE, 20), 20, {"factors": (0.9, 1.1)}, "ok", "18 gives 360, 20 gives 400, 22 gives 400"),
        (fw.service(SERVICE, 20), 20, {"factors": [2]}, "unknown", "no limit below 20 was measured"),
        (fw.service(SERVICE, 20), 20, {"max_calls": 50}, "unknown", "50 calls"),
    ],
)
def test_verdict_by_conditions(action: Any, limit: int, options: dict[str, Any], wanted: str, words: str) -> None:
    found = check(action, limit, **options)
    assert (found.verdict, words in found.reason) == (wanted, True), str(found)


def test_the_verdict_is_in_the_tables_json() -> None:
    found = check(fw.service(SERVICE, 20), 20)
    told = json.loads(found.table.to_json())["meta"]
    assert told["kind"] == "limit check" and told["check"] == {"limit": 20, "verdict": "ok", "reason": found.reason}


def test_a_table_is_judged_without_measuring() -> None:
    measured = {"clock": "virtual", "progress": False, "repeats": 2}
    table = fw.sweep(fw.service(SERVICE, 20), 4_000, limit=[5, 10, 20, 40, 80], **measured)
    assert [fw.check_limit(table, limit).verdict for limit in (10, 20, 40)] == ["too_low", "ok", "too_high"]
    assert "limit 30 was not measured" in fw.check_limit(table, 30).reason
    with pytest.raises(TypeError, match="items is for an action"):
        fw.check_limit(table, 10, 100)


@pytest.mark.parametrize(
    ("limit", "options", "error", "message"),
    [
        (0, {}, ValueError, "limit must be at least 1, got 0"),
        (2.5, {}, TypeError, "limit must be an int"),
        (5, {"factors": ()}, ValueError, r"factors must be several numbers such as \(0.5, 1, 2\), got none"),
        (5, {"factors": 2}, TypeError, "factors must be several numbers"),
        (5, {"factors": [0, 1]}, ValueError, "factors must be factors of the limit, above 0 and finite, got 0"),
        (5, {"factors": ["half"]}, TypeError, "factors must be a number"),
    ],
)
def test_wrong_limits_and_factors_are_named(limit: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check(fw.service(SERVICE, 5), limit, **options)


# On the real clock


def test_a_limit_far_too_low_is_never_called_right() -> None:
    found = fw.check_limit(lambda row: time.sleep(0.005), 2, 200, budget=3)
    assert found.verdict in ("too_low", "unknown"), str(found)


def test_a_budget_or_items_that_cannot_tell_are_unknown_with_the_reason() -> None:
    found = fw.check_limit(lambda row: time.sleep(0.2), 4, 200, budget=0.5)
    assert found.verdict == "unknown" and "give a budget of" in found.reason
    few = fw.check_limit(lambda row: time.sleep(0.001), 40, 20, budget=2)
    assert few.verdict == "unknown" and "need more items: 2 for each slot, there are 20" in few.reason


def test_what_failed_is_in_the_reason() -> None:
    def fetch(row: int) -> None:
        raise ConnectionError("down")

    found = fw.check_limit(fetch, 4, 100, budget=2)
    assert found.verdict == "unknown" and "ConnectionError: down" in found.reason
