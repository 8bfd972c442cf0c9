//! Tests a file system on `forebay serve`: ext4 on a loop device over nbdfuse, used by git and
//! SQLite, while policies change, drives are lost and the server is killed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use forebay_rig::wait_until;

use crate::served::mounted::{Mounted, State};
use crate::served::{Folder, Serving, does, have, skipped};

/// Creates a database, or checks the existing one and continues with it. Committed rows are also
/// listed in another file.
const DATABASE: &str = "
import os
import sqlite3
base = sqlite3.connect('tree/base', isolation_level=None)
# A commit is what outlives a cut.
base.execute('pragma synchronous = extra')
assert base.execute('pragma integrity_check').fetchall() == [('ok',)]
base.execute('create table if not exists rows (at integer primary key, text)')
base.execute('create table if not exists commits (nth integer)')
nth = base.execute('select count(*) from commits').fetchone()[0]
known = int(open('committed').read()) if os.path.exists('committed') else 0
assert nth >= known, (nth, known)
before = base.execute('select count(*) from rows').fetchone()[0]
for part in range(20):
    base.execute('begin')
    base.executemany('insert into rows (text) values (?)', ((str(at) * 20,) for at in range(100)))
    base.execute('delete from rows where at % 7 = ?', (part % 7,)) if part % 5 == 4 else None
    base.execute('insert into commits values (?)', (nth + part,))
    base.execute('commit')
    with open('next', 'w') as file:
        file.write(str(nth + part + 1))
    os.rename('next', 'committed')
assert base.execute('pragma integrity_check').fetchall() == [('ok',)]
assert base.execute('select count(*) from rows').fetchone()[0] > before
";

const TOOLS: [&str; 8] =
    ["nbdfuse", "losetup", "mkfs.ext4", "fsck.ext4", "mount", "umount", "git", "python3"];

fn git(folder: &Folder, words: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-C", "tree/code"];
    does(folder, "git", &[&who, words].concat())
}

#[test]
fn a_file_system_works_on_an_export() {
    if !have(&TOOLS) {
        return;
    }
    for words in [&["--policy", "forebay"][..], &["--buffered", "--policy", "mq-deadline"]] {
        let folder = Folder::new();
        folder.holes("disk", 64 << 20);
        let words = [&["disk"], words].concat();
        let serving = Serving::start(&folder, &words);
        let mounted = match Mounted::over(&folder, &folder.socket(), State::Blank) {
            Ok(mounted) => mounted,
            Err(why) => return skipped(&why),
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let git = |words: &[&str]| git(&folder, words);
        does(&folder, "cp", &["-r", source.to_str().unwrap(), "tree/code"]);
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-qm", "all of it"]);
        does(&folder, "python3", &["-c", DATABASE]);
        mounted.close();
        serving.stop();
        // Use a new server and mount, so that no data comes from a cache.
        let serving = Serving::start(&folder, &words);
        let mounted = Mounted::over(&folder, &folder.socket(), State::Clean).unwrap();
        git(&["fsck", "--strict"]);
        assert_eq!(git(&["status", "--porcelain"]), "");
        does(&folder, "diff", &["-r", "-x", ".git", source.to_str().unwrap(), "tree/code"]);
        does(&folder, "python3", &["-c", DATABASE]);
        mounted.close();
        serving.stop();
    }
}

/// A proxy between nbdfuse and the server. It is qemu-nbd, which reconnects to a restarted server;
/// nbdfuse does not.
struct Between(Child);

impl Between {
    fn start(folder: &Folder) -> Between {
        let server = format!("server.type=unix,server.path={}", folder.socket().display());
        let image = format!("driver=nbd,{server},export=disk,reconnect-delay=120");
        let _ = fs::remove_file(folder.path("between"));
        let mut command = Command::new("qemu-nbd");
        command.args(["-t", "--cache=none", "--image-opts", &image, "-k"]);
        let between = Between(command.arg(folder.path("between")).spawn().unwrap());
        wait_until("qemu-nbd does not listen", || folder.path("between").exists());
        between
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What happens while the file system is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The policy is changed.
    Switch,
    /// A drive loses all its data.
    Loss,
    /// The server is killed and restarted.
    Kill,
}

/// The kind of storage under the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// A file. If the server is killed, it keeps all acknowledged writes, so clients can reconnect
    /// and continue.
    File,
    /// A volume. If the server is killed, only flushed data survives, as after a power failure, so
    /// the file system is mounted again.
    Volume,
}

/// A server that suffers events.
struct Troubled<'a> {
    folder: &'a Folder,
    on: On,
    serving: Option<Serving>,
    lost: usize,
    policy: usize,
}

const POLICIES: [&str; 3] = ["mq-deadline", "forebay", "noop"];
const WORDS: [&str; 1] = ["serve.toml"];

