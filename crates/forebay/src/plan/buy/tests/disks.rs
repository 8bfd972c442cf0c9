//! Tests what decides on real drives: their arms, headroom, wear, redundancy, and gaps in the
//! trace.

use super::*;

/// Returns options for reads on disks, in which 95 % of requests are promised an answer within
/// `within_ms`.
fn disk_question<'a>(ask: &'a Ask, within_ms: u64) -> Question<'a> {
    Question { promise: promise(within_ms, "0.95"), drives_max: 32, ..ask.question() }
}

/// Returns a trace of reads at random locations in the first GiB, at a rate of `per_s`.
fn scattered(per_s: u64, seconds: u64) -> Input {
    let reads = (0..per_s * seconds).map(|n| (n * 1000 / per_s, n * 7919 % 1024, 0));
    input(&reads.collect::<Vec<_>>())
}

#[test]
fn data_lie_all_over_a_disk_and_not_at_its_outer_edge() {
    // A GiB at the outer edge of 18 TB is read without moving the arm, so 240 reads per second
    // would keep one disk busy but in time. With the data spread over the whole disk, it takes more
    // than one.
    let ask = Ask::of(&["hc550"], &[Layout::Single]);
    let found = asked(&[scattered(240, 20)], &disk_question(&ask, 50));
    assert!(found.rows[0].drives >= Some(2), "{:?}", found.rows[0]);
}

#[test]
fn drives_have_the_headroom_or_the_answer_says_so() {
    let steady: Vec<(u64, u64, u32)> = (0..800).map(|n| (n * 25 / 2, n % 8, 0)).collect();
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let of = |headroom| {
        let question = Question { headroom, promise: promise(60, "1"), ..ask.question() };
        asked(&[input(&steady)], &question)
    };
    // The load is 80 requests per second, on servers of 100.
    let (without, with) = (of(0.0), of(0.3));
    assert_eq!((without.rows[0].drives, with.rows[0].drives), (Some(1), Some(2)));
    assert!(without.rows[0].utilisation_max.unwrap() > 0.75, "{:?}", without.rows[0]);
    let row = &with.rows[0];
    assert_eq!((row.binds, row.drives_without_headroom), (Some(Binds::Headroom), Some(1)));
    assert!(row.has_headroom && row.utilisation_max.unwrap() <= 0.7, "{row:?}");
    assert!(with.reasons[0].ends_with("1 would keep the promise, but not with 30 % of headroom."));
    assert_eq!(with.cautions.iter().filter(|said| said.contains("headroom")).count(), 0);
    // All requests go to one drive, no matter how many drives there are.
    let one_place: Vec<(u64, u64, u32)> = steady.iter().map(|(at, ..)| (*at, 0, 0)).collect();
    let question = Question { headroom: 0.3, promise: promise(60, "1"), ..ask.question() };
    let found = asked(&[input(&one_place)], &question);
    assert!(!found.rows[0].has_headroom && found.rows[0].drives == Some(1), "{:?}", found.rows[0]);
    let said = found.cautions.iter().find(|said| said.contains("has the headroom")).unwrap();
    assert!(said.contains("busy for 80"), "{said}");
    assert_eq!(page::page(&found, None).verdict.words, "Too little headroom");
}

