//! Tests that checking a configuration and starting a server with it give the same result.

use std::fs;
use std::path::Path;

use forebay_core::stack::array::Level;
use forebay_rig::Folder;
use forebay_volume::{Create, create};

use super::*;
use crate::{Server, file};

/// A folder with disks of 64 MiB, a disk of odd size, a hard link, a volume and files that are not
/// disks.
fn folder() -> Folder {
    let folder = Folder::new();
    for name in ["a.img", "b.img"] {
        folder.holes(name, 64 << 20);
    }
    folder.holes("odd.img", (64 << 20) + 100);
    fs::hard_link(folder.path("a.img"), folder.path("link.img")).unwrap();
    fs::write(folder.path("empty"), "").unwrap();
    fs::create_dir(folder.path("d")).unwrap();
    fs::create_dir(folder.path("v")).unwrap();
    let drives: Vec<_> = (0..6).map(|nth| format!("v/{nth}")).collect();
    drives.iter().for_each(|drive| drop(folder.holes(drive, 32 << 20)));
    let drives: Vec<_> = drives.iter().map(|drive| folder.path(drive)).collect();
    create(&drives, Create::new(Level::RAID6)).unwrap();
    folder
}

/// The error messages of a check and of a start; `None` where the configuration is accepted. In
/// `text`, `@` stands for the folder.
fn said(folder: &Folder, text: &str) -> [Option<String>; 2] {
    let text =
        format!("socket = \"@/s\"\n{text}").replace('@', &folder.root().display().to_string());
    let message =
        |error: Error| error.to_string().replace(&folder.root().display().to_string(), "@");
    let config = match file::parse(Path::new("c.toml"), &text) {
        Ok(config) => config,
        Err(error) => return [0; 2].map(|_| Some(error.to_string())),
    };
    let checked = config.check().err().map(message);
    let started = match Server::start(&config) {
        Ok(server) => server.stop().err().map(message),
        Err(error) => Some(message(error)),
    };
    [checked, started]
}

fn disk(more: &str) -> String {
    format!("[[disk]]\nname = \"data\"\nfile = \"@/a.img\"\n{more}\n")
}

fn file(name: &str) -> String {
    disk("").replace("a.img", name)
}

fn exported(disk: &str, more: &str) -> String {
    format!("{disk}[[export]]\nname = \"x\"\non = \"data\"\n{more}\n")
}

fn volume(drives: &str, more: &str) -> String {
    format!("[[volume]]\nname = \"data\"\ndrives = [{drives}]\n{more}\n")
}

/// Asserts that check and start return the same message, which contains `expected`, or that both
/// accept the configuration if `expected` is empty.
fn agree(folder: &Folder, text: &str, expected: &str) {
    let [checked, started] = said(folder, text);
    assert_eq!(checked, started, "{text}");
    match checked {
        None => assert_eq!(expected, "", "accepted: {text}"),
        Some(said) => assert!(!expected.is_empty() && said.contains(expected), "{text}: {said}"),
    }
}

