//! Tests how a configuration of `forebay serve` is read for a simulation.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use forebay_core::Spec;
use forebay_core::catalog::{DeviceSet, build_placed, volume_bytes};
use forebay_core::stack::array::Level;
use forebay_play::served::{served_disk, volume_layout};
use forebay_volume::{Create, create, status};

const PROMISE: &str = "capacity_iops = 200\n[[export]]\nname = 'db'\non = 'safe'\nsize = '8MiB'\n\
                       keep_iops = 30\nwithin = '100ms'\n[[export]]\nname = 'rest'\non = 'safe'\n\
                       offset = '8MiB'\n";

/// Creates a volume of six drives.
fn volume(folder: &Path, level: Level) -> Vec<PathBuf> {
    let drives: Vec<PathBuf> = (0..6).map(|nth| folder.join(format!("v/{nth}"))).collect();
    fs::create_dir(folder.join("v")).unwrap();
    drives.iter().for_each(|drive| File::create(drive).unwrap().set_len(64 << 20).unwrap());
    create(&drives, Create::new(level)).unwrap();
    drives
}

/// Writes a configuration of the volume with these keys, and those of the rest of the file.
fn config(folder: &Path, keys: &str) -> PathBuf {
    let path = folder.join("serve.toml");
    let drives = folder.join("v");
    let text = format!(
        "socket = 's'\n[[volume]]\nname = 'safe'\ndrives = ['{}']\n{keys}",
        drives.display()
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_volume_is_simulated_as_the_array_that_its_labels_describe() {
    for level in [Level::RAID6, Level::TRIPLE] {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path(), level);
        let geometry = status(&drives).unwrap().geometry;
        let array = format!(
            "array:level={}:update=fresh:chunk-kib=64:chunks=4:filled-mib={}",
            level.name(),
            geometry.capacity_bytes() >> 20
        );
        for (policy, expected) in [
            ("clook", format!("{array}:disk=clook")),
            ("mq-deadline:fifo-batch=8", format!("{array}:disk=mq-deadline+fifo-batch=8")),
            ("array:adapt=bonus-malus", format!("{array}:adapt=bonus-malus:costs=hdd")),
            (
                "array:adapt=best:costs=ssd:disk=bfq",
                format!("{array}:adapt=best:costs=ssd:disk=bfq"),
            ),
        ] {
            let path = config(folder.path(), &format!("policy = '{policy}'\n{PROMISE}"));
            let back = forebay_serve::file::read(&path).unwrap().backs.remove(0);
            let served = served_disk(&path, Some("safe")).unwrap();
            let spec = (served.shaped)(policy).unwrap();
            // Above the array are the promises that the server builds above its volume.
            let server = back.shaped().unwrap();
            let over = |spec: &str| format!(":over={}", Spec::nested(spec));
            assert_eq!(spec, server.replace(&over(policy), &over(&expected)));
            let drives = served.drives.unwrap();
            assert_eq!(drives.count, 6);
            let set = DeviceSet {
                disks: 6,
                disk_len_max: 1 << 20,
                disk_bytes: drives.bytes,
                ..DeviceSet::default()
            };
            build_placed(&spec, &set).unwrap();
            let bytes = volume_bytes(&spec, &set).unwrap().unwrap();
            // All of the volume has a place, at whichever level.
            let share = bytes as f64 / geometry.capacity_bytes() as f64;
            let most = if level == Level::RAID6 { 1.1 } else { 2.1 };
            assert!((1.0..most).contains(&share), "{bytes} of {geometry:?}");
        }
    }
}

#[test]
fn a_shaper_of_a_configuration_stays_above_the_array() {
    let folder = tempfile::tempdir().unwrap();
    volume(folder.path(), Level::RAID6);
    let path = config(folder.path(), "policy = 'token-bucket:rate=90:over=bfq:depth=4'\n");
    let served = served_disk(&path, None).unwrap();
    let spec = (served.shaped)(&served.policy).unwrap();
    let (shaper, over) = spec.split_once(":over=").unwrap();
    assert_eq!(shaper, "token-bucket:rate=90:depth=4");
    assert!(over.starts_with("array+level=raid6+") && over.ends_with("+disk=bfq"), "{over}");
    // Without a promise, connections have equal shares, as in the server.
    let spec = (served.shaped)("noop").unwrap();
    assert!(spec.starts_with("promised:cmin=0:") && spec.contains(":over=array+"), "{spec}");
}

#[test]
fn a_missing_drive_is_simulated_and_one_without_a_label_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path(), Level::RAID6);
    let path = config(folder.path(), "");
    fs::remove_file(&drives[3]).unwrap();
    assert_eq!(served_disk(&path, None).unwrap().drives.unwrap().count, 6);
    let (layout, count, first) = volume_layout(&[folder.path().join("v")], "noop").unwrap();
    assert_eq!((layout.name(), count, &first), ("volume-raid6", 6, &drives[0]));
    let (layout, ..) = volume_layout(&drives[..3], "array:adapt=best").unwrap();
    assert_eq!(layout.name(), "adaptive");
    drives.iter().for_each(|drive| fs::write(drive, [0; 8192]).unwrap());
    let said = served_disk(&path, None).map(drop).unwrap_err().to_string();
    let expected = "'safe': drives: none of them has the label of a volume, expected those that the \
                    server uses";
    assert!(said.starts_with(expected), "{said}");
    assert!(volume_layout(&drives, "noop").is_none());
}
