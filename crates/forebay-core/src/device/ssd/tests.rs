//! Tests small drives with values computed by hand: which command waits for which.

use super::*;

/// Returns two channels of one die each with 4 KiB pages and round numbers.
fn spec() -> SsdSpec {
    SsdSpec {
        capacity_bytes: 64 << 12,
        page_bytes: 4096,
        program_pages: 1,
        pages_per_block: 8,
        channels: 2,
        dies_per_channel: 1,
        over_provisioning_share: 1.0,
        read: Nanos(50_000).into(),
        program: Nanos(500_000),
        erase: Nanos(3_000_000),
        channel_bytes_per_s: 409_600_000, // a page in 10 us
        link_bytes_per_s: 4_096_000_000,  // a page in 1 us
        duplex: false,
        command: Nanos(1_000),
        write_command: Nanos(1_000),
        ceiling: Ceiling::Arrival,
        write_ceiling: Ceiling::Arrival,
        entrance: None,
        overhead: Nanos(5_000),
        write_buffer_bytes: 4 << 12,
        read_cache_bytes: 0,
        power_loss_protection: false,
        queue_depth: 8,
        collection: Collection::Greedy,
        precondition: Precondition::default(),
        len_max: 1 << 20,
        power: Power { idle_w: 1.0, read_w: 3.0, write_w: 5.0 },
    }
}

fn io(id: u64, op: Op, page: u64, pages: u32) -> Request {
    Request {
        at: Nanos::ZERO,
        offset: page << 12,
        id,
        len: pages << 12,
        stream: 0,
        lane: 0,
        op,
        flags: Flags::NONE,
    }
}

/// Returns when each of the commands completes, in us. All are started at 0.
fn done_us(spec: SsdSpec, ios: &[Request]) -> Vec<u64> {
    let mut ssd = Ssd::new(spec).unwrap();
    ios.iter().for_each(|&io| ssd.start(Nanos::ZERO, io));
    let mut done = vec![0; ios.len()];
    while let Some(at) = ssd.next() {
        done[ssd.finish(at).io.id as usize] = at.0 / 1000;
    }
    done
}

#[test]
fn the_most_recent_page_is_read_without_using_the_die() {
    // The cache has space for two pages, so page 2 replaces page 0. A hit takes only the time of
    // the command and the link.
    let cached = SsdSpec { read_cache_bytes: 2 << 12, ..spec() };
    let mut ssd = Ssd::new(cached).unwrap();
    let mut now = Nanos(10_000_000);
    let mut took = |op: Op, page: u64| {
        ssd.start(now, io(0, op, page, 1));
        let done = ssd.next().unwrap();
        ssd.finish(done);
        let took = (done.0 - now.0) / 1000;
        now = Nanos(now.0 + 10_000_000);
        took
    };
    assert_eq!(took(Op::Read, 0), 65);
    assert_eq!(took(Op::Read, 0), 6);
    assert_eq!(took(Op::Read, 1), 65);
    assert_eq!(took(Op::Read, 0), 6);
    took(Op::Write, 2);
    assert_eq!(took(Op::Read, 2), 6);
    assert_eq!(took(Op::Read, 0), 65);
}

#[test]
fn reads_of_one_die_queue_and_of_two_do_not() {
    // Pages 0 and 2 are on die 0, page 1 is on die 1. One command per microsecond reaches the
    // flash, the first after 5 us. A page takes 50 us to read and 10 us on the channel.
    let reads = [io(0, Op::Read, 0, 1), io(1, Op::Read, 1, 1), io(2, Op::Read, 2, 1)];
    assert_eq!(done_us(spec(), &reads), [65, 66, 115]);
}

#[test]
fn a_long_read_uses_both_dies() {
    // Four pages, two on each die, take 50 us each. The last transfer follows the second read.
    assert_eq!(done_us(spec(), &[io(0, Op::Read, 0, 4)]), [115]);
    // Pages that are programmed in pairs are also read in pairs.
    let paired = SsdSpec { program_pages: 2, ..spec() };
    assert_eq!(done_us(paired, &[io(0, Op::Read, 0, 4)]), [75]);
}

#[test]
fn writes_are_done_in_the_buffer_until_it_is_full() {
    // Six single-page writes go to a buffer of four pages and two dies that take 500 us. All share
    // the link.
    let writes: Vec<Request> = (0..6).map(|k| io(k, Op::Write, k, 1)).collect();
    // The fifth write waits until the first is programmed: 6 us to enter the buffer, 10 us on the
    // channel, 500 us.
    assert_eq!(done_us(spec(), &writes), [6, 7, 8, 9, 516, 517]);
}

