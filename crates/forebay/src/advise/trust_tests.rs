//! Tests of statements on trust and of `--fit-device`, on recordings that models produced.

use forebay_core::Nanos;
use forebay_core::replay::Intensity;

use super::fit::{DeviceFit, fit};
use super::*;
use crate::clock::Times;
use crate::devices::open;
use crate::progress::unheard;
use crate::quantities::significant;
use crate::retrodict::tests::{input_of, recorded, records};

fn advised(input: &Input, device: &OpenDevice, setup: Setup, device_named: bool) -> Advice {
    let (reason, flash) = ("for the test".to_string(), default_flash().unwrap());
    let asked = AdviceOptions { device_named, ..AdviceOptions::default() };
    advise(input, device, reason, &flash, setup, asked, &mut unheard).unwrap()
}

#[test]
fn the_line_says_how_far_the_model_is_off() {
    let device = open("st1000nm0011").unwrap();
    let input = recorded(records(1500, 9_000), &device, "mq-deadline");
    let trust = advised(&input, &device, Setup::default(), true).trust;
    let said = "On this trace the model's read p50 is 0 % off and its p99 0 % off (";
    assert!(trust.is_checked && trust.said.starts_with(said), "{}", trust.said);
    assert!(
        trust.said.contains("and its write p50 is 0 % off and its p99 0 % off"),
        "{}",
        trust.said
    );
    let taken = "That assumes that your disk is st1000nm0011 under mq-deadline, in open replay, by \
        1500 requests.";
    assert!(trust.said.ends_with(taken), "{}", trust.said);
    let other = trust.other_replay.unwrap();
    assert_eq!((other.replay, other.requests), (Replay::Dependent, 1500));
    let slower = open("travelstar-5k320").unwrap();
    let trust = advised(&input, &slower, Setup::default(), true).trust;
    let reads = trust.retrodiction.unwrap().reads.unwrap();
    let times = significant(1.0 + reads.p50_error_share.unwrap());
    let off = format!("Little: on this trace the model's read p50 is {times} times too high and");
    assert!(trust.said.starts_with(&off), "{off}: {}", trust.said);
}

/// Unless a backlog is mentioned, a p50 of 48 s would seem to be a property of the disk.
#[test]
fn the_first_sentence_names_a_backlog() {
    let device = open("st1000nm0011").unwrap();
    let input = recorded(records(3000, 1_000), &device, "mq-deadline");
    let trust = advised(&input, &open("travelstar-5k320").unwrap(), Setup::default(), true).trust;
    assert!(trust.retrodiction.unwrap().is_overloaded);
    let said = "Little: the model cannot keep up with the recording, so its latencies only \
                reflect a backlog. On this";
    assert!(trust.said.starts_with(said), "{}", trust.said);
}

#[test]
fn the_first_sentence_names_a_coarse_clock_and_a_faster_device() {
    let coarse = |step| Times::Coarse { step, per_stamp: 2.0, share: 1.0 };
    let said = |times| Trust::unchecked("the recording's device is unknown").with_clock(times).said;
    let plain = "The model is not checked: the recording's device is unknown";
    assert_eq!(said(Times::Usable), format!("{plain}."));
    let step = Nanos::from_micros(6550);
    let with_step = format!("{plain}; the trace's clock has steps of 6.55 ms.");
    assert_eq!(said(coarse(step)), with_step);
    // A request that was recorded with 0.4 ms but takes this disk 10 ms was not recorded on this
    // disk.
    let mut fast = records(1500, 90_000);
    fast.iter_mut().for_each(|record| record.latency = Some(Nanos::from_micros(400)));
    let device = open("st1000nm0011").unwrap();
    let trust = advised(&input_of(fast), &device, Setup::default(), false).trust;
    let faster = "Little, because the recorded device was faster: the median of its reads was 400 \
        µs, compared with";
    assert!(trust.said.starts_with(faster), "{}", trust.said);
}

