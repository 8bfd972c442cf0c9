//! Tests that a running server follows its configuration file: exports, disks, promises and traces.

use std::time::{Duration, Instant};

use forebay_rig::nbd::{Client, READ, encoded, pattern};
use forebay_rig::{holes, one_succeeds};
use forebay_serve::Server;
use forebay_serve::control::{Command, client};

const BYTES: u64 = 1 << 20;

/// A server with a configuration file.
struct Configured {
    server: Server,
    folder: tempfile::TempDir,
}

impl Configured {
    fn new(text: &str) -> Configured {
        let folder = tempfile::tempdir().unwrap();
        ["one", "other"].iter().for_each(|name| holes(folder.path().join(name), BYTES));
        write(&folder, text);
        let config = forebay_serve::file::read(&folder.path().join("c.toml")).unwrap();
        Configured { server: Server::start(&config).unwrap(), folder }
    }

    /// Changes the file and reloads it; returns the server's answer.
    fn reload(&self, text: &str) -> String {
        write(&self.folder, text);
        let socket = self.folder.path().join("socket");
        let done = client::order(&socket, &Command::Reload {}, &mut |_| ());
        done.map_or_else(|error| error.to_string(), |done| done.to_string())
    }

    fn client(&self, export: &str) -> Client {
        Client::simple(&self.folder.path().join("socket"), export)
    }

    fn exports(&self) -> Vec<(String, u64)> {
        let exports = self.server.exports().into_iter();
        exports.map(|export| (export.name, export.bytes)).collect()
    }
}

/// Writes a configuration file, in which `@` stands for the folder.
fn write(folder: &tempfile::TempDir, text: &str) {
    let text = format!("socket = '@socket'\n{text}");
    let text = text.replace('@', &format!("{}/", folder.path().display()));
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
}

const ONE: &str = "[[disk]]\nname = 'one'\nfile = '@one'\npage_cache = true\n";
const OTHER: &str = "[[disk]]\nname = 'other'\nfile = '@other'\npage_cache = true\n";

fn export(name: &str, on: &str, more: &str) -> String {
    format!("[[export]]\nname = '{name}'\non = '{on}'\n{more}\n")
}

#[test]
fn exports_are_added_grown_and_removed_while_clients_are_served() {
    let a = export("a", "one", "size = '64KiB'");
    let served = Configured::new(&(ONE.to_string() + &a));
    let mut client = served.client("a");
    client.write(0, &pattern(1, 4096));
    let b = export("b", "one", "offset = '64KiB'\nsize = '64KiB'");
    let said = served.reload(&(ONE.to_string() + &a + &b));
    assert!(said.contains("export 'b' accepts clients now"), "{said}");
    let mut other = served.client("b");
    other.write(0, &pattern(2, 4096));
    assert!(client.read(0, 4096) == pattern(1, 4096), "it is where it was");
    // An export may grow, but not shrink or move, while it has clients.
    let c = export("c", "one", "offset = '128KiB'\nsize = '8KiB'");
    let grown = export("b", "one", "offset = '64KiB'\nsize = '65KiB'");
    served.reload(&(ONE.to_string() + &a + &grown + &c));
    let all = [("a", 64 << 10), ("b", 65 << 10), ("c", 8 << 10)];
    assert_eq!(served.exports(), all.map(|(name, bytes)| (name.to_string(), bytes)));
    let moved = export("b", "one", "offset = '32KiB'\nsize = '65KiB'");
    let said = served.reload(&(ONE.to_string() + &a + &moved + &c));
    assert!(said.contains("'b': its offset") && said.contains("after a restart"), "{said}");
    assert!(other.read(0, 4096) == pattern(2, 4096));
    // An export beyond the end of the disk is refused, and nothing changes.
    let beyond = export("d", "one", "offset = '2MiB'");
    let said = served.reload(&(ONE.to_string() + &a + &grown + &c + &beyond));
    assert!(said.contains("export 'd'") && said.contains("'one' was not changed"), "{said}");
    // A removed export continues to serve its current clients.
    let said = served.reload(&(ONE.to_string() + &a + &c));
    assert!(said.contains("export 'b' accepts no more clients"), "{said}");
    assert_eq!(served.exports().len(), 2);
    assert!(other.read(0, 4096) == pattern(2, 4096));
    let said = served.reload(&(ONE.to_string() + &a + &grown + &c));
    assert!(said.contains("export 'b' accepts clients now"), "{said}");
    assert!(served.client("b").read(0, 4096) == pattern(2, 4096));
    let figures = served.server.figures();
    let names: Vec<&str> = figures.backs[0].exports.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    served.server.stop().unwrap();
}