#[test]
fn flush_and_fua_wait_for_the_flash_unless_power_loss_is_covered() {
    let fua = Request { flags: Flags::FUA, ..io(0, Op::Write, 0, 1) };
    let flush = io(1, Op::Flush, 0, 0);
    assert_eq!(done_us(spec(), &[fua, flush]), [516, 516]);
    let preflush = Request { flags: Flags::PREFLUSH, ..io(1, Op::Write, 1, 1) };
    assert_eq!(done_us(spec(), &[io(0, Op::Write, 0, 1), preflush]), [6, 516]);
    let safe = SsdSpec { power_loss_protection: true, ..spec() };
    assert_eq!(done_us(safe, &[fua, flush]), [6, 6]);
}

#[test]
fn a_read_waits_for_one_program_and_overtakes_the_others() {
    // Pages 0, 2 and 4 are queued on die 0 from 16 us on, and take 500 us each.
    let mut ssd = Ssd::new(spec()).unwrap();
    (0..3).for_each(|k| ssd.start(Nanos::ZERO, io(k, Op::Write, 2 * k, 1)));
    ssd.start(Nanos::from_micros(100), io(3, Op::Read, 6, 1));
    while let Some(at) = ssd.next() {
        if ssd.finish(at).io.id == 3 {
            // After the first is programmed, the read takes 50 us, and 10 us on the channel.
            assert_eq!(at.0 / 1000, 516 + 60);
        }
    }
}

#[test]
fn part_of_a_page_costs_a_read_first_unless_it_goes_on_in_the_page() {
    let part = |id, offset: u64| Request { offset, len: 2048, ..io(id, Op::Write, 0, 1) };
    let mut ssd = Ssd::new(spec()).unwrap();
    ssd.start(Nanos::ZERO, part(0, 0));
    ssd.start(Nanos::ZERO, part(1, 2048));
    assert_eq!(ssd.wear().host_pages, 1);
    let flags = Flags::FUA;
    // After 5.5 us for the command and the link, it takes 50 us to read the rest of the page, and
    // 500 us to program it.
    assert_eq!(done_us(spec(), &[Request { flags, ..part(0, 0) }]), [555]);
}

#[test]
fn unwritten_and_trimmed_pages_are_read_without_flash() {
    let precondition = Precondition { filled_share: 0.5, ..Precondition::default() };
    let half = SsdSpec { precondition, ..spec() };
    assert_eq!(done_us(half.clone(), &[io(0, Op::Read, 31, 1), io(1, Op::Read, 32, 1)]), [65, 7]);
    assert_eq!(done_us(half, &[io(0, Op::Trim, 31, 1), io(1, Op::Read, 31, 1)]), [5, 7]);
}

#[test]
fn energy_is_idle_watts_and_the_work_of_the_dies() {
    let mut ssd = Ssd::new(spec()).unwrap();
    ssd.start(Nanos::ZERO, io(0, Op::Read, 0, 1));
    // 1 W for one second; in addition, one of two dies reads for 50 us at (3 - 1) / 2 W.
    assert!((ssd.joules(Nanos::from_secs(1)) - 1.000_05).abs() < 1e-9);
}

#[test]
fn a_read_takes_the_time_of_its_page_and_its_die_a_part_of_it() {
    let mode = |us, share| Mode { time: Nanos::from_micros(us), share };
    let modes = Modes { modes: vec![mode(40, 0.5), mode(90, 0.5)], busy_share: 0.5 };
    let cells = SsdSpec { read: modes, ..spec() };
    let alone = |page| done_us(cells.clone(), &[io(0, Op::Read, page, 1)])[0];
    let times: Vec<u64> = (0..64).map(alone).collect();
    // In addition, 5 us for the command and 10 us on the channel.
    assert!(times.iter().all(|us| [55, 105].contains(us)), "{times:?}");
    let slow: Vec<u64> = (0..64).filter(|page| times[*page as usize] == 105).collect();
    assert!((16..48).contains(&slow.len()), "{slow:?}");
    // Two slow pages on one die: the second read waits for half of the first one's time.
    let [one, other] =
        [slow[0], *slow.iter().skip(1).find(|page| *page % 2 == slow[0] % 2).unwrap()];
    let both = done_us(cells, &[io(0, Op::Read, one, 1), io(1, Op::Read, other, 1)]);
    assert_eq!(both, [105, 105 + 45]);
}

#[test]
fn commands_pass_one_by_one_before_the_flash_or_behind_it() {
    // Two dies; each command occupies the controller for 30 us.
    let slow = SsdSpec { command: Nanos::from_micros(30), ..spec() };
    let reads = [io(0, Op::Read, 0, 1), io(1, Op::Read, 1, 1), io(2, Op::Read, 32, 1)];
    assert_eq!(done_us(slow.clone(), &reads), [65, 95, 125]);
    // After the flash, the first command leaves after its own 30 us. Page 32 contains no data and
    // is therefore ready first.
    let behind = SsdSpec { ceiling: Ceiling::Completion, ..slow };
    let half = Precondition { filled_share: 0.5, ..Precondition::default() };
    let behind = SsdSpec { precondition: half, ..behind };
    assert_eq!(done_us(behind, &reads), [95, 125, 38]);
}

