//! The costs of requests and switches, as data.

use crate::contract::Op;

/// The number of a layout: its row in [`Costs`].
pub type Layout = u8;

/// The properties of a request that determine its cost, or the passing of time: a column of
/// [`Costs`].
pub type Class = u8;

/// The maximum number of layouts per unit, because a layout is stored in three bits per unit.
pub const LAYOUTS_MAX: usize = 8;

/// The maximum number of chunks that classes distinguish.
const WIDTH_MAX: usize = 64;

/// The maximum cost, 36 years in nanoseconds, so that sums of a few costs cannot overflow.
const COST_MAX: u64 = 1 << 60;

/// RAID 6 in the paper's tables.
pub const RAID6: Layout = 0;
/// RAID 10 with three copies in the paper's tables.
pub const RAID10: Layout = 1;

/// The costs of each class of requests in each layout, the costs of switches, and how much better
/// another layout must have been before a unit switches. All in nanoseconds.
///
/// Classes are writes of 1 to `width` chunks, then reads of 1 to `width` chunks, then the *tick*:
/// the passing of a period, for which a layout pays the rent of the space that it takes
/// ([`super::Objective`]), by default nothing.
///
/// An unknown layout counts as the last layout, an unknown class as the tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    layouts: usize,
    width: usize,
    /// The costs of requests by class, then layout, so that the costs of a class in all layouts are
    /// adjacent.
    cost: Vec<u64>,
    switch: Vec<u64>,
    threshold: Vec<u64>,
    half: Vec<u64>,
    /// A bit per layout: whether units may use the layout.
    allowed: u8,
}

impl Costs {
    /// Creates costs from tables. `writes[layout]` has the costs of writing 1, 2 ... chunks, and so
    /// does `reads` for reading; `reads` may be empty if all layouts read at the same cost.
    /// `switch` and `threshold` have a value for each pair of layouts.
    ///
    /// Returns `None` unless there are 2 to [`LAYOUTS_MAX`] layouts, 1 to 64 chunks, and rows of
    /// equal length.
    pub fn new(
        writes: &[Vec<u64>],
        reads: &[Vec<u64>],
        switch: &[Vec<u64>],
        threshold: &[Vec<u64>],
    ) -> Option<Costs> {
        let layouts = writes.len();
        let width = writes.first()?.len();
        let is_table = |table: &[Vec<u64>], columns: usize| {
            table.len() == layouts && table.iter().all(|row| row.len() == columns)
        };
        let fits = (2..=LAYOUTS_MAX).contains(&layouts)
            && (1..=WIDTH_MAX).contains(&width)
            && is_table(writes, width)
            && (reads.is_empty() || is_table(reads, width))
            && is_table(switch, layouts)
            && is_table(threshold, layouts);
        if !fits {
            return None;
        }
        let mut cost = vec![0; (2 * width + 1) * layouts];
        for layout in 0..layouts {
            for chunks in 0..width {
                cost[chunks * layouts + layout] = writes[layout][chunks].min(COST_MAX);
                let read = reads.get(layout).map_or(0, |row| row[chunks].min(COST_MAX));
                cost[(width + chunks) * layouts + layout] = read;
            }
        }
        Some(Costs {
            layouts,
            width,
            cost,
            half: halves(&clamped(switch), layouts),
            switch: clamped(switch),
            threshold: clamped(threshold),
            allowed: u8::MAX >> (LAYOUTS_MAX - layouts),
        })
    }

    /// Returns the paper's hard disks (Table 1 and section 4.1; a point is 0.1 ms): [`RAID6`] and
    /// [`RAID10`] of six Seagate ST91000640SS, units of four chunks of 64 KiB.
    pub fn paper_hdd() -> Costs {
        paper(100_000, [[56, 55, 56, 54], [29, 53, 72, 94]], [99, 65], [100, 66])
    }

    /// Returns the paper's solid-state drives (Table 1 and section 4.1; a point is 0.01 ms):
    /// [`RAID6`] and [`RAID10`] of six Samsung 830.
    pub fn paper_ssd() -> Costs {
        paper(10_000, [[30, 28, 24, 21], [10, 20, 38, 39]], [54, 29], [55, 30])
    }

