//! Small cases by hand, an exhaustive check of the invariants, and write amplification compared
//! with the closed form.

use super::*;

/// Counts the work of each die.
#[derive(Default)]
struct Count {
    copied: u64,
    erased: u64,
}

impl Work for Count {
    fn copied(&mut self, _die: u32) {
        self.copied += 1;
    }
    fn erased(&mut self, _die: u32) {
        self.erased += 1;
    }
}

fn shape(logical_pages: u32, dies: u32, blocks_per_die: u32, pages_per_block: u32) -> Shape {
    Shape { logical_pages, dies, blocks_per_die, pages_per_block, stripe_pages: 1 }
}

/// Checks that every mapped page is owned by the right logical page, and that the counts are right.
fn verify(ftl: &Ftl) {
    let mut valid = vec![0; ftl.valid.len()];
    let mut mapped = 0;
    for page in 0..ftl.shape.logical_pages {
        let Some(flash) = ftl.lookup(page) else { continue };
        assert_eq!(ftl.held(flash), Some(page), "flash page {flash}");
        let per_die = ftl.shape.blocks_per_die * ftl.shape.pages_per_block;
        assert_eq!(flash / per_die, ftl.die(page), "page {page} is on a die that is not its own");
        valid[(flash / ftl.shape.pages_per_block) as usize] += 1;
        mapped += 1;
    }
    assert_eq!(valid, ftl.valid);
    let owned = (0..ftl.owner.len() as u32).filter(|&flash| ftl.held(flash).is_some()).count();
    assert_eq!(owned, mapped);
    for die in &ftl.dies {
        for &block in &die.free {
            assert!(ftl.valid[block as usize] == 0 && !ftl.closed[block as usize]);
        }
    }
}

#[test]
fn collection_takes_the_emptiest_block_and_moves_what_is_valid() {
    // One die with six blocks of four pages. The eight logical pages have all been written once, so
    // two blocks are full and four are free, of which two are the reserve.
    let mut ftl = Ftl::new(shape(8, 1, 6, 4), Collection::Greedy, 8).unwrap();
    let mut work = Count::default();
    // These writes go to block 2. Block 0 keeps page 3, and block 1 keeps pages 5 to 7.
    for page in [0, 1, 2, 4] {
        ftl.write(page, &mut work);
    }
    assert_eq!((work.copied, work.erased, ftl.dies[0].free.len()), (0, 0, 3));
    assert_eq!(ftl.valid[..3], [1, 3, 4]);
    // The next write opens block 3, after which only the reserve is free, so page 3 moves to block
    // 4.
    ftl.write(0, &mut work);
    assert_eq!((work.copied, work.erased, ftl.erases[0]), (1, 1, 1));
    assert_eq!(ftl.dies[0].free, [5, 0]);
    verify(&ftl);
    // Now block 2 has the fewest valid pages, 2 and 4. One of them moves with each of the next two
    // writes.
    ftl.write(1, &mut work);
    assert_eq!((work.copied, work.erased, ftl.valid[2]), (2, 1, 1));
    verify(&ftl);
    ftl.write(2, &mut work);
    assert_eq!((work.copied, work.erased, ftl.erases[2]), (3, 2, 1));
    // Three blocks are free, so no more pages move until the host needs a block.
    ftl.write(4, &mut work);
    assert_eq!((work.copied, work.erased, ftl.dies[0].free.len()), (3, 2, 3));
    verify(&ftl);
}

#[test]
fn collection_goes_on_in_step_with_the_host() {
    // As in the closed form below, about four pages move per page written, but never many at once.
    let (logical, blocks) = (29_000, 256);
    let mut ftl = Ftl::new(shape(logical, 1, blocks, 128), Collection::Greedy, logical).unwrap();
    let (mut state, mut most) = (3, 0);
    for _ in 0..4 * logical {
        let mut work = Count::default();
        ftl.write((random::next(&mut state) % u64::from(logical)) as u32, &mut work);
        most = most.max(work.copied);
    }
    let mean = ftl.wear().moved_pages as f64 / ftl.wear().host_pages as f64;
    assert!(mean > 2.0 && (most as f64) < 6.0 * mean, "{most} at once, {mean} on average");
}

#[test]
fn moved_pages_are_counted_and_survive() {
    let mut ftl = Ftl::new(shape(8, 1, 6, 4), Collection::Greedy, 8).unwrap();
    let mut work = Count::default();
    // The writes always go to the same two pages, in different blocks, so their neighbors must move
    // eventually.
    for _ in 0..50 {
        ftl.write(0, &mut work);
        ftl.write(5, &mut work);
        verify(&ftl);
    }
    assert_eq!(ftl.wear().host_pages, 100);
    assert_eq!((ftl.wear().moved_pages, ftl.wear().erases), (work.copied, work.erased));
    assert!(work.erased >= 20);
}

