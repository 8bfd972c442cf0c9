//! Generates the reference of a verb's inputs in Markdown.

use crate::{Arity, Ask, Face, Input, Spelling, paragraphs, python_name, spelled};

/// Formats the reference section of verb `A`: its description, and a table of its inputs as spelled
/// on the command line and in Python.
pub fn reference<A: Ask>() -> String {
    let sentence = |text: String| format!("{}.", text.trim_end_matches('.'));
    let about: Vec<String> = paragraphs(A::ABOUT).into_iter().map(sentence).collect();
    let about = about.join("\n\n");
    let function = A::VERB.replace([' ', '-'], "_");
    let mut text = format!("## `forebay {}`, `forebay.{function}`\n\n{about}\n\n", A::VERB);
    text += "| option | in Python | default | meaning |\n|---|---|---|---|\n";
    for input in A::inputs() {
        let cells = [option(&input), argument(&input), default(&input), meaning(&input)];
        text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

/// Formats an input as the command line spells it.
fn option(input: &Input) -> String {
    if input.face == Face::Python {
        return String::new();
    }
    let short = input.short.map_or(String::new(), |letter| format!("`-{letter}`, "));
    let long = input.name.replace('_', "-");
    if input.is_positional {
        return match input.short {
            Some(_) => format!("`{0}`, or {short}`--{long} {0}`", input.word),
            None => format!("`{}`", input.word),
        };
    }
    match input.arity {
        Arity::Flag => format!("{short}`--{long}`"),
        _ => format!("{short}`--{long} {}`", input.word),
    }
}

/// Formats an input as Python spells it.
fn argument(input: &Input) -> String {
    match input.face {
        Face::Command => String::new(),
        _ => format!("`{}`", python_name(input.name)),
    }
}

fn default(input: &Input) -> String {
    if let Some(default) = input.command_default {
        return format!("`{default}` on the command line");
    }
    match (input.default, input.default_text) {
        (Some(default), _) => format!("`{default}`"),
        (None, Some(said)) => said.to_string(),
        (None, None) if input.is_required() => "required".to_string(),
        (None, None) => String::new(),
    }
}

/// Formats an input's description, its accepted words and its range.
fn meaning(input: &Input) -> String {
    let mut said = spelled(&input.paragraphs().join(". "), Spelling::Command);
    if !input.choices.is_empty() {
        let words: Vec<String> =
            input.choices.iter().map(|one| format!("`{}` ({})", one.name, one.about)).collect();
        said += &format!(": {}", words.join(", "));
    }
    match input.range_text() {
        Some(range) => format!("{said}; {range}"),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    crate::ask! {
        /// Do something
        struct ReferenceAsk("plan something") {
            /// The trace
            trace: String [.positional().word("TRACE")],
            /// A size | or none
            size_mib: Option<Size> [.short('s').between(1.0, 9.0).otherwise("all")],
            /// Whether
            quickly: bool,
        }
    }

    #[test]
    fn every_input_has_a_row() {
        let mut given = crate::Given::default();
        given.text("trace", "t");
        let ask: ReferenceAsk = crate::read(&given).unwrap();
        assert_eq!((&ask.trace[..], ask.size_mib, ask.quickly), ("t", None, false));
        let text = reference::<ReferenceAsk>();
        assert!(text.starts_with(
            "## `forebay plan something`, `forebay.plan_something`\n\nDo something.\n"
        ));
        let rows: Vec<&str> = text.lines().skip(6).collect();
        assert_eq!(
            rows,
            [
                "| `TRACE` | `trace` | required | The trace |",
                "| `-s`, `--size-mib SIZE` | `size_mib` | all | A size \\| or none; 1 to 9 |",
                "| `--quickly` | `quickly` |  | Whether |",
            ]
        );
    }
}
