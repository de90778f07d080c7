"""`fanwidth.testing`: silent where all is well; else the message is the evidence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import testing


def failing(row: int) -> None:
    if row % 4 == 3:
        raise ValueError(f"bad {row}")


def test_assert_all_ok() -> None:
    testing.assert_all_ok(fw.bounded(fw.delay(0.001), 10, limit=2, clock="virtual"))
    testing.assert_all_ok(fw.when_all(fw.noop(), 0))
    with pytest.raises(AssertionError) as caught:
        testing.assert_all_ok(fw.bounded(failing, 8, limit=2, errors="keep"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 of 8 items are not ok: 2 failed"
    assert any("item 3 (3): ValueError('bad 3')" in line for line in lines)


def test_assert_all_ok_counts_what_never_started() -> None:
    run = fw.bounded(fw.delay(1), 10, limit=2, total_timeout=2.5, errors="keep", clock="virtual")
    with pytest.raises(AssertionError, match="6 of 10 items are not ok: 2 timed out, 4 not started"):
        testing.assert_all_ok(run)


def test_assert_peak_in_flight() -> None:
    run = fw.bounded(fw.delay(0.001), 40, limit=8, clock="virtual")
    testing.assert_peak_in_flight(run, at_most=8)
    testing.assert_peak_in_flight(run, 50, at_least=8)
    with pytest.raises(AssertionError, match="(?s)8 items were in flight at once, more than 7\n.*bounded, limit 8"):
        testing.assert_peak_in_flight(run, at_most=7)
    with pytest.raises(AssertionError, match="only 8 items were in flight at once, fewer than 9"):
        testing.assert_peak_in_flight(run, at_most=20, at_least=9)


def test_assert_overhead() -> None:
    run = fw.bounded(fw.delay(0.001), 40, limit=8, clock="virtual")
    testing.assert_overhead(run, at_most=0.0)
    real = fw.bounded(fw.delay(0.001), 40, limit=8)
    testing.assert_overhead(real, at_most=1_000)
    with pytest.raises(AssertionError, match=r"(?s)the overhead is .* %, more than 0.00 %\n.*overhead"):
        testing.assert_overhead(real, at_most=0)  # a delay never ends early, so it is above 0
    stopped = fw.bounded(fw.delay(1), 10, limit=2, total_timeout=2.5, errors="keep", clock="virtual")
    with pytest.raises(AssertionError, match="the run has no overhead"):
        testing.assert_overhead(stopped, at_most=1)


def test_assert_limit() -> None:
    action = fw.service(0.05, 20)
    testing.assert_limit(fw.check_limit(action, 20, clock="virtual"))
    with pytest.raises(AssertionError) as caught:
        testing.assert_limit(fw.check_limit(action, 5, clock="virtual"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "limit 5 is too low: limit 2 gives 40, 5 gives 100, 10 gives 200 items/s"
    assert [line.split()[0] for line in lines[-3:]] == ["2", "5", "10"] and lines[-2].endswith("<- too low")
    assert max(map(len, lines)) <= 80


def test_unknown_proves_nothing_and_fails() -> None:
    with pytest.raises(AssertionError, match="limit 5 is unknown: no limit below 5"):
        testing.assert_limit(fw.check_limit(fw.service(0.05, 20), 5, clock="virtual", factors=[2]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda run: testing.assert_peak_in_flight(run, -1), ValueError, "at_most must be at least 0, got -1"),
        (lambda run: testing.assert_peak_in_flight(run, 8, 1.5), TypeError, "at_least must be an int"),
        (lambda run: testing.assert_overhead(run, -0.1), ValueError, r"at_most must be a share of at least 0 \(0.5 is 50 %\)"),
        (lambda run: testing.assert_overhead(run, "5 %"), ValueError, "at_most must be a share"),
    ],
)
def test_wrong_bounds_are_named_and_no_failure(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(fw.bounded(fw.delay(0.001), 4, limit=2, clock="virtual"))


def test_a_failure_points_at_the_test_and_not_into_the_library(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import fanwidth as fw\n"
        "from fanwidth import testing\n"
        "def test_of_a_user():\n"
        '    run = fw.bounded(fw.delay(0.001), 4, limit=2, clock="virtual")\n'
        "    testing.assert_peak_in_flight(run, at_most=1)\n"
    )
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=50).stdout
    assert "2 items were in flight at once, more than 1" in shown
    assert "test_user.py:5: AssertionError" in shown and "testing.py" not in shown
