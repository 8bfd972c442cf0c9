//! Messages about events on a volume.

use forebay_core::contract::{VolumeEvent, VolumeState, VolumeWork};
use forebay_words::plural::{counted, verb};
use forebay_words::quantities;

/// Describes an event on a volume.
pub(super) fn volume_line(
    event: &VolumeEvent,
    state: &VolumeState,
    name: &dyn Fn(u8) -> String,
) -> Option<String> {
    Some(match *event {
        VolumeEvent::Mended { unit, drive } => {
            format!(
                "warning: unit {unit}: damaged data on {} were restored and rewritten",
                name(drive)
            )
        }
        VolumeEvent::Lost { unit } => format!(
            "error: unit {unit}: DATA ARE LOST: some bytes cannot be read any more; `forebay volume status` on \
             the stopped volume lists them"
        ),
        VolumeEvent::Recovered { unit } => {
            format!("unit {unit}: the lost data can be read again or has been overwritten")
        }
        VolumeEvent::Omitted { .. } => return None,
        VolumeEvent::Began(work) => match work {
            VolumeWork::Rebuild => "the rebuild begins: missing data are restored".into(),
            VolumeWork::Check => "the check begins: everything is read".into(),
            VolumeWork::Move => "data is now being moved between drives".into(),
        },
        VolumeEvent::Progress(work, percent) => format!("{}: {percent} % done", work.name()),
        VolumeEvent::Ended { work, chunks, lacking } => ended(work, chunks, lacking, state),
        VolumeEvent::Cancelled => "the check was cancelled".into(),
        VolumeEvent::Joined { drive } => format!("{} has joined the volume", name(drive)),
        VolumeEvent::Grown { bytes } => {
            format!("the volume holds {} now", quantities::bytes(bytes as f64))
        }
        VolumeEvent::Left { drive } => {
            format!("{} is no longer part of the volume and can be removed", name(drive))
        }
    })
}

/// Describes the end of background work.
fn ended(work: VolumeWork, chunks: u64, lacking: u64, state: &VolumeState) -> String {
    let count = counted(chunks, "chunk");
    let were = verb(chunks, "was", "were");
    let done = match work {
        VolumeWork::Rebuild => format!("the rebuild ends: {count} {were} restored"),
        VolumeWork::Check if chunks == 0 && state.lost_units == 0 => {
            "the check ends: nothing was wrong".into()
        }
        VolumeWork::Check => format!("the check ends: {count} {were} rewritten"),
        VolumeWork::Move => format!("{count} {were} moved"),
    };
    match (lacking, state.lost_units) {
        (0, 0) if work == VolumeWork::Rebuild => {
            format!("{done}, and all data have full redundancy again")
        }
        (0, 0) => done,
        (0, lost) => format!("warning: {done}; {} with lost data", counted(lost, "unit")),
        (lacking, _) => format!(
            "warning: {done}; {} still {} redundancy, because the drives have no space for {}: replace the \
             missing drive",
            counted(lacking, "chunk"),
            verb(lacking, "lacks", "lack"),
            verb(lacking, "it", "them"),
        ),
    }
}
