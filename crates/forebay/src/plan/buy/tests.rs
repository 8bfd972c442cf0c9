//! Tests with small traces on servers whose times can be worked out by hand. The number of drives
//! found is compared with trying every number.

use std::ops::ControlFlow;

use forebay_core::{Flags, Nanos, Op};
use forebay_show::terminal::{self, Extent};
use forebay_trace::Record;
use proptest::prelude::*;

use super::*;
use crate::plan::devices::STRIPE_BYTES;

mod disks;

/// Returns a trace of reads, given as (arrival in ms, stripe, volume).
fn input(requests: &[(u64, u64, u32)]) -> Input {
    input_of(Op::Read, requests)
}

fn input_of(op: Op, requests: &[(u64, u64, u32)]) -> Input {
    input_with(op, 4096, requests)
}

fn input_with(op: Op, len: u32, requests: &[(u64, u64, u32)]) -> Input {
    let requests = requests.iter().map(|(at, stripe, of)| (*at, stripe * STRIPE_BYTES, *of));
    input_at(op, len, &requests.collect::<Vec<_>>())
}

/// Returns a trace of requests, given as (arrival in ms, offset, volume).
fn input_at(op: Op, len: u32, requests: &[(u64, u64, u32)]) -> Input {
    let record = |&(at, offset, volume): &(u64, u64, u32)| Record {
        at: Nanos::from_millis(at),
        offset,
        latency: None,
        len,
        stream: 0,
        volume,
        op,
        flags: Flags::NONE,
    };
    Input::from_records(requests.iter().map(record).collect(), vec!["a".into()])
}

/// Returns `count` requests that arrive at once, each to a separate stripe.
fn burst(count: u64) -> Vec<(u64, u64, u32)> {
    (0..count).map(|stripe| (0, stripe, 0)).collect()
}

fn promise(within_ms: u64, fraction: &str) -> Promise {
    Promise { within: Nanos::from_millis(within_ms), fraction: fraction.parse().unwrap() }
}

/// The options of most tests: all requests within 20 ms, on `fixed:100`, in the layout `single`.
struct Ask {
    drives: Vec<Candidate>,
    flash: Candidate,
    layouts: Vec<Layout>,
    own: Vec<(String, Promise)>,
    prices: Prices,
}

impl Ask {
    fn of(drives: &[&str], layouts: &[Layout]) -> Ask {
        Ask {
            drives: drives.iter().map(|name| Candidate::open(name).unwrap()).collect(),
            flash: Candidate::open("fixed:10000").unwrap(),
            layouts: layouts.to_vec(),
            own: Vec::new(),
            prices: Prices::default(),
        }
    }

    fn question(&self) -> Question<'_> {
        Question {
            promise: promise(20, "1"),
            own: &self.own,
            by: By::Trace,
            begin: Begin::Together,
            trust_times: true,
            growth: 1.0,
            gib: None,
            spare: 0,
            survives: 0,
            drives: &self.drives,
            layouts: &self.layouts,
            flash: &self.flash,
            scheduler: "noop:merge=no",
            drives_max: 8,
            sharings: &[Sharing::Shared],
            prices: &self.prices,
            budget: None,
            refuses_few: false,
            headroom: 0.0,
            reliability: Reliability {
                failures_per_year: 0.0157,
                defects_per_year: 0.95,
                scrub: Nanos::from_secs(7 * 86_400),
                rebuild_bytes_per_s: 50e6,
            },
            bootstrap: None,
        }
    }
}

fn asked(inputs: &[Input], question: &Question<'_>) -> Answer {
    answer(inputs, question, &mut crate::progress::unheard).unwrap()
}

