//! Finds the parameters in a device file that are assumed or derived from others.
//!
//! In bundled files, each parameter is followed by a comment with its source, which begins with
//! "assumed" or "derived" if there is no real source. Users may mark parameters in their own files
//! in this way, too. Parameters that do not affect times are not counted: power, properties of the
//! drive's use, and parts of the drive that are not modeled.

use serde::Serialize;

/// How many of a device's parameters are guesses, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sources {
    /// The number of parameters that affect times.
    pub figures: usize,
    /// The keys of assumed parameters.
    pub assumed: Vec<String>,
    /// The keys of parameters derived from another parameter or from another drive.
    pub derived: Vec<String>,
}

/// Tables that do not affect times.
const NOT_OF_TIMES: &[&str] =
    &["power", "precondition", "price", "host", "evidence", "knobs", "limit"];

/// Tables that describe a drive's controller, which plain disks do not have.
pub(super) const CONTROLLER: &[&str] =
    &["format", "overheads", "bus", "buffer", "write_cache", "queue"];

/// Keys that are not parameters by themselves: a range, and the keys that state what a bucket
/// counts and limits.
const NOT_FIGURES: &[&str] = &["catch_margin_range_ms", "of", "direction"];

/// A parameter in a device file, and the comment that follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FigureSource {
    /// The table that contains the parameter.
    pub table: String,
    /// The key of the parameter.
    pub key: String,
    /// The value as written in the file.
    pub value: String,
    /// The source, or an empty string if the file states none.
    pub source: String,
}

impl FigureSource {
    /// Returns the parameters in `text`, each of which is on a separate line.
    pub(super) fn all(text: &str) -> Vec<FigureSource> {
        let (mut figures, mut table) = (Vec::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(header) = header(line) {
                table = header.to_string();
            } else if let Some((key, value, source)) = figure(line).filter(|_| !table.is_empty()) {
                let [key, value, source] = [key, value, source].map(str::to_string);
                figures.push(FigureSource { table: table.clone(), key, value, source });
            }
        }
        figures
    }
}

/// Returns the name of the table if `line` is its header.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.trim_start_matches('[');
    Some(name.split(']').next().unwrap_or_default().trim())
}

/// Splits a line into its key, its value and the comment that follows.
fn figure(line: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = line.split_once('=')?;
    let key = key.trim();
    let (value, source) = rest.split_once('#').unwrap_or((rest, ""));
    (is_key(key) && !NOT_FIGURES.contains(&key)).then_some((key, value.trim(), source.trim()))
}

impl Sources {
    /// Classifies the parameters in `text`, except those in the tables `left_out`.
    pub(super) fn of(text: &str, left_out: &[&str]) -> Sources {
        let (mut sources, mut counts) = (Sources::default(), false);
        for line in text.lines().map(str::trim) {
            if let Some(table) = header(line) {
                counts = ![NOT_OF_TIMES, left_out].iter().any(|tables| tables.contains(&table));
                continue;
            }
            let Some((key, _, source)) = figure(line).filter(|_| counts) else { continue };
            sources.figures += 1;
            if source.starts_with("assumed") {
                sources.assumed.push(key.to_string());
            } else if source.starts_with("derived") {
                sources.derived.push(key.to_string());
            }
        }
        sources
    }

    /// Describes how many parameters of `device` are guesses, or returns None if none are.
    pub fn caution(&self, device: &str) -> Option<String> {
        let guesses = self.assumed.len() + self.derived.len();
        (guesses > 0).then(|| {
            format!(
                "{} of the {} figures that determine {device}'s times are assumed, and {} are derived",
                self.assumed.len(),
                self.figures,
                self.derived.len()
            )
        })
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenDevice;

    #[test]
    fn guesses_are_counted_and_power_is_not() {
        let text = "kind = \"ssd\"\n# a = 3 # assumed\n[flash]\nread_us = 40 # assumed: of its time\n\
                    program_us = 9 # derived: from the rate\nchannels = 8 # a review\nerase_us = 3\n\
                    [power]\nidle_w = 1 # assumed\n[[zone]]\nspares = [1, 2] # assumed\n";
        let sources = Sources::of(text, &[]);
        assert_eq!(sources.figures, 5);
        assert_eq!(sources.assumed, ["read_us", "spares"]);
        assert_eq!(sources.derived, ["program_us"]);
        let told = sources.caution("x").unwrap();
        assert!(
            told.starts_with("2 of the 5 figures") && told.ends_with("assumed, and 1 are derived")
        );
        assert_eq!(Sources::of("[flash]\nread_us = 40\n", &[]).caution("x"), None);
        let without = Sources::of(text, &["flash"]);
        assert_eq!((without.figures, without.assumed), (1, vec!["spares".to_string()]));
    }

    #[test]
    fn guesses_at_missing_parts_are_left_out() {
        let of = |name: &str| crate::open(name).unwrap();
        let shipped = of("st1000nm0011");
        let has = |device: &OpenDevice, key: &str| {
            device.sources.assumed.iter().any(|assumed| assumed == key)
        };
        assert!(has(&shipped, "segments") && has(&shipped, "extents") && has(&shipped, "heads"));
        let plain = of("st1000nm0011:plain");
        assert!(!has(&plain, "segments") && !has(&plain, "extents") && has(&plain, "heads"));
        assert!(plain.sources.figures < shipped.sources.figures - 8);
        assert_eq!(shipped.plain().unwrap().sources, plain.sources);
        let uncached = of("st1000nm0011:write-cache=off");
        assert!(has(&uncached, "segments") && !has(&uncached, "extents"));
    }
}
