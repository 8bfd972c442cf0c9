//! Decides from their marks whether a disk and a flash may be served together
//! (docs/placement-log.md). This module does no I/O.
//!
//! Each time both are served together, they get a new *generation*: first the flash, unconfirmed;
//! then the disk's mark; then the flash is confirmed. Clients are accepted only after that.
//! Wherever this sequence is interrupted, either both have the same generation, or the flash is one
//! ahead and unconfirmed. Any other difference means that one of them is an older copy.

use forebay_core::stack::{FlashLabel, Pairing};

use crate::mark::{Mark, MarkFound};

/// What was found at the position of a flash's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlashFound {
    Blank,
    /// A label in another version of the format.
    Version(u64),
    /// A damaged label.
    Damaged,
    Of(FlashLabel),
    Other,
}

/// How disk and flash are to be served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Whether under the policy the flash may contain data that is not on the disk.
    pub(crate) keeps_data: bool,
    /// Whether the policy uses the flash at all.
    pub(crate) uses_flash: bool,
    /// Whether a blank flash may be initialized.
    pub(crate) formats: bool,
    /// Whether the user accepts the existing state.
    pub(crate) force: bool,
}

/// The decision on how to serve disk and flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The disk has no mark and gets none.
    Unmarked,
    /// The disk is served without its flash and gets this mark, if there is one.
    Alone(Option<Mark>),
    /// Disk and flash are served together, and the disk gets this mark.
    Paired { pairing: Pairing, mark: Mark },
    /// Disk and flash are served together for the first time, and get a new pair id.
    Begun,
}

/// Why disk and flash may not be served, unless forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The disk's newest data is on a flash that is missing or not used.
    NewestOnFlash(u128),
    /// The flash is blank, and the disk's newest data is on another flash.
    NewestOnOther(u128),
    /// The flash contains a log that the policy does not use.
    UnusedLog(u64),
    /// The flash is blank and must not be initialized.
    Blank,
    /// The flash contains other data where the log would be.
    Other,
    /// The flash was initialized by another version of the format.
    FlashVersion(u64),
    /// The labels of the flash are damaged.
    FlashDamaged,
    /// The disk's mark is in another version of the format.
    MarkVersion(u64),
    /// The disk's mark is damaged.
    MarkDamaged,
    /// The flash belongs to another disk. The values are the pair ids of the disk, if it has one,
    /// and of the flash.
    Swapped(Option<u128>, u128),
    /// The flash is an older copy, or the disk was served without it. The values are the
    /// generations of flash and disk.
    FlashOlder(u64, u64),
    /// The disk is an older copy. The values are the generations of flash and disk.
    DiskOlder(u64, u64),
}

impl Why {
    /// Returns whether the user may override this reason.
    pub(crate) fn yields(self) -> bool {
        !matches!(self, Why::Blank | Why::Other | Why::FlashVersion(_) | Why::FlashDamaged)
    }
}

/// Decides how disk and flash are served; also returns the reason that was overridden, if any.
pub(crate) fn decide(
    mark: MarkFound,
    flash: Option<FlashFound>,
    wish: Wish,
) -> Result<(Standing, Option<Why>), Why> {
    let (standing, why) = match flash {
        Some(flash) if wish.keeps_data => together(mark, flash, wish),
        flash => alone(mark, flash, wish),
    }?;
    match why {
        Some(why) if !(wish.force && why.yields()) => Err(why),
        why => Ok((standing, why)),
    }
}

/// A decision with the overridden reason, or the reason for refusing.
type Decided = Result<(Standing, Option<Why>), Why>;

/// Decides how to serve the disk without its flash.
fn alone(mark: MarkFound, flash: Option<FlashFound>, wish: Wish) -> Decided {
    let has_log = match flash {
        Some(FlashFound::Of(label)) => Some(Why::UnusedLog(label.id)),
        Some(FlashFound::Version(version)) => Some(Why::FlashVersion(version)),
        Some(FlashFound::Damaged) => Some(Why::FlashDamaged),
        _ => None,
    };
    if let Some(why) = has_log.filter(|_| wish.uses_flash) {
        // The policy would overwrite the log.
        return Err(why);
    }
    let is_same = |mark: &Mark| matches!(flash, Some(FlashFound::Of(it)) if it.pair == mark.pair);
    Ok(match mark {
        MarkFound::None => (Standing::Unmarked, has_log),
        MarkFound::Version(version) => (Standing::Alone(None), Some(Why::MarkVersion(version))),
        MarkFound::Damaged => (Standing::Alone(None), Some(Why::MarkDamaged)),
        MarkFound::Of(mark) if mark.is_drained => {
            (Standing::Alone(None), has_log.filter(|_| !is_same(&mark)))
        }
        MarkFound::Of(mark) => {
            // Writing to the disk now makes the flash outdated.
            let next = Mark { generation: mark.generation + 1, ..mark };
            let why = has_log.unwrap_or(Why::NewestOnFlash(mark.pair));
            (Standing::Alone(Some(next)), Some(why))
        }
    })
}

