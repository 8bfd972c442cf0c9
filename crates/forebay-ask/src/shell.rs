//! Words of commands that are printed for a shell.

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn only_words_that_a_shell_would_split_or_expand_get_quotes() {
        assert_eq!(shell_word("array:adapt=best"), "array:adapt=best");
        assert_eq!(shell_word("my drive.toml"), "'my drive.toml'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