/// Computes for each client how many requests there are and how many are answered in time. Each of
/// the `servers` takes requests to its stripes, first come, first served.
fn in_time(requests: &[(u64, u64, u32)], servers: usize, within_ms: u64) -> Vec<(u64, u64)> {
    let (mut free, mut of) = (vec![0; servers], vec![(0, 0); 2]);
    for (at, stripe, client) in requests {
        let server = &mut free[*stripe as usize % servers];
        *server = (*server).max(*at) + 10;
        let (all, in_time) = &mut of[*client as usize];
        *all += 1;
        *in_time += u64::from(*server - at <= within_ms);
    }
    of
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Compares the result with serving requests first come, first served on 1, 2, 3, ... servers
    /// of 100 requests per second each.
    #[test]
    fn the_number_is_the_least_that_keeps_every_promise(
        gaps in prop::collection::vec((prop_oneof![Just(0u64), 0u64..30], 0u64..6, 0u32..2), 2..60),
        within in 10u64..60,
        shares in prop::sample::select(vec![("1", "0.5"), ("0.9", "1"), ("0.75", "0.9")]),
    ) {
        let mut at = 0;
        let mut requests: Vec<(u64, u64, u32)> =
            gaps.iter().map(|(gap, stripe, client)| { at += gap; (at, *stripe, *client) }).collect();
        // Both clients have a request to stripe 7, so each has eight stripes, and the second
        // client's follow the first one's.
        requests.insert(0, (0, 7, 0));
        requests.insert(0, (0, 7, 1));
        let inputs = [input(&requests)];
        let mut ask = Ask::of(&["fixed:100"], &[Layout::Single]);
        ask.own = vec![("1".into(), promise(within, shares.1))];
        let question = Question {
            promise: promise(within, shares.0),
            by: By::Volume,
            ..ask.question()
        };
        let found = asked(&inputs, &question);
        let placed: Vec<_> = requests.iter().map(|(at, stripe, of)| (*at, stripe + 8 * u64::from(*of), *of)).collect();
        let fractions: Vec<f64> = [shares.0, shares.1].iter().map(|share| share.parse().unwrap()).collect();
        let kept = |servers: usize| {
            let of = in_time(&placed, servers, within);
            of.iter().zip(&fractions).all(|((all, in_time), share)| *in_time as f64 >= share * *all as f64 - 1e-9)
        };
        let least = (1..=8).find(|servers| kept(*servers));
        prop_assert_eq!(found.rows[0].drives, least);
        if let Some(least) = least {
            let shares: Vec<f64> =
                in_time(&placed, least, within).iter().map(|(all, of)| *of as f64 / *all as f64).collect();
            let told: Vec<f64> = found.rows[0].clients.iter().map(|of| of.in_time_fraction).collect();
            prop_assert_eq!(told, shares);
            prop_assert_eq!(found.rows[0].one_less.is_some(), least > 1);
            if let Some(less) = &found.rows[0].one_less {
                prop_assert_eq!(less.drives, least - 1);
                prop_assert!(less.worst.in_time_fraction < less.worst.fraction);
            }
        }
    }
}

#[test]
fn growth_brings_requests_faster_and_data_more_room() {
    // One request every 20 ms keeps a server of 100 per second half busy, so growth by four
    // overloads it.
    let steady: Vec<(u64, u64, u32)> = (0..40).map(|n| (n * 20, n % 8, 0)).collect();
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let drives =
        |growth| asked(&[input(&steady)], &Question { growth, ..ask.question() }).rows[0].drives;
    assert_eq!((drives(1.0), drives(4.0)), (Some(1), Some(2)));
    let disks = Ask::of(&["sata250:plain"], &[Layout::Single]);
    let mut vast = input(&[(0, 0, 0), (10_000, 1, 0)]);
    vast.extents = vec![400_000_000_000];
    let inputs = [vast];
    let rows = |growth| {
        let question = Question { growth, promise: promise(50, "1"), ..disks.question() };
        let row = asked(&inputs, &question).rows.remove(0);
        assert_eq!(row.one_less, None, "the promise does not decide");
        (row.drives_for_bytes, row.drives_for_redundancy, row.drives, row.binds)
    };
    assert_eq!(rows(1.0), (Some(2), Some(2), Some(2), Some(Binds::Bytes)));
    assert_eq!(rows(1.5), (Some(3), Some(3), Some(3), Some(Binds::Bytes)));
    assert_eq!((rows(7.0).0, rows(7.0).2), (Some(12), None), "more than eight are not allowed");
}

