//! Sizes and the like of each category.

use std::collections::BTreeSet;

use super::super::bins::ALIGN_BINS;
use super::super::file::{Bins, Part};
use super::super::state::{CATEGORIES, FOLLOWS_MAX};
use super::LIST_MAX;
use super::wrong::{Wrong, entries, some, within, wrong};

pub(super) fn check_categories(part: &Part) -> Result<(), Wrong> {
    entries("categories", part.categories.len(), 1, CATEGORIES)?;
    let mut known = BTreeSet::new();
    for (index, category) in part.categories.iter().enumerate() {
        let key = |name| format!("categories[{index}].{name}");
        within(key("category"), usize::from(category.category), 0, CATEGORIES - 1)?;
        if !known.insert(category.category) {
            return wrong(key("category"), category.category, "each category once");
        }
        entries(key("sizes"), category.sizes.len(), 1, LIST_MAX)?;
        for (number, &(_, count, repeats)) in category.sizes.iter().enumerate() {
            within(format!("{}[{number}][1]", key("sizes")), count, 1, u32::MAX)?;
            within(format!("{}[{number}][2]", key("sizes")), repeats, 0, count)?;
        }
        check_bins(key("distance_repeats"), &category.distance_repeats, FOLLOWS_MAX as usize + 1)?;
        check_bins(key("distances"), &category.distances, FOLLOWS_MAX as usize + 1)?;
        check_bins(key("alignments"), &category.alignments, ALIGN_BINS)?;
        within(key("same_class_share"), category.same_class_share, 0.0, 1.0)?;
        within(key("same_stream_share"), category.same_stream_share, 0.0, 1.0)?;
        within(key("same_op_share"), category.same_op_share, 0.0, 1.0)?;
        within(key("same_size_share"), category.same_size_share, 0.0, 1.0)?;
        for (number, &(flags, _)) in category.flags.iter().enumerate() {
            within(format!("{}[{number}][0]", key("flags")), flags, 0, 31)?;
        }
    }
    for (index, state) in part.states.iter().enumerate() {
        if !known.contains(&state.1) {
            return wrong(format!("states[{index}][1]"), state.1, "one of categories");
        }
    }
    Ok(())
}

fn check_bins(key: String, bins: &Bins, bins_max: usize) -> Result<(), Wrong> {
    if bins.is_empty() {
        return Ok(());
    }
    within(format!("{key}[0]"), bins.0 as usize, 0, bins_max - 1)?;
    entries(format!("{key}[1]"), bins.1.len(), 1, bins_max - bins.0 as usize)?;
    some(format!("{key}[1]"), &bins.1)
}
