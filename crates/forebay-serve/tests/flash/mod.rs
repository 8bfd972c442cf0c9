//! Tests disks whose newest data may be on a flash: a combination of disk and flash is refused if
//! they do not belong together or one of them is older.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use forebay_serve::{Address, Back, Blocks, Config, Error, Named, On, Server};

use forebay_rig::Folder;
use forebay_rig::nbd::{CACHE, Client, FLUSH, WRITE};

const BYTES: u64 = 1 << 20;
const BACK: &str = "cache:write=back:size-mib=1";
const FORMAT: &str = "cache:write=back:size-mib=1:format=yes";

/// A folder with disks and flashes.
struct Room(Folder);

impl Room {
    /// Creates a disk and a flash that were served together. Only the flash has `byte` in the third
    /// block of the disk.
    fn with_pair(disk: &str, flash: &str, byte: u8) -> Room {
        let room = Room(Folder::new());
        room.pair(disk, flash, byte);
        room
    }

    fn pair(&self, disk: &str, flash: &str, byte: u8) {
        [disk, flash].iter().for_each(|name| self.holes(name, BYTES));
        self.writes(FORMAT, disk, flash, byte);
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn holes(&self, name: &str, bytes: u64) {
        self.0.holes(name, bytes);
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.at(from), self.at(to)).unwrap();
    }

    fn change(&self, name: &str, at: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.at(name)).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn back(&self, policy: &str, disk: &str, flash: Option<&str>) -> Back {
        let flash = flash.map(|name| self.at(name));
        let mut back = Back::of("disk", On::Target { path: self.at(disk), flash });
        (back.policy, back.page_cache) = (policy.into(), true);
        back
    }

    fn start(&self, back: Back) -> Result<Server, Error> {
        self.start_at("socket", back)
    }

    fn start_at(&self, socket: &str, back: Back) -> Result<Server, Error> {
        let listen = vec![Address::Unix(self.at(socket))];
        Server::start(&Config::of(listen, vec![back]))
    }

    /// Returns the message of a refusal, which must be a user error and must not change any file.
    fn refused(&self, back: Back) -> String {
        let files: Vec<PathBuf> = match &back.on {
            On::Target { path, flash } => Some(path).into_iter().chain(flash).cloned().collect(),
            _ => Vec::new(),
        };
        let before: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        let told = match self.start(back) {
            Ok(server) => panic!("it is served: {:?}", server.stop()),
            Err(error) => error,
        };
        assert!(told.is_users(), "{told}");
        let after: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        assert!(before == after, "something was written: {told}");
        told.to_string()
    }

    /// Serves a back, and runs `does` with a client; returns its result and the server's notes.
    fn served<T>(&self, back: Back, does: impl FnOnce(&mut Client) -> T) -> (T, Vec<String>) {
        let server = self.start(back).unwrap();
        let notes = server.notes().to_vec();
        let mut client = Client::simple(&self.at("socket"), "disk");
        let told = does(&mut client);
        drop(client);
        server.stop().unwrap();
        (told, notes)
    }

    fn writes(&self, policy: &str, disk: &str, flash: &str, byte: u8) {
        self.served(self.back(policy, disk, Some(flash)), |client| {
            client.write(8192, &[byte; 4096]);
            assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
        });
    }

    fn reads(&self, back: Back) -> (u8, Vec<String>) {
        self.served(back, |client| client.read(8192, 4096)[0])
    }
}

fn forced(back: Back) -> Back {
    Back { force: true, ..back }
}

#[test]
fn a_prefetch_harms_no_flash() {
    let room = Room::with_pair("disk", "flash", 5);
    let server = room.start(room.back(BACK, "disk", Some("flash"))).unwrap();
    let mut client = Client::simple(&room.at("socket"), "disk");
    for at in [0, 65_536] {
        assert_eq!(client.does((CACHE, 0), (at, 1 << 19), &[]), 0);
        assert_eq!(client.does((WRITE, 0), (at, 512), &[7; 512]), 0);
    }
    assert!(client.read(0, 1024)[..512] == [7; 512] && client.read(8192, 4096) == [5; 4096]);
    let disks = server.figures().backs.remove(0).disks;
    assert!(disks.iter().all(|disk| disk.failed == 0), "{disks:?}");
    server.stop().unwrap();
}

