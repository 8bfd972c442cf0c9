//! Spells the names of inputs in messages as each front end does.

/// The character before and after an input's name in neutral text. Text from outside cannot contain
/// it, because front ends replace control characters.
const MARK: char = '\u{1}';

/// How a front end spells the names of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As on the command line: `--trust-times`.
    Command,
    /// As in Python: `trust_times`.
    Python,
}

/// Marks the name of an input in neutral text, so that [`spelled`] can later spell it for a front
/// end. The name may include a value, as in `named("by=volume")`, or be a flag that is set, as in
/// `named("trust_times=true")`.
pub fn named(name: &str) -> String {
    format!("{MARK}{name}{MARK}")
}

/// Spells the marked names of inputs in `text` as a front end does.
pub fn spelled(text: &str, spelling: Spelling) -> String {
    let mut parts = text.split(MARK);
    let mut spelled = parts.next().unwrap_or_default().to_string();
    while let Some(name) = parts.next() {
        spelled.push_str(&one(name, spelling));
        spelled.push_str(parts.next().unwrap_or_default());
    }
    spelled
}

fn one(named: &str, spelling: Spelling) -> String {
    let (name, value) = named.split_once('=').map_or((named, None), |(n, v)| (n, Some(v)));
    match (spelling, value) {
        (Spelling::Command, None | Some("true")) => format!("--{}", name.replace('_', "-")),
        (Spelling::Command, Some(value)) => format!("--{} {value}", name.replace('_', "-")),
        (Spelling::Python, None) => python_name(name),
        (Spelling::Python, Some("true")) => format!("{}=True", python_name(name)),
        (Spelling::Python, Some(value)) => format!("{}={value:?}", python_name(name)),
    }
}

/// Returns the Python argument for the input `name`; if that is a Python keyword, an underscore is
/// appended.
pub fn python_name(name: &str) -> String {
    match name {
        "as" | "class" | "for" | "from" | "in" | "is" | "lambda" | "with" => format!("{name}_"),
        name => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_has_its_own_spelling() {
        let text = format!("use {} or {}.", named("trust_times"), named("by=volume"));
        assert_eq!(spelled(&text, Spelling::Command), "use --trust-times or --by volume.");
        assert_eq!(spelled(&text, Spelling::Python), "use trust_times or by=\"volume\".");
        let flag = named("keep_times=true");
        assert_eq!(spelled(&flag, Spelling::Command), "--keep-times");
        assert_eq!(spelled(&flag, Spelling::Python), "keep_times=True");
        assert_eq!(spelled(&named("for"), Spelling::Python), "for_");
        assert_eq!(spelled("nothing", Spelling::Python), "nothing");
        assert_eq!(spelled("odd \u{1}x", Spelling::Python), "odd x");
    }
}
