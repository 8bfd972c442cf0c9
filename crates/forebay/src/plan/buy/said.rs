//! Formats sentences about the answer: the evidence for it, and the combinations that cannot keep
//! the promises.

use forebay_ask::named;

use super::{Binds, BuyRefusal, BuyRow, ClientNeed, Layout, Question, Sharing};
use crate::quantities::{self, achieved, counted};

/// How many of the [`reasons`] appear on the first screen.
pub(super) const REASONS_FIRST: usize = 2;

/// Explains the meaning of the answer and the evidence for it; one or two sentences per entry.
pub(super) fn reasons(
    rows: &[BuyRow],
    needs: &[ClientNeed],
    question: &Question<'_>,
) -> Vec<String> {
    let Some(best) = rows.first().filter(|row| row.drives.is_some()) else { return Vec::new() };
    let sharing = if needs.len() > 1 { sharing_words(best.sharing) } else { "" };
    let mut all = vec![
        format!(
            "{}{}{sharing}. {}{}",
            layout_words(best),
            safer(best, rows),
            why(best),
            headroom(best, question)
        ),
        failures(best),
        checked(best),
    ];
    all.extend(question.budget.and_then(|budget| budget.roomiest(rows)));
    if question.growth != 1.0 {
        all.push(format!("This answer is for {} times the load and the data.", question.growth));
    }
    all
}

/// Explains why RAID 6 needs more drives than other layouts, if one of `rows` is too slow or needs
/// more drives for the time than for the bytes.
pub(super) fn reads_first<'a>(rows: impl IntoIterator<Item = &'a BuyRow>) -> Option<String> {
    slow_raid6(rows).map(|row| {
        let why = "before it writes a small block and its two parities, raid6 reads three blocks from the disks, which no \
                   write cache hides";
        match row.drives {
            Some(drives) => format!("raid6 needs {drives} drives: {why}."),
            None => format!("B{}: bursts of writes take longer than on mirrors.", &why[1..]),
        }
    })
}

fn slow_raid6<'a>(rows: impl IntoIterator<Item = &'a BuyRow>) -> Option<&'a BuyRow> {
    let is_slow = |row: &&BuyRow| {
        let by_time = [Binds::Time, Binds::Headroom, Binds::Several].map(Some);
        let is_refused = row.refusal.is_some_and(|refusal| refusal != BuyRefusal::Bytes);
        row.layout == Layout::Raid6 && (is_refused || by_time.contains(&row.binds))
    };
    rows.into_iter().find(is_slow)
}

/// States how many drives would suffice without headroom, if fewer would.
fn headroom(best: &BuyRow, question: &Question<'_>) -> String {
    match (best.binds, best.drives_without_headroom) {
        (Some(Binds::Headroom | Binds::Several), Some(fewer)) if best.drives > Some(fewer) => {
            let share = quantities::promised(question.headroom);
            format!(" {fewer} would keep the promise, but not with {share} of headroom.")
        }
        _ => String::new(),
    }
}

/// Explains what happens when a drive fails, and how much data that is expected to cost per year.
fn failures(best: &BuyRow) -> String {
    let mut said = String::new();
    if let (Some(degraded), Some(rebuilding)) = (&best.degraded, &best.rebuilding) {
        let hours = best
            .rebuild_hours
            .map_or(String::new(), |hours| format!(" ({} h)", quantities::significant(hours)));
        let kept = match (degraded.is_kept(), rebuilding.is_kept()) {
            (true, true) => "the promise is kept",
            (true, false) => "a rebuild breaks the promise",
            _ => "the promise is broken",
        };
        said = format!(
            "With one drive missing {} are in time, and during the rebuild{hours} {}: {kept}. ",
            achieved(degraded.in_time_fraction),
            achieved(rebuilding.in_time_fraction),
        );
    }
    match best.lost_per_year_bytes {
        Some(lost) => {
            format!("{said}Expect to lose {} of data a year.", quantities::bytes(lost.max(0.01)))
        }
        None => said.trim_end().to_string(),
    }
}

/// Warns if the drives have too little headroom and no other number of drives that was tried has
/// more.
pub(super) fn too_busy(best: &BuyRow, rows: &[BuyRow]) -> Option<String> {
    // Other drives may have the headroom, but cost more than the budget.
    let is_roomy = |row: &BuyRow| row.has_headroom && row.drives.is_some();
    let nothing = match rows.iter().any(is_roomy) {
        true => "Nothing within the budget",
        false => "No number of drives",
    };
    (!best.has_headroom).then(|| {
        format!(
            "{nothing} has the headroom ({}): one of those proposed is busy for {} of the time.",
            named("headroom"),
            quantities::percent(best.utilisation_max.unwrap_or(1.0)),
        )
    })
}

/// Warns if the best row's flash wears out early, or if its rated endurance is unknown.
pub(super) fn worn_soon(best: &BuyRow) -> Option<String> {
    let written = best.written_per_year_tb.filter(|tb| *tb > 0.0)?;
    let name = best.cache_drive.as_ref().unwrap_or(&best.drive);
    let written = quantities::significant(written);
    match best.endurance_years {
        None => Some(format!(
            "At this load {written} TB a year are written to each {name}; its file does not \
             specify its rated endurance (endurance_tb)."
        )),
        Some(years) if best.wears_out() => Some(format!(
            "At this load {written} TB a year are written to each {name}, which wears it out in {years:.1} years."
        )),
        Some(_) => None,
    }
}