#[test]
fn time_spent_before_the_flash_does_not_queue_behind_it() {
    // Reads leave one at a time, 30 us each. The write, which is third on the link, need not wait
    // for that and overtakes them.
    let command = Nanos::from_micros(30);
    let behind = SsdSpec { command, ceiling: Ceiling::Completion, ..spec() };
    let ios = [io(0, Op::Read, 0, 1), io(1, Op::Read, 1, 1), io(2, Op::Write, 2, 1)];
    assert_eq!(done_us(behind, &ios), [95, 125, 8]);
    let mut ssd = Ssd::new(SsdSpec { command, ceiling: Ceiling::Completion, ..spec() }).unwrap();
    ssd.start(Nanos::ZERO, ios[0]);
    ssd.start(Nanos::from_micros(70), ios[2]);
    let ends: Vec<u64> = std::iter::from_fn(|| {
        let at = ssd.next()?;
        ssd.finish(at);
        Some(at.0 / 1000)
    })
    .collect();
    assert_eq!(ends, [76, 95]);
}

#[test]
fn the_buffer_takes_writes_in_one_by_one_where_it_has_an_entrance() {
    let times = Modes { busy_share: 0.5, ..Modes::from(Nanos::from_micros(40)) };
    let entered = SsdSpec { entrance: Some(Entrance { times, lanes: 1 }), ..spec() };
    let writes = [io(0, Op::Write, 0, 1), io(1, Op::Write, 1, 1)];
    // 5 us for the command, 20 us before the entrance, 20 us in it, 1 us on the link.
    assert_eq!(done_us(entered, &writes), [46, 66]);
}

#[test]
fn a_write_that_enters_late_does_not_delay_the_data_of_others() {
    let mode = |us, share| Mode { time: Nanos::from_micros(us), share };
    let times = Modes { modes: vec![mode(40, 0.5), mode(2_000, 0.5)], busy_share: 0.1 };
    let entered = SsdSpec {
        entrance: Some(Entrance { times, lanes: 1_024 }),
        queue_depth: 32,
        write_buffer_bytes: 64 << 12,
        ..spec()
    };
    let writes: Vec<Request> = (0..32).map(|id| io(id, Op::Write, id, 1)).collect();
    let done = done_us(entered, &writes);
    assert!(done.iter().all(|us| *us < 150 || *us > 2_000), "{done:?}");
    let first_late = done.iter().position(|us| *us > 2_000).unwrap();
    assert!(done[first_late..].iter().any(|us| *us < 150), "{done:?}");
}

#[test]
fn no_write_to_a_worn_drive_waits_for_a_whole_block() {
    let precondition = Precondition { overwrites_share: 3.0, ..Precondition::default() };
    let worn = SsdSpec {
        capacity_bytes: 64 << 20,
        pages_per_block: 128,
        over_provisioning_share: 0.2,
        program: Nanos::from_micros(100),
        precondition,
        ..spec()
    };
    let mut ssd = Ssd::new(worn).unwrap();
    let (mut now, mut longest, mut state) = (Nanos::ZERO, Nanos::ZERO, 5);
    for id in 0..20_000 {
        if !ssd.room() {
            now = ssd.next().unwrap();
            let done = ssd.finish(now);
            longest = longest.max(now - done.started);
        }
        state = mixed(state);
        ssd.start(now, io(id, Op::Write, state % (64 << 8), 1));
    }
    assert!(ssd.wear().moved_pages > 20_000, "{:?}", ssd.wear());
    // Moving the valid pages of a block takes about 15 ms, and an erase 3 ms.
    assert!(longest < Nanos::from_millis(11), "{longest}");
}

/// Returns the rate of random writes of 16 pages in MB/s. They go to the first `share` of a drive,
/// and only that part contains data.
fn random_write_rate(share: f64) -> f64 {
    let spec = SsdSpec {
        capacity_bytes: 1 << 30,
        pages_per_block: 128,
        channels: 4,
        dies_per_channel: 2,
        over_provisioning_share: 0.07,
        write_buffer_bytes: 1 << 20,
        read_cache_bytes: 0,
        precondition: Precondition { filled_share: share, overwrites_share: 2.0, seed: 3 },
        ..spec()
    };
    let mut ssd = Ssd::new(spec).unwrap();
    let places = (share * f64::from(1 << 18) / 16.0) as u64;
    let (mut now, mut bytes, mut state) = (Nanos::ZERO, 0u64, 5u64);
    for id in 0..20_000 {
        if !ssd.room() {
            now = ssd.next().unwrap();
            ssd.finish(now);
        }
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let request = io(id, Op::Write, (state >> 20) % places * 16, 16);
        ssd.start(now, request);
        bytes += u64::from(request.len);
    }
    bytes as f64 * 1e3 / now.0 as f64
}

