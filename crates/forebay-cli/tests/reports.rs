//! Tests where each verb writes its report, with writable and unwritable paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{Folder, ends, fails, forebay};
use crate::shell;

/// Fills a folder with inputs, and returns the arguments of each verb that writes a page.
fn verbs(folder: &Folder) -> Vec<Vec<String>> {
    let trace: String = (0..300)
        .map(|n| format!("0,{},4096,R,{:.3}\n", n * 977 % 5000 * 8, f64::from(n) / 50.0))
        .collect();
    let trace = folder.file("trace.spc", trace).display().to_string();
    let tiers = folder.file("tiers.toml", "[[tier]]\nfraction = 1\nwithin_ms = 100\n");
    let tiers = tiers.display().to_string();
    let promise = ["--within", "100ms", "--fraction", "0.9"];
    let all: Vec<Vec<&str>> = vec![
        vec!["advise", &trace],
        vec!["simulate", &trace, "--device", "sata250", "--policy", "noop,bid"],
        vec!["cache", &trace],
        vec!["compare", &trace, &trace, "--device", "fixed:300"],
        [&["plan", "capacity", &trace], &promise[..]].concat(),
        [&["plan", "consolidate", &trace], &promise[..]].concat(),
        vec!["plan", "sla", &tiers, &trace],
        [&["plan", "capacity", &trace, "--cost-us", "100"], &promise[..]].concat(),
        [&["plan", "consolidate", &trace, "--cost-us", "100"], &promise[..]].concat(),
        vec!["plan", "sla", &tiers, &trace, "--cost-us", "100"],
        vec!["plan", "power", &trace, "--epoch", "1m", "--within", "100ms"],
        [&["plan", "buy", &trace, "--device", "hc550", "--devices-max", "2"], &promise[..]]
            .concat(),
        vec!["describe", &trace],
        vec!["plan", "volume", &trace, "--within", "50ms", "--type", "gp3"],
    ];
    all.into_iter().map(|words| words.into_iter().map(String::from).collect()).collect()
}

#[test]
fn every_verb_that_writes_a_page_is_tested() {
    let folder = Folder::new();
    let tested = verbs(&folder);
    let mut pages = 0;
    for verb in shell::verbs() {
        let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        if ends(&mut forebay(&words), 0).0.contains("--report <") {
            pages += 1;
            let is_tested = tested.iter().any(|words| words.starts_with(&verb));
            assert!(is_tested, "reports.rs: `verbs` has no command for {}", verb.join(" "));
        }
    }
    assert!(pages > 10, "{pages}");
}

fn command(words: &[String], page: &Path) -> assert_cmd::Command {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = forebay(&words);
    command.arg("-o").arg(page);
    command
}

/// Returns the number of files in a folder.
fn files(folder: &Folder) -> usize {
    fs::read_dir(folder.root()).unwrap().count()
}

#[test]
fn every_verb_writes_its_page_and_says_where() {
    let folder = Folder::new();
    for words in verbs(&folder) {
        let page = folder.path("page.html");
        for replaces in [false, true] {
            let (out, said) = ends(&mut command(&words, &page), 0);
            assert!(!out.is_empty() && said.contains("page.html"), "{words:?}: {said}");
            assert_eq!(said.contains("replacing the existing file"), replaces, "{words:?}: {said}");
        }
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"), "{words:?}");
        can_be_heard(&text, &words);
        fs::remove_file(page).unwrap();
    }
    assert_eq!(files(&folder), 2, "something is left");
}

/// Returns every text between `from` and `to`.
fn between<'a>(text: &'a str, from: &'a str, to: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).map(move |rest| rest.split(to).next().unwrap())
}