#[test]
fn clients_share_a_clock_and_drives_or_have_their_own() {
    // The two clients' bursts never overlap, so together they need no more than one of them does.
    let apart = [input(&burst(4)), input(&[(500, 0, 0), (500, 1, 0), (500, 2, 0), (500, 3, 0)])];
    let meeting = [input(&burst(4)), input(&burst(4))];
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let drives = |inputs: &[Input]| {
        let sharings = &[Sharing::Shared, Sharing::Apart];
        let rows = asked(inputs, &Question { sharings, ..ask.question() }).rows;
        let of = |sharing| rows.iter().find(|row| row.sharing == sharing).unwrap();
        (of(Sharing::Shared).drives, of(Sharing::Apart).drives_each.clone())
    };
    assert_eq!(drives(&apart), (Some(2), vec![2, 2]));
    assert_eq!(drives(&meeting), (Some(4), vec![2, 2]));
    // On their own clocks, the traces begin half a second apart.
    let mut recorded = meeting;
    recorded[0].notes.began = Some(Nanos::from_millis(7000));
    recorded[1].notes.began = Some(Nanos::from_millis(7500));
    let by = |begin| asked(&recorded, &Question { begin, ..ask.question() }).rows.remove(0).drives;
    assert_eq!((by(Begin::Together), by(Begin::OwnClocks)), (Some(4), Some(2)));
}

#[test]
fn each_volume_takes_whole_stripes_and_each_drive_draws() {
    let ask = Ask::of(&["hc550"], &[Layout::Single]);
    let model = &ask.drives[0].device.model;
    let whole = model.capacity() / STRIPE_BYTES * STRIPE_BYTES;
    let mut two = input(&[(0, 0, 0), (1000, 1, 0)]);
    // Together the clients' data would fit on one drive, but each client starts a new stripe, which
    // takes one stripe more.
    two.extents = vec![STRIPE_BYTES / 2, whole - STRIPE_BYTES / 2];
    let question = Question { promise: promise(50, "1"), ..ask.question() };
    let row = asked(&[two], &question).rows.remove(0);
    assert_eq!((row.drives_for_bytes, row.drives), (Some(2), Some(2)));
    let idle_w = model.joules(Nanos::from_secs(1000)) / 1000.0;
    assert!(row.mean_power_w.unwrap() > 1.9 * idle_w, "{:?} of {idle_w}", row.mean_power_w);
}

#[test]
fn drives_are_busy_for_a_share_of_the_whole_trace() {
    // One drive answers four of the five requests in time. The last one arrives when the others are
    // done.
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let uneven = [input(&[(0, 0, 0), (0, 2, 0), (0, 4, 0), (0, 1, 0), (100, 0, 0)])];
    let question = Question { promise: promise(30, "1"), ..ask.question() };
    let row = asked(&uneven, &question).rows.remove(0);
    assert_eq!((row.drives, row.utilisation_max), (Some(2), Some(40.0 / 110.0)));
    let mean = (40.0 / 110.0 + 10.0 / 100.0) / 2.0;
    assert!((row.utilisation.unwrap() - mean).abs() < 1e-9, "{:?}", row.utilisation);
    // The first client sends a single request at the beginning. Its drive is then idle until the
    // other client ends.
    let apart = [input(&[(0, 0, 0)]), input(&[(0, 0, 0), (990, 0, 0)])];
    let busy = |growth| {
        let question = Question { growth, sharings: &[Sharing::Apart], ..ask.question() };
        asked(&apart, &question).rows[0].utilisation.unwrap()
    };
    assert!((busy(1.0) - (10.0 / 990.0 + 20.0 / 1000.0) / 2.0).abs() < 1e-6, "{}", busy(1.0));
    assert!((busy(2.0) - (10.0 / 495.0 + 20.0 / 505.0) / 2.0).abs() < 1e-6, "{}", busy(2.0));
}