#[test]
fn unchecked_models_state_the_reason() {
    let device = open("st1000nm0011").unwrap();
    let bare = records(300, 9_000);
    let input = recorded(bare.clone(), &device, "mq-deadline");
    let twice = Setup { intensity: Intensity::new(2.0).unwrap(), ..Setup::default() };
    let mut few =
        recorded(bare.clone(), &device, "mq-deadline").records().unwrap().collect::<Vec<_>>();
    few.iter_mut().skip(90).for_each(|record| record.latency = None);
    for (input, setup, is_named, why) in [
        (&input, Setup::default(), false, "not checked: the recording's device is unknown"),
        (&input_of(bare), Setup::default(), true, "not checked: the trace records no latencies."),
        (&input, twice, true, "not checked: requests arrive 2 times as fast as recorded."),
        (&input_of(few), Setup::default(), true, "not checked: fewer than 100 reads"),
    ] {
        let trust = advised(input, &device, setup, is_named).trust;
        assert!(!trust.is_checked && trust.said.contains(why), "{why}: {}", trust.said);
    }
}

fn fitted(input: &Input, device: &OpenDevice, jobs: usize) -> Result<(DeviceFit, bool), String> {
    let flash = default_flash().unwrap();
    let setup = Setup::default();
    let (flash, current) = (&flash, "mq-deadline");
    let setting = Setting { input, device, flash, flash_bytes: None, setup, current };
    let (fit, device) = fit(&setting, jobs, &mut unheard).map_err(|error| error.to_string())?;
    Ok((fit, device.is_some()))
}

/// Returns requests that are long enough for the media rate to matter.
fn long(count: u64) -> Vec<forebay_trace::Record> {
    let mut all = records(count, 25_000);
    all.iter_mut().for_each(|record| record.len *= 16);
    all
}

#[test]
fn a_fit_finds_parameters_missing_from_the_file() {
    let plain = open("st1000nm0011").unwrap().at_catch_margin(Nanos::ZERO).unwrap();
    let truth = plain.without_write_cache().unwrap().at_media_rate(0.8).unwrap();
    let truth = truth.at_catch_margin(Nanos::from_micros(2750)).unwrap();
    let input = recorded(long(3000), &truth, "mq-deadline");
    let (fit, is_given) = fitted(&input, &plain, 2).unwrap();
    assert!(fit.is_used && is_given, "{}", fit.said);
    assert_eq!((fit.write_cache, fit.media_rate_times), (Some(false), 0.8), "{}", fit.said);
    assert!((1.0..4.0).contains(&fit.catch_margin_ms.unwrap()), "{}", fit.said);
    assert!(fit.fitted_error_share < 0.1 && fit.unfitted_error_share > 0.2, "{}", fit.said);
    assert_eq!((fit.fitted_requests, fit.fitted.requests), (1500, 1500));
    assert!(fit.runs <= 48 && fit.said.contains("write cache off, media rate times 0.8, catch"));
    let again = fitted(&input, &plain, 1).unwrap().0;
    assert_eq!(again.said, fit.said);
}

#[test]
fn a_model_that_is_right_stays_as_it_is() {
    let device = open("st1000nm0011").unwrap();
    let input = recorded(long(1200), &device, "mq-deadline");
    let (fit, is_given) = fitted(&input, &device, 2).unwrap();
    assert!(!fit.is_used && !is_given && fit.unfitted_error_share < 0.02, "{}", fit.said);
    assert_eq!((fit.media_rate_times, fit.write_cache), (1.0, Some(true)));
}

#[test]
fn a_fit_without_a_disk_or_latencies_is_refused() {
    let [disk, flash] = ["st1000nm0011", "d7-p5520"].map(|name| open(name).unwrap());
    let input = recorded(records(300, 9_000), &disk, "mq-deadline");
    let said = |input: &Input, device: &OpenDevice| fitted(input, device, 1).unwrap_err();
    assert!(said(&input, &flash).contains(" on d7-p5520: got a device without"));
    assert!(said(&input, &open("fixed:100").unwrap()).contains("expected the disk"));
    assert!(said(&input_of(records(300, 9_000)), &disk).contains("records no latencies"));
    let few = said(&recorded(records(60, 9_000), &disk, "mq-deadline"), &disk);
    assert!(few.contains("fewer than 100 reads"), "{few}");
}
