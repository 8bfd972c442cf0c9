//! Chooses the address and the length of a request according to its class.

mod fresh;
mod reuse;
mod run;

use super::{Mechanism, Mechanisms};
use crate::Model;
use crate::address::Space;
use crate::bins::log2;
use crate::class::{Class, PlaceKind};
use crate::counts::Bag;
use crate::dice::RandomSource;
use crate::ends::{ENDS_MAX, WHOLE};
use crate::ground::BLOCK_BYTES;
use crate::sizes::Lengths;
use crate::trail::Trail;

/// The chosen place of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnPlace {
    pub(super) address: u64,
    pub(super) len: u32,
    /// The rank of the recent end that the request continues, and the area of the ends.
    pub(super) from: Option<usize>,
    pub(super) area: usize,
    /// The stream that probably submits the request, and whether it must be that stream.
    pub(super) stream: u16,
    pub(super) stays: bool,
}

/// Chooses places.
pub(super) struct Placer {
    on: Mechanisms,
    space: Space,
    requests: u64,
    classes: Vec<Class>,
    grain: u64,
    lengths: Vec<Lengths>,
    /// For each class, the keys that describe its places. Their meaning depends on the kind of the
    /// class.
    keys: Vec<Bag>,
    far: Vec<Bag>,
    cell_bytes: u64,
    /// Twice the difference of the logarithms of each pair of ranks (plus 1), in units of 1 /
    /// [`WHOLE`].
    rank_unlike: Box<[[i16; ENDS_MAX]; ENDS_MAX]>,
    has_streams: bool,
    /// The number of requests that each stretch may still get. Empty if no volume has gaps.
    left_of_piece: Vec<u64>,
    of_piece: Vec<u64>,
}

impl Placer {
    pub(super) fn new(model: &Model, space: &Space, on: Mechanisms) -> Placer {
        Placer {
            on,
            space: space.clone(),
            requests: model.requests,
            classes: model.classes.clone(),
            grain: model.grain_bytes.into(),
            lengths: model.sizes.iter().map(Lengths::new).collect(),
            keys: model.places.of_class.iter().map(Bag::new).collect(),
            far: model.places.far.iter().map(Bag::new).collect(),
            cell_bytes: model.places.cell_bytes,
            rank_unlike: Box::new(std::array::from_fn(|one| {
                std::array::from_fn(|other| {
                    let power = |rank: usize| log2(1 + rank as u64);
                    (2.0 * (power(one) - power(other)).abs() * f32::from(WHOLE)) as i16
                })
            })),
            has_streams: model.streams.len() > 1,
            left_of_piece: space.piece_requests(&model.volumes),
            of_piece: space.piece_requests(&model.volumes),
        }
    }

    /// Starts the next cycle.
    pub(super) fn begin(&mut self) {
        self.left_of_piece.clone_from(&self.of_piece);
    }

    /// Returns whether the stretch at an address has received all its requests. Without this limit,
    /// a distant request would attract too many others, because most requests are placed near
    /// earlier ones.
    #[inline]
    fn is_spent(&self, address: u64) -> bool {
        !self.left_of_piece.is_empty() && self.left_of_piece[self.space.piece(address)] == 0
    }

    /// Records the address at which a request was placed.
    #[inline]
    pub(super) fn went(&mut self, address: u64) {
        if !self.left_of_piece.is_empty() {
            let left = &mut self.left_of_piece[self.space.piece(address)];
            *left = left.saturating_sub(1);
        }
    }

    /// Returns the place of request `number` of this stream, in or near the range.
    #[inline]
    pub(super) fn place(
        &mut self,
        class: usize,
        range: usize,
        number: u64,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> DrawnPlace {
        let of = self.classes[class];
        let len = self.lengths[class].draw(dice).max(1);
        let found = match of.kind {
            PlaceKind::Again | PlaceKind::Over => {
                self.reuse((class, range), len, stream, trail, dice)
            }
            PlaceKind::Near => self.near((class, range), len, trail, dice),
            kind if kind.goes_on() => self.run((class, range), len, stream, trail, dice),
            _ => None,
        };
        let found = found.filter(|found| !self.is_spent(found.address));
        found.unwrap_or_else(|| self.far((class, range), len, number, stream, trail, dice))
    }

    /// Returns the offset within a block for a new place. It is zero unless offsets are finer than
    /// blocks.
    #[inline]
    fn past_block(&mut self, class: usize, len: u32, dice: &mut RandomSource) -> u64 {
        if self.grain < BLOCK_BYTES { self.lengths[class].sector(len, dice) } else { 0 }
    }
}