#[test]
fn arms_too_slow_at_the_maximum_number_may_suffice_in_larger_numbers() {
    // If data are spread over a whole disk, a request takes a seek and thus more than 12 ms;
    // without the seek it would take less.
    let ask = Ask::of(&["sata250:plain"], &[Layout::Single]);
    let mut far = input(&(0..40).map(|n| (n * 1000, n * 90_001 % 200_000, 0)).collect::<Vec<_>>());
    far.extents = vec![200_000 * STRIPE_BYTES];
    let question = Question { promise: promise(12, "1"), drives_max: 1, ..ask.question() };
    let row = asked(&[far], &question).rows.remove(0);
    assert_eq!(row.refusal, Some(rank::BuyRefusal::UpToMost));
}

#[test]
fn drives_too_slow_when_idle_are_too_slow_in_any_number() {
    let ask = Ask::of(&["fixed:50", "hc550"], &[Layout::Single, Layout::Mirror]);
    // No disk can answer in 2 ms, because it rotates too slowly, and a server of 50 requests per
    // second takes 20 ms.
    let slow = [input(&(0..40).map(|n| (n * 100, n * 37 % 900, 0)).collect::<Vec<_>>())];
    let question = Question { promise: promise(2, "0.9"), ..ask.question() };
    let found = asked(&slow, &question);
    let all = found.rows.iter().all(|row| row.refusal == Some(rank::BuyRefusal::AnyNumber));
    assert!(all && found.configuration.is_none(), "{:?}", found.rows);
    assert!(
        found.said.starts_with("Nothing that was tried keeps 90 % within 2 ms"),
        "{}",
        found.said
    );
    assert!(found.refused[0].starts_with("Too slow in any number") && found.refused.len() == 1);
    assert!(found.refused[0].contains("fixed:50 (0 %)"), "{}", found.refused[0]);
}

#[test]
fn layouts_need_their_width_and_those_with_too_little_redundancy_are_left_out() {
    let inputs = [input(&(0..20).map(|n| (n * 500, n % 8, 0)).collect::<Vec<_>>())];
    let all = Ask::of(&["fixed:1000"], &Layout::ALL);
    let drives = |survives| {
        let question = Question { survives, promise: promise(200, "1"), ..all.question() };
        let rows = asked(&inputs, &question).rows;
        let mut told: Vec<_> = rows.iter().map(|row| (row.layout.name(), row.drives)).collect();
        told.sort_unstable();
        told
    };
    let two = [("adaptive", Some(6)), ("raid6", Some(6)), ("volume-raid6", Some(6))];
    assert_eq!(drives(2), two);
    let one = [("mirror", Some(2)), ("volume-mirror", Some(2))];
    assert_eq!(drives(1), [two[0], one[0], two[1], one[1], two[2]]);
    // A constant-rate server has no arm, so the layout with a flash cache is not tried for it.
    assert_eq!(drives(0), [two[0], one[0], two[1], ("single", Some(1)), one[1], two[2]]);
    assert_eq!(Layout::ALL.map(Layout::survives), [0, 1, 2, 0, 1, 2, 2]);
}

