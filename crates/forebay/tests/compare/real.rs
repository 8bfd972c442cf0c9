//! Tests `compare` on real traces. Each is its own twin, no two of them are twins, and a trace with
//! its gaps in another order differs only in that. Skipped if the traces are not available.

use forebay::compare::{Card, Options, compare};
use forebay::input::Input;
use forebay::progress::{unheard, untold};
use forebay_core::Nanos;
use forebay_testing::recorded;
use forebay_trace::Record;
use forebay_trace::streams::StreamBy;

fn read(name: &str) -> Option<Input> {
    Some(Input::read(&recorded(name)?, None, StreamBy::default(), &mut untold).unwrap())
}

fn card(a: &Input, b: &Input) -> Card {
    compare(a, b, &Options::new(&[], None, 1.0, 1).unwrap(), &mut unheard).unwrap()
}

fn holds(card: &Card, of: &str) -> bool {
    card.verdict.aspects.iter().find(|aspect| aspect.aspect == of).unwrap().holds
}

#[test]
fn each_is_its_own_twin() {
    for name in [
        "msr/rsrch_1.csv.zst",
        "msr/wdev_1.csv",
        "hp-srt/hplajw.1week.srt.zst",
        "disksim-ascii/desktop.trace.zst",
        "spc/Financial1.prefix.rewritten.spc.zst",
        "mqsim/tpcc-small.trace.zst",
        "systor17/systor17-traces-sample.csv.gz",
    ] {
        let Some(trace) = read(name) else { return };
        let card = card(&trace, &trace);
        assert!(card.verdict.faithful, "{name}: {}", card.verdict.text);
        let aspects = 8 + usize::from(card.latencies.is_some());
        assert_eq!(card.verdict.aspects.len(), aspects, "{name}");
        let scales = card.dispersion.iter().map(|scale| scale.quantity);
        let responses = card.responses.iter().flat_map(|of| of.quantities().map(|of| *of.1));
        let features = card.features.iter().map(|feature| feature.quantity);
        for quantity in features.chain(scales).chain(responses) {
            assert_eq!((quantity.deviation, quantity.a), (Some(0.0), quantity.b), "{name}");
            assert!(quantity.a_low <= quantity.a_high, "{name}: {quantity:?}");
        }
        for distance in &card.distances {
            assert_eq!((distance.ks, distance.wasserstein), (0.0, 0.0), "{name}");
        }
        assert_eq!((card.mrc_mean_error, card.heat.total_variation), (0.0, 0.0), "{name}");
        let shares = |shares: &[f64]| (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9;
        assert!(shares(&card.heat.a) && card.heat.a == card.heat.b, "{name}");
    }
}

#[test]
fn two_servers_are_not_twins_in_either_order() {
    let (Some(laser), Some(desktop)) =
        (read("hp-srt/hplajw.1week.srt.zst"), read("disksim-ascii/desktop.trace.zst"))
    else {
        return;
    };
    let [there, back] = [card(&laser, &desktop), card(&desktop, &laser)];
    for card in [&there, &back] {
        assert!(card.verdict.aspects.iter().all(|aspect| !aspect.holds), "{}", card.verdict.text);
    }
    // If the traces are swapped, distances stay the same and figures change places.
    for (one, other) in there.distances.iter().zip(&back.distances) {
        assert!((one.ks - other.ks).abs() < 1e-12, "{}", one.of);
        assert!((one.wasserstein / other.wasserstein - 1.0).abs() < 1e-9, "{}", one.of);
    }
    assert!((there.mrc_mean_error - back.mrc_mean_error).abs() < 1e-12);
    assert!((there.heat.total_variation - back.heat.total_variation).abs() < 1e-12);
    for (one, other) in there.responses.iter().zip(&back.responses) {
        for (one, other) in one.quantities().iter().zip(other.quantities()) {
            assert_eq!((one.1.a, one.1.b), (other.1.b, other.1.a), "{}", one.0);
        }
    }
}

/// Shuffles the gaps between the records.
fn shuffled(records: &[Record]) -> Vec<Record> {
    let mut gaps: Vec<u64> = records.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0).collect();
    let mut state = 1u64;
    for left in (1..gaps.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        gaps.swap(left, (state >> 33) as usize % (left + 1));
    }
    let mut now = records[0].at.0;
    let times = std::iter::once(now).chain(gaps.into_iter().map(|gap| {
        now += gap;
        now
    }));
    records.iter().zip(times).map(|(record, at)| Record { at: Nanos(at), ..*record }).collect()
}

#[test]
fn gaps_in_another_order_leave_all_but_bursts() {
    let Some(path) = recorded("disksim-ascii/desktop.trace.zst") else { return };
    let mut reader = forebay_trace::open::open(&path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        records.extend_from_slice(&batch);
    }
    let input = |records| Input::from_records(records, vec!["desktop".into()]);
    let card = card(&input(records.clone()), &input(shuffled(&records)));
    assert_eq!(card.mrc_mean_error, 0.0);
    assert_eq!(card.heat.total_variation, 0.0);
    assert!(card.distances.iter().all(|distance| distance.ks == 0.0));
    assert!(card.features.iter().all(|feature| feature.quantity.deviation == Some(0.0)));
    // One burst dominates the mean responses, so they are too uncertain to differ.
    assert!(!holds(&card, "burstiness"));
    let bursts = card.dispersion.iter().find(|scale| scale.bin_ms == 1000).unwrap().quantity;
    assert!(bursts.b < bursts.a, "{bursts:?}");
}