#[test]
fn a_check_and_a_start_agree_about_disks() {
    let folder = folder();
    let plain = disk("");
    let page_cache = disk("page_cache = true");
    for (text, expected) in [
        (plain.clone(), ""),
        (disk("read_only = true"), ""),
        (disk("emulate = \"fixed:10\"\nread_only = true"), ""),
        (disk("emulate = \"fixed:10\"\ndriver = \"threads\""), ""),
        (file("odd.img"), ""),
        (file("d"), "is a folder"),
        (file("empty"), "got 0 bytes"),
        (file("none.img"), "no such file"),
        (file("../../dev/null"), ""),
        (file("v/0"), "is a drive of a volume"),
        (exported(&plain, "size = \"1000B\"\noffset = \"1MiB\""), "multiples of the 512 bytes"),
        (exported(&plain, "offset = \"1000B\"\nsize = \"4096B\""), "multiples of the 512 bytes"),
        (exported(&page_cache, "size = \"1000B\""), ""),
        (exported(&disk("emulate = \"fixed:10\""), "size = \"1000B\""), ""),
        (exported(&plain, "size = \"65MiB\""), "expected 1 to 67108864"),
        (exported(&plain, "offset = \"64MiB\""), "got offset 67108864"),
        (exported(&file("odd.img"), "offset = \"512B\"\nsize = \"512B\""), ""),
        (
            plain.clone() + &plain.replace("data", "b").replace("a.img", "link.img"),
            "is used by 'data' and by 'b'",
        ),
        (disk("trace = \"@/d\""), "got the ending"),
        (disk("trace = \"@/none/t.csv\""), "its folder does not exist"),
        (
            exported(&disk("rearranged = true"), "size = \"1MiB\""),
            "has no record of rearranged blocks",
        ),
        (exported(&disk("rearrange = \"@/empty\""), "size = \"1MiB\""), "rearrange: "),
        (exported(&disk("rearrange = \"@/none.csv\""), "size = \"1MiB\""), "rearrange: "),
        (exported(&disk("rearrange = \"@/t.csv\""), ""), "rearrange: "),
        (disk("policy = \"array\""), "policy: "),
        (disk("policy = \"cache:size-mib=8\""), "policy: "),
        (exported(&plain, "description = \"é\"\nread_only = true"), ""),
        (exported(&plain, "").replace("\"x\"", "\"a\\nb\""), "control character in the name"),
        (
            exported(&plain, "").replace("\"x\"", &format!("\"{}\"", "x".repeat(5000))),
            "a name of more than 4096 bytes",
        ),
        (plain.replace("data", "da\\tta"), "control character in the name"),
        (plain.replace("data", ""), "name: "),
    ] {
        let expected =
            if text.contains("dev/null") { "neither a file nor a block device" } else { expected };
        agree(&folder, &text.replace("@/../../dev/null", "/dev/null"), expected);
    }
    let metrics = "metrics = \"127.0.0.1:39421\"\ntcp = \"127.0.0.1:39421\"\n";
    agree(&folder, &format!("{metrics}{plain}"), "which is also the address for clients");
}

#[test]
fn a_check_and_a_start_agree_about_flash() {
    for (policy, more, expected) in [
        ("cache:size-mib=8", "", "is blank, expected one with a log"),
        ("cache:write=back:size-mib=8", "", "is blank, expected one with a log"),
        ("cache:write=back:size-mib=8:format=yes", "", ""),
        ("cache:write=through:size-mib=8", "", ""),
        ("cache:write=through:size-mib=8192", "", "size-mib"),
        ("cache:write=back:size-mib=8:format=yes", "read_only = true", "read_only: "),
        ("cache:write=through:size-mib=8", "read_only = true", "read_only: "),
        ("noop", "", ""),
        ("tiers", "", "no policy 'tiers'"),
    ] {
        let folder = folder();
        let text = disk(&format!("policy = \"{policy}\"\nflash = \"@/b.img\"\n{more}"));
        agree(&folder, &text, expected);
    }
}

#[test]
fn a_check_and_a_start_agree_about_volumes() {
    let folder = folder();
    let all = "\"@/v\"";
    for (text, expected) in [
        (volume(all, ""), ""),
        (volume("\"@/d\"", ""), "the folder is empty"),
        (volume("", ""), "no drives are specified"),
        (volume("\"@/a.img\"", ""), "has no Forebay label"),
        (volume("\"@/v\", \"@/v\"", ""), "is used by 'data' and by 'data'"),
        (volume("\"@/v/0\", \"@/v/1\"", ""), "2 of the 6 drives"),
        (volume("\"@/v/0\", \"@/v/1\", \"@/v/2\", \"@/v/3\"", ""), ""),
        (volume(all, "policy = \"array:rule=nonsense\""), "no parameter 'rule'"),
        (volume(all, "policy = \"cache:size-mib=8\""), "policy: "),
        (volume(all, "policy = \"bogus\""), "no policy 'bogus'"),
        (volume(all, "emulate = \"ebs-gp3:gib=1\""), ""),
        (exported(&volume(all, ""), "size = \"900GiB\""), "the rest of 'data'"),
        (exported(&volume(all, ""), "size = \"1000B\""), ""),
        (exported(&volume(all, "policy = \"array\""), "weight = 2"), ""),
    ] {
        agree(&folder, &text, expected);
    }
}

#[test]
fn a_configuration_can_be_checked_while_it_is_served() {
    let folder = folder();
    let root = folder.root().display().to_string();
    let text =
        format!("socket = \"@/s\"\n{}{}", disk(""), volume("\"@/v\"", "").replace("data", "v"));
    let config = file::parse(Path::new("c.toml"), &text.replace('@', &root)).unwrap();
    let server = Server::start(&config).unwrap();
    config.check().unwrap();
    server.stop().unwrap();
}