/// Writes of 4 KiB to servers that take 10 ms per I/O. A mirror writes both copies in place at
/// once; a volume first reads the rest of the chunk.
#[test]
fn a_mirror_writes_in_place_and_a_volume_reads_the_rest_of_a_chunk_first() {
    let writes: Vec<_> = (1..20).map(|n| (n * 500, n % 8, 0)).collect();
    let writes = [input_of(Op::Write, &writes)];
    let ask = Ask::of(&["fixed:100"], &[Layout::Mirror, Layout::VolumeMirror]);
    let drives = |within_ms| {
        let question = Question { promise: promise(within_ms, "1"), ..ask.question() };
        let rows = asked(&writes, &question).rows;
        let mut told: Vec<_> = rows.iter().map(|row| (row.layout.name(), row.drives)).collect();
        told.sort_unstable();
        told
    };
    assert_eq!(drives(9), [("mirror", None), ("volume-mirror", None)]);
    assert_eq!(drives(11), [("mirror", Some(2)), ("volume-mirror", None)]);
    // The time limit leaves time for writing a round of records between requests.
    assert_eq!(drives(41), [("mirror", Some(2)), ("volume-mirror", Some(2))]);
    // A read of 128 KiB fits in one chunk of 512 KiB, but takes two chunks of 64 KiB and thus twice
    // as many I/Os.
    let reads: Vec<_> = (1..20).map(|n| (n * 500, n % 8, 0)).collect();
    let reads = [input_with(Op::Read, 128 << 10, &reads)];
    let question = Question { promise: promise(21, "1"), ..ask.question() };
    let mut rows = asked(&reads, &question).rows;
    rows.sort_by_key(|row| row.layout.name());
    let busy: Vec<f64> = rows.iter().map(|row| row.utilisation.unwrap()).collect();
    assert!((1.9..2.2).contains(&(busy[1] / busy[0])), "{busy:?}");
}

#[test]
fn a_cache_of_flash_is_tried_before_disks_only() {
    // The same few blocks are read repeatedly, so from the second time on they are on flash.
    let again: Vec<(u64, u64, u32)> = (0..400).map(|n| (n * 40, n % 4 * 50, 0)).collect();
    let mut ask = Ask::of(&["sata250:plain"], &[Layout::Single, Layout::FlashCache]);
    ask.flash = Candidate::open("samsung-830").unwrap();
    let question = Question { promise: promise(2, "0.95"), ..ask.question() };
    let rows = asked(&[input(&again)], &question).rows;
    let best = &rows[0];
    // The disk takes 8 ms per rotation, so most cache misses are late and cache hits are not.
    assert_eq!((best.layout, best.drives, best.cache_drives), (Layout::FlashCache, Some(1), 1));
    assert_eq!(best.cache_drive.as_deref(), Some("samsung-830"));
    assert_eq!(rows[1].drives, None);
}

