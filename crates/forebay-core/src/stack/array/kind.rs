//! Kinds of drives. All roles of a unit are on drives of one kind; the drives of a kind form a
//! *set*.

/// The kind of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveKind {
    /// A hard disk.
    #[default]
    Hdd,
    /// A solid-state drive.
    Ssd,
}

/// All kinds of drives.
pub const KINDS: [DriveKind; 2] = [DriveKind::Hdd, DriveKind::Ssd];

impl DriveKind {
    /// Returns the name of the kind: `hdd` or `ssd`.
    pub fn name(self) -> &'static str {
        match self {
            DriveKind::Hdd => "hdd",
            DriveKind::Ssd => "ssd",
        }
    }

    /// Returns the plural used in messages.
    pub(super) fn plural(self) -> &'static str {
        match self {
            DriveKind::Hdd => "hard disks",
            DriveKind::Ssd => "solid-state drives",
        }
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<DriveKind> {
        KINDS.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the other kind.
    pub(super) fn other(self) -> DriveKind {
        match self {
            DriveKind::Hdd => DriveKind::Ssd,
            DriveKind::Ssd => DriveKind::Hdd,
        }
    }
}
