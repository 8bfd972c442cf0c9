//! Determines which roles of a unit must be read, to read its chunks or to write some of them.
//!
//! A write of part of a stripe reads either the parts that it does not cover (reconstruct-write),
//! or the parts that it changes and the parities (read-modify-write), whichever is less. An
//! unreadable role is reconstructed from as many other roles as there are data chunks.

use super::level::{Level, Roles, all, each};

/// The state of a unit that determines what must be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) level: Level,
    /// The number of data chunks.
    pub(super) chunks: usize,
    /// Readable roles, including those that consist of zeros.
    pub(super) usable: Roles,
    /// Roles that consist of zeros, which need not be read.
    pub(super) zero: Roles,
    /// The copy to read if there are several.
    pub(super) copy: usize,
}

/// How the new parities are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// From all data chunks, each of which is read or completely overwritten.
    Reconstruct,
    /// From the old parities and the changes.
    Modify,
}

/// The roles to read, including zeros, and how parities are computed. If these roles are not the
/// wanted ones, the wanted ones are reconstructed from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) reads: Roles,
    pub(super) method: Method,
}

impl View {
    /// Returns what to read to get the data chunks `wanted`, or `None` if too much is lost.
    pub(super) fn to_read(self, wanted: Roles) -> Option<Needs> {
        let method = Method::Reconstruct;
        let mut reads = 0;
        for chunk in each(wanted) {
            let holders: Vec<usize> = self.level.holders(chunk, self.chunks).collect();
            let count = holders.len();
            let order = (0..count).map(|step| holders[(self.copy + step) % count]);
            match order.into_iter().find(|role| self.usable >> role & 1 == 1) {
                Some(role) => reads |= 1 << role,
                None => return self.survivors(wanted).map(|reads| Needs { reads, method }),
            }
        }
        Some(Needs { reads, method })
    }

    /// Returns enough roles to reconstruct all others. Prefers roles that consist of zeros, then
    /// wanted roles.
    fn survivors(self, wanted: Roles) -> Option<Roles> {
        if self.level.parities() == 0 {
            return None;
        }
        let order = [self.zero, wanted, all(self.level.roles(self.chunks))];
        let mut chosen: Roles = 0;
        for role in order.into_iter().flat_map(|roles| each(roles & self.usable)) {
            if (chosen.count_ones() as usize) < self.chunks {
                chosen |= 1 << role;
            }
        }
        (chosen.count_ones() as usize == self.chunks).then_some(chosen)
    }

