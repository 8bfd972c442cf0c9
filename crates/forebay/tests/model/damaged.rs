//! Models that were changed by hand: each damage is refused by the key it was done to.

use std::path::Path;

use forebay::model::check;
use forebay::model::file::{Arrivals, Model, Transition};
use forebay_core::Nanos;

use super::{chain, fit, fit_periods, fitted};

#[test]
fn damaged_models_are_refused_by_key() {
    let json = fit(&chain(3000), 2).json();
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(json.contains(from), "{from}");
        let text = json.replacen(from, to, 1);
        let error = check::parse(Path::new("m.json"), text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("m.json: got ") && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    refused("\"level\":2", "\"level\":3", "level 3");
    refused("\"level\":2", "\"level\":9", "level 9");
    refused("\"forebay_model\":1", "\"forebay_model\":2", "forebay_model 2, expected version 1");
    refused("\"forebay_model\":1", "\"forebay_model\":2,\"new\":3", "forebay_model 2");
    refused("\"duration_s\":", "\"duration_s\":1", "as the arrivals end");
    refused("\"duration_s\":", "\"duration_s\":1e308,\"duration_s\":", "duplicate field");
    refused("\"begin_s\":0.0", "\"begin_s\":1e308", "begin_s 1e308, expected 0.0 to 10000000000.0");
    refused("\"tick_ns\":1,", "\"tick_ns\":-1,", "at parts[0].arrivals.tick_ns");
    refused("\"tick_ns\":1,", "\"tick_ns\":0,", "parts[0].arrivals.tick_ns 0");
    refused("\"tick_ns\":1,", "", "missing field `tick_ns`");
    refused("\"tick_ns\":1,", "\"tick_ns\":1,\"tick_ns\":1,", "duplicate field `tick_ns`");
    refused("\"tick_ns\":1,", "\"tick_ns\":1,\"end_s\":1,", "both `epoch_requests`");
    refused("\"tick_ns\":1,", "\"tick_ns\":1,\"end_s\":null,", "at parts[0].arrivals.end_s");
    refused("\"epochs_us\":", "\"epoch_us\":", "unknown field `epoch_us`");
    refused("\"flat\":false,", "", "missing field `flat`");
    refused("\"flat\":false", "\"flat\":false,\"x\":1", "unknown field `x`");
    refused("\"requests\":3000", "\"requests\":2999", "requests 2999");
    refused("\"requests\":3000", "\"requests\":-1", "at requests");
    refused("\"share\":0.", "\"share\":0.9", "shares that sum to");
    refused("\"stay_share\":", "\"stay_share\":5", "parts[0].stay_share");
    refused("\"extent_mib\":65536", "\"extent_mib\":18446744073709551615", "volumes[0].extent_mib");
    let text = format!("{json}x");
    assert!(check::parse(Path::new("m.json"), text.as_bytes()).is_err());
    for cut in (0..json.len()).step_by(997) {
        let error = check::parse(Path::new("m.json"), &json.as_bytes()[..cut]).unwrap_err();
        assert!(error.to_string().ends_with("the file is cut off: copy it again"), "{error}");
    }
}

#[test]
fn damaged_periods_are_refused_by_key() {
    let model = fit_periods(&chain(3000), Nanos(1_000_000_000));
    let Arrivals::Periods(periods) = &model.parts[0].arrivals else { panic!("no periods") };
    let first = format!("\"requests\":[{}", periods.requests[0]);
    let json = model.json();
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(json.contains(from), "{from} in {json}");
        let text = json.replacen(from, to, 1);
        let error = check::parse(Path::new("m.json"), text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("m.json: got ") && error.contains(expected), "{error}");
    };
    refused("\"period_s\":1.0", "\"period_s\":0.0", "parts[0].arrivals.period_s");
    refused("\"period_s\":1.0", "\"period_s\":1.0,\"x\":1", "parts[0].arrivals");
    refused("\"period_s\":1.0", "\"period_s\":50.0", "parts[0].arrivals.requests");
    refused("\"end_s\":", "\"end_s\":-", "parts[0].arrivals.end_s");
    refused(&first, &format!("{first}1"), "parts[0].arrivals.requests counts that sum to");
    refused(&first, &first.replace('[', "[-"), "parts[0].arrivals");
    refused("\"end_s\":", "\"ends\":", "unknown field `ends`");
    refused("\"period_s\":1.0,", "", "missing field `period_s`");
    refused(&first, "\"requests\":[9999999999999", "parts[0].arrivals.requests[0]");
}

fn told(model: &Model) -> Option<String> {
    let checked = check::parse(Path::new("m.json"), model.json().as_bytes());
    checked.err().map(|error| error.to_string())
}

#[test]
fn lists_that_do_not_agree_are_refused_by_key() {
    let records = chain(3000);
    let model = fit(&records, 2);
    assert_eq!(told(&model), None);
    let refused = |model: &Model, damage: fn(&mut Model), expected: &str| {
        let mut model = model.clone();
        damage(&mut model);
        let said = told(&model).unwrap_or_default();
        assert!(said.contains(expected) && said.contains("fit the trace again"), "{said}");
    };
    refused(&model, |model| model.size_bounds_bytes = vec![4, 4], "size_bounds_bytes [4, 4]");
    refused(&model, |model| model.parts[0].states.clear(), "parts[0].states of 0 entries");
    refused(&model, |model| model.volumes.clear(), "volumes of 0 entries");
    let again = |model: &mut Model| {
        let first = model.parts[0].categories[0].clone();
        model.parts[0].categories.push(first);
    };
    refused(&model, again, "each category once");
    let again = |model: &mut Model| {
        let first = model.parts[0].states[0].clone();
        model.parts[0].states.push(first);
    };
    refused(&model, again, "each pair of range and category once");
    let again = |model: &mut Model| {
        let first = model.parts[0].transitions[0].clone();
        model.parts[0].transitions.push(Transition { share: 0.0, ..first });
    };
    refused(&model, again, "each pair of from and to once");
    // From a quarter of one half to a quarter of another: only a flat model has that.
    let across = |model: &mut Model| {
        let from = model.parts[0].transitions.iter_mut().find(|t| t.from == "00").unwrap();
        from.to = "31".into();
    };
    refused(&model, across, "\"31\", expected a range of the parent of from, \"00\"");
    refused(&model, |model| model.flat = true, "a range of states: it is flat");
    let flat = fitted(&records, |options| (options.flat, options.level) = (true, Some(2)));
    assert_eq!(told(&flat), None);
    refused(&flat, |model| model.flat = false, "a range of the parent of from");
}

#[test]
fn parts_that_are_not_their_streams_are_refused() {
    let mut records = chain(900);
    records.iter_mut().zip(0u32..).for_each(|(record, n)| record.stream = n % 3 / 2);
    let model = fitted(&records, |options| options.by_stream = true);
    assert_eq!((told(&model), model.parts.len()), (None, 2));
    let (first, second) = (model.parts[0].stream.unwrap(), model.parts[1].stream);
    let with = |streams: [Option<u32>; 2]| {
        let mut model = model.clone();
        model.parts.iter_mut().zip(streams).for_each(|(part, stream)| part.stream = stream);
        told(&model).unwrap_or_default()
    };
    let said = with([None, None]);
    assert!(said.contains("parts[1].stream null, expected each stream once"), "{said}");
    let said = with([Some(7), second]);
    assert!(said.contains("parts[0].stream 7"), "{said}");
    let said = with([second, Some(first)]);
    assert!(said.contains("parts[0].requests 600, expected 300, as its stream has"), "{said}");
}