/// Checks that a page works with a screen reader: tables and images have names, images also give
/// their figures as text, headings are in order, and no name occurs twice.
fn can_be_heard(page: &str, words: &[String]) {
    let body = page.split("</style>").nth(1).unwrap();
    assert!(page.contains("<html lang=\"en\">"), "{words:?}");
    let tables = body.matches("<table>").count();
    for part in
        ["<table><caption>", "role=\"region\" aria-label=\"", "<thead><tr><th scope=\"col\""]
    {
        assert_eq!(body.matches(part).count(), tables, "{words:?}: {part}");
    }
    assert!(between(body, "<caption>", "</caption>").all(|name| !name.is_empty()), "{words:?}");
    assert_eq!(body.matches("<svg viewBox").count(), {
        let hidden = body.matches("aria-hidden=\"true\"").count();
        hidden + body.matches("role=\"img\"").count()
    });
    for told in between(body, "<desc id=", "</desc>").filter_map(|desc| desc.split_once('>')) {
        // If a trace uses no block twice, there are no figures to give.
        let is_told = told.1.contains(|c: char| c.is_ascii_digit()) || told.1.contains("No cache");
        assert!(is_told, "{words:?}: {}", told.1);
    }
    let headings: Vec<u8> = between(body, "<h", ">").filter_map(|h| h.bytes().next()).collect();
    let headings: Vec<u8> = headings.into_iter().filter(u8::is_ascii_digit).collect();
    assert_eq!(headings.iter().filter(|level| **level == b'1').count(), 1, "{words:?}");
    assert!(headings.windows(2).all(|two| two[1] <= two[0] + 1), "{words:?}: {headings:?}");
    let mut ids: Vec<&str> = between(body, " id=\"", "\"").collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "{words:?}: a name is there twice");
}

#[test]
fn reports_replace_only_reports() {
    let folder = Folder::new();
    let words = &verbs(&folder)[2];
    for (there, is_replaced) in
        [("", true), ("<!DOCTYPE html>old", true), ("precious", false), ("<!DOC", true)]
    {
        let page = folder.file("kept.html", there);
        let mut command = command(words, &page);
        match is_replaced {
            true => drop(ends(&mut command, 0)),
            false => {
                fails(&mut command, 2, &["kept.html", "an existing file that is not a report"])
            }
        }
        let now = fs::read_to_string(&page).unwrap();
        assert_eq!(now == there, !is_replaced, "{there}");
    }
    fails(&mut command(words, Path::new("-")), 2, &["-: got -", "standard output"]);
}

#[test]
fn unwritable_output_paths_fail_immediately() {
    let folder = Folder::new();
    for words in verbs(&folder) {
        let told = |page: &Path, parts: &[&str]| fails(&mut command(&words, page), 2, parts);
        told(&folder.path("nowhere/page.html"), &["nowhere/page.html", "No such file"]);
        told(folder.root(), &["something that is not a file", "a file to write"]);
        told(Path::new("/dev/full"), &["/dev/full", "something that is not a file"]);
        told(&folder.path("trace.spc/page.html"), &["trace.spc/page.html", "Not a directory"]);
        told(&folder.path("trace.spc"), &["trace.spc", "another file"]);
    }
    assert_eq!(files(&folder), 2, "something is left");
}

#[test]
fn foreign_folders_are_reported() {
    let folder = Folder::new();
    let closed = folder.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    // Root can write everywhere, so there is nothing to test.
    if fs::write(closed.join("mine"), "").is_ok() {
        return forebay_testing::skipped("root can write to every folder");
    }
    for words in verbs(&folder) {
        fails(&mut command(&words, &closed.join("page.html")), 2, &["page.html", "denied"]);
    }
}

/// A limit on the file size simulates a full disk.
#[test]
fn a_page_that_does_not_fit_leaves_no_partial_file() {
    let folder = Folder::new();
    for words in verbs(&folder) {
        let mut limited = assert_cmd::Command::new("sh");
        limited.args(["-c", "ulimit -f 4 && exec \"$0\" \"$@\""]);
        limited.arg(assert_cmd::cargo::cargo_bin!("forebay")).args(&words);
        limited.arg("-o").arg(folder.path("page.html"));
        let (out, said) = ends(&mut limited, 1);
        assert_eq!(out, "", "{words:?}: an answer without its page");
        let failed = said.lines().filter(|line| line.contains("cannot write the report"));
        assert_eq!(failed.count(), 1, "{words:?}: {said}");
        assert!(
            said.contains(
                "page.html: cannot write the report: File too large (os error 27); the file"
            ),
            "{said}"
        );
        assert_eq!(files(&folder), 2, "{words:?}: something is left");
    }
}

