//! The choices that a volume type offers to users, and the settings that the type permits.

use crate::devices::volume::{Knobs, VolumeType};

/// The knobs of a type that the search adjusts, in addition to the size.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Nothing can be chosen, not even the size.
    Fixed,
    /// The size determines the rates, and only these sizes in GiB are sold.
    Sizes(Vec<f64>),
    /// The size determines the rates, and any size is sold.
    Size,
    /// One rate can be chosen.
    One(Rate),
    /// Two rates can be chosen.
    Two(Rate, Rate),
}

/// A rate that users choose, with its range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    pub name: String,
    pub least: u64,
    pub most: u64,
}

/// The name of the knob for the size in GiB.
pub(super) const SIZE: &str = "gib";

/// Returns the choices that `kind` offers to users. Returns `None` for limits that are not sold,
/// such as those of a hypervisor, and for types with more than two rates.
pub(super) fn shape(kind: &VolumeType) -> Option<Shape> {
    if kind.knobs().is_empty() {
        return Some(Shape::Fixed);
    }
    kind.knobs().iter().find(|knob| knob.name == SIZE)?;
    if !kind.tiers().is_empty() {
        return Some(Shape::Sizes(kind.tiers().iter().map(|tier| tier.gib).collect()));
    }
    let rates = kind.knobs().iter().filter(|knob| knob.name != SIZE).map(|knob| Rate {
        name: knob.name.clone(),
        least: knob.least as u64,
        most: knob.most as u64,
    });
    match rates.collect::<Vec<_>>().as_slice() {
        [] => Some(Shape::Size),
        [one] => Some(Shape::One(one.clone())),
        // The rate with the longer range becomes x, which is searched by bisection.
        [a, b] if a.most >= b.most => Some(Shape::Two(a.clone(), b.clone())),
        [a, b] => Some(Shape::Two(b.clone(), a.clone())),
        _ => None,
    }
}

/// Returns the smallest and the largest size of `kind` in whole GiB.
pub(super) fn sizes(kind: &VolumeType) -> Option<[u64; 2]> {
    let knob = kind.knobs().iter().find(|knob| knob.name == SIZE)?;
    Some([knob.least as u64, knob.most as u64])
}

pub(super) fn is_permitted(kind: &VolumeType, knobs: &Knobs) -> bool {
    kind.at(knobs).is_ok()
}

/// Finds the smallest permitted setting with at least these `rates` and at least `gib`. Prefers the
/// smallest size that permits the rates as they are; if there is none, raises the first rate as
/// little as possible. Returns `None` if nothing is permitted.
pub(super) fn settled(
    kind: &VolumeType,
    base: &Knobs,
    gib: u64,
    rates: &[(&Rate, u64)],
) -> Option<Knobs> {
    let with = |gib: u64, rates: &[(&Rate, u64)]| {
        rates.iter().fold(base.clone().with(SIZE, gib as f64), |knobs, (rate, value)| {
            knobs.with(&rate.name, *value as f64)
        })
    };
    let [least, most] = sizes(kind)?;
    let gib = gib.max(least);
    if gib > most || rates.iter().any(|(rate, value)| *value > rate.most) {
        return None;
    }
    let is_ok = |gib: u64, rates: &[(&Rate, u64)]| is_permitted(kind, &with(gib, rates));
    if let Some(gib) = first_ok(gib, most, |gib| is_ok(gib, rates)) {
        return Some(with(gib, rates));
    }
    // A limit may require more of the first rate, as when each MiB/s requires 4 IOPS.
    let (&(rate, value), rest) = rates.split_first()?;
    let raised = |value: u64| [&[(rate, value)], rest].concat();
    let fits = |gib: u64| first_ok(value, rate.most, |value| is_ok(gib, &raised(value)));
    if let Some(value) = fits(gib) {
        return Some(with(gib, &raised(value)));
    }
    let gib = first_ok(gib, most, |gib| fits(gib).is_some())?;
    Some(with(gib, &raised(fits(gib)?)))
}

/// Returns the smallest number from `low` to `high` for which `ok` returns true. These numbers must
/// form one range, which spans at least a tenth of its lower end.
fn first_ok(low: u64, high: u64, mut ok: impl FnMut(u64) -> bool) -> Option<u64> {
    if ok(low) {
        return Some(low);
    }
    let mut below = low;
    loop {
        if below >= high {
            return None;
        }
        let next = (below + below / 10).max(below + 1).min(high);
        if ok(next) {
            return Some(super::staircase::first(below + 1, next, ok));
        }
        below = next;
    }
}

/// Returns the smallest setting with a size of at least `gib`.
pub(super) fn smallest(kind: &VolumeType, shape: &Shape, base: &Knobs, gib: u64) -> Option<Knobs> {
    let sized = |gib: f64| base.clone().with(SIZE, gib);
    match shape {
        Shape::Fixed => None,
        Shape::Sizes(sizes) => {
            sizes.iter().find(|size| **size >= gib as f64).map(|gib| sized(*gib))
        }
        Shape::Size => settled(kind, base, gib, &[]),
        Shape::One(rate) => settled(kind, base, gib, &[(rate, rate.least)]),
        Shape::Two(x, y) => settled(kind, base, gib, &[(x, x.least), (y, y.least)]),
    }
}

/// Returns the highest setting that the type permits.
pub(super) fn highest(kind: &VolumeType, shape: &Shape, base: &Knobs) -> Option<Knobs> {
    let sized = || Some(base.clone().with(SIZE, sizes(kind)?[1] as f64));
    let most = |knobs: Knobs, rate: &Rate| knobs.with(&rate.name, rate.most as f64);
    let highest = match shape {
        Shape::Fixed => base.clone(),
        Shape::Sizes(_) | Shape::Size => sized()?,
        Shape::One(rate) => most(sized()?, rate),
        Shape::Two(x, y) => most(most(sized()?, x), y),
    };
    is_permitted(kind, &highest).then_some(highest)
}

/// Returns the permitted settings that are one step below `knobs` in one of the choices. The size
/// is a choice only if it determines the rates.
pub(super) fn steps_below(kind: &VolumeType, shape: &Shape, knobs: &Knobs, gib: u64) -> Vec<Knobs> {
    let less = |name: &str| knobs.get(name).map(|value| knobs.clone().with(name, value - 1.0));
    let below = match shape {
        Shape::Fixed => Vec::new(),
        Shape::Sizes(sizes) => {
            let size = knobs.get(SIZE).unwrap_or_default();
            let smaller = sizes.iter().rev().find(|other| **other < size && **other >= gib as f64);
            vec![smaller.map(|gib| knobs.clone().with(SIZE, *gib))]
        }
        Shape::Size => vec![less(SIZE).filter(|knobs| knobs.get(SIZE) >= Some(gib as f64))],
        Shape::One(rate) => vec![less(&rate.name)],
        Shape::Two(x, y) => vec![less(&x.name), less(&y.name)],
    };
    below.into_iter().flatten().filter(|knobs| is_permitted(kind, knobs)).collect()
}
