//! The patterns of SCAN's MATCH option: `*`, `?`, `[a-z]`, `[^a]`, and `\` to escape a character.

/// Returns whether a pattern matches an entire text.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The position of the last star, and how much text the star matches. If the rest fails to
    // match, the star matches one more byte.
    let (mut at, mut done) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while done < text.len() {
        match one(&pattern[at.min(pattern.len())..], text[done]) {
            Some(One::Star) => {
                star = Some((at + 1, done));
                at += 1;
            }
            Some(One::Fits(len)) => (at, done) = (at + len, done + 1),
            _ => {
                let Some((behind, taken)) = star else { return false };
                star = Some((behind, taken + 1));
                (at, done) = (behind, taken + 1);
            }
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|byte| *byte == b'*')
}

enum One {
    Star,
    /// The byte matches this many bytes of the pattern.
    Fits(usize),
    Differs,
}

/// Matches the pattern's first element with a byte; returns None at the end of the pattern.
fn one(pattern: &[u8], byte: u8) -> Option<One> {
    let fits = |fits: bool, len: usize| if fits { One::Fits(len) } else { One::Differs };
    Some(match *pattern.first()? {
        b'*' => One::Star,
        b'?' => One::Fits(1),
        b'\\' if pattern.len() > 1 => fits(pattern[1] == byte, 2),
        b'[' => {
            let is_not = pattern.get(1) == Some(&b'^');
            let from = if is_not { 2 } else { 1 };
            let len = pattern[from..]
                .iter()
                .position(|byte| *byte == b']')
                .unwrap_or(pattern.len() - from);
            let set = &pattern[from..from + len];
            fits(is_in(set, byte) != is_not, (from + len + 1).min(pattern.len()))
        }
        other => fits(other == byte, 1),
    })
}

fn is_in(set: &[u8], byte: u8) -> bool {
    let mut rest = set;
    while let [first, more @ ..] = rest {
        if let [b'-', last, behind @ ..] = more {
            if (*first.min(last)..=*first.max(last)).contains(&byte) {
                return true;
            }
            rest = behind;
        } else {
            if *first == byte {
                return true;
            }
            rest = more;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_patterns_match() {
        let matches = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*c", "acc"),
            ("h?llo", "hello"),
            ("", ""),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("a\\*", "a*"),
            ("*a*b*", "xxaxxbxx"),
            ("user:*:name", "user:17:name"),
            ("[c-a]", "b"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "abb"),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("a\\*", "ab"),
            ("[a-c]", "d"),
            ("[", "x"),
            ("*a", "b"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