#[test]
fn cost_benefit_prefers_the_old_block_where_greedy_takes_the_emptier() {
    for (collection, expected) in [(Collection::Greedy, 1), (Collection::CostBenefit, 0)] {
        // There are enough blocks that none is collected yet.
        let mut ftl = Ftl::new(shape(8, 1, 10, 4), collection, 8).unwrap();
        let mut work = Count::default();
        // Block 0 loses one page at the beginning. Block 1 loses two, the second one with the last
        // write.
        for page in [0, 0, 0, 0, 4, 0, 0, 5] {
            ftl.write(page, &mut work);
        }
        // Block 2 has no valid pages; exclude it from the choice.
        ftl.closed[2] = false;
        assert_eq!(ftl.valid[..2], [3, 2]);
        assert_eq!(ftl.victim(0), Some(expected), "{collection:?}");
    }
}

#[test]
fn trims_free_space_and_trimmed_pages_are_gone() {
    let mut ftl = Ftl::new(shape(8, 1, 6, 4), Collection::Greedy, 6).unwrap();
    assert_eq!((ftl.lookup(5), ftl.lookup(6)), (Some(5), None));
    ftl.trim(5);
    ftl.trim(5);
    ftl.trim(7);
    assert_eq!((ftl.lookup(5), ftl.valid[1]), (None, 1));
    ftl.write(5, &mut Count::default());
    assert!(ftl.lookup(5).is_some());
    verify(&ftl);
}

#[test]
fn any_mix_of_writes_and_trims_keeps_the_invariants() {
    let mut state = 7;
    for stripe_pages in [1, 2, 4] {
        for (logical, filled) in [(96, 96), (90, 33), (77, 0)] {
            let shape = Shape { stripe_pages, ..shape(logical, 3, 12, 4) };
            let mut ftl = Ftl::new(shape, Collection::CostBenefit, filled).unwrap();
            verify(&ftl);
            let mut work = Count::default();
            for _ in 0..3000 {
                let dice = random::next(&mut state);
                let page = (dice >> 8) as u32 % logical;
                if dice.is_multiple_of(8) { ftl.trim(page) } else { ftl.write(page, &mut work) }
            }
            verify(&ftl);
            assert!(work.erased > 500);
        }
    }
}

/// The write amplification of collection in order of age under uniform random writes. With a ratio
/// `a` of physical to logical pages, the probability that a page is still valid when its block is
/// collected is u = exp(-a (1 - u)) (Desnoyers 2012, section 3). Each written page then causes 1 /
/// (1 - u) programs. Greedy collection is slightly better with blocks of finite size.
fn closed_form(a: f64) -> f64 {
    let mut u: f64 = 0.5;
    for _ in 0..1000 {
        u = (-a * (1.0 - u)).exp();
    }
    1.0 / (1.0 - u)
}

#[test]
fn write_amplification_under_uniform_random_writes_is_the_closed_form() {
    for (logical, collection) in [
        (24_000, Collection::Greedy),
        (27_000, Collection::Greedy),
        (29_000, Collection::Greedy),
        (27_000, Collection::CostBenefit),
    ] {
        let blocks = 256;
        let mut ftl = Ftl::new(shape(logical, 1, blocks, 128), collection, logical).unwrap();
        let (mut state, mut work) = (3, Count::default());
        for _ in 0..4 * logical {
            ftl.write((random::next(&mut state) % u64::from(logical)) as u32, &mut work);
        }
        ftl.forget_wear();
        for _ in 0..6 * logical {
            ftl.write((random::next(&mut state) % u64::from(logical)) as u32, &mut work);
        }
        let usable = f64::from((blocks - RESERVE_BLOCKS as u32) * 128);
        let expected = closed_form(usable / f64::from(logical));
        let got = ftl.wear().write_amplification().unwrap();
        // Age does not help if all pages are equally hot.
        let within = match collection {
            Collection::Greedy => 0.95..1.005,
            Collection::CostBenefit => 1.0..1.06,
        };
        assert!(within.contains(&(got / expected)), "{collection:?}: {got} / {expected}");
    }
}

#[test]
fn impossible_shapes_are_refused() {
    let refused = |shape, filled| Ftl::new(shape, Collection::Greedy, filled).unwrap_err().0;
    assert!(refused(shape(0, 1, 6, 4), 0).contains("size of 0"));
    assert!(
        refused(shape(9, 1, 6, 4), 9).contains("got 9 logical pages per die, expected at most 8")
    );
    assert!(refused(shape(8, 1, 6, 4), 9).contains("9 filled pages"));
    let odd = Shape { stripe_pages: 3, ..shape(8, 1, 6, 4) };
    assert!(refused(odd, 8).contains("multiple of the 3 pages"));
    assert!(refused(shape(8, 1 << 16, 1 << 8, 1 << 8), 8).contains("2^32"));
    assert!(refused(shape(8, 1 << 16, 1 << 10, 1 << 7), 8).contains("67108864 erase blocks"));
}