#[test]
fn writes_are_slower_the_fuller_the_drive() {
    // This agrees with the measurements in the adaptive-RAID paper (section 4.2, figure 1(b)).
    let rates = [0.25, 0.5, 0.75, 0.9, 1.0].map(random_write_rate);
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0] * 1.02), "{rates:?}");
    assert!(rates[4] < 0.5 * rates[0], "{rates:?}");
}

/// Returns the number of flash pages programmed per written page, for many random writes to a drive
/// in steady state.
fn write_amplification(spec: SsdSpec) -> f64 {
    let precondition = Precondition { overwrites_share: 4.0, ..Precondition::default() };
    let mut ssd = Ssd::new(SsdSpec { precondition, ..spec }).unwrap();
    let pages = ssd.capacity() >> 12;
    let (mut now, mut state) = (Nanos::ZERO, 5u64);
    for id in 0..60_000 {
        if !ssd.room() {
            now = ssd.next().unwrap();
            ssd.finish(now);
        }
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ssd.start(now, io(id, Op::Write, (state >> 20) % pages, 1));
    }
    ssd.wear().write_amplification().unwrap()
}

#[test]
fn a_smaller_drive_amplifies_writes_as_the_whole_one() {
    let whole = SsdSpec {
        capacity_bytes: 1 << 30,
        pages_per_block: 64,
        over_provisioning_share: 0.0734,
        ..spec()
    };
    let expected = write_amplification(whole.clone());
    for part in [2, 8, 16] {
        let small = whole.resized(whole.capacity_bytes / part);
        let wanted = (whole.capacity_bytes / part) as f64;
        assert!((small.capacity_bytes as f64 / wanted - 1.0).abs() < 0.01, "{small:?}");
        let ratio = write_amplification(small) / expected;
        assert!((0.96..1.04).contains(&ratio), "1/{part}: {ratio} of {expected}");
        let naive = SsdSpec { capacity_bytes: wanted as u64, ..whole.clone() };
        assert!(part < 8 || write_amplification(naive) > 1.1 * expected, "1/{part}");
    }
    let least = whole.resized(1);
    assert!(least.capacity_bytes < 2 * ((2 * 64) << 12) && least.check().is_ok());
}

#[test]
fn figures_that_make_no_sense_are_refused() {
    let refused = |spec: SsdSpec| Ssd::new(spec).unwrap_err().0;
    assert!(refused(SsdSpec { page_bytes: 1000, ..spec() }).contains("multiple of 512"));
    assert!(refused(SsdSpec { channels: 0, ..spec() }).contains("channels: got 0"));
    assert!(refused(SsdSpec { read: Nanos(0).into(), ..spec() }).contains("read: got 0 ns"));
    assert!(refused(SsdSpec { link_bytes_per_s: 5, ..spec() }).contains("link rate: got 5"));
    let tight = SsdSpec { over_provisioning_share: 0.0, ..spec() };
    assert!(refused(tight).contains("garbage collection needs"));
    let precondition = Precondition { filled_share: 1.5, ..Precondition::default() };
    assert!(refused(SsdSpec { precondition, ..spec() }).contains("filled share: got 1.5"));
}

#[test]
fn a_fully_trimmed_drive_behaves_as_new() {
    let spec = SsdSpec { capacity_bytes: 1024 << 12, ..spec() };
    let precondition = Precondition { filled_share: 1.0, overwrites_share: 2.0, seed: 3 };
    let used = Ssd::new(SsdSpec { precondition, ..spec.clone() }).unwrap();
    let empty = Precondition { filled_share: 0.0, ..Precondition::default() };
    let new = Ssd::new(SsdSpec { precondition: empty, ..spec }).unwrap();
    let mut drives = [used.without_content(), new];
    // Enough writes to cause garbage collection.
    for id in 0..6_000 {
        let at = Nanos::from_millis(id * 10);
        let page = id * 7 % 1024;
        let op = if id % 5 == 0 { Op::Read } else { Op::Write };
        let [emptied, new] = drives.each_mut().map(|drive| {
            drive.start(at, io(id, op, page, 1));
            let next = drive.next().unwrap();
            drive.finish(next)
        });
        assert_eq!(emptied, new, "{id}");
    }
    assert_eq!(drives[0].wear(), drives[1].wear());
    assert!(drives[0].wear().erases > 100);
}
