//! Where the place of a request comes from: a run that goes on, the past again, or new ground.

use super::super::history::{Latest, RangePast, Touched};
use super::super::relative_place::NEAR_RANKS;
use super::super::state::{FOLLOWS_MAX, Kind, NEAR_BYTES};

/// Where a request's place came from.
pub(super) struct Origin {
    pub(super) kind: Kind,
    pub(super) rank: Option<usize>,
    /// Bytes from the recent end of that rank, or how many requests on.
    pub(super) distance: i64,
    /// Requests ago, for [`Kind::Again`].
    pub(super) ago: u64,
    /// Whether it is as large as the one that began there before; none where none did.
    pub(super) same_size: Option<bool>,
    /// Of a run that goes on: whether of the same stream, and operation.
    pub(super) run_stream: Option<u32>,
    pub(super) run_is_read: bool,
    pub(super) is_inside: bool,
    /// Size of the request that is continued.
    pub(super) run_len: Option<u32>,
}

impl Origin {
    pub(super) fn far() -> Origin {
        Origin {
            kind: Kind::Far,
            rank: None,
            distance: 0,
            ago: 0,
            same_size: None,
            run_stream: None,
            run_is_read: false,
            is_inside: false,
            run_len: None,
        }
    }
}

/// What comes back so soon is a place used again, whatever it follows.
const SOON: u64 = 8;

/// Where a request of `len` bytes at `address` comes from; its volume's last request ended at
/// `volume_end`.
pub(super) fn origin(
    past: &mut RangePast,
    (latest, touched): (&Latest, &Touched),
    (address, len): (u64, u32),
    volume_end: u64,
) -> Origin {
    let mut origin = Origin::far();
    let touched = touched.last(address);
    // On new ground none can have begun.
    let seen = touched.and_then(|_| latest.find(address));
    let seen = seen.and_then(|n| past.ring.get(n).map(|was| (n, was)));
    let seen = seen.filter(|(_, was)| was.address == address);
    origin.same_size = seen.map(|(_, was)| was.len == len);
    if let Some(rank) = past.heads.find(address) {
        if let Some((number, _)) = seen {
            past.referenced = number;
        }
        let kind = match (address == volume_end, touched) {
            (true, None) => Kind::NextNew,
            (true, Some(_)) => Kind::NextOld,
            (false, None) => Kind::ResumeNew,
            (false, Some(_)) => Kind::ResumeOld,
        };
        let (_, stream, len) = past.heads.at(rank);
        return Origin {
            kind,
            rank: Some(rank),
            run_len: Some(len),
            run_stream: Some(stream),
            run_is_read: past.heads.is_read(rank),
            ..origin
        };
    }
    if let Some((number, _)) = seen {
        let on = number.wrapping_sub(past.referenced);
        let ago = past.ring.count() - number;
        past.referenced = number;
        if (1..=FOLLOWS_MAX).contains(&on) && ago > SOON {
            return Origin { kind: Kind::Follow, distance: on as i64, ago, ..origin };
        }
        return Origin { kind: Kind::Again, ago, ..origin };
    }
    if let Some(number) = touched {
        // Of another range it may be ahead of this one's count.
        let ago = (past.ring.count() as u32).wrapping_sub(number) as i32;
        let ago = ago.max(1).unsigned_abs().into();
        return Origin { kind: Kind::Again, ago, is_inside: true, ..origin };
    }
    let near = (0..past.heads.len().min(NEAR_RANKS))
        .map(|rank| (rank, address as i64 - past.heads.at(rank).0 as i64))
        .min_by_key(|(_, distance)| distance.unsigned_abs());
    if let Some((rank, distance)) = near
        && distance.unsigned_abs() <= NEAR_BYTES
    {
        return Origin { kind: Kind::Near, rank: Some(rank), distance, ..origin };
    }
    origin
}
