//! Tests `volume create`, `status`, `check`, `replace` and `grow`.

use std::fs::{self, File};
use std::path::Path;

use forebay_play::volume::{
    VolumeCheckAsk, VolumeCreateAsk, VolumeGrowAsk, VolumeReplaceAsk, VolumeStatusAsk,
};

use super::answered;

/// Creates a sparse file of 32 MiB.
fn drive(path: &Path) {
    File::create(path).unwrap().set_len(32 << 20).unwrap();
}

#[test]
fn a_volume_is_created_maintained_and_enlarged() {
    let folder = tempfile::tempdir().unwrap();
    let drives = folder.path().join("v");
    fs::create_dir(&drives).unwrap();
    (0..6).for_each(|number| drive(&drives.join(number.to_string())));
    let volume = drives.to_str().unwrap();
    let made = answered::<VolumeCreateAsk>(&[("drives", volume)]);
    assert_eq!(made.page.headline, "The volume was created.");
    assert_eq!((&made.data["drives"], made.failure), (&6.into(), None));
    let status = answered::<VolumeStatusAsk>(&[("drives", volume)]);
    assert_eq!(status.page.headline, "The volume is whole, and any 2 drives may fail.");
    let checked = answered::<VolumeCheckAsk>(&[("drives", volume), ("rate", "1000")]);
    assert!(checked.page.headline.ends_with("everything is correct."), "{}", checked.page.headline);

    fs::remove_file(drives.join("3")).unwrap();
    let status = answered::<VolumeStatusAsk>(&[("drives", volume)]);
    let headline = &status.page.headline;
    assert_eq!(headline, "Drive 4 is missing. Nothing is lost, and one more drive may fail.");
    let new = drives.join("new");
    drive(&new);
    let with = [("drives", volume), ("with", new.to_str().unwrap())];
    let replaced = answered::<VolumeReplaceAsk>(&with);
    assert_eq!(replaced.data["drives_missing"], serde_json::json!([]));
    assert!(replaced.page.headline.contains("is a drive of the volume now"));

    let more = folder.path().join("more");
    drive(&more);
    let grown = answered::<VolumeGrowAsk>(&[("drives", volume), ("with", more.to_str().unwrap())]);
    assert_eq!(grown.data["drives"], 7);
    assert!(grown.page.headline.starts_with("The volume holds "), "{}", grown.page.headline);
}