#[test]
fn spares_draw_as_idle_drives_and_flash_costs_with_its_disks() {
    let folder = tempfile::tempdir().unwrap();
    let (prices, flash) = (folder.path().join("prices.toml"), folder.path().join("flash.toml"));
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[drive.\"sata250:plain\"]\namount = 100\n";
    std::fs::write(&prices, text).unwrap();
    let priced = "\n[price]\namount = 50.0\ncurrency = \"EUR\"\non = \"2020-09\"\n";
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/samsung-830.toml");
    std::fs::write(&flash, std::fs::read_to_string(bundled).unwrap() + priced).unwrap();
    let mut ask = Ask::of(&["sata250:plain"], &[Layout::Single, Layout::FlashCache]);
    ask.flash = Candidate::open(flash.to_str().unwrap()).unwrap();
    ask.prices = Prices::read(&prices, &["sata250:plain".into()]).unwrap();
    let inputs = [input(&[(0, 0, 0), (5000, 1, 0)]), input(&[(100, 0, 0), (4000, 1, 0)])];
    let rows = |spare| {
        let sharings = &[Sharing::Apart];
        let question = Question { spare, sharings, promise: promise(90, "1"), ..ask.question() };
        let mut rows = asked(&inputs, &question).rows;
        rows.sort_by_key(|row| row.layout.name());
        rows
    };
    let (none, two) = (rows(0), rows(2));
    let (cached, single) = (&none[0], &none[1]);
    assert_eq!((single.drives, single.price), (Some(2), Some(200.0)));
    assert_eq!((cached.drives, cached.cache_drives, cached.price), (Some(2), 2, Some(300.0)));
    assert_eq!(two[0].price, Some(500.0));
    // If a price has several parts, its date is that of the oldest part.
    let days = [cached, single].map(|row| row.priced_on.as_deref());
    assert_eq!(days, [Some("2020-09"), Some("2026-11")]);
    let model = &ask.drives[0].device.model;
    let idle_w = model.joules(Nanos::from_secs(3600)) / 3600.0;
    let more_w = two[1].mean_power_w.unwrap() - single.mean_power_w.unwrap();
    assert!(idle_w > 0.0 && (more_w - 2.0 * idle_w).abs() < 1e-9, "{more_w} of {idle_w}");
}

#[test]
fn the_cheapest_comes_first_and_unpriced_ones_last() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[drive.\"fixed:100\"]\namount = 10\nwatts = 9\n\
                [drive.\"fixed:400\"]\namount = 50\nwatts = 1\n";
    std::fs::write(&file, text).unwrap();
    let mut ask = Ask::of(&["fixed:300", "fixed:400", "fixed:100"], &[Layout::Single]);
    let names: Vec<String> = ask.drives.iter().map(|one| one.device.name.clone()).collect();
    ask.prices = Prices::read(&file, &names).unwrap();
    let question = Question { spare: 1, ..ask.question() };
    let found = asked(&[input(&burst(8))], &question);
    let told: Vec<_> =
        found.rows.iter().map(|row| (row.drive.as_str(), row.drives, row.price)).collect();
    // Eight requests at once within 20 ms need four drives of 100 per second, one of 400, or two of
    // 300.
    let expected = [
        ("fixed:100", Some(4), Some(50.0)),
        ("fixed:400", Some(1), Some(100.0)),
        ("fixed:300", Some(2), None),
    ];
    assert_eq!(told, expected);
    // The cheapest drives come first, although they draw the most power.
    assert_eq!(found.rows[0].mean_power_w, Some(45.0));
    assert!(
        found.said.starts_with(
            "Buy 4 fixed:100 (striped, no redundancy), 1 spare, for 50.00 EUR, to keep "
        ),
        "{}",
        found.said
    );
    let (mut best, client) = (found.rows[0].clone(), found.clients[0].clone());
    (best.cache_drives, best.cache_drive) = (2, Some("d7-p5520".into()));
    best.layout = Layout::FlashCache;
    let said = page::headline(&[best.clone()], &[client.clone(), client.clone()], 64);
    assert_eq!(
        said,
        "Buy 4 fixed:100 with 2 d7-p5520 (flash-cache), 1 spare, for 50.00 EUR, to keep 100 % within 20 ms for each of 2 \
         clients."
    );
    assert!(said.split_whitespace().count() <= 25);
    let other = ClientNeed { within_ms: 1.0, ..client.clone() };
    let said = page::headline(&[], &[client, other], 1);
    assert!(
        said.ends_with("keeps the promise to each of 2 clients, with up to 1 drive."),
        "{said}"
    );
    assert!(
        found.cautions.iter().any(|said| said.contains("are listed last: fixed:300")),
        "{:?}",
        found.cautions
    );
}

/// With a budget, the first row is the best that costs no more. Otherwise the answer says what is
/// lacking.
#[test]
fn a_budget_limits_the_price_or_the_answer_says_what_is_lacking() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[drive.\"fixed:100\"]\namount = 10\n\
                [drive.\"fixed:400\"]\namount = 50\n";
    std::fs::write(&file, text).unwrap();
    let mut ask = Ask::of(&["fixed:300", "fixed:400", "fixed:100"], &[Layout::Single]);
    let names: Vec<String> = ask.drives.iter().map(|one| one.device.name.clone()).collect();
    ask.prices = Prices::read(&file, &names).unwrap();
    let found = |budget: &str| {
        let budget = <Budget as forebay_ask::Value>::parse(budget).unwrap();
        asked(&[input(&burst(8))], &Question { budget: Some(&budget), ..ask.question() })
    };
    // Four drives of 100 per second cost 40 EUR, one of 400 costs 50 EUR.
    for budget in ["40", "40 EUR", "49.99EUR", "1000"] {
        let found = found(budget);
        assert!(found.headline.starts_with("Buy 4 fixed:100 "), "{budget}: {}", found.headline);
        assert!(found.configuration.is_some() && !found.is_over_budget);
    }
    let short = found("39.5");
    assert_eq!(
        short.headline,
        "39.50 EUR is too little to keep 100 % within 20 ms: the cheapest, 4 fixed:100 (striped), \
         costs 40.00 EUR, 0.50 EUR more."
    );
    assert!(short.headline.split_whitespace().count() <= 25);
    assert!(short.configuration.is_none() && short.is_over_budget);
    assert_eq!(page::page(&short, None).verdict.words, "Not within the budget");
    let other = found("1000USD").headline;
    let said = "1000.00 USD buys drives that keep 100 % within 20 ms is unknown: fixed:100 has no price in USD";
    assert!(other.contains(said), "{other}");
    for wrong in ["", "EUR", "-5", "0", "ten", "5 euro", "5 EURO", "1e13", "nan"] {
        assert!(<Budget as forebay_ask::Value>::parse(wrong).is_err(), "{wrong}");
    }
}

/// The drives with the most headroom within the budget are named too.
#[test]
fn the_most_headroom_within_the_budget_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[drive.\"fixed:100\"]\namount = 10\n\
                [drive.\"fixed:400\"]\namount = 50\n";
    std::fs::write(&file, text).unwrap();
    let mut ask = Ask::of(&["fixed:400", "fixed:100"], &[Layout::Single]);
    let names: Vec<String> = ask.drives.iter().map(|one| one.device.name.clone()).collect();
    ask.prices = Prices::read(&file, &names).unwrap();
    let steady: Vec<(u64, u64, u32)> = (0..200).map(|n| (n * 12, n, 0)).collect();
    let found = |amount: &str| {
        let budget = <Budget as forebay_ask::Value>::parse(amount).unwrap();
        asked(&[input(&steady)], &Question { budget: Some(&budget), ..ask.question() })
    };
    let said = found("60").said;
    assert!(
        said.contains("Within the budget, 1 fixed:400 (single) has the most headroom: "),
        "{said}"
    );
    assert!(said.contains(" for 50.00 EUR."), "{said}");
    assert!(!found("45").said.contains("most headroom"));
}

#[test]
fn reservations_are_cut_where_all_do_not_fit() {
    // Two clients need 200 requests per second each for their bursts. These never overlap, so a
    // server of 250 per second is enough.
    let later: Vec<(u64, u64, u32)> =
        burst(4).iter().map(|(_, stripe, _)| (5000, *stripe, 0)).collect();
    let inputs = [input(&burst(4)), input(&later)];
    let ask = Ask::of(&["fixed:250"], &[Layout::Single]);
    let found = asked(&inputs, &ask.question());
    assert_eq!((found.rows[0].drives, found.clients[0].capacity_iops), (Some(1), Some(200)));
    let text = found.configuration.unwrap();
    // A rate of 50 requests per second is set aside for requests already in progress.
    assert!(text.serve.contains("capacity_iops = 250\n# All promises together"), "{}", text.serve);
    assert_eq!(text.serve.matches("keep_iops = 100\n").count(), 2, "{}", text.serve);
    // The other client's reservation leaves 150, but the limit is 200, because the client's own
    // promise needs that.
    assert_eq!(text.dmclock.lines().nth(2), Some("(memory) 100 100 200"));
    for said in [&text.dmclock, &text.cgroup] {
        assert!(said.contains("# data: all promises together exceed"), "{said}");
    }
    assert!(text.cgroup.contains("riops=200 wiops=200"), "{}", text.cgroup);
    assert!(text.cgroup.contains("(memory)#2/io.weight\ndefault 1000"), "{}", text.cgroup);
}

/// If the size decides, and most of the addresses are unused, the first screen says so.
#[test]
fn a_size_that_decides_is_explained_first() {
    let far: Vec<(u64, u64, u32)> = (0..200).map(|n| (n * 50, n % 2 * (40 << 40), 0)).collect();
    let inputs = [input_at(Op::Read, 4096, &far)];
    let ask = Ask::of(&["hc550"], &[Layout::Single]);
    let found = asked(&inputs, &Question { promise: promise(500, "0.9"), ..ask.question() });
    assert_eq!((found.rows[0].drives, found.rows[0].binds), (Some(3), Some(Binds::Bytes)));
    let page = page::page(&found, None);
    let screen = terminal::text(&page, 80, Extent::FirstScreen);
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("of which requests touch 8 KiB."), "{screen}");
    let named = Question { gib: Some(1), promise: promise(500, "0.9"), ..ask.question() };
    let named = asked(&inputs, &named);
    assert_eq!((named.rows[0].drives, named.clients[0].bytes), (Some(1), 1 << 30));
    assert!(named.of_size.is_empty() && named.cautions.len() < found.cautions.len());
}

