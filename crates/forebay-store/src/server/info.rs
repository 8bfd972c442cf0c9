//! The INFO command.

use std::sync::atomic::Ordering;

use crate::advice::advice;
use crate::{DiskHealth, Status};

use super::Serving;

/// Formats the reply: sections of `name:value` lines.
pub(super) fn info(serving: &Serving) -> String {
    let status = serving.store.status();
    let figures = status.figures;
    let mut lines = vec![
        "# Server".to_string(),
        format!("forebay_version:{}", env!("CARGO_PKG_VERSION")),
        "redis_mode:standalone".into(),
        "# Clients".into(),
        format!("connected_clients:{}", serving.connections.load(Ordering::Relaxed)),
        "# Store".into(),
        format!("records:{}", status.records),
        format!("segment_bytes:{}", status.segment_totals.0),
        format!("runs:{}", status.segment_totals.1),
        format!("put_bytes:{}", figures.put_bytes),
        format!("logged_bytes:{}", figures.logged_bytes),
        format!("batches:{}", figures.batches),
        format!("logs:{}", figures.logs),
        format!("transformations:{}", figures.transformations),
        format!("transformed_bytes:{}", figures.transformed_bytes),
        format!("merges:{}", figures.merges),
        format!("merged_bytes:{}", figures.merged_bytes),
        format!("stalls:{}", figures.stalls),
        format!("overlaps:{}", figures.overlaps),
        format!("log_bytes:{}", figures.log_bytes),
        format!("gap_bytes:{}", figures.gap_bytes),
        format!("transformation_periods:{:.2}", figures.periods),
        format!("merge_debt:{:.2}", figures.merge_debt),
        format!("saturated:{}", u8::from(figures.is_saturated)),
        format!(
            "advice:{}",
            advice(&status).map_or_else(|| "none".into(), |advice| in_a_field(&advice))
        ),
        format!("held_back_ms:{}", figures.merge_delay.as_millis_f64().round()),
        format!("losses:{}", status.losses.len()),
        "# Disks".into(),
        format!("devices:{}", serving.store.devices()),
        format!("healthy:{}", u8::from(is_healthy(&status))),
    ];
    let disks = (1..).zip(&status.stages).map(|(disk, of)| format!("disk{disk}:{}", of.name()));
    lines.extend(disks);
    lines.extend((1..).zip(&status.health).flat_map(|(disk, health)| errors(disk, health)));
    lines.join("\r\n") + "\r\n"
}

/// Formats a disk's health and its error counts.
fn errors(disk: usize, health: &DiskHealth) -> [String; 4] {
    let DiskHealth { read_errors, write_errors, no_space_errors, .. } = health;
    [
        format!("disk{disk}_health:{}", health.name()),
        format!("disk{disk}_read_errors:{read_errors}"),
        format!("disk{disk}_write_errors:{write_errors}"),
        format!("disk{disk}_no_space_errors:{no_space_errors}"),
    ]
}

/// Returns whether every disk is present and accepts writes, and nothing is lost.
fn is_healthy(status: &Status) -> bool {
    status.losses.is_empty() && status.health.iter().all(|health| health.name() == "ok")
}

/// Removes characters that clients would interpret as separators of lists and pairs.
fn in_a_field(sentence: &str) -> String {
    sentence.replace(": ", " - ").replace(',', ";").replace([':', '='], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_disk_are_told_by_kind() {
        let health = DiskHealth {
            read_errors: 3,
            write_errors: 7,
            no_space_errors: 2,
            failing: Some(forebay_core::Fault::Full),
            is_missing: false,
        };
        let expected = [
            "disk4_health:no-space",
            "disk4_read_errors:3",
            "disk4_write_errors:7",
            "disk4_no_space_errors:2",
        ];
        assert_eq!(errors(4, &health), expected);
        assert_eq!(errors(1, &DiskHealth::default())[0], "disk1_health:ok");
        let health = DiskHealth { is_missing: true, ..health };
        assert_eq!(errors(1, &health)[0], "disk1_health:missing");
    }

    #[test]
    fn advice_is_one_field() {
        let field = in_a_field("saturated: 1.3 times as long, 1 is what 4 disks allow: x=1");
        assert_eq!(field, "saturated - 1.3 times as long; 1 is what 4 disks allow - x 1");
    }
}