#[test]
fn pairs_that_are_exchanged_are_refused_unless_forced() {
    let room = Room::with_pair("disk", "flash", 1);
    room.pair("disk2", "flash2", 2);
    for (disk, flash) in [("disk", "flash2"), ("disk2", "flash")] {
        let told = room.refused(room.back(BACK, disk, Some(flash)));
        assert!(told.contains("is the flash of another disk") && told.contains("force"), "{told}");
        room.refused(room.back(FORMAT, disk, Some(flash)));
    }
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash"))).0, 1);
    // This disk has no mark.
    room.holes("blank", BYTES);
    let told = room.refused(room.back(BACK, "blank", Some("flash")));
    assert!(told.contains("has no mark"), "{told}");
    let (byte, notes) = room.reads(forced(room.back(BACK, "disk", Some("flash2"))));
    assert_eq!(byte, 2, "they are taken as they are");
    assert!(notes.iter().any(|note| note.contains("warning: flash: ")), "{notes:?}");
    // From then on, disk and new flash are a pair.
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash2"))).0, 2);
    assert!(room.refused(room.back(BACK, "disk", Some("flash"))).contains("another disk"));
}

#[test]
fn older_copies_are_refused_whichever_of_the_two_they_are_of() {
    let room = Room::with_pair("disk", "flash", 1);
    room.copy("disk", "old disk");
    room.copy("flash", "old flash");
    room.writes(BACK, "disk", "flash", 2);
    let told = room.refused(room.back(BACK, "disk", Some("old flash")));
    assert!(told.contains("is an outdated copy") && told.contains("served once"), "{told}");
    let told = room.refused(room.back(BACK, "old disk", Some("flash")));
    assert!(told.contains("old disk is an outdated copy"), "{told}");
    // These copies are made while the pair is being served.
    let back = room.back(BACK, "disk", Some("flash"));
    room.served(back.clone(), |client| {
        client.write(8192, &[3; 4096]);
        assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
        room.copy("flash", "middle");
        client.write(16_384, &[4; 4096]);
        assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
    });
    let told = room.refused(room.back(BACK, "disk", Some("middle")));
    assert!(told.contains("or older than the disk's mark"), "{told}");
    assert_eq!(room.reads(back).0, 3);
    // Disk and flash copied at the same time match, with their older contents.
    assert_eq!(room.reads(room.back(BACK, "old disk", Some("old flash"))).0, 1);
}