/// Returns the arguments of each verb that writes files other than pages, and these files.
fn other_writers(folder: &Folder) -> Vec<(Vec<String>, Vec<PathBuf>)> {
    let trace = folder.path("trace.spc").display().to_string();
    let specs = include_str!("../../../fuzz/seeds/disksim/beside");
    let drive = folder.file("x.diskspecs", specs).display().to_string();
    folder.file("m.model", specs);
    let fitted = folder.path("new.fitted").display().to_string();
    let promise = ["--within", "100ms", "--fraction", "0.9"];
    let buys = ["plan", "buy", &trace, "--device", "fixed:300", "--layout", "single"];
    let all: Vec<(Vec<&str>, &[&str])> = vec![
        (vec!["convert", &trace], &["new.csv"]),
        (vec!["convert", &trace], &["new.parquet"]),
        (vec!["fit", &trace, "--no-verdict", "-o"], &["new.fitted"]),
        (vec!["generate", &fitted, "-o"], &["twin.csv"]),
        (vec!["device", "import", &drive, "-o"], &["new.toml"]),
        ([&buys[..], &promise, &["--configure"]].concat(), &["new.set/setup.sh"]),
        (vec!["man"], &["new.man/forebay.1", "new.man/forebay-advise.1"]),
        (vec!["convert", "--partition-by", "volume", &trace], &["new.parts/0.parquet"]),
    ];
    let whole = |(mut words, files): (Vec<&str>, &[&str])| {
        let first = folder.path(files[0].split('/').next().unwrap()).display().to_string();
        words.push(&first);
        let words = words.into_iter().map(String::from).collect();
        (words, files.iter().map(|file| folder.path(file)).collect())
    };
    all.into_iter().map(whole).collect()
}

/// Returns the write end of a pipe that has no reader.
fn unread() -> Stdio {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    std::os::fd::OwnedFd::from(ours).into()
}

/// Files are complete before anything is printed, so closing standard output or standard error
/// early loses none of them.
#[test]
fn files_are_complete_even_if_standard_output_is_closed() {
    let folder = Folder::new();
    let page = folder.path("page.html");
    let pages = verbs(&folder).into_iter().map(|words| {
        let output = ["-o".to_string(), page.display().to_string()];
        ([words, output.to_vec()].concat(), vec![page.clone()])
    });
    let mut all: Vec<(Vec<String>, Vec<PathBuf>)> = pages.collect();
    all.extend(other_writers(&folder));
    for (words, files) in all {
        for (out_is_read, err_is_read) in [(false, true), (false, false)] {
            for file in &files {
                let _ = match file.parent() {
                    Some(inner) if inner != folder.root() => fs::remove_dir_all(inner),
                    _ => fs::remove_file(file),
                };
            }
            let of = |is_read: bool| if is_read { Stdio::null() } else { unread() };
            let status = Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
                .args(&words)
                .stdin(Stdio::null())
                .stdout(of(out_is_read))
                .stderr(of(err_is_read))
                .status()
                .unwrap();
            let which = format!("{words:?}, printed {out_is_read}, said {err_is_read}");
            assert_eq!(status.code(), Some(0), "{which}");
            for file in &files {
                let found = fs::read(file).unwrap_or_else(|error| panic!("{which}: {error}"));
                assert!(!found.is_empty(), "{which}: {}", file.display());
                if file == &page {
                    assert!(found.ends_with(b"</html>\n"), "{which}");
                }
            }
        }
    }
}
