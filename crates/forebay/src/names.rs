//! Short names that distinguish files and disks, for results, pages and `forebay top`.

use std::collections::HashMap;

/// Shortens each path to the fewest last components that distinguish it from the other paths:
/// `web.parquet`, or `monday/web.parquet` if another folder has a file of the same name. Identical
/// paths get identical names.
pub fn told_apart(paths: &[&str]) -> Vec<String> {
    let mut different = paths.to_vec();
    different.sort_unstable();
    different.dedup();
    // For each trailing part of a path, the number of paths that end with it.
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for path in &different {
        let mut of_path: Vec<&str> = tails(path).collect();
        of_path.dedup();
        of_path.into_iter().for_each(|end| *ends.entry(end).or_default() += 1);
    }
    let own = |path: &&str| -> String {
        let only = tails(path).find(|end| !end.is_empty() && ends.get(end) == Some(&1));
        only.unwrap_or(path).to_string()
    };
    paths.iter().map(own).collect()
}

/// Shortens paths like [`told_apart`], but numbers repeated paths: `web.parquet#2`.
pub fn numbered(paths: &[&str]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for name in told_apart(paths) {
        let again = (2..).map(|number| format!("{name}#{number}"));
        let free = [name.clone()].into_iter().chain(again).find(|name| !told.contains(name));
        told.extend(free);
    }
    told
}

/// Names clients by their number, counted from 1, and their trace, as in "2 (monday/web.parquet)".
/// Several clients may have the same trace. A volume of a trace has a number of its own, so it is
/// named without the client's: "fin1.spc volume 5".
pub fn clients(traces: &[&str]) -> Vec<String> {
    let named = told_apart(traces).into_iter().enumerate();
    let client = |(at, name): (usize, String)| match name.contains(" volume ") {
        true => name,
        false => format!("{} ({name})", at + 1),
    };
    named.map(client).collect()
}

/// Yields the last component of a path, the last two, and so on.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    let starts = path.rmatch_indices('/').map(|(slash, _)| &path[slash + 1..]);
    starts.chain(std::iter::once(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_folders_as_tell_paths_apart() {
        assert_eq!(told_apart(&["/a/x.csv", "y.csv"]), ["x.csv", "y.csv"]);
        assert_eq!(
            told_apart(&["/d/mon/x.csv", "/d/tue/x.csv", "x.csv", "/e/y.csv"]),
            ["mon/x.csv", "tue/x.csv", "x.csv", "y.csv"]
        );
        // Paths may differ only in their first component; repeated paths have the same name.
        assert_eq!(told_apart(&["a/b/x", "c/b/x", "c/b/x"]), ["a/b/x", "c/b/x", "c/b/x"]);
        assert_eq!(told_apart(&["/x/"]), ["x/"]);
        assert!(told_apart(&[]).is_empty());
    }

    #[test]
    fn repeated_names_are_numbered() {
        let names = numbered(&["a/x", "b/x", "a/x", "y", "a/x"]);
        assert_eq!(names, ["a/x", "b/x", "a/x#2", "y", "a/x#3"]);
        assert_eq!(numbered(&["x#2", "x", "x"]), ["x#2", "x", "x#3"]);
        assert_eq!(clients(&["a/x", "b/x", "b/x"]), ["1 (a/x)", "2 (b/x)", "3 (b/x)"]);
        assert_eq!(clients(&["a/x volume 0", "a/x volume 5"]), ["x volume 0", "x volume 5"]);
    }
}