#[test]
fn promises_to_new_exports_are_kept_apart_from_those_to_old_ones() {
    let disk = format!("{ONE}capacity_iops = 1000\n");
    let promised = |name, iops| {
        export(name, "one", &format!("size = '64KiB'\nkeep_iops = {iops}\nwithin = '100ms'"))
    };
    let served = Configured::new(&(disk.clone() + &promised("a", 300)));
    let mut first = served.client("a");
    first.read(0, 4096);
    let said = served.reload(&(disk.clone() + &promised("a", 300) + &promised("b", 800)));
    assert!(said.contains("got 1100 for all exports"), "{said}");
    served.reload(&(disk + &promised("a", 300) + &promised("b", 200)));
    let mut second = served.client("b");
    (0..3).for_each(|_| drop((first.read(0, 4096), second.read(0, 4096))));
    let exports = served.server.figures().backs.remove(0).exports;
    let kept: Vec<_> = exports.iter().map(|one| (one.keep_iops, one.kept)).collect();
    assert_eq!(kept, [(300, 4), (200, 3)]);
    served.server.stop().unwrap();
}

/// Returns the promised rate in the figures, and how many of 60 reads that arrive at once the policy
/// keeps.
fn promised(served: &Configured) -> (u64, u64) {
    let mut client = served.client("a");
    let figures = || served.server.figures().backs.remove(0).exports.remove(0);
    // The promise has its full burst after the bound.
    std::thread::sleep(std::time::Duration::from_millis(110));
    let before = figures().kept;
    let read = |nth: u64| encoded((READ, 0), nth, (nth * 512, 512), &[]);
    client.send(&(0..60).flat_map(read).collect::<Vec<u8>>());
    (0..60).for_each(|_| assert_eq!(client.answer(512).errno, 0));
    let after = figures();
    (after.keep_iops, after.kept - before)
}

#[test]
fn promises_are_those_of_the_last_reload_however_often_they_change() {
    let with = |iops: u64| {
        let promise = format!("keep_iops = {iops}\nwithin = '100ms'");
        let (capacity, promise) =
            if iops > 0 { ("capacity_iops = 1000\n", &*promise) } else { ("", "") };
        format!("{ONE}{capacity}{}", export("a", "one", promise))
    };
    let served = Configured::new(&with(100));
    let policy = |policy: &str| {
        let command = Command::Policy { disk: None, policy: policy.into() };
        client::order(&served.folder.path().join("socket"), &command, &mut |_| ()).unwrap();
    };
    let holds = |iops: u64| {
        // The promise covers more requests while they wait.
        let burst = iops / 10;
        let expected = if burst > 0 { burst..2 * burst } else { 0..1 };
        let is_kept = one_succeeds(|| {
            let (keeps, kept) = promised(&served);
            assert_eq!(keeps, iops);
            expected.contains(&kept)
        });
        assert!(is_kept, "{iops}");
    };
    holds(100);
    for iops in [200, 100, 300, 0, 100, 0, 200] {
        let said = served.reload(&with(iops));
        assert!(said.contains("'one' has new promises, weights or streams now"), "{iops}: {said}");
        holds(iops);
        let said = served.reload(&with(iops));
        assert!(said.contains("'one' keeps its policy"), "{iops}: {said}");
        policy("mq-deadline");
        holds(iops);
        policy("noop");
        holds(iops);
    }
    served.server.stop().unwrap();
}