#[test]
fn a_copy_of_the_flash_from_before_a_kill_is_refused_once_the_mark_is_newer() {
    let room = Room::with_pair("disk", "flash", 1);
    room.served(room.back(BACK, "disk", Some("flash")), |client| {
        let flushed = |client: &mut Client, at: u64, byte: u8| {
            client.write(at, &[byte; 4096]);
            assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
        };
        flushed(client, 16_384, 3);
        room.copy("flash", "stale");
        flushed(client, 32_768, 4);
        // Copies the files as a kill at this moment would leave them. The mark is a few seconds
        // behind at most.
        let mut tries = 0;
        let told = loop {
            tries += 1;
            assert!(tries < 600, "the mark names no newer record");
            room.copy("disk", "killed");
            room.copy("stale", "back");
            match room.start_at("other", room.back(BACK, "killed", Some("back"))) {
                Ok(server) => server.stop().unwrap(),
                Err(error) => break error.to_string(),
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        };
        assert!(told.contains("or older than the disk's mark"), "{told}");
        // Files that were not restored from a copy can be served.
        room.copy("disk", "killed");
        room.copy("flash", "back");
        let server = room.start_at("other", room.back(BACK, "killed", Some("back"))).unwrap();
        let mut other = Client::simple(&room.at("other"), "disk");
        assert_eq!((other.read(16_384, 1), other.read(32_768, 1)), (vec![3], vec![4]));
        drop(other);
        server.stop().unwrap();
    });
}

#[test]
fn a_flash_is_not_served_as_a_disk_unless_forced() {
    let room = Room::with_pair("disk", "flash", 1);
    for read_only in [false, true] {
        let alone = Back { read_only, ..room.back("noop", "flash", None) };
        let told = room.refused(alone.clone());
        assert!(told.contains("is the flash of a disk (pair "), "{told}");
        assert!(told.contains("force"), "{told}");
    }
    room.holes("blank", BYTES);
    let told = room.refused(room.back(FORMAT, "flash", Some("blank")));
    assert!(told.contains("is the flash of a disk"), "{told}");
    fs::write(room.at("old"), image(include_str!("../images/placement-log-1-cache.txt"))).unwrap();
    let told = room.refused(room.back("noop", "old", None));
    assert!(told.contains("(a placement log of format 1)"), "{told}");
    let looks = Back { read_only: true, ..forced(room.back("noop", "flash", None)) };
    let (_, notes) = room.reads(looks);
    assert!(notes.iter().any(|note| note.contains("it is served anyway")), "{notes:?}");
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash"))).0, 1);
}

#[test]
fn a_disk_alone_is_refused_under_every_policy_while_its_flash_has_its_newest_data() {
    let room = Room::with_pair("disk", "flash", 1);
    room.holes("blank", BYTES);
    for policy in ["noop", "none", "mq-deadline", "forebay", "promised:cmin=100:over=noop"] {
        let told = room.refused(room.back(policy, "disk", None));
        assert!(told.contains("are on its flash (pair ") && told.contains("force"), "{told}");
        let told = room.refused(Back { read_only: true, ..room.back(policy, "disk", None) });
        assert!(told.contains("are on its flash"), "{told}");
        let told = room.refused(room.back(policy, "disk", Some("flash")));
        assert!(told.contains("has the log of a cache or tiers (id 0)"), "{told}");
    }
    for policy in ["cache:write=through:size-mib=1", "cache:write=around:size-mib=1"] {
        assert!(room.refused(room.back(policy, "disk", Some("blank"))).contains("on its flash"));
        // Even force does not permit this, because the log would be overwritten.
        room.refused(forced(room.back(policy, "disk", Some("flash"))));
    }
    for policy in [BACK, FORMAT, "tier-bcache:size-mib=1:format=yes"] {
        let told = room.refused(room.back(policy, "disk", Some("blank")));
        assert!(told.contains("on another flash"), "{told}");
    }
    // Serving read-only changes nothing.
    let looks = Back { read_only: true, ..forced(room.back("noop", "disk", None)) };
    let (byte, notes) = room.reads(looks);
    assert_eq!(byte, 0, "the disk as it is");
    assert!(notes.iter().any(|note| note.contains("warning: the newest data of")), "{notes:?}");
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash"))).0, 1);
    // Writing to the disk alone makes the flash outdated.
    room.served(forced(room.back("noop", "disk", None)), |client| client.write(8192, &[9; 4096]));
    room.refused(room.back("noop", "disk", None));
    let told = room.refused(room.back(BACK, "disk", Some("flash")));
    assert!(told.contains("or ") && told.contains("was served without it"), "{told}");
}

#[test]
fn a_disk_that_had_everything_when_it_was_stopped_is_served_alone() {
    let room = Room(Folder::new());
    ["disk", "flash", "blank"].iter().for_each(|name| room.holes(name, BYTES));
    let size = |back| room.served(back, |client| client.read(0, 512).len());
    let (_, notes) = size(room.back(FORMAT, "disk", Some("flash")));
    assert!(
        notes.iter().any(|note| note.contains("its last 4096 bytes hold the mark")),
        "{notes:?}"
    );
    let (byte, notes) = room.reads(room.back("noop", "disk", None));
    // Where io_uring is denied, that is noted too.
    let is_told = notes.iter().any(|note| !note.starts_with("io_uring is not available"));
    assert!(byte == 0 && !is_told, "{notes:?}");
    // The block of the mark cannot be written, because the exports end before it.
    let server = room.start(room.back("noop", "disk", None)).unwrap();
    assert_eq!(server.exports()[0].bytes, BYTES - 4096);
    server.stop().unwrap();
    room.writes(BACK, "disk", "flash", 7);
    room.refused(room.back("noop", "disk", None));
    // A disk that contains all data may get another flash.
    let room = Room(Folder::new());
    ["disk", "flash", "blank"].iter().for_each(|name| room.holes(name, BYTES));
    size(room.back(FORMAT, "disk", Some("flash")));
    room.writes(FORMAT, "disk", "blank", 5);
    assert!(room.refused(room.back(BACK, "disk", Some("flash"))).contains("another disk"));
}

#[test]
fn only_free_space_becomes_a_mark() {
    for (bytes, at) in [(BYTES, BYTES - 1), (BYTES, BYTES - 4096), (BYTES + 100, BYTES + 99)] {
        let room = Room(Folder::new());
        room.holes("disk", bytes);
        room.holes("flash", BYTES);
        room.change("disk", at, &[1]);
        for back in [
            room.back(FORMAT, "disk", Some("flash")),
            forced(room.back(FORMAT, "disk", Some("flash"))),
        ] {
            let told = room.refused(back);
            assert!(told.contains("truncate -s +8192"), "{told}");
        }
        room.change("disk", at - 4096 - 100, &[1]);
        room.change("disk", at, &[0]);
        room.writes(FORMAT, "disk", "flash", 3);
    }
}

#[test]
fn a_disk_that_has_become_longer_is_known_by_its_mark() {
    let room = Room::with_pair("disk", "flash", 1);
    OpenOptions::new().write(true).open(room.at("disk")).unwrap().set_len(8 * BYTES).unwrap();
    for back in [room.back("noop", "disk", None), room.back(BACK, "disk", Some("flash"))] {
        let told = room.refused(back);
        assert!(told.contains(&format!("truncate -s {BYTES} ")), "{told}");
    }
}

#[test]
fn a_mark_that_is_damaged_is_an_error() {
    let room = Room::with_pair("disk", "flash", 1);
    [0, 2048].iter().for_each(|at| room.change("disk", BYTES - 4096 + at + 48, &[0xAA]));
    for back in [room.back("noop", "disk", None), room.back(BACK, "disk", Some("flash"))] {
        let told = room.refused(back);
        assert!(told.contains("is damaged"), "{told}");
    }
    assert_eq!(room.reads(forced(room.back(BACK, "disk", Some("flash")))).0, 1);
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash"))).0, 1, "it is whole again");
}

#[test]
fn a_newest_record_that_is_damaged_or_gone_is_an_error() {
    let room = Room::with_pair("disk", "flash", 1);
    room.writes(BACK, "disk", "flash", 2);
    let flash = fs::read(room.at("flash")).unwrap();
    // Records 1 and 2 exist; the second write of the same block changed nothing.
    let newest = 8192 + 2 * 8192;
    assert!(flash[newest..newest + 8192].iter().any(|byte| *byte != 0));
    for at in (0..8192).step_by(61) {
        room.copy("flash", "damaged");
        room.change("damaged", (newest + at) as u64, &[!flash[newest + at]]);
        let told = room.refused(room.back(BACK, "disk", Some("damaged")));
        assert!(told.contains("is damaged, unreadable, or older"), "{told}");
    }
    room.copy("flash", "gone");
    room.change("gone", newest as u64, &[0; 8192]);
    room.refused(room.back(BACK, "disk", Some("gone")));
    assert_eq!(room.reads(room.back(BACK, "disk", Some("flash"))).0, 2);
    // With force, the log ends before the damaged record, so the flash contains no data.
    assert_eq!(room.reads(forced(room.back(BACK, "disk", Some("gone")))).0, 0);
}

/// Decodes a file in the format of tests/images: the length, followed by every nonzero extent in
/// hexadecimal or as a repeated byte.
fn image(text: &str) -> Vec<u8> {
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for (at, what) in lines.map(|line| line.split_once(' ').unwrap()) {
        let stretch = match what.split_once('*') {
            Some((count, hex)) => vec![byte(hex); count.parse().unwrap()],
            None => (0..what.len() / 2).map(|nth| byte(&what[2 * nth..2 * nth + 2])).collect(),
        };
        let at: usize = at.parse().unwrap();
        bytes[at..at + stretch.len()].copy_from_slice(&stretch);
    }
    bytes
}

#[test]
fn a_placement_log_of_version_1_is_refused_by_its_number() {
    let logs = [
        (include_str!("../images/placement-log-1-cache.txt"), BACK),
        (include_str!("../images/placement-log-1-tier.txt"), "tier-bcache:size-mib=1"),
    ];
    for (text, policy) in logs {
        let room = Room(Folder::new());
        room.holes("disk", BYTES);
        fs::write(room.at("flash"), image(text)).unwrap();
        let formats = format!("{policy}:format=yes");
        for policy in [policy, &formats, "noop", "cache:write=through:size-mib=1"] {
            let told = room.refused(room.back(policy, "disk", Some("flash")));
            assert!(
                told.contains("format 1, made by an older Forebay, expected format 2"),
                "{told}"
            );
        }
        // A flash whose label was erased does not count as blank.
        room.change("flash", 0, &[0; 8192]);
        room.refused(room.back(&formats, "disk", Some("flash")));
    }
}

#[test]
fn a_disk_and_a_placement_log_of_version_2_are_found_with_all_they_had() {
    let pairs = [
        (
            include_str!("../images/mark-1-cache.txt"),
            include_str!("../images/placement-log-2-cache.txt"),
            "cache:size-mib=1:id=7",
        ),
        (
            include_str!("../images/mark-1-tier.txt"),
            include_str!("../images/placement-log-2-tier.txt"),
            "tier-bcache:size-mib=1",
        ),
    ];
    for (disk, flash, policy) in pairs {
        let room = Room(Folder::new());
        fs::write(room.at("disk"), image(disk)).unwrap();
        fs::write(room.at("flash"), image(flash)).unwrap();
        assert!(room.refused(room.back("noop", "disk", None)).contains("are on its flash"));
        let back = room.back(policy, "disk", Some("flash"));
        let (read, _) = room.served(back, |client| client.read(0, 1 << 16));
        let expected = |at: usize| match at / 512 {
            24 => 77,
            _ => [0, 0, 0, 3, 0, 5, 0, 0, 0, 9].get(at / 4096).copied().unwrap_or(0),
        };
        assert!((0..1 << 16).all(|at| read[at] == expected(at)), "{policy}");
    }
}

#[test]
fn a_rearranged_disk_of_version_1_is_served_and_other_versions_are_reported() {
    let room = Room(Folder::new());
    let bytes = image(include_str!("../images/rearranged-1.txt"));
    fs::write(room.at("disk"), &bytes).unwrap();
    let back = |blocks| {
        let exports = vec![Named { bytes: Some(4 << 20), ..Named::all("disk") }];
        Back { blocks, exports, ..room.back("noop", "disk", None) }
    };
    assert!(room.refused(back(Blocks::InPlace)).contains("set rearranged = true"));
    let (read, _) = room.served(back(Blocks::Rearranged), |client| {
        (0..8).map(|nth| client.read(nth * 524_288, 64)).collect::<Vec<_>>()
    });
    for (nth, read) in read.iter().enumerate() {
        assert!(*read == [nth as u8 + 1; 64], "block {nth}");
    }
    // Sets the version to an unsupported one in both places.
    [4 << 20, 7 << 20].iter().for_each(|at| room.change("disk", at + 16, &[2]));
    for blocks in [Blocks::InPlace, Blocks::Rearranged] {
        let told = room.refused(back(blocks));
        assert!(told.contains("format 2, made by a newer Forebay, expected format 1"), "{told}");
    }
}

#[test]
fn every_byte_of_a_file_is_served_or_it_is_refused() {
    let room = Room(Folder::new());
    for bytes in [1, 511, 512, 513, 4095, 4096, 4097, 10_000_001, 10_000_384 + 128] {
        for page_cache in [false, true] {
            room.holes("disk", bytes);
            let back = Back { page_cache, ..room.back("noop", "disk", None) };
            if bytes < 4096 {
                let told = room.refused(back);
                assert!(
                    told.contains(&format!("got {bytes} bytes, expected at least 4096")),
                    "{told}"
                );
                continue;
            }
            let server = room.start(back).unwrap();
            let export = &server.exports()[0];
            assert_eq!(export.bytes, bytes);
            let block = u64::from(export.block_bytes);
            let last = vec![7; block as usize];
            let mut client = Client::simple(&room.at("socket"), "disk");
            client.write(bytes - block, &last);
            assert_eq!(client.read(bytes - block, block as u32), last);
            drop(client);
            server.stop().unwrap();
            let file = fs::read(room.at("disk")).unwrap();
            assert_eq!((file.len() as u64, file.last()), (bytes, Some(&7)));
        }
    }
}
