//! Tests an installation: the version, shell completions, manual pages, and where `make install`
//! puts them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Folder, ends, fails, forebay};
use crate::{served, shell};

/// Returns the output of a command, or None if it fails or does not exist.
fn said(command: &mut Command) -> Option<String> {
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| text.trim().to_string())
}

#[test]
fn the_version_names_the_commit_of_a_checkout_unless_built_for_debugging() {
    let (version, _) = ends(&mut forebay(&["--version"]), 0);
    assert_eq!(version, ends(&mut forebay(&["-V"]), 0).0);
    let own = said(Command::new("git").args(["rev-parse", "--show-prefix"]));
    let plain = concat!("forebay ", env!("CARGO_PKG_VERSION"));
    if cfg!(debug_assertions) {
        assert_eq!(version.trim_end(), format!("{plain} (debug build)"));
        return;
    }
    if own.as_deref() != Some("crates/forebay-cli/") {
        assert_eq!(version.trim_end(), plain);
        return;
    }
    let commit = said(Command::new("git").args(["log", "-1", "--abbrev=9", "--format=%h %cs"]));
    assert_eq!(version.trim_end(), format!("{plain} ({})", commit.unwrap()));
}

#[test]
fn completions_name_every_verb() {
    let verbs = shell::verbs();
    assert!(verbs.len() > 30 && verbs.contains(&vec!["plan".into(), "buy".into()]), "{verbs:?}");
    for kind in ["bash", "zsh", "fish"] {
        let (script, _) = ends(&mut forebay(&["completions", kind]), 0);
        for verb in &verbs {
            let name = verb.last().unwrap();
            assert!(script.contains(name), "{kind}: no {verb:?}");
        }
    }
    fails(&mut forebay(&["completions", "cmd"]), 2, &["cmd", "bash", "zsh", "fish"]);
}

/// Returns the words that bash completes after `words` when the user presses Tab.
fn completed(folder: &Folder, words: &[&str]) -> String {
    let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let text = format!(
        "source <(forebay completions bash)\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _forebay forebay \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\necho \"${{COMPREPLY[@]}}\""
    );
    shell::run(folder.root(), &text).unwrap()
}

#[test]
fn bash_completes_verbs_and_options() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let verbs = completed(&folder, &["forebay", ""]);
    for verb in shell::verbs().iter().filter(|verb| verb.len() == 1) {
        assert!(verbs.split_whitespace().any(|word| word == verb[0]), "{verb:?}: {verbs}");
    }
    let options = completed(&folder, &["forebay", "plan", "capacity", "--w"]);
    assert_eq!(options.trim(), "--within");
    assert_eq!(completed(&folder, &["forebay", "describe", "--format", "j"]).trim(), "json");
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = Folder::new();
    let pages = folder.path("some/man1");
    ends(forebay(&["man"]).arg(&pages), 0);
    let mut names: Vec<String> =
        shell::verbs().iter().map(|verb| format!("forebay-{}.1", verb.join("-"))).collect();
    names.push("forebay.1".to_string());
    for name in &names {
        let page = fs::read_to_string(pages.join(name)).unwrap_or_else(|_| panic!("no {name}"));
        let title = format!(".TH {} 1", name.strip_suffix(".1").unwrap());
        assert!(page.contains(&title) && page.contains(".SH NAME"), "{name}: {page}");
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), names.len());
    let file = folder.file("file", "");
    fails(forebay(&["man"]).arg(&file), 2, &["file"]);
}

#[test]
fn manual_pages_have_options_and_examples() {
    let folder = Folder::new();
    ends(forebay(&["man"]).arg(folder.root()), 0);
    let page = fs::read_to_string(folder.path("forebay-plan-capacity.1")).unwrap();
    let plain = page.replace('\\', "");
    for part in ["--within", ".SH EXAMPLES", "forebay plan capacity mine.parquet --within 10ms"] {
        assert!(plain.contains(part), "no {part}: {plain}");
    }
    let whole = fs::read_to_string(folder.path("forebay.1")).unwrap();
    assert!(whole.contains("forebay\\-describe(1)"), "{whole}");
}