#[test]
fn weights_are_those_of_the_last_reload_however_often_they_change() {
    let disk = "[[disk]]\nname = 'one'\nfile = '@one'\nemulate = 'fixed:300'\n";
    let with = |weight: u64| {
        let a = export("a", "one", &format!("size = '512KiB'\nweight = {weight}"));
        disk.to_string() + &a + &export("b", "one", "offset = '512KiB'")
    };
    let served = Configured::new(&with(8));
    // Of 250 requests to each export, 31 to 'b' are answered before all to 'a' are, or all. The first
    // 64 that arrive are passed to the disk in any case.
    let answered_of_b = || {
        let mut clients = ["a", "b"].map(|export| served.client(export));
        for nth in 0..250 {
            for client in &mut clients {
                client.request((READ, 0), nth, (nth * 37 % 250 * 2048, 512), &[]);
            }
        }
        (0..250).for_each(|_| assert_eq!(clients[0].answer(512).errno, 0));
        let others = 250 - served.server.figures().backs[0].exports[1].under_way;
        (0..250).for_each(|_| assert_eq!(clients[1].answer(512).errno, 0));
        others
    };
    let holds = |weight: u64| {
        assert!(one_succeeds(|| (answered_of_b() < 150) == (weight == 8)), "{weight}");
    };
    holds(8);
    for weight in [1, 8, 1] {
        let said = served.reload(&with(weight));
        assert!(said.contains("'one' has new promises, weights or streams now"), "{said}");
        holds(weight);
    }
    served.server.stop().unwrap();
}

#[test]
fn disks_are_added_and_removed_unless_they_have_clients() {
    let one = ONE.to_string() + &export("a", "one", "");
    let both = one.clone() + OTHER + &export("b", "other", "");
    let served = Configured::new(&one);
    let said = served.reload(&both);
    assert!(said.contains("'other' is served now"), "{said}");
    let mut client = served.client("b");
    client.write(0, &pattern(3, 4096));
    let said = served.reload(&one);
    assert!(
        said.contains("'other' accepts no more clients") && said.contains("1 client"),
        "{said}"
    );
    assert!(client.read(0, 4096) == pattern(3, 4096));
    drop(client);
    while !served.reload(&one).contains("'other' is no longer served") {
        std::thread::yield_now();
    }
    let bytes = std::fs::read(served.folder.path().join("other")).unwrap();
    assert!(bytes[..4096] == pattern(3, 4096));
    assert_eq!(served.server.figures().backs.len(), 1);
    // Adds the disk again, and then one that cannot be opened.
    let said = served.reload(&both);
    assert!(said.contains("'other' is served now"), "{said}");
    let absent = both + "[[disk]]\nname = 'c'\nfile = '@absent'\n" + &export("c", "c", "");
    let said = served.reload(&absent);
    assert!(said.contains("absent") && said.contains("'c' is not served"), "{said}");
    assert!(served.client("b").read(0, 4096) == pattern(3, 4096));
    served.server.stop().unwrap();
}