fn layout_words(row: &BuyRow) -> String {
    match row.survives {
        0 => "Tolerates no drive failure".to_string(),
        1 => "Tolerates the failure of any one drive".to_string(),
        some => format!("Tolerates the failure of any {some} drives"),
    }
}

/// Names the cheapest drives that tolerate a failure, if the best ones do not.
fn safer(best: &BuyRow, rows: &[BuyRow]) -> String {
    let safe = |row: &&BuyRow| row.survives > 0 && row.drives.is_some() && row.has_headroom;
    let Some(row) = rows.iter().find(safe).filter(|_| best.survives == 0) else {
        return String::new();
    };
    let price =
        super::page::price(row).map_or(String::new(), |price| format!(", {}", price.text()));
    let (drives, drive) = (row.drives.unwrap_or(0), &row.drive);
    format!(" ({drives} {drive} as {} would{price})", row.layout.name())
}

fn sharing_words(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Shared => "; all clients share the drives",
        Sharing::Apart => "; each client has separate drives",
    }
}

/// States which requirement determines the number of drives.
fn why(best: &BuyRow) -> String {
    let number = |number: Option<u64>| number.map_or("-".to_string(), |number| number.to_string());
    if (best.drives_for_redundancy, best.drives) == (Some(1), Some(1)) {
        return "One drive has enough space and is fast enough.".to_string();
    }
    let redundancy = match best.survives {
        0 => String::new(),
        _ => format!(", {} with redundancy", number(best.drives_for_redundancy.map(|n| n as u64))),
    };
    let hold = if best.drives_for_bytes == Some(1) { "drive holds" } else { "drives hold" };
    let are = if best.drives_for_time == Some(1) { "is" } else { "are" };
    format!(
        "{} {hold} the data{redundancy}, {} {are} fast enough.",
        number(best.drives_for_bytes),
        number(best.drives_for_time.map(|n| n as u64)),
    )
}

/// States that the number was simulated, and what one drive fewer would achieve.
fn checked(best: &BuyRow) -> String {
    let kept = best.worst().map_or(String::new(), |worst| {
        format!(" ({} in time for {})", achieved(worst.in_time_fraction), worst.client)
    });
    let less = best.one_less.as_ref().map_or(String::new(), |less| {
        let verb = if less.drives == 1 { "does" } else { "do" };
        format!(
            "; {} {verb} not ({} for {})",
            less.drives,
            achieved(less.worst.in_time_fraction),
            less.worst.client
        )
    });
    format!("Checked by simulating {}{kept}{less}.", counted(best.simulated_requests, "request"))
}

/// The maximum number of drives to name per reason; the rest are counted.
const NAMED: usize = 8;

/// States which drives cannot keep the promises and why, one sentence per reason.
pub(super) fn refusals(rows: &[BuyRow], drives_max: usize) -> Vec<String> {
    let reasons =
        [BuyRefusal::AnyNumber, BuyRefusal::UpToMost, BuyRefusal::Bytes, BuyRefusal::MoreMight];
    let told = |reason: BuyRefusal| {
        let all: Vec<&BuyRow> = rows.iter().filter(|row| row.refusal == Some(reason)).collect();
        let mut names: Vec<(String, f64)> = Vec::new();
        for row in all {
            let share = row.worst().map_or(0.0, |worst| worst.in_time_fraction);
            match names.iter_mut().find(|(name, _)| *name == row.drive) {
                Some((_, best)) => *best = best.max(share),
                None => names.push((row.drive.clone(), share)),
            }
        }
        (!names.is_empty()).then(|| sentence(reason, names, rows, drives_max))
    };
    reasons.into_iter().filter_map(told).collect()
}

fn sentence(
    reason: BuyRefusal,
    mut names: Vec<(String, f64)>,
    rows: &[BuyRow],
    drives_max: usize,
) -> String {
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let layouts = |drive: &str| {
        let of = rows.iter().filter(|row| row.drive == drive);
        let refused = || of.clone().filter(|row| row.refusal == Some(reason));
        let all = of.clone().count() == refused().count();
        let mut names: Vec<&str> = refused().map(|row| row.layout.name()).collect();
        names.dedup();
        if all { String::new() } else { format!(" {}", names.join("/")) }
    };
    let with_share = reason != BuyRefusal::Bytes;
    let shown = |(drive, share): &(String, f64)| match with_share {
        true => format!("{drive}{} ({})", layouts(drive), quantities::percent(*share)),
        false => format!("{drive}{}", layouts(drive)),
    };
    let mut list: Vec<String> = names.iter().take(NAMED).map(shown).collect();
    if names.len() > NAMED {
        list.push(format!("{} others", names.len() - NAMED));
    }
    let list = list.join(", ");
    match reason {
        BuyRefusal::AnyNumber => format!(
            "Too slow in any number, even if no arm ever had to move (share of requests in time, worst client): {list}."
        ),
        BuyRefusal::UpToMost => format!(
            "Too slow up to {drives_max} drives, even one request at a time (share of requests in time, worst client): {list}."
        ),
        BuyRefusal::Bytes => {
            format!("Too small: the data needs more than {drives_max} of {list}.")
        }
        BuyRefusal::MoreMight => format!(
            "Too slow with {drives_max} drives, but more may be enough (share of requests in time, worst client): {list}."
        ),
    }
}
