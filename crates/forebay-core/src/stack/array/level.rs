//! RAID levels of a unit: the roles of its chunks, copies and parities.
//!
//! Roles are numbered. In a striped unit, the data chunks come first, then P, then Q; in a mirrored
//! one, the first copies of all chunks, then the second ones, and so on. The first roles are
//! therefore the data chunks at any level, and a switch need not move them (section 4 of the
//! paper).

/// Maximum number of roles in a unit.
pub(super) const ROLES_MAX: usize = 16;

/// A set of roles, one bit each.
pub(super) type Roles = u16;

/// The redundancy of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Each chunk is on one drive, with 0 to 2 parities: RAID 0, 5, 6.
    Striped {
        /// The number of parities.
        parities: u8,
    },
    /// Each chunk is on several drives: RAID 10.
    Mirrored {
        /// The number of copies of a chunk, including the first.
        copies: u8,
    },
}

impl Level {
    /// Striping with two parities, P and Q.
    pub const RAID6: Level = Level::Striped { parities: 2 };
    /// Three copies: tolerates the failure of two drives, like [`Level::RAID6`].
    pub const TRIPLE: Level = Level::Mirrored { copies: 3 };

    /// Returns the name of the level: `raid0`, `raid5`, `raid6`, `raid10` (two copies), `raid10x3`,
    /// `raid10x4`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Striped { parities: 0 } => "raid0",
            Level::Striped { parities: 1 } => "raid5",
            Level::Striped { .. } => "raid6",
            Level::Mirrored { copies: 1 } => "raid0",
            Level::Mirrored { copies: 2 } => "raid10",
            Level::Mirrored { copies: 3 } => "raid10x3",
            Level::Mirrored { .. } => "raid10x4",
        }
    }

    /// Returns the level with this name.
    pub fn named(name: &str) -> Option<Level> {
        LEVELS.into_iter().find(|level| level.name() == name)
    }

    /// Returns the index of the level in [`LEVELS`].
    pub(super) fn place(self) -> usize {
        LEVELS.iter().position(|level| *level == self).unwrap_or(0)
    }

    /// Returns the code of the level in a table; never 0.
    pub(super) fn code(self) -> u8 {
        match self {
            Level::Striped { parities } => 1 + parities,
            Level::Mirrored { copies } => 16 + copies,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Level> {
        LEVELS.into_iter().find(|level| level.code() == code)
    }

    /// Returns the number of roles with `chunks` data chunks.
    pub fn roles(self, chunks: usize) -> usize {
        match self {
            Level::Striped { parities } => chunks + usize::from(parities),
            Level::Mirrored { copies } => chunks * usize::from(copies),
        }
    }

    /// Returns the number of drives that a unit needs.
    pub fn width(self, chunks: usize) -> usize {
        match self {
            Level::Striped { parities } => chunks + usize::from(parities),
            Level::Mirrored { copies } => usize::from(copies),
        }
    }

    /// Returns the number of drives that may fail without loss.
    pub fn tolerates(self) -> usize {
        match self {
            Level::Striped { parities } => usize::from(parities),
            Level::Mirrored { copies } => usize::from(copies) - 1,
        }
    }

    /// Returns the data chunks that can be reconstructed from these roles.
    pub(super) fn told(self, there: Roles, chunks: usize) -> Roles {
        let data = all(chunks);
        match self {
            Level::Striped { parities } => {
                let missing = all(self.roles(chunks)) & !there;
                if missing.count_ones() <= parities.into() { data } else { there & data }
            }
            Level::Mirrored { copies } => (0..usize::from(copies))
                .fold(0, |told, copy| told | (u32::from(there) >> (copy * chunks)) as Roles & data),
        }
    }

    pub(super) fn parities(self) -> usize {
        match self {
            Level::Striped { parities } => usize::from(parities),
            Level::Mirrored { .. } => 0,
        }
    }

    /// Returns the data chunk that a role holds, or `None` for a parity.
    pub(super) fn chunk(self, role: usize, chunks: usize) -> Option<usize> {
        match self {
            Level::Striped { .. } => (role < chunks).then_some(role),
            Level::Mirrored { .. } => Some(role % chunks),
        }
    }

    /// Returns whether two roles must be on different drives.
    pub(super) fn parts(self, one: usize, other: usize, chunks: usize) -> bool {
        match self {
            Level::Striped { .. } => true,
            Level::Mirrored { .. } => one % chunks == other % chunks,
        }
    }

    /// Returns the roles that must not be on the same drive as `role`.
    pub(super) fn apart(self, role: usize, chunks: usize) -> impl Iterator<Item = usize> {
        let others = (0..self.roles(chunks)).filter(move |other| *other != role);
        others.filter(move |other| self.parts(*other, role, chunks))
    }

    /// Returns the roles that hold a data chunk.
    pub(super) fn holders(self, chunk: usize, chunks: usize) -> impl Iterator<Item = usize> {
        let copies = match self {
            Level::Striped { .. } => 1,
            Level::Mirrored { copies } => usize::from(copies),
        };
        (0..copies).map(move |copy| copy * chunks + chunk)
    }
}

/// All levels.
pub const LEVELS: [Level; 6] = [
    Level::Striped { parities: 0 },
    Level::Striped { parities: 1 },
    Level::RAID6,
    Level::Mirrored { copies: 2 },
    Level::TRIPLE,
    Level::Mirrored { copies: 4 },
];

/// Returns the set of the first `count` roles.
pub(super) fn all(count: usize) -> Roles {
    ((1u32 << count) - 1) as Roles
}

/// Returns the roles of a set.
pub(super) fn each(roles: Roles) -> impl Iterator<Item = usize> {
    (0..ROLES_MAX).filter(move |role| roles >> role & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_identified_by_names_and_codes() {
        for level in LEVELS {
            assert_eq!(Level::named(level.name()), Some(level));
            assert_eq!(Level::of_code(level.code()), Some(level));
        }
        assert_eq!((Level::of_code(0), Level::named("raid1")), (None, None));
    }

    #[test]
    fn the_first_roles_are_the_data_chunks() {
        for level in LEVELS {
            for chunk in 0..4 {
                assert_eq!(level.chunk(chunk, 4), Some(chunk));
                let holders: Vec<usize> = level.holders(chunk, 4).collect();
                let held = (0..level.roles(4)).filter(|role| level.chunk(*role, 4) == Some(chunk));
                assert_eq!(holders, held.collect::<Vec<_>>(), "{level:?}");
            }
        }
        assert_eq!((Level::RAID6.roles(4), Level::TRIPLE.roles(4)), (6, 12));
        assert_eq!(each(0b101).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(all(3), 0b111);
    }
}