impl<'a> Troubled<'a> {
    fn start(folder: &'a Folder, on: On) -> Troubled<'a> {
        fs::create_dir(folder.path("v")).unwrap();
        (1..=6).for_each(|drive| drop(folder.holes(&format!("v/{drive}"), 64 << 20)));
        folder.holes("disk", 128 << 20);
        let forebay = assert_cmd::cargo::cargo_bin!("forebay").display().to_string();
        does(folder, &forebay, &["volume", "create", "v"]);
        let mut troubled = Troubled { folder, on, serving: None, lost: 0, policy: 0 };
        troubled.configure();
        troubled.serving = Some(Serving::start(folder, &WORDS));
        troubled
    }

    fn configure(&self) {
        let policy = POLICIES[self.policy % POLICIES.len()];
        let back = match self.on {
            On::File => "[[disk]]\nfile = \"disk\"",
            On::Volume => "[[volume]]\ndrives = [\"v\"]",
        };
        let config =
            format!("socket = \"socket\"\n{back}\nname = \"disk\"\npolicy = \"{policy}\"\n");
        fs::write(self.folder.path("serve.toml"), config).unwrap();
    }

    fn happens(&mut self, event: Event) {
        let serving = self.serving.as_ref().unwrap();
        match event {
            Event::Switch => {
                self.policy += 1;
                self.configure();
                serving.signal("-HUP");
            }
            Event::Loss => {
                // The drive loses its data while the server runs, and the next server does not find
                // it at all.
                self.lost += 1;
                let drive = self.folder.path(&format!("v/{}", self.lost));
                File::options().write(true).open(&drive).unwrap().set_len(0).unwrap();
                fs::remove_file(drive).unwrap();
            }
            Event::Kill => {
                serving.signal("-KILL");
                self.serving = None;
                thread::sleep(Duration::from_millis(100));
                self.serving = Some(Serving::start(self.folder, &WORDS));
            }
        }
    }
}

/// Uses the file system while each of `events` happens, and checks it after each.
fn outlives(on: On, events: impl Iterator<Item = Event>) {
    if !have(&TOOLS) || !have(&["qemu-nbd"]) {
        return;
    }
    let folder = Folder::new();
    let mut troubled = Troubled::start(&folder, on);
    let mut between = Between::start(&folder);
    let mount = |state| Mounted::over(&folder, &folder.path("between"), state);
    let mut mounted = match mount(State::Blank) {
        Ok(mounted) => mounted,
        Err(why) => return skipped(&why),
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    does(&folder, "cp", &["-r", source.to_str().unwrap(), "tree/code"]);
    git(&folder, &["init", "-q", "-b", "main"]);
    git(&folder, &["config", "core.fsync", "all"]);
    does(&folder, "sync", &["-f", "tree"]);
    let mut rounds = 0_u32..;
    let mut begin = || {
        let round = rounds.next().unwrap().to_string();
        let mut work = Command::new("sh");
        work.args(["-ec", WORK, "work", &round]).current_dir(folder.path(""));
        work.env("DATABASE", DATABASE).spawn().unwrap()
    };
    for (nth, event) in events.enumerate() {
        println!("{event:?}, the {nth}th, {on:?}");
        let mut work = begin();
        thread::sleep(Duration::from_millis(150));
        while let Some(ended) = work.try_wait().unwrap() {
            // This thread had to wait for a processor, so the work has ended already.
            assert!(ended.success(), "{event:?}, the {nth}th");
            work = begin();
        }
        troubled.happens(event);
        let is_cut = (event, on) == (Event::Kill, On::Volume);
        if is_cut {
            // No client may continue with data that the server had not flushed.
            drop(between);
            work.kill().unwrap();
            drop(mounted);
            between = Between::start(&folder);
            mounted = mount(State::Cut).unwrap();
        }
        assert!(work.wait().unwrap().success() || is_cut, "{event:?}, the {nth}th");
        // Drop the page cache, to check the data on the disk itself.
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        git(&folder, &["fsck", "--strict"]);
        does(&folder, "python3", &["-c", DATABASE]);
        if is_cut {
            // A killed git leaves its lock behind, and files that were not written back.
            let _ = fs::remove_file(folder.path("tree/code/.git/index.lock"));
            git(&folder, &["checkout", "-q", "-f", "main"]);
            git(&folder, &["clean", "-qfd"]);
            does(&folder, "sync", &["-f", "tree"]);
        }
        assert_eq!(git(&folder, &["status", "--porcelain"]), "");
    }
    does(
        &folder,
        "diff",
        &["-r", "-x", ".git", "-x", "*.txt", source.to_str().unwrap(), "tree/code"],
    );
    mounted.close();
    drop(between);
    let serving = troubled.serving.take().unwrap();
    serving.signal("-INT");
    let (status, said) = serving.ends();
    // A volume may have lost drives, whose data is rebuilt on the others. No other messages are
    // expected.
    let is_known =
        |line: &str| ["starts degraded", "rebuild"].iter().any(|part| line.contains(part));
    assert!(said.lines().all(is_known), "{said}");
    assert_eq!(status, Some(0));
}

/// Commits to a database and to git, and checks out earlier commits.
const WORK: &str = "
python3 -c \"$DATABASE\"
cd tree/code
echo \"$1\" > \"round-$1.txt\"
git add .
git -c user.name=a -c user.email=a@b commit -qm \"round $1\"
git checkout -q --detach HEAD
rm -r *
git checkout -q -f main
";

#[test]
fn a_file_system_survives_switches_and_kills() {
    outlives(On::File, [Event::Switch, Event::Kill, Event::Kill].into_iter());
}

#[test]
fn a_file_system_survives_lost_drives_and_a_kill() {
    use Event::{Kill, Loss, Switch};
    outlives(On::Volume, [Loss, Switch, Kill, Loss, Kill].into_iter());
}

#[test]
#[ignore = "long; make kill-serve"]
fn a_file_system_survives_lost_drives_and_kills_many_times() {
    use Event::{Kill, Loss, Switch};
    let rounds = std::env::var("FOREBAY_KILLED_ROUNDS").map_or(100, |text| text.parse().unwrap());
    let others = [Switch, Kill, Kill].into_iter().cycle();
    outlives(On::File, others.clone().take(rounds));
    outlives(On::Volume, [Loss, Kill, Loss].into_iter().chain(others).take(rounds));
}