/// Tests that a switch that waits for a disk holds up neither other disks nor the thread that
/// handles signals.
#[test]
fn a_disk_that_does_not_answer_holds_up_no_other() {
    let slow = "[[disk]]\nname = 'slow'\nfile = '@one'\nemulate = 'fixed:1'\n";
    let served = Configured::new(&(slow.to_string() + OTHER));
    let mut client = served.client("slow");
    (0..600).for_each(|nth| client.request((READ, 0), nth, (nth * 512, 512), &[]));
    let socket = served.folder.path().join("socket");
    let switch = |disk: &str| {
        let command = Command::Policy { disk: Some(disk.into()), policy: "mq-deadline".into() };
        client::order(&socket, &command, &mut |_| ()).map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        let (told, ended) = std::sync::mpsc::channel();
        for _ in 0..2 {
            let (told, switch) = (told.clone(), &switch);
            scope.spawn(move || told.send(switch("slow")).unwrap());
        }
        drop(told);
        // One of the two waits for some 600 s.
        let refused = ended.recv().unwrap().unwrap_err();
        assert!(refused.contains("is already being switched"), "{refused}");
        served.server.reload_later();
        // The reload may be switching it.
        while let Err(busy) = switch("other") {
            assert!(busy.contains("is already being switched"), "{busy}");
        }
        let (disk, path) = (Some("other".into()), served.folder.path().join("t.csv"));
        let trace = Command::StartTrace { disk, path, issued: false };
        client::order(&socket, &trace, &mut |_| ()).unwrap();
        let exports = export("slow", "slow", "") + &export("b", "other", "size = '4KiB'");
        let said = served.reload(&format!("{slow}policy = 'bfq'\n{OTHER}{exports}"));
        assert!(said.contains("is already being switched; try again later"), "{said}");
        // The earlier reload may have been late, and have read this file.
        drop(served.client("b"));
        assert!(ended.try_recv().is_err(), "it waits all the time");
        // Nothing is done for clients that are gone.
        drop(client);
        ended.recv().unwrap().unwrap();
    });
    served.server.stop().unwrap();
}

#[test]
fn traces_follow_the_file() {
    let with = |trace: &str| ONE.to_string() + trace + &export("a", "one", "");
    let served = Configured::new(&with(""));
    served.client("a").write(0, &pattern(1, 4096));
    served.reload(&with("trace = '@t.csv'\n"));
    served.client("a").write(0, &pattern(1, 4096));
    let said = served.reload(&with("trace = '@u.csv'\n"));
    assert!(said.contains("t.csv is complete"), "{said}");
    let said = served.reload(&with("trace = '@u.csv'\n"));
    assert!(!said.contains("complete"), "nothing has changed: {said}");
    let said = served.reload(&with("trace = '@one'\n"));
    assert!(said.contains("the disk of 'one'"), "{said}");
    served.server.stop().unwrap();
    for (name, writes) in [("t.csv", 1), ("u.csv", 0)] {
        let text = std::fs::read_to_string(served.folder.path().join(name)).unwrap();
        assert_eq!(text.matches(",write,").count(), writes, "{name}: {text}");
    }
}

#[test]
fn a_trace_that_could_not_be_created_is_tried_again() {
    let with = |trace: &str| ONE.to_string() + trace + &export("a", "one", "");
    let served = Configured::new(&with(""));
    let traced = with("trace = '@t/t.csv'\n");
    for _ in 0..2 {
        let said = served.reload(&traced);
        assert!(said.contains("'one': trace: ") && said.contains("t.csv"), "{said}");
    }
    std::fs::create_dir(served.folder.path().join("t")).unwrap();
    let said = served.reload(&traced);
    assert!(said.contains("a trace of clients' requests is written to "), "{said}");
    served.client("a").write(0, &pattern(1, 4096));
    served.server.stop().unwrap();
    let text = std::fs::read_to_string(served.folder.path().join("t/t.csv")).unwrap();
    // Without promises, each connection is a stream, named after its export.
    assert!(text.contains(",write,") && text.contains("a#1"), "{text}");
}

/// Changes the size of a disk of `served` in bytes.
fn resize(served: &Configured, disk: &str, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(served.folder.path().join(disk));
    file.unwrap().set_len(bytes).unwrap();
}

