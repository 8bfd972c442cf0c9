//! Suggests the name that the user probably meant.

/// Returns the name in `names` that is closest to `text`, if at most a third of its letters are
/// wrong.
pub fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let text = text.to_ascii_lowercase();
    let distances = names.iter().map(|name| (distance(&text, &name.to_ascii_lowercase()), *name));
    let (wrong, name) = distances.min_by_key(|(wrong, _)| *wrong)?;
    (wrong * 3 <= name.chars().count().max(3)).then_some(name)
}

/// Formats the closest of `names` in parentheses, as part of a message; empty if no name is close.
pub fn suggestion(text: &str, names: &[&str]) -> String {
    nearest(text, names).map_or(String::new(), |name| format!(" (did you mean {name}?)"))
}

/// Returns how many letters must be inserted, removed, replaced or swapped with a neighbor to turn
/// `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, &letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &other) in b.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(letter != other);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && letter == b[j - 1] && a[i - 1] == other {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_misses_are_found_and_others_are_not() {
        let names = ["mq-deadline", "noop", "none", "bfq"];
        assert_eq!(nearest("mqdeadline", &names), Some("mq-deadline"));
        assert_eq!(nearest("MQ-Deadlien", &names), Some("mq-deadline"));
        assert_eq!(nearest("bqf", &names), Some("bfq"));
        assert_eq!(nearest("elevator", &names), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
