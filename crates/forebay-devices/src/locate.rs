//! Finds the key that an error message refers to, so that its line can be reported.
//!
//! The parser's span covers a whole table. The message either contains the key or uses the model's
//! words for it, which [`WORDS`] maps to keys. If no key matches, the line of the table's header is
//! reported.

use std::ops::Range;

/// Words in the model's messages and the keys they may refer to, most likely first.
const WORDS: &[(&str, &[&str])] = &[
    ("got segments of", &["segment_sectors"]),
    ("got read-ahead of", &["read_ahead_sectors"]),
    ("write: got watermark", &["write_watermark_share"]),
    ("got watermark", &["read_watermark_share"]),
    ("write cache: got runs of", &["extent_sectors"]),
    ("sectors in all", &["sectors"]),
    ("write cache", &["extents"]),
    ("first cylinder", &["first_cylinder"]),
    ("last cylinder", &["last_cylinder"]),
    ("sectors per track", &["sectors_per_track", "outer_sustained_mb_per_s"]),
    ("track skew", &["track_skew_sectors", "track_skew_ms"]),
    ("cylinder skew", &["cylinder_skew_sectors", "cylinder_skew_ms"]),
    ("first angle", &["first_angle_sectors"]),
    ("reserved sectors", &["reserved_sectors"]),
    ("defects of a zone", &["remapped", "slipped"]),
    ("zones: got", &["count"]),
    ("capacity", &["capacity_bytes"]),
    ("revolution", &["rpm"]),
    ("start phase", &["start_phase_ms"]),
    ("write settle", &["write_settle_ms"]),
    ("head switch", &["head_ms"]),
    ("cylinder switch", &["cylinder_ms"]),
    ("longest command", &["len_max_bytes"]),
    ("overhead:", &["overhead_ms", "overhead_us"]),
    ("distances that are not ascending", &["distances_cylinders"]),
    ("decreases after the first", &["first_ms"]),
    ("decreases from", &["times_ms"]),
    ("before the knee", &["short_us_per_root"]),
    ("at the knee", &["long_ms"]),
    ("beyond the knee", &["long_us_per_cylinder"]),
    ("knee share", &["knee_share"]),
    ("track-to-track", &["track_to_track_ms"]),
    ("no increasing curve", &["average_ms"]),
    ("seek times", &["times_ms", "short_ms"]),
    ("idle power", &["idle_w"]),
    ("seek power", &["seek_w"]),
    ("transfer power", &["transfer_w"]),
    ("standby power", &["standby_w"]),
    ("W to seek", &["seek_w"]),
    ("power of spin-up", &["spin_up_j"]),
    ("spin-up", &["spin_up_s"]),
    ("got blocks of", &["pages_per_block"]),
    ("page:", &["page_bytes"]),
    ("program pages", &["program_pages"]),
    ("pages per block", &["pages_per_block"]),
    ("dies per channel", &["dies_per_channel"]),
    ("queue depth", &["queue_depth", "depth"]),
    ("read:", &["read_us"]),
    ("program:", &["program_us"]),
    ("erase:", &["erase_us"]),
    ("command:", &["interval_us"]),
    ("channel rate", &["channel_mb_per_s"]),
    ("link rate", &["mb_per_s"]),
    ("read power", &["read_w"]),
    ("write power", &["write_w"]),
    ("logical pages per die", &["over_provisioning_percent"]),
    ("over-provisioning", &["over_provisioning_percent"]),
    ("filled share", &["filled_percent"]),
    ("overwrites", &["overwritten_percent"]),
];

/// Returns the position in `text` of the key that `what` refers to, within the table at `span`.
pub(super) fn key(text: &str, span: &Range<usize>, what: &str) -> usize {
    let start = span.start;
    let Some(rest) = text.get(start..).filter(|rest| rest.starts_with('[')) else { return start };
    let keys = keys(rest);
    let subject = what.split(", expected").next().unwrap_or(what);
    let place = |key: &str| keys.iter().find(|(known, _)| *known == key).map(|(_, at)| *at);
    let worded = WORDS.iter().filter(|(words, _)| subject.contains(words));
    if let Some(at) = worded.flat_map(|(_, keys)| keys.iter()).find_map(|key| place(key)) {
        return start + at;
    }
    let mut words = subject.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.find_map(place).map_or(start, |at| start + at)
}

/// Returns the keys of the table at the start of `text`, and their positions.
fn keys(text: &str) -> Vec<(&str, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_header = line
            .trim_start()
            .strip_prefix('[')
            .is_some_and(|rest| rest.trim_start_matches('[').starts_with(char::is_alphabetic));
        if index > 0 && is_header {
            break;
        }
        let said = line.split('#').next().unwrap_or(line);
        for (equals, _) in said.match_indices('=') {
            let before = said[..equals].trim_end();
            let is_key = |letter: char| letter.is_alphanumeric() || letter == '_';
            let begin = before.trim_end_matches(is_key).len();
            found.push((&before[begin..], at + begin));
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn keys_are_found_in_their_table_only() {
        let text = "[a]\nheads = 1\nlong_list = [\n  [1, 2], # rpm = 3\n]\n[b]\nrpm = 2\n";
        let at = |from: usize, what: &str| text[key(text, &(from..from + 1), what)..].to_string();
        assert!(at(0, "heads: got 1, expected rpm").starts_with("heads"));
        assert!(at(0, "long_list: got few").starts_with("long_list"));
        assert!(at(0, "rpm: got 2").starts_with("[a]"));
        assert!(at(0, "got 5, expected heads").starts_with("[a]"));
        let second = text.find("[b]").unwrap();
        assert!(at(second, "revolution: got 2 ns").starts_with("rpm"));
    }
}
