//! Kinds of drives. All roles of a unit are on drives of one kind, which form a *set*.

/// The kind of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A hard disk.
    #[default]
    Hdd,
    /// A solid-state drive.
    Ssd,
}

/// All there are.
pub const KINDS: [Kind; 2] = [Kind::Hdd, Kind::Ssd];

impl Kind {
    /// Returns its name: `hdd`, `ssd`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hdd => "hdd",
            Kind::Ssd => "ssd",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the other kind.
    pub(super) fn other(self) -> Kind {
        match self {
            Kind::Hdd => Kind::Ssd,
            Kind::Ssd => Kind::Hdd,
        }
    }
}
