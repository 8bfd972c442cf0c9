//! Messages that name options of the command, as a call names its arguments: `--map-volume` is `map_volume=`, and
//! `--replay open` is `replay=open`. Whatever else begins with two dashes stays as it is.

/// Options that messages name, and what stands in their place: an argument, or one with its value where an option has none.
const ARGUMENTS: [(&str, &str); 19] = [
    ("buffered", "buffered=True"),
    ("depth", "depth"),
    ("device", "device"),
    ("disks", "disks"),
    ("driver", "driver"),
    ("emulate", "emulate"),
    ("fail", "fail"),
    ("fit-device", "fit_device=True"),
    ("flash", "flash"),
    ("intensity", "intensity"),
    ("map", "map"),
    ("map-volume", "map_volume"),
    ("overwrite", "overwrite=True"),
    ("prefer", "prefer"),
    ("realtime", "realtime=True"),
    ("replay", "replay"),
    ("target", "target"),
    ("volume", "volume"),
    ("without-disk", "without_disk=True"),
];

/// Words of small letters alone that are the value of the option before them.
const VALUES: [&str; 5] = ["open", "closed", "dependent", "scale", "wrap"];

/// `text` with options as arguments.
pub(crate) fn as_called(text: &str) -> String {
    let (mut said, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("--") {
        let (before, option) = (&rest[..at], &rest[at + 2..]);
        let end = option.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
        let (name, after) = option.split_at(end.unwrap_or(option.len()));
        let begins = before.is_empty() && said.is_empty() || before.ends_with([' ', '(', '`']);
        said.push_str(before);
        match ARGUMENTS.iter().find(|(option, _)| begins && *option == name) {
            Some((_, argument)) => {
                said.push_str(argument);
                rest = valued(after, &mut said);
            }
            None => {
                said.push_str("--");
                rest = option;
            }
        }
    }
    said + rest
}

/// What is left after an argument's name: a message about it goes on with a colon, else it has its value.
fn valued<'a>(after: &'a str, said: &mut String) -> &'a str {
    if after.starts_with(':') || said.ends_with("=True") {
        return after;
    }
    said.push('=');
    let word = after.strip_prefix(' ').unwrap_or_default();
    let first = word.split([' ', ';', ',', '.', ')']).next().unwrap_or_default();
    let is_word = first.chars().all(|letter| letter.is_ascii_lowercase());
    // What a message is about, before its colon, is a value whatever its letters.
    let is_subject = word.contains(": got ");
    if is_word && !is_subject && !VALUES.contains(&first) { after } else { word }
}