/// Every file that `make install` installs beside the manual pages.
const INSTALLED: usize = 5;

/// Runs `make WHAT` for the folder `root`, whose name may contain a space.
fn make(what: &str, root: &Path) {
    let mut command = Command::new("make");
    command.current_dir(shell::root()).args(["--no-print-directory", what, "PREFIX=/usr"]);
    command.arg(format!("DESTDIR={}", root.display()));
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    let output = command.arg(format!("BINARY={}", binary.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns all files in `folder`, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

#[test]
fn make_installs_and_uninstalls_everything() {
    let folder = Folder::new();
    let root = folder.path("a place");
    let share = root.join("usr/share");
    // Other files, even with similar names, must not be removed.
    let others: Vec<PathBuf> = ["usr/bin/forebayer", "usr/share/man/man1/forebayer.1"]
        .map(|name| root.join(name))
        .to_vec();
    for other in &others {
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(other, "another's").unwrap();
    }
    make("install", &root);
    let (version, _) = ends(assert_cmd::Command::new(root.join("usr/bin/forebay")).arg("-V"), 0);
    assert_eq!(version, ends(&mut forebay(&["-V"]), 0).0);
    for (kind, place) in [
        ("bash", "bash-completion/completions/forebay"),
        ("zsh", "zsh/site-functions/_forebay"),
        ("fish", "fish/vendor_completions.d/forebay.fish"),
    ] {
        let script = fs::read_to_string(share.join(place)).unwrap();
        assert_eq!(script, ends(&mut forebay(&["completions", kind]), 0).0, "{kind}");
    }
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/forebay.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/forebay serve /etc/forebay/"), "{unit}");
    ends(forebay(&["man"]).arg(folder.path("man")), 0);
    for page in files(&folder.path("man")) {
        let there = share.join("man/man1").join(page.file_name().unwrap());
        assert_eq!(fs::read(there).unwrap(), fs::read(&page).unwrap(), "{page:?}");
    }
    let pages = files(&folder.path("man")).len();
    assert_eq!(files(&root).len(), INSTALLED + pages + others.len());
    // Install over the existing files, as an update does, and uninstall twice.
    make("install", &root);
    assert_eq!(files(&root).len(), INSTALLED + pages + others.len());
    for _ in 0..2 {
        make("uninstall", &root);
        assert_eq!(files(&root), others);
    }
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 2, "something is beside it");
}

/// Returns the output of a program that runs in the root folder of the repository and must succeed.
fn printed(program: &str, words: &[&Path]) -> String {
    let mut command = Command::new(shell::root().join(program));
    // A package of the unstripped command takes long to compress.
    command.current_dir(shell::root()).args(words).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_debian_package_names_the_libraries_that_its_command_needs() {
    if !served::have(&["dpkg-deb", "readelf"]) {
        return;
    }
    let folder = Folder::new();
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    let package = printed("packaging/deb.sh", &[binary, folder.root()]);
    let field = |words: &str| {
        shell::run(folder.root(), &format!("dpkg-deb {words} {}", package.trim())).unwrap()
    };
    let needed = printed("packaging/needed.sh", &[binary]);
    let depends = field("--show --showformat='${Depends}'");
    assert_eq!(needed.contains("libc.so.6"), depends.starts_with("libc6 (>= 2."), "{depends}");
    assert_eq!(needed.contains("libgcc_s"), depends.contains(", libgcc-s1"), "{depends}");
    let listed = field("--contents");
    for name in ["usr/bin/forebay", "usr/lib/systemd/system/forebay.service", "man1/forebay.1.gz"] {
        assert!(listed.contains(name), "no {name}: {listed}");
    }
    let text = format!(
        "dpkg-deb --fsys-tarfile {} | tar -xO ./usr/share/doc/forebay/copyright",
        package.trim()
    );
    let licenses = shell::run(folder.root(), &text).unwrap();
    assert!(licenses.contains("MIT License") && licenses.contains("Apache License"), "{licenses}");
}

/// Returns the output of the build script for an optimized build, in a checkout at `root` with this
/// crate in the folder `place`.
fn built(root: &Path, place: &str) -> String {
    built_for(&[], root, place)
}

fn built_for(variables: &[(&str, &str)], root: &Path, place: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let program = root.join("build-script");
    let mut compile = Command::new("rustc");
    compile.args(["--edition=2024", "-o"]).arg(&program).arg(script);
    compile.env("CARGO_PKG_VERSION", "9.8.7");
    assert!(compile.status().unwrap().success());
    let mut run = Command::new(&program);
    run.env("PROFILE", "release").envs(variables.iter().copied());
    let output = run.current_dir(root.join(place)).output().unwrap();
    fs::remove_file(program).unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_follows_the_commit_of_forebay_s_own_checkout_only() {
    let folder = Folder::new();
    let (own, other) = ("crates/forebay-cli", "vendor/forebay-cli");
    for place in [own, other] {
        fs::create_dir_all(folder.path(place)).unwrap();
    }
    let git = |words: &str| {
        let as_one = "git -c user.name=t -c user.email=t@t -c init.defaultBranch=main";
        shell::run(folder.root(), &format!("{as_one} {words}")).unwrap()
    };
    let plain = "cargo::rustc-env=FOREBAY_VERSION=9.8.7\n";
    assert!(built(folder.root(), own).ends_with(plain), "no checkout");
    // The image passes the commit, because it has no checkout.
    let given = built_for(&[("FOREBAY_COMMIT", "1a2b3c 2001-02-03")], folder.root(), own);
    assert!(given.ends_with("FOREBAY_VERSION=9.8.7 (1a2b3c 2001-02-03)\n"), "{given}");
    git("init -q");
    assert!(built(folder.root(), own).ends_with(plain), "no commit");
    git("commit -q --allow-empty -m one --date=2001-02-03T04:05:06Z");
    let short = git("log -1 --abbrev=9 --format='%h %cs'");
    let said = built(folder.root(), own);
    let expected = format!("cargo::rustc-env=FOREBAY_VERSION=9.8.7 ({})\n", short.trim());
    assert!(said.ends_with(&expected), "{said}");
    // The build script must run again when the branch moves or another branch is checked out, but
    // for no other change to the checkout.
    let watched = said.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
    let names: Vec<&str> = watched.map(|path| path.split(".git/").last().unwrap()).collect();
    assert_eq!(names, ["build.rs", "HEAD", "logs/HEAD", "refs/heads/main"], "{said}");
    let elsewhere = built(folder.root(), other);
    assert!(elsewhere.ends_with(plain) && !elsewhere.contains("HEAD"), "{elsewhere}");
    // In a debug build, the script watches nothing, so that a commit does not cause recompilation.
    let said = built_for(&[("PROFILE", "debug")], folder.root(), own);
    let expected = "cargo::rustc-env=FOREBAY_VERSION=9.8.7 (debug build)";
    assert_eq!(said.lines().collect::<Vec<_>>(), ["cargo::rerun-if-changed=build.rs", expected]);
}

#[test]
fn the_page_on_installing_does_what_it_says() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let page = fs::read_to_string(shell::root().join("docs/install.md")).unwrap();
    let blocks = shell::blocks(&page);
    assert_eq!(blocks.len(), 1);
    shell::run(folder.root(), blocks[0]).unwrap();
    assert!(folder.path("forebay.bash").exists() && folder.path("man1/forebay.1").exists());
}

/// No dependency may require a newer Rust than the version we promise to support. Clippy and `make
/// msrv` check our own code.
#[test]
fn no_dependency_needs_a_newer_rust_than_the_stated_minimum() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--offline", "--locked"]);
    let known = said(cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"])).unwrap();
    let known: serde_json::Value = serde_json::from_str(&known).unwrap();
    let number = |text: &str| -> Vec<u32> {
        let parts = text.split('.').chain(["0"]);
        parts.take(3).map(|part| part.parse().unwrap()).collect()
    };
    let packages = known["packages"].as_array().unwrap();
    assert!(packages.len() > 100);
    let promised = number(env!("CARGO_PKG_RUST_VERSION"));
    for package in packages {
        if let Some(needs) = package["rust_version"].as_str() {
            assert!(number(needs) <= promised, "{} needs Rust {needs}", package["name"]);
        }
    }
}
