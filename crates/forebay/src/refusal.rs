//! Adds advice to error messages of the operating system.

use std::io::{self, ErrorKind};

/// How the suffix of the operating system's messages starts:
/// `No such file or directory (os error 2)`.
const NUMBERED: &str = " (os error ";

/// Adds advice to `message` if the message is only that of the operating system.
pub fn with_remedy(message: String) -> String {
    match remedy(&message) {
        Some(remedy) => format!("{message}; {remedy}"),
        None => message,
    }
}

fn remedy(message: &str) -> Option<&'static str> {
    let (_, number) = message.strip_suffix(')')?.rsplit_once(NUMBERED)?;
    Some(match io::Error::from_raw_os_error(number.parse().ok()?).kind() {
        ErrorKind::NotFound => "check the name and the folder",
        ErrorKind::PermissionDenied => {
            "get permission to use it (ls -l shows its owner and permissions), or specify another"
        }
        ErrorKind::IsADirectory => "it is a folder; name a file",
        ErrorKind::NotADirectory => "check the name: a part of it is a file instead of a folder",
        ErrorKind::AlreadyExists => "specify another, or move the existing file away",
        ErrorKind::StorageFull => "free some space, or write somewhere else",
        ErrorKind::QuotaExceeded => {
            "your quota is used up: free some space, or write somewhere else"
        }
        ErrorKind::FileTooLarge => {
            "the file is too large for the limit (ulimit -f): write somewhere else"
        }
        ErrorKind::ReadOnlyFilesystem => "the location is read-only: write somewhere else",
        ErrorKind::AddrInUse => {
            "another program is listening there: stop that program, or use another address"
        }
        ErrorKind::ConnectionRefused => {
            "no server is listening there: start the server, or check \
            the name"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operating_system_errors_get_an_explanation() {
        for (number, part) in [
            (2, "check the name"),
            (13, "permission to"),
            (17, "move the existing"),
            (20, "a part of it is a file"),
            (21, "name a file"),
            (27, "ulimit"),
            (28, "free some space"),
            (30, "somewhere else"),
            (98, "listening there"),
            (111, "no server is listening"),
            (122, "quota"),
        ] {
            let told = format!("t.csv: {}", io::Error::from_raw_os_error(number));
            assert!(remedy(&told).is_some_and(|told| told.contains(part)), "{told}");
            assert_eq!(remedy(&format!("{told}; expected another")), None);
        }
        for other in ["t.csv: got nothing", "(os error x)", "x (os error )", "", "x (os error 5)"] {
            assert_eq!(remedy(other), None, "{other}");
        }
    }
}
