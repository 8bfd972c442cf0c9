//! What the clients of a page are called.

use std::collections::HashMap;

/// For each trace in turn "1 (web.parquet)": a client's number, from 1 on, and as many of the last parts of its trace's
/// path as tell it from other paths, "2 (monday/web.parquet)". One trace may stand for several clients.
pub(super) fn names(traces: &[&str]) -> Vec<String> {
    let mut paths = traces.to_vec();
    paths.sort_unstable();
    paths.dedup();
    // How many paths have so many last parts in common.
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for path in &paths {
        let mut of_path: Vec<&str> = tails(path).collect();
        of_path.dedup();
        of_path.into_iter().for_each(|end| *ends.entry(end).or_default() += 1);
    }
    let own = |path: &&str| -> String {
        let only = tails(path).find(|end| ends.get(end) == Some(&1));
        only.unwrap_or(path).to_string()
    };
    traces.iter().enumerate().map(|(at, path)| format!("{} ({})", at + 1, own(path))).collect()
}

/// The last part of a path, the last two, and so on.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    let starts = path.rmatch_indices('/').map(|(slash, _)| &path[slash + 1..]);
    starts.chain(std::iter::once(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_one_name_are_told_apart_by_where_their_traces_are() {
        assert_eq!(names(&["/a/x.csv", "y.csv"]), ["1 (x.csv)", "2 (y.csv)"]);
        assert_eq!(
            names(&["/d/mon/x.csv", "/d/tue/x.csv", "x.csv", "/e/y.csv"]),
            ["1 (mon/x.csv)", "2 (tue/x.csv)", "3 (x.csv)", "4 (y.csv)"]
        );
        // The first part may be all that differs; one trace twice is two clients.
        assert_eq!(names(&["a/b/x", "c/b/x", "c/b/x"]), ["1 (a/b/x)", "2 (c/b/x)", "3 (c/b/x)"]);
        assert!(names(&[]).is_empty());
    }
}