    /// Returns the number of layouts.
    pub fn layouts(&self) -> usize {
        self.layouts
    }

    /// Returns the number of classes, including the tick.
    pub fn classes(&self) -> usize {
        2 * self.width + 1
    }

    /// Returns the class of a request that affects this many chunks. Numbers above the maximum
    /// count as the maximum, and requests that are neither reads nor writes count as reads.
    pub fn class(&self, op: Op, chunks: usize) -> Class {
        let chunk = chunks.clamp(1, self.width) - 1;
        let class = if op == Op::Write { chunk } else { self.width + chunk };
        class as Class
    }

    /// Returns the class for the end of a period.
    pub fn tick(&self) -> Class {
        (2 * self.width) as Class
    }

    /// Returns the cost of a request of this class, by layout.
    #[inline]
    pub fn row(&self, class: Class) -> &[u64] {
        let class = usize::from(class).min(2 * self.width);
        &self.cost[class * self.layouts..][..self.layouts]
    }

    /// Returns the cost of a request of this class in this layout.
    #[inline]
    pub fn cost(&self, layout: Layout, class: Class) -> u64 {
        self.row(class)[self.known(layout)]
    }

    /// Returns the cost of a switch between two layouts.
    #[inline]
    pub fn switch(&self, from: Layout, to: Layout) -> u64 {
        self.switch[self.known(from) * self.layouts + self.known(to)]
    }

    /// Returns half of the cost of switching to each layout and back, which is a symmetric distance
    /// between layouts. With two layouts, every sequence of switches has the same total cost as
    /// with the actual costs, except for half of the difference between the two directions; with
    /// more layouts it is an approximation.
    #[inline]
    pub fn half_ways(&self, layout: Layout) -> &[u64] {
        &self.half[self.known(layout) * self.layouts..][..self.layouts]
    }

    /// Returns by how much `to` must have been better before a unit switches from `from`.
    #[inline]
    pub fn threshold(&self, from: Layout, to: Layout) -> u64 {
        self.threshold[self.known(from) * self.layouts + self.known(to)]
    }

    /// Returns whether a unit may use this layout.
    #[inline]
    pub fn allows(&self, layout: Layout) -> bool {
        usize::from(layout) < self.layouts && self.allowed >> layout & 1 == 1
    }

    /// Returns the layouts that a unit may use.
    pub fn allowed(&self) -> impl Iterator<Item = Layout> + '_ {
        (0..self.layouts as Layout).filter(|&layout| self.allows(layout))
    }

    /// Returns the allowed layout with the lowest cost for this class; the first one in case of a
    /// tie.
    pub fn cheapest(&self, class: Class) -> Layout {
        self.allowed().min_by_key(|&layout| self.cost(layout, class)).unwrap_or(0)
    }

    /// Returns `layout` if it is allowed, or else the allowed layout with the cheapest switch.
    pub fn nearest(&self, layout: Layout) -> Layout {
        if self.allows(layout) {
            return layout;
        }
        self.allowed().min_by_key(|&to| self.switch(layout, to)).unwrap_or(0)
    }

    /// Returns the highest cost of switching to another layout and back. This limits how much worse
    /// off a unit in one layout can be than a unit in another.
    pub fn diameter(&self) -> u64 {
        let pairs = self.allowed().flat_map(|a| self.allowed().map(move |b| (a, b)));
        pairs.map(|(a, b)| self.switch(a, b).saturating_add(self.switch(b, a))).max().unwrap_or(0)
    }

    /// Restricts the allowed layouts to those in the bit set `keep`. If none would be left, nothing
    /// changes.
    pub(super) fn keeping(mut self, keep: u8) -> Costs {
        let left = self.allowed & keep;
        self.allowed = if left == 0 { self.allowed } else { left };
        self
    }

    /// Multiplies the costs of requests by `by` and sets the rent of each layout per tick. Layouts
    /// without an entry in `rents` pay no rent.
    pub(super) fn weighing(mut self, by: u64, rents: &[u64]) -> Costs {
        self.cost.iter_mut().for_each(|cost| *cost = cost.saturating_mul(by).min(COST_MAX));
        let tick = 2 * self.width * self.layouts;
        for (cost, &rent) in self.cost[tick..].iter_mut().zip(rents) {
            *cost = rent.min(COST_MAX);
        }
        self
    }

    fn known(&self, layout: Layout) -> usize {
        usize::from(layout).min(self.layouts - 1)
    }
}