/// A mirror of two servers is two thirds busy, so a single server would be overloaded.
#[test]
fn every_redundant_layout_is_run_with_a_drive_missing_and_while_it_is_rebuilt() {
    let steady: Vec<(u64, u64, u32)> = (0..800).map(|n| (n * 15 / 2, n % 64, 0)).collect();
    let layouts = [
        Layout::Mirror,
        Layout::Raid6,
        Layout::VolumeMirror,
        Layout::VolumeRaid6,
        Layout::Adaptive,
    ];
    let ask = Ask::of(&["fixed:100"], &[&[Layout::Single][..], &layouts].concat());
    let question = Question { promise: promise(80, "0.9"), ..ask.question() };
    let found = asked(&[input(&steady)], &question);
    for row in &found.rows {
        let (Some(whole), drives) = (row.worst(), row.drives.unwrap()) else { panic!("{row:?}") };
        assert_eq!(row.degraded.is_some(), row.layout.is_array(), "{row:?}");
        let (Some(degraded), Some(rebuilding)) = (&row.degraded, &row.rebuilding) else { continue };
        let [whole, degraded, rebuilding] =
            [whole, degraded, rebuilding].map(|of| of.in_time_fraction);
        assert!(whole >= degraded && degraded >= rebuilding, "{row:?}");
        if drives == 2 {
            assert!(degraded < 0.5, "133 a second on one server of 100: {row:?}");
        }
        // A rebuild reads 400 chunks per second in a mirror, and four times as many in RAID 6.
        assert!(rebuilding < 0.2, "{row:?}");
    }
    let mirror = found.rows.iter().find(|row| row.layout == Layout::Mirror).unwrap();
    let said = said::reasons(std::slice::from_ref(mirror), &found.clients, &question);
    assert!(said[1].starts_with("With one drive missing "), "{said:?}");
    assert!(said[1].contains(": the promise is broken."), "{said:?}");
}

#[test]
fn layouts_with_more_redundancy_lose_less() {
    let ask = Ask::of(&["hc550"], &[Layout::Single, Layout::Mirror, Layout::Raid6]);
    let found = asked(&[scattered(10, 20)], &disk_question(&ask, 90));
    let lost = |layout| {
        let row = found.rows.iter().find(|row| row.layout == layout).unwrap();
        assert!((row.rebuild_hours.unwrap() - 100.0).abs() < 0.1, "18 TB at 50 MB/s");
        row.lost_per_year_bytes.unwrap()
    };
    let (single, data) = (lost(Layout::Single), found.clients[0].bytes as f64);
    assert!((0.0156..0.0158).contains(&(single / data)), "{single} of {data}");
    assert!(single > 1000.0 * lost(Layout::Mirror) && lost(Layout::Mirror) > lost(Layout::Raid6));
    // Drives without redundancy are not said to have any.
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let found = asked(&[input(&burst(12))], &ask.question());
    assert_eq!(found.rows[0].drives, Some(6));
    assert!(found.said.contains(", 6 are fast enough."), "{}", found.said);
    assert!(!found.said.contains("with redundancy"), "{}", found.said);
}

#[test]
fn flash_lasts_as_long_as_its_rating() {
    // Both copies receive 16 MB per second, which is 505 TB per year, plus some to fill whole
    // blocks.
    let writes: Vec<(u64, u64, u32)> = (0..160).map(|n| (n * 62 + n / 2, n % 64, 0)).collect();
    let ask = Ask::of(&["990-pro", "samsung-830", "hc550"], &[Layout::Mirror]);
    let question = Question { promise: promise(90, "0.9"), ..ask.question() };
    let found = asked(&[input_with(Op::Write, 1_000_000 / 4096 * 4096, &writes)], &question);
    let row = |name| found.rows.iter().find(|row| row.drive == name).unwrap();
    let pro = row("990-pro");
    let (written, years) = (pro.written_per_year_tb.unwrap(), pro.endurance_years.unwrap());
    assert!((500.0..540.0).contains(&written), "{written}");
    assert!((years - 1200.0 / written).abs() < 1e-9, "{years}");
    assert!(said::worn_soon(pro).unwrap().contains("which wears it out in 2.3 years"), "{years}");
    let old = row("samsung-830");
    assert!(said::worn_soon(old).unwrap().contains("does not specify its rated endurance"));
    assert_eq!((old.endurance_years, row("hc550").written_per_year_tb), (None, None));
}

