//! Recognizes bundled drives by the model names that drives report to the operating system.

use serde::Deserialize;

use super::BUNDLED;

/// Returns the names in `reported_as` of a device file: parts of the model name that the drive
/// reports.
pub(super) fn names(text: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Only {
        #[serde(default)]
        reported_as: Vec<String>,
    }
    toml::from_str(text).map_or(Vec::new(), |only: Only| only.reported_as)
}

/// Returns the letters and digits of a name in lower case, because drives differ in the rest.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Returns the bundled device that is a model of the drive with this reported model name. If
/// several match, returns the one with the longest name.
pub fn reported_as(model: &str) -> Option<&'static str> {
    let model = plain(model);
    let named = BUNDLED
        .iter()
        .flat_map(|(stem, text)| names(text).into_iter().map(move |name| (plain(&name), *stem)));
    let found = named.filter(|(name, _)| model.contains(name)).max_by_key(|(name, _)| name.len());
    found.map(|(_, stem)| stem)
}
