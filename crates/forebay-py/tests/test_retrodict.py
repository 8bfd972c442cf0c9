"""Tests a model against the recording, both by itself and in the line on trust of `advise`."""

import polars as pl
import pytest

import forebay


def recorded(count: int, latency_ns: int | None) -> pl.DataFrame:
    """Returns reads that never overlap, one every 20 ms."""
    return pl.DataFrame({
        "at_ns": [n * 20_000_000 for n in range(count)],
        "op": ["read"] * count,
        "offset": [n * 7919 % 4096 * 4096 for n in range(count)],
        "len": [4096] * count,
        "latency_ns": pl.Series([latency_ns] * count, dtype=pl.UInt64),
    })


def test_a_known_device_is_off_by_what_it_is_slower():
    answer = forebay.retrodict(recorded(300, 5_000_000), device="fixed:100", policy="none")
    assert (answer["requests"], answer["requests_unmeasured"], answer["writes"]) == (300, 0, None)
    assert answer["reads"]["p50_error_share"] == pytest.approx(1.0, abs=0.01)
    assert answer["outstanding"]["modelled_mean"] == pytest.approx(0.5, abs=0.01)
    assert answer["outstanding"]["recorded_mean"] == pytest.approx(0.25, abs=0.01)
    with pytest.raises(forebay.Error, match="the trace records no latencies"):
        forebay.retrodict(recorded(300, None), device="fixed:100", policy="none")


def test_advise_has_its_line_of_trust():
    rows = recorded(300, 5_000_000)
    trust = forebay.advise(rows, device="fixed:100").trust
    assert trust["is_checked"] and "read p50 is 100 % too high and its p99 100 % too high" in trust["said"]
    assert trust["retrodiction"]["reads"]["requests"] == 300 and trust["fit"] is None
    unknown = forebay.advise(rows).trust
    assert not unknown["is_checked"] and "not checked: the recording's device is unknown" in unknown["said"]
    none = forebay.advise(recorded(300, None), device="fixed:100").trust
    assert none["said"] == "The model is not checked: the trace records no latencies."


def test_a_fit_needs_a_disk_and_latencies():
    with pytest.raises(ValueError, match="fit_device: has an effect only with device"):
        forebay.advise(recorded(300, 5_000_000), fit_device=True)
    with pytest.raises(forebay.Error, match="fit_device on fixed:100: got a device without moving parts"):
        forebay.advise(recorded(300, 5_000_000), device="fixed:100", fit_device=True)
    with pytest.raises(forebay.Error, match="records no latencies"):
        forebay.advise(recorded(300, None), device="sata250", fit_device=True)
    fit = forebay.advise(recorded(400, 5_000_000), device="sata250", fit_device=True).trust["fit"]
    assert fit["fitted_requests"] == 200 and fit["fitted"]["requests"] == 200