/// Decides how to serve the disk with its flash.
fn together(mark: MarkFound, flash: FlashFound, wish: Wish) -> Decided {
    let not_drained = |mark: Mark| (!mark.is_drained).then_some(mark.pair);
    let label = match (flash, mark) {
        (FlashFound::Of(label), _) => label,
        (FlashFound::Version(version), _) => return Err(Why::FlashVersion(version)),
        (FlashFound::Damaged, _) => return Err(Why::FlashDamaged),
        (FlashFound::Other, _) => return Err(Why::Other),
        (FlashFound::Blank, MarkFound::Of(mark)) if not_drained(mark).is_some() => {
            let why = Why::NewestOnOther(mark.pair);
            return if wish.formats { Ok((Standing::Begun, Some(why))) } else { Err(why) };
        }
        (FlashFound::Blank, _) if !wish.formats => return Err(Why::Blank),
        (FlashFound::Blank, MarkFound::Damaged) => {
            return Ok((Standing::Begun, Some(Why::MarkDamaged)));
        }
        (FlashFound::Blank, MarkFound::Version(version)) => {
            return Ok((Standing::Begun, Some(Why::MarkVersion(version))));
        }
        (FlashFound::Blank, _) => return Ok((Standing::Begun, None)),
    };
    let (known, why) = match mark {
        MarkFound::Of(mark) if mark.pair == label.pair => (Some(mark), None),
        MarkFound::Of(mark) => {
            (None, not_drained(mark).map(|pair| Why::Swapped(Some(pair), label.pair)))
        }
        MarkFound::None => (None, None),
        MarkFound::Damaged => (None, Some(Why::MarkDamaged)),
        MarkFound::Version(version) => (None, Some(Why::MarkVersion(version))),
    };
    let disk = known.map_or(0, |mark| mark.generation);
    let is_cut_off = label.generation == disk + 1 && !label.is_confirmed;
    let is_level = label.generation == disk || is_cut_off;
    let other = match mark {
        MarkFound::Of(mark) => Some(mark.pair),
        _ => None,
    };
    let why = why.or(match (known, is_level) {
        (_, true) => None,
        (None, false) => Some(Why::Swapped(other, label.pair)),
        (Some(_), false) if label.generation < disk => {
            Some(Why::FlashOlder(label.generation, disk))
        }
        (Some(_), false) => Some(Why::DiskOlder(label.generation, disk)),
    });
    let newest = known.filter(|_| !wish.force).map_or(0, |mark| mark.newest);
    let pairing = Pairing { pair: label.pair, newest, is_forced: wish.force };
    // An interrupted start reuses its generation; otherwise the flash would be two ahead.
    let generation = 1 + if is_level { disk } else { label.generation.max(disk) };
    let mark = Mark { pair: label.pair, generation, newest, is_drained: false };
    Ok((Standing::Paired { pairing, mark }, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish { keeps_data: true, uses_flash: true, formats: false, force: false };
    const FORMATS: Wish = Wish { formats: true, ..WISH };
    const NOOP: Wish = Wish { keeps_data: false, uses_flash: false, ..WISH };
    const THROUGH: Wish = Wish { keeps_data: false, ..WISH };

    fn label(pair: u128, generation: u64, is_confirmed: bool) -> FlashLabel {
        FlashLabel { id: 0, pair, generation, is_confirmed }
    }

    fn mark(pair: u128, generation: u64) -> Mark {
        Mark { pair, generation, newest: 40, is_drained: false }
    }

    /// The state of disk and flash, on which a test performs the steps of beginning to serve them.
    #[derive(Clone, Copy)]
    struct Both {
        mark: MarkFound,
        flash: FlashFound,
    }

    impl Both {
        fn decided(&self, wish: Wish) -> Result<(Standing, Option<Why>), Why> {
            decide(self.mark, Some(self.flash), wish)
        }

        /// Begins to serve both but performs only the first `steps` writes; returns whether these
        /// were all.
        fn begin(&mut self, wish: Wish, steps: u32) -> bool {
            let (standing, _) = self.decided(wish).unwrap();
            let mark = match standing {
                Standing::Paired { mark, .. } => mark,
                Standing::Begun => {
                    if steps == 0 {
                        return false;
                    }
                    self.flash = FlashFound::Of(label(99, 0, false));
                    return self.begin(wish, steps - 1);
                }
                other => panic!("{other:?}"),
            };
            let label = label(mark.pair, mark.generation, false);
            let all = [
                (MarkFound::None, Some(label)),
                (MarkFound::Of(mark), None),
                (MarkFound::None, Some(FlashLabel { is_confirmed: true, ..label })),
            ];
            for (mark, label) in all.iter().take(steps as usize) {
                if *mark != MarkFound::None {
                    self.mark = *mark;
                }
                if let Some(label) = label {
                    self.flash = FlashFound::Of(*label);
                }
            }
            steps as usize >= all.len()
        }
    }

    #[test]
    fn pairing_interrupted_anywhere_is_continued() {
        for drained in [false, true] {
            for first in 0..5 {
                for second in 0..5 {
                    let old = Mark { is_drained: true, ..mark(3, 8) };
                    let mark = if drained { MarkFound::Of(old) } else { MarkFound::None };
                    let mut both = Both { mark, flash: FlashFound::Blank };
                    let begun = both.begin(FORMATS, first);
                    assert_eq!(begun, first == 4, "four writes begin a pair");
                    both.begin(FORMATS, second);
                    let (_, why) = both.decided(FORMATS).unwrap();
                    assert_eq!(why, None, "{first} and {second}");
                    assert!(both.begin(FORMATS, 9) && both.decided(WISH).is_ok());
                }
            }
        }
    }

    /// Returns the state of a pair after each of the `times` times that it was served.
    fn served(pair: u128, times: u64) -> Vec<Both> {
        let mut both = Both { mark: MarkFound::None, flash: FlashFound::Of(label(pair, 0, false)) };
        let mut all = Vec::new();
        for _ in 0..times {
            assert!(both.begin(WISH, 9));
            all.push(both);
        }
        all
    }

    #[test]
    fn mismatched_disks_and_flash_are_refused_unless_forced() {
        let (one, two) = (served(1, 4), served(2, 4));
        for (nth, disk) in one.iter().enumerate() {
            for (other, flash) in one.iter().enumerate() {
                let both = Both { mark: disk.mark, flash: flash.flash };
                let (disk, flash) = (nth as u64 + 1, other as u64 + 1);
                let expected = match flash {
                    _ if flash == disk => None,
                    _ if flash < disk => Some(Why::FlashOlder(flash, disk)),
                    _ => Some(Why::DiskOlder(flash, disk)),
                };
                assert_eq!(both.decided(WISH).err(), expected);
                let (standing, why) = both.decided(Wish { force: true, ..WISH }).unwrap();
                assert_eq!(why, expected);
                let Standing::Paired { mark, pairing } = standing else { panic!("{standing:?}") };
                assert_eq!((mark.generation, pairing.newest), (disk.max(flash) + 1, 0));
            }
            for flash in &two {
                let both = Both { mark: disk.mark, flash: flash.flash };
                assert_eq!(both.decided(WISH).err(), Some(Why::Swapped(Some(1), 2)));
            }
            let unmarked = Both { mark: MarkFound::None, ..*disk };
            assert_eq!(unmarked.decided(WISH).err(), Some(Why::Swapped(None, 1)));
            let blank = Both { flash: FlashFound::Blank, ..*disk };
            assert_eq!(blank.decided(WISH).err(), Some(Why::NewestOnOther(1)));
            assert_eq!(blank.decided(FORMATS).err(), Some(Why::NewestOnOther(1)));
            let forced = blank.decided(Wish { force: true, ..FORMATS });
            assert_eq!(forced, Ok((Standing::Begun, Some(Why::NewestOnOther(1)))));
        }
    }

    #[test]
    fn a_disk_alone_is_refused_while_a_flash_has_its_newest_data() {
        let forced = |wish: Wish| Wish { force: true, ..wish };
        for wish in [NOOP, THROUGH] {
            let alone = |mark| decide(mark, None, wish);
            assert_eq!(alone(MarkFound::None), Ok((Standing::Unmarked, None)));
            assert_eq!(alone(MarkFound::Of(mark(5, 2))), Err(Why::NewestOnFlash(5)));
            assert_eq!(alone(MarkFound::Damaged), Err(Why::MarkDamaged));
            assert_eq!(alone(MarkFound::Version(7)), Err(Why::MarkVersion(7)));
            let drained = MarkFound::Of(Mark { is_drained: true, ..mark(5, 2) });
            assert_eq!(alone(drained), Ok((Standing::Alone(None), None)));
            let (standing, why) = decide(MarkFound::Of(mark(5, 2)), None, forced(wish)).unwrap();
            assert_eq!(standing, Standing::Alone(Some(mark(5, 3))), "the flash is older then");
            assert_eq!(why, Some(Why::NewestOnFlash(5)));
        }
        let with = |wish, mark| decide(mark, Some(FlashFound::Of(label(5, 2, true))), wish);
        let all = [MarkFound::None, MarkFound::Of(mark(5, 2))];
        for found in all {
            assert_eq!(with(NOOP, found), Err(Why::UnusedLog(0)));
            assert!(with(forced(NOOP), found).is_ok());
            assert_eq!(with(forced(THROUGH), found), Err(Why::UnusedLog(0)), "it is overwritten");
        }
    }

    #[test]
    fn other_versions_and_damage_are_told_and_not_taken_for_blank() {
        let force = Wish { force: true, ..FORMATS };
        for (flash, why) in [
            (FlashFound::Version(1), Why::FlashVersion(1)),
            (FlashFound::Damaged, Why::FlashDamaged),
            (FlashFound::Other, Why::Other),
        ] {
            for wish in [WISH, FORMATS, force] {
                assert_eq!(decide(MarkFound::None, Some(flash), wish), Err(why));
            }
        }
        assert_eq!(decide(MarkFound::None, Some(FlashFound::Blank), WISH), Err(Why::Blank));
    }
}