#[test]
fn the_new_bytes_of_a_disk_that_has_grown_are_used_without_a_restart() {
    let threads = ONE.to_string() + "driver = 'threads'\n";
    let emulated = ONE.replace("page_cache = true", "emulate = 'samsung-830'");
    for disk in [ONE, &threads, &emulated] {
        let text = disk.to_string()
            + &export("a", "one", "size = '64KiB'")
            + &export("b", "one", "offset = '64KiB'");
        let served = Configured::new(&text);
        let mut before = served.client("b");
        assert!(!served.reload(&text).contains("grown"));
        resize(&served, "one", 2 << 20);
        // An export in the new part may be added at the same time.
        let text = text + &export("c", "one", "offset = '1MiB'\nsize = '64KiB'");
        let said = served.reload(&text);
        assert!(said.contains("export 'b' has") && said.contains("'c' accepts clients"), "{said}");
        let sizes = [("a", 64 << 10), ("b", (2 << 20) - (64 << 10)), ("c", 64 << 10)];
        assert_eq!(served.exports(), sizes.map(|(name, bytes)| (name.to_string(), bytes)));
        let last = (2 << 20) - (64 << 10) - 4096;
        served.client("b").write(last, &pattern(5, 4096));
        before.write(0, &pattern(6, 4096));
        assert!(served.client("b").read(last, 4096) == pattern(5, 4096));
        assert!(!served.reload(&text).contains("export 'b'"), "that is old news");
        served.server.stop().unwrap();
        let bytes = std::fs::read(served.folder.path().join("one")).unwrap();
        assert!(bytes[(2 << 20) - 4096..] == pattern(5, 4096));
        assert!(bytes[64 << 10..][..4096] == pattern(6, 4096));
    }
}

#[test]
fn a_disk_that_grows_without_its_exports_says_so() {
    let text = ONE.to_string() + &export("a", "one", "size = '64KiB'");
    let served = Configured::new(&text);
    resize(&served, "one", 2 << 20);
    let said = served.reload(&text);
    assert!(said.contains("its disk has grown by") && said.contains("each has a size"), "{said}");
    assert!(!served.reload(&text).contains("grown"), "only once");
    served.server.stop().unwrap();
}

#[test]
fn a_disk_that_grows_where_its_size_matters_keeps_its_exports_and_says_why() {
    let cache = "flash = '@other'\npolicy = 'cache:write=around:size-mib=1'\n";
    let emulated = ONE.replace("page_cache = true", "emulate = 'samsung-830:capacity-gb=1'");
    let cases = [
        (ONE.to_string() + cache, 2 << 20, "is bound to a disk of 1048576 bytes"),
        (emulated, 2 << 30, "the emulated device has only "),
    ];
    for (disk, bytes, why) in cases {
        let text = disk + &export("b", "one", "");
        let served = Configured::new(&text);
        let exports = served.exports();
        resize(&served, "one", bytes);
        let said = served.reload(&text);
        assert!(said.contains("its disk has grown by") && said.contains(why), "{said}");
        assert_eq!(served.exports(), exports);
        served.client("b").write(0, &pattern(7, 4096));
        served.server.stop().unwrap();
    }
}

#[test]
fn an_export_that_moves_to_another_disk_is_there() {
    let disks = ONE.to_string() + OTHER;
    let keep = export("a", "one", "size = '64KiB'") + &export("b", "other", "size = '64KiB'");
    let served = Configured::new(&(disks.clone() + &keep + &export("x", "other", "size = '8KiB'")));
    let moved = disks + &keep + &export("x", "one", "size = '16KiB'");
    for _ in 0..2 {
        served.reload(&moved);
        let mut exports = served.exports();
        exports.sort();
        let expected = [("a", 64 << 10), ("b", 64 << 10), ("x", 16 << 10)];
        assert_eq!(exports, expected.map(|(name, bytes)| (name.to_string(), bytes)));
    }
    served.client("x").write(0, &pattern(7, 4096));
    served.server.stop().unwrap();
    let bytes = std::fs::read(served.folder.path().join("one")).unwrap();
    assert!(bytes[..4096] == pattern(7, 4096));
}