#[test]
fn a_promise_to_nobody_is_refused() {
    let mut ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    ask.own = vec![("bb".into(), promise(5, "1"))];
    let inputs = [input(&burst(2))];
    let Err(error) = answer(&inputs, &ask.question(), &mut crate::progress::unheard) else {
        panic!("it is taken")
    };
    assert!(error.to_string().contains("got no client called bb"), "{error}");
}

#[test]
fn the_search_stops_on_request() {
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let many: Vec<(u64, u64, u32)> = (0..20_000).map(|n| (n, n % 8, 0)).collect();
    let inputs = [input(&many)];
    let stopped = answer(&inputs, &ask.question(), &mut |_: &crate::progress::ProgressReport| {
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
}

/// Returns the number after `key` in `text`.
fn number(text: &str, key: &str) -> u64 {
    let rest = text.split(key).nth(1).unwrap_or_else(|| panic!("no {key}: {text}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn reservations_hold_for_any_workload_and_limits_permit_them() {
    // Bursts of sequential reads, which a disk serves at a far higher rate than random ones.
    let reads: Vec<(u64, u64, u32)> =
        (0..1000).map(|nth| (nth / 25 * 1000, nth * 4096, 0)).collect();
    let inputs = [input_at(Op::Read, 4096, &reads)];
    for (drive, layout) in
        [("hc550", Layout::Single), ("st91000640ss", Layout::Single), ("hc550", Layout::Mirror)]
    {
        let ask = Ask::of(&[drive], &[layout]);
        let question = Question { promise: promise(50, "1"), ..ask.question() };
        let found = asked(&inputs, &question);
        let need = found.clients[0].capacity_iops.unwrap();
        let text = found.configuration.unwrap();
        let random = number(&text.cgroup, "rrandiops=").min(number(&text.cgroup, "wrandiops="));
        let drives = found.rows[0].drives.unwrap() as u64;
        assert!(need > random, "{need} of {random}: the trace is not hard enough");
        let capacity = number(&text.serve, "capacity_iops = ");
        assert!(capacity <= random * drives * 11 / 10, "{capacity} of {random} a drive");
        let kept = number(&text.serve, "keep_iops = ");
        assert!((1..=capacity).contains(&kept), "{}", text.serve);
        let at = |key: &str| random * drives * number(&text.cgroup, key) / 100;
        assert!(kept <= at(" min="), "{kept}: {}", text.cgroup);
        assert!(need.max(kept) <= at(" max="), "{need}: {}", text.cgroup);
        assert!(number(&text.cgroup, "riops=") >= kept, "{}", text.cgroup);
    }
}
