//! The answer in words, and which plan it recommends.

use super::super::amount::percent;
use super::{Power, Question, Row};
use crate::quantities::{self, bound, watts};

/// The plan that would have to know the future.
const FORESEES: &str = "oracle";

impl Row {
    /// What it takes less than all on, as a share; negative where it takes more.
    pub fn saved(&self) -> f64 {
        1.0 - 1.0 / self.saving_ratio
    }
}

impl Power {
    /// The plan that draws least of those that keep the promise in every epoch and need no foresight; the first of
    /// several. None where none keeps it.
    pub fn recommended(&self) -> Option<&Row> {
        let keeps = self.rows.iter().filter(|row| row.broken_epochs == 0 && row.plan != FORESEES);
        keeps.min_by(|a, b| a.energy_j.total_cmp(&b.energy_j))
    }

    /// What to do, in a sentence.
    pub fn answer(&self, question: &Question) -> String {
        let promise =
            format!("{} within {}", percent(question.fraction.as_f64()), within(question));
        let Some(best) = self.recommended() else {
            return format!(
                "No plan keeps {promise} in each of the {} epochs: allow more time, or promise less.",
                self.epochs
            );
        };
        match best.plan {
            "all-on" => {
                let all = match best.max_pools {
                    1 => "the one pool".to_string(),
                    count => format!("all {}", pools(count)),
                };
                let needs_less =
                    |row: &&Row| row.broken_epochs == 0 && row.energy_j < best.energy_j;
                let unless = match self.rows.iter().any(|row| needs_less(&row)) {
                    true => "; oracle would, which has to know what comes",
                    false => "",
                };
                format!(
                    "Leave {all} on: no other plan keeps {promise} in every epoch with less{unless}."
                )
            }
            plan => format!(
                "{} ({plan}): {} on average, {} than all on, and {promise} in every epoch.",
                match plan {
                    "static" => format!("Keep {} on", pools(best.max_pools)),
                    _ => "Switch pools by what past epochs needed".to_string(),
                },
                watts(best.mean_power_w),
                match best.saved() {
                    saved if saved < 0.0 => format!("{} more", quantities::percent(-saved)),
                    saved => format!("{} less", quantities::percent(saved)),
                }
            ),
        }
    }

    /// What it takes to keep the pools on that the whole trace needs, what the other plans save, and what the words of
    /// the tables mean; a sentence or two each.
    pub fn told(&self, question: &Question) -> [String; 3] {
        [self.always(question), self.switched(question), words(question)]
    }

    fn always(&self, question: &Question) -> String {
        let (Power { pool_disks, disk_iops, device, .. }, all) = (self, &self.rows[0]);
        format!(
            "{} of {pool_disks} {device} (each disk {disk_iops} IOPS, each pool {}) {} {} within {}, at {} on \
             average (all-on).",
            pools(all.max_pools),
            pool_disks * disk_iops,
            if all.max_pools == 1 { "keeps" } else { "keep" },
            percent(question.baseline.as_f64()),
            within(question),
            watts(all.mean_power_w),
        )
    }

    fn switched(&self, question: &Question) -> String {
        let (all, others) = (&self.rows[0], &self.rows[1..]);
        let epochs = self.epochs;
        let is_same = |row: &Row| {
            row.energy_j == all.energy_j
                && row.mean_pools == all.mean_pools
                && row.disk_spin_ups == 0
        };
        if others.iter().all(is_same) {
            return format!(
                "Switching saves nothing here: in each of the {epochs} epochs every plan keeps the same {} on.",
                pools(all.max_pools)
            );
        }
        let each = others.iter().map(|row| {
            let broken = match row.broken_epochs {
                0 => "and keeps it in every epoch".to_string(),
                broken => format!("but breaks it in {broken} of {epochs} epochs"),
            };
            let saves = match row.saved() {
                saved if saved < 0.0 => format!("takes {} more", quantities::percent(-saved)),
                saved => format!("saves {}", quantities::percent(saved)),
            };
            format!("{} {saves}, drawing {}, {broken}", row.plan, watts(row.mean_power_w))
        });
        let each: Vec<String> = each.collect();
        format!(
            "For {} within {}: {}.",
            percent(question.fraction.as_f64()),
            within(question),
            each.join("; ")
        )
    }
}

fn words(question: &Question) -> String {
    let (fraction, baseline) = (question.fraction.as_f64(), question.baseline.as_f64());
    format!(
        "all-on and static keep on the pools that the whole trace needs for {} and for {}; predicted those that \
         past epochs needed, oracle those that the coming epoch will need. Late: requests not answered \
         within {}. Broken: epochs in which fewer than {} were answered in time.",
        percent(baseline),
        percent(fraction),
        within(question),
        percent(fraction),
    )
}

/// So many pools.
fn pools(count: usize) -> String {
    format!("{count} {}", if count == 1 { "pool" } else { "pools" })
}

fn within(question: &Question) -> String {
    bound(question.within.as_millis_f64())
}