#[test]
fn an_export_moves_unless_it_has_clients() {
    let a = ONE.to_string() + &export("a", "one", "size = '64KiB'");
    let b = |offset: &str| {
        a.clone() + &export("b", "one", &format!("offset = '{offset}'\nsize = '64KiB'"))
    };
    let served = Configured::new(&b("64KiB"));
    let mut client = served.client("b");
    client.write(0, &pattern(1, 4096));
    served.reload(&a);
    let said = served.reload(&b("128KiB"));
    assert!(said.contains("'b': its offset") && said.contains("after a restart"), "{said}");
    let names: Vec<String> = served.exports().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a"], "not at its former place");
    assert!(client.read(0, 4096) == pattern(1, 4096));
    drop(client);
    while served.reload(&b("128KiB")).contains("after a restart") {
        std::thread::yield_now();
    }
    served.client("b").write(0, &pattern(2, 4096));
    while !served.reload(&b("192KiB")).contains("export 'b' has") {
        std::thread::yield_now();
    }
    served.client("b").write(0, &pattern(3, 4096));
    // However often exports without clients are renamed, there are no more of them.
    for nth in 0..5 {
        let name = format!("c{nth}");
        while served.reload(&(a.clone() + &export(&name, "one", ""))).contains("'b' accepts") {}
    }
    let clients = |served: &Configured| {
        let exports = served.server.figures().backs.remove(0).exports;
        exports.iter().map(|export| export.clients).sum::<u64>()
    };
    while clients(&served) > 0 {
        std::thread::yield_now();
    }
    for nth in 5..9 {
        served.reload(&(a.clone() + &export(&format!("c{nth}"), "one", "")));
    }
    let exports = served.server.figures().backs.remove(0).exports;
    assert!(exports.len() <= 3, "{exports:?}");
    served.server.stop().unwrap();
    let bytes = std::fs::read(served.folder.path().join("one")).unwrap();
    for (at, nth) in [(64, 1), (128, 2), (192, 3)] {
        assert!(bytes[at << 10..][..4096] == pattern(nth, 4096), "at {at} KiB");
    }
}

/// Returns the CPU time that this thread has used.
fn cpu() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

/// Returns the CPU time that a reload of this many exports with promises takes on its own thread, and
/// how long it takes.
fn reload_of(count: usize) -> (Duration, Duration) {
    let text = |policy: &str, count: usize| {
        let exports = (0..count).map(|nth| {
            let more = format!(
                "offset = '{}KiB'\nsize = '4KiB'\nkeep_iops = 1\nwithin = '1s'",
                nth % 256 * 4
            );
            export(&format!("export number {nth}"), "one", &more)
        });
        let disk = format!("{ONE}policy = '{policy}'\ncapacity_iops = 100000\n");
        disk + &exports.collect::<String>()
    };
    let served = Configured::new(&text("noop", count));
    let client = served.client("export number 7");
    write(&served.folder, &text("bfq", count + 1));
    let (begun, before) = (Instant::now(), cpu());
    let reloaded = served.server.reload().unwrap();
    let took = (cpu() - before, begun.elapsed());
    assert!(reloaded.failures.is_empty(), "{reloaded:?}");
    let new = format!("export 'export number {count}' accepts clients now");
    assert!(reloaded.changes.contains(&new), "{reloaded:?}");
    drop(client);
    served.server.stop().unwrap();
    took
}

#[test]
fn a_reload_of_many_exports_takes_time_in_proportion_to_their_number() {
    let (few, _) = reload_of(400);
    let (many, took) = reload_of(3200);
    // A machine with other work takes longer, so that only the time of the processor counts.
    assert!(many < few * 24, "{few:?} for 400 exports, {many:?} for 3200, after {took:?}");
    let (many, took) = reload_of(1500);
    assert!(many < Duration::from_secs(3), "{many:?}, after {took:?}");
}
