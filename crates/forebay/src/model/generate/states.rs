//! States and what can follow them.

use rustc_hash::FxHashMap;

use super::super::file::{Model, Part};
use super::super::state::{CATEGORIES, Category, GAP_CLASSES, Range};
use super::draw::Table;

/// Something that can follow: a node of the hierarchy, and its weight for its budget.
pub(super) type Candidate = (u32, f32);

/// A state of the finest level.
pub(super) struct StateDrawer {
    pub(super) range: u32,
    pub(super) category: Category,
    /// Its node and those above it.
    pub(super) nodes: Vec<u32>,
    /// What can follow, by class of the gap, and after any.
    pub(super) next: [Vec<Candidate>; GAP_CLASSES + 1],
    pub(super) again: Table,
}

/// Ranges at all levels with the categories seen in them.
pub(super) struct Nodes {
    pub(super) ids: FxHashMap<(Range, Category), u32>,
    pub(super) children: Vec<Vec<u32>>,
    pub(super) state_of: Vec<u32>,
    pub(super) counts: Vec<u64>,
}

impl Nodes {
    pub(super) fn new(states: &[(Range, Category)], part: &Part) -> Nodes {
        let mut nodes = Nodes {
            ids: FxHashMap::default(),
            children: Vec::new(),
            state_of: Vec::new(),
            counts: Vec::new(),
        };
        for ((range, category), (saved, number)) in
            states.iter().zip(part.states.iter().zip(0u32..))
        {
            let mut below = None;
            for level in (1..=range.level()).rev() {
                let key = (range.ancestor(level), *category);
                let fresh = nodes.ids.len() as u32;
                let id = *nodes.ids.entry(key).or_insert(fresh);
                if id == fresh {
                    nodes.children.push(Vec::new());
                    nodes.state_of.push(u32::MAX);
                    nodes.counts.push(0);
                }
                nodes.counts[id as usize] += saved.2;
                match below {
                    None => nodes.state_of[id as usize] = number,
                    Some(child) if !nodes.children[id as usize].contains(&child) => {
                        nodes.children[id as usize].push(child);
                    }
                    Some(_) => {}
                }
                below = Some(id);
            }
        }
        nodes
    }

    /// The flavour of each node.
    pub(super) fn flavours(&self) -> Vec<u8> {
        let mut flavours = vec![0; self.ids.len()];
        for (&(_, category), &id) in &self.ids {
            flavours[id as usize] = category.flavour();
        }
        flavours
    }

    /// The node of a state and those above it.
    pub(super) fn above(&self, (range, category): (Range, Category)) -> Vec<u32> {
        (1..=range.level())
            .rev()
            .map(|level| self.ids[&(range.ancestor(level), category)])
            .collect()
    }
}

/// A node that follows, with counts by class of gap.
type Row<'a> = (u32, &'a Vec<u32>);

/// What can follow each state.
pub(super) fn candidates(
    model: &Model,
    part: &Part,
    states: &[(Range, Category)],
    nodes: &Nodes,
) -> Vec<[Vec<Candidate>; GAP_CLASSES + 1]> {
    let mut rows: FxHashMap<(Range, Category), Vec<Row<'_>>> = FxHashMap::default();
    for transition in &part.transitions {
        let ends = Range::parse(&transition.from).zip(Range::parse(&transition.to));
        let Some((from, to)) = ends else { continue };
        for joint in &transition.joint {
            if let Some(&node) = nodes.ids.get(&(to, Category(joint.1))) {
                rows.entry((from, Category(joint.0))).or_default().push((node, &joint.2));
            }
        }
    }
    let levels =
        |range: Range| if model.flat { range.level()..=range.level() } else { 1..=range.level() };
    states
        .iter()
        .map(|&(range, category)| {
            let mut next: [Vec<Candidate>; GAP_CLASSES + 1] = Default::default();
            for level in levels(range).rev() {
                let from = (range.ancestor(level), category);
                let Some(&id) = nodes.ids.get(&from) else { continue };
                let visits = nodes.counts[id as usize].max(1) as f64;
                for (node, gaps) in rows.get(&from).into_iter().flatten() {
                    let follows = nodes.counts[*node as usize].max(1) as f64;
                    let weight = |count: f64| (count / visits / follows * 1e6) as f32;
                    for (class, &count) in gaps.iter().enumerate().filter(|(_, count)| **count > 0)
                    {
                        next[class].push((*node, weight(f64::from(count))));
                    }
                    let all: f64 = gaps.iter().map(|&count| f64::from(count)).sum();
                    next[GAP_CLASSES].push((*node, weight(all)));
                }
            }
            next
        })
        .collect()
}

/// How much likelier a gap of each class is after each node than after any.
pub(super) fn before_gap(part: &Part, nodes: &Nodes) -> Vec<[f32; GAP_CLASSES]> {
    let mut counts = vec![[0f64; GAP_CLASSES]; nodes.ids.len()];
    let mut all = [0f64; GAP_CLASSES];
    for transition in &part.transitions {
        let Some(from) = Range::parse(&transition.from) else { continue };
        for joint in &transition.joint {
            for (class, &count) in joint.2.iter().enumerate() {
                all[class] += f64::from(count);
                if let Some(&node) = nodes.ids.get(&(from, Category(joint.0))) {
                    counts[node as usize][class] += f64::from(count);
                }
            }
        }
    }
    let sum: f64 = all.iter().sum();
    let share = all.map(|count| (count + 1.0) / (sum + GAP_CLASSES as f64));
    counts
        .iter()
        .map(|counts| {
            let sum: f64 = counts.iter().sum();
            // As if one more had been seen, of the usual kind.
            std::array::from_fn(|class| {
                ((counts[class] + share[class]) / (sum + 1.0) / share[class]) as f32
            })
        })
        .collect()
}

/// No flavour left of an epoch; beside it what one has over its share of all.
pub(super) fn flavours(part: &Part) -> Vec<(f32, f32)> {
    let mut counts = vec![0u64; CATEGORIES];
    for state in &part.states {
        counts[usize::from(Category(state.1).flavour())] += state.2;
    }
    let share = |count: u64| if count > 0 { (1e3 / count as f64) as f32 } else { 0.0 };
    counts.into_iter().map(|count| (0.0, share(count))).collect()
}
