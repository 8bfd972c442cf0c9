//! The bundled volume types.

use std::borrow::Cow;
use std::path::PathBuf;

/// The bundled files by the name of the volume type.
const BUNDLED: &[(&str, &str)] = &[
    ("azure-premium", include_str!("../../devices/volumes/azure-premium.toml")),
    ("azure-premium-v2", include_str!("../../devices/volumes/azure-premium-v2.toml")),
    ("azure-standard-ssd", include_str!("../../devices/volumes/azure-standard-ssd.toml")),
    ("azure-ultra", include_str!("../../devices/volumes/azure-ultra.toml")),
    ("ebs-gp2", include_str!("../../devices/volumes/ebs-gp2.toml")),
    ("ebs-gp3", include_str!("../../devices/volumes/ebs-gp3.toml")),
    ("ebs-instance", include_str!("../../devices/volumes/ebs-instance.toml")),
    ("ebs-io1", include_str!("../../devices/volumes/ebs-io1.toml")),
    ("ebs-io2", include_str!("../../devices/volumes/ebs-io2.toml")),
    ("ebs-sc1", include_str!("../../devices/volumes/ebs-sc1.toml")),
    ("ebs-st1", include_str!("../../devices/volumes/ebs-st1.toml")),
    ("gcp-hyperdisk-balanced", include_str!("../../devices/volumes/gcp-hyperdisk-balanced.toml")),
    ("gcp-hyperdisk-extreme", include_str!("../../devices/volumes/gcp-hyperdisk-extreme.toml")),
    (
        "gcp-hyperdisk-throughput",
        include_str!("../../devices/volumes/gcp-hyperdisk-throughput.toml"),
    ),
    ("gcp-pd-balanced", include_str!("../../devices/volumes/gcp-pd-balanced.toml")),
    ("gcp-pd-ssd", include_str!("../../devices/volumes/gcp-pd-ssd.toml")),
    ("gcp-pd-standard", include_str!("../../devices/volumes/gcp-pd-standard.toml")),
    ("iomax", include_str!("../../devices/volumes/iomax.toml")),
    ("iotune", include_str!("../../devices/volumes/iotune.toml")),
];

/// Returns the names of the bundled types.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(name, _)| *name)
}

/// Returns whether a bundled type has this name.
pub(crate) fn is_bundled(name: &str) -> bool {
    names().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the path and the content of a bundled type's file.
pub(crate) fn text_of(name: &str) -> Option<(PathBuf, Cow<'static, str>)> {
    let (name, text) = BUNDLED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((PathBuf::from(format!("devices/volumes/{name}.toml")), Cow::Borrowed(*text)))
}