    /// Returns what must be read in order to write the data chunks `touched`, of which `covered`
    /// are written completely. Returns `None` if too much is lost.
    pub(super) fn to_write(self, touched: Roles, covered: Roles) -> Option<Needs> {
        if self.level.parities() == 0 {
            return self.to_read(touched & !covered);
        }
        let data = all(self.chunks);
        let parities = all(self.level.roles(self.chunks)) & !data;
        let rest = data & !covered;
        let modified = touched | parities;
        let is_usable = |roles: Roles| roles & !self.usable == 0;
        let cost = |roles: Roles| (roles & !self.zero).count_ones();
        let modify = is_usable(modified) && rest != 0;
        if modify && (!is_usable(rest) || cost(modified) < cost(rest)) {
            return Some(Needs { reads: modified, method: Method::Modify });
        }
        self.to_read(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(level: Level, usable: Roles) -> View {
        View { level, chunks: 4, usable, zero: 0, copy: 1 }
    }

    #[test]
    fn parities_are_computed_in_the_cheaper_way() {
        use Method::*;
        let write = |touched, covered| {
            let needs = view(Level::RAID6, 0x3f).to_write(touched, covered).unwrap();
            (needs.reads, needs.method)
        };
        assert_eq!(write(0b1111, 0b1111), (0, Reconstruct), "a full stripe reads nothing");
        assert_eq!(write(0b0001, 0b0001), (0b1110, Reconstruct), "three of either kind");
        assert_eq!(write(0b0001, 0), (0b11_0001, Modify), "three, not four");
        assert_eq!(write(0b0011, 0b0011), (0b1100, Reconstruct));
        let raid5 = view(Level::Striped { parities: 1 }, 0x1f).to_write(1, 1).unwrap();
        assert_eq!((raid5.reads, raid5.method), (0b1_0001, Modify), "two, not three");
        let raid0 = view(Level::Striped { parities: 0 }, 0xf).to_write(0b11, 0b01).unwrap();
        assert_eq!(raid0.reads, 0b10);
        let copies = view(Level::TRIPLE, 0xfff).to_write(0b11, 0b01).unwrap();
        assert_eq!(copies.reads, 1 << 5, "the second copy of the second chunk");
        let zeros = View { zero: 0x3f, ..view(Level::RAID6, 0x3f) };
        assert_eq!(zeros.to_write(1, 0).unwrap().method, Reconstruct, "zeros cost nothing");
    }

    #[test]
    fn lost_roles_are_reconstructed_from_the_others() {
        // The unit has lost chunk 0 and the parity Q.
        let two = view(Level::RAID6, 0b01_1110);
        assert_eq!(two.to_read(0b0010).unwrap().reads, 0b0010);
        assert_eq!(two.to_read(0b0001).unwrap().reads, 0b01_1110);
        assert_eq!(two.to_write(0b0010, 0b0010).unwrap().reads, 0b01_1110);
        assert_eq!(view(Level::RAID6, 0b00_1110).to_read(1), None, "three are too many");
        let copies = view(Level::TRIPLE, 0b0001_0000_0000 | 0b1110);
        assert_eq!(copies.to_read(0b0011).unwrap().reads, 1 << 8 | 1 << 1);
        assert_eq!(view(Level::TRIPLE, 0b1110).to_read(1), None);
        // A write that covers all lost data does not need to read it.
        assert_eq!(two.to_write(0b1, 0b1).unwrap().reads, 0b1110);
    }

    /// In every small case, the reads include the wanted roles, or enough roles to reconstruct all.
    #[test]
    fn reads_always_suffice() {
        for level in super::super::level::LEVELS.into_iter().filter(|level| level.roles(2) <= 8) {
            let roles = level.roles(2);
            for usable in 0..=all(roles) {
                for zero in [0, usable & 0b101] {
                    let view = View { level, chunks: 2, usable, zero, copy: 1 };
                    let holds = |reads: Roles, wanted: Roles| {
                        let told = each(wanted).all(|chunk| {
                            level.holders(chunk, 2).any(|role| reads >> role & 1 == 1)
                        });
                        reads & !usable == 0
                            && (told || level.parities() > 0 && reads.count_ones() == 2)
                    };
                    let possible = |wanted: Roles| {
                        each(wanted).all(|chunk| {
                            level.holders(chunk, 2).any(|role| usable >> role & 1 == 1)
                        }) || level.parities() > 0 && usable.count_ones() >= 2
                    };
                    for wanted in 0..4 {
                        let needs = view.to_read(wanted);
                        assert_eq!(needs.is_some(), possible(wanted), "{view:?} {wanted}");
                        assert!(needs.is_none_or(|needs| holds(needs.reads, wanted)));
                        for covered in (0..4).filter(|covered| covered & !wanted == 0) {
                            match view.to_write(wanted, covered) {
                                Some(Needs { reads, method: Method::Modify }) => {
                                    assert_eq!(reads, wanted | all(roles) & !0b11);
                                }
                                Some(Needs { reads, .. }) => {
                                    let parts = wanted & !covered;
                                    let rest = 0b11 & !covered;
                                    let rest = if level.parities() > 0 { rest } else { parts };
                                    assert!(holds(reads, rest), "{view:?} {wanted} {covered}");
                                }
                                None => assert!(!possible(0b11)),
                            }
                        }
                    }
                }
            }
        }
    }
}