#[test]
fn shingled_drives_are_not_offered_for_random_writes() {
    let writes: Vec<_> = (1..50).map(|n| (n * 500, n * 7 % 64, 0)).collect();
    let ask = Ask::of(&["st2000dm008", "hc550"], &[Layout::Single]);
    let question = Question { promise: promise(90, "1"), ..ask.question() };
    let drives = |op| {
        let found = asked(&[input_of(op, &writes)], &question);
        let names = found.rows.iter().map(|row| row.drive.clone());
        (names.collect::<Vec<_>>(), found.refused)
    };
    let (offered, refused) = drives(Op::Write);
    assert_eq!(offered, ["hc550"]);
    assert!(refused.iter().any(|said| said.starts_with("st2000dm008: ")), "{refused:?}");
    assert_eq!(drives(Op::Read).0.len(), 2);
}

#[test]
fn numbers_have_intervals_where_they_are_asked_for() {
    // Most bursts have four requests and every tenth has twelve, so whether the promise is kept
    // depends on how often the longer ones occur.
    let bursts = (0..200u64).flat_map(|n| {
        let many = if n % 10 == 0 { 12 } else { 4 };
        (0..many).map(move |stripe| (n * 100, stripe, 0))
    });
    let inputs = [input(&bursts.collect::<Vec<_>>())];
    let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
    let bootstrap = Some(Bootstrap { level: 0.9, seed: 1 });
    let question = Question { promise: promise(20, "0.9"), bootstrap, ..ask.question() };
    let row = asked(&inputs, &question).rows.remove(0);
    let (low, drives, high) =
        (row.drives_low.unwrap(), row.drives.unwrap(), row.drives_high.unwrap());
    assert!(low <= drives && drives <= high && low < high, "{row:?}");
    let share = &row.clients[0];
    let (below, above) =
        (share.in_time_low_fraction.unwrap(), share.in_time_high_fraction.unwrap());
    assert!(below <= share.in_time_fraction && share.in_time_fraction <= above, "{share:?}");
    let row = asked(&inputs, &Question { bootstrap: None, ..question }).rows.remove(0);
    assert_eq!((row.drives_low, row.clients[0].in_time_low_fraction), (None, None));
}

/// As when a recording was stopped for hours: the drives are as busy as without the gap.
#[test]
fn drives_are_as_busy_as_outside_a_long_gap() {
    let busy = |gap_ms: u64| {
        let at = |n: u64| n * 100 + if n >= 100 { gap_ms } else { 0 };
        let requests: Vec<_> = (0..200).map(|n| (at(n), n % 8, 0)).collect();
        let ask = Ask::of(&["fixed:100"], &[Layout::Single]);
        let answer = asked(&[input(&requests)], &ask.question());
        answer.rows[0].utilisation_max.unwrap()
    };
    let (with, without) = (busy(8 * 3_600_000), busy(0));
    assert!(without > 0.09 && (with - without).abs() < 0.01, "{with} for {without}");
}

/// The answer explains why RAID 6 needs so many drives compared with one drive.
#[test]
fn raid6_says_that_it_reads_before_it_writes() {
    let refused = |op| {
        let ask = Ask::of(&["fixed:100"], &[Layout::Raid6]);
        let answer = asked(&[input_of(op, &burst(60))], &ask.question());
        assert!(answer.rows[0].drives.is_none(), "{:?}", answer.rows[0]);
        answer.refused.join(" ")
    };
    assert!(refused(Op::Write).contains("raid6 reads three blocks from the disks"));
    assert!(!refused(Op::Read).contains("reads three blocks"));
    // If it keeps the promise with many drives, the answer says why there are so many, whichever
    // layout is best.
    let ask = Ask::of(&["fixed:100"], &[Layout::Mirror, Layout::Raid6]);
    let question = Question { promise: promise(60, "1"), drives_max: 36, ..ask.question() };
    let answer = asked(&[input_of(Op::Write, &burst(12))], &question);
    let [best, raid6] = [0, 1].map(|row| &answer.rows[row]);
    assert_eq!((best.layout, raid6.layout), (Layout::Mirror, Layout::Raid6));
    assert!(raid6.drives > Some(6), "{raid6:?}");
    let why = format!("raid6 needs {} drives: before it writes", raid6.drives.unwrap());
    assert!(answer.reasons[0].contains(&why), "{:?}", answer.reasons);
}