fn clamped(table: &[Vec<u64>]) -> Vec<u64> {
    table.iter().flatten().map(|&cost| cost.min(COST_MAX)).collect()
}

/// Returns half of the cost of each switch there and back.
fn halves(switch: &[u64], layouts: usize) -> Vec<u64> {
    let half = |from: usize, to: usize| {
        let there_and_back =
            switch[from * layouts + to].saturating_add(switch[to * layouts + from]);
        if from == to { 0 } else { there_and_back / 2 }
    };
    (0..layouts * layouts).map(|at| half(at / layouts, at % layouts)).collect()
}

/// Returns costs of the paper's two layouts, given in points: writes, and the cost and the
/// threshold of switching from RAID 6 to RAID 10 and back.
fn paper(point: u64, writes: [[u64; 4]; 2], switch: [u64; 2], threshold: [u64; 2]) -> Costs {
    let square = |[there, back]: [u64; 2]| vec![0, there * point, back * point, 0];
    let mut cost: Vec<u64> =
        (0..4).flat_map(|i| [writes[0][i] * point, writes[1][i] * point]).collect();
    cost.resize(2 * 9, 0);
    Costs {
        layouts: 2,
        width: 4,
        cost,
        half: halves(&square(switch), 2),
        switch: square(switch),
        threshold: square(threshold),
        allowed: 0b11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_cost_table_is_used_on_request() {
        let costs = Costs::paper_hdd();
        let one = costs.class(Op::Write, 1);
        assert_eq!((costs.cost(RAID6, one), costs.cost(RAID10, one)), (5_600_000, 2_900_000));
        assert_eq!(
            (costs.switch(RAID6, RAID10), costs.switch(RAID10, RAID6)),
            (9_900_000, 6_500_000)
        );
        assert_eq!(costs.threshold(RAID10, RAID6), 6_600_000);
        let ssd = Costs::paper_ssd();
        assert_eq!(ssd.cost(RAID10, ssd.class(Op::Write, 4)), 390_000);
        assert_eq!(ssd.diameter(), 830_000);
        assert_eq!(ssd.cost(RAID10, ssd.class(Op::Read, 2)), 0);
    }

    #[test]
    fn the_constructor_and_the_table_agree() {
        let points = |rows: [[u64; 4]; 2]| rows.map(|row| row.map(|p| p * 10_000).to_vec());
        let square = |there, back| [vec![0, there], vec![back, 0]];
        let built = Costs::new(
            &points([[30, 28, 24, 21], [10, 20, 38, 39]]),
            &[],
            &square(540_000, 290_000),
            &square(550_000, 300_000),
        );
        assert_eq!(built, Some(Costs::paper_ssd()));
    }

    #[test]
    fn bad_tables_are_refused_and_bad_values_clamped() {
        let square = [vec![0, 1], vec![1, 0]];
        assert_eq!(Costs::new(&[], &[], &[], &[]), None);
        assert_eq!(Costs::new(&[vec![1], vec![1, 2]], &[], &square, &square), None);
        assert_eq!(Costs::new(&[vec![1], vec![1]], &[], &square, &square[..1]), None);
        let costs = Costs::paper_hdd();
        assert_eq!(costs.cost(200, 0), costs.cost(RAID10, 0));
        assert_eq!(costs.class(Op::Write, 0), 0);
        assert_eq!(costs.class(Op::Write, 99), 3);
        assert_eq!(costs.cost(RAID6, 200), 0);
        assert!(!costs.allows(200));
        let dear = [vec![u64::MAX], vec![0]];
        let costs = Costs::new(&dear, &[], &square, &square).unwrap();
        assert_eq!(costs.cost(0, 0), COST_MAX);
    }
}
