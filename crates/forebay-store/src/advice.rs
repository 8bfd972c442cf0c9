//! Advice for a store that cannot keep up.

use crate::Status;

/// Returns a sentence of advice, or None if nothing needs to be done.
pub(crate) fn advice(status: &Status) -> Option<String> {
    let (figures, disks) = (&status.figures, status.stages.len());
    let most = (disks.saturating_sub(1) / 2).max(1);
    if figures.is_saturated {
        let need = (figures.periods.ceil() as usize).saturating_mul(2).saturating_add(1);
        return Some(format!(
            "saturated: sorting a log takes {:.1} times as long as filling one, but {disks} disks \
             allow a factor of at most {most}: use {} disks, or fewer puts",
            figures.periods,
            need.max(disks + 1)
        ));
    }
    (figures.merge_debt >= 0.5).then(|| {
        let runs = status.segment_totals.1;
        format!(
            "puts are slowed down until runs are merged ({runs} now): use more disks, or fewer puts"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, Stage};

    #[test]
    fn the_advice_names_the_bottleneck() {
        let of = |is_saturated, periods, merge_debt| {
            let figures = Figures { is_saturated, periods, merge_debt, ..Figures::default() };
            advice(&Status {
                figures,
                stages: vec![Stage::Idle; 4],
                segment_totals: (0, 130),
                ..Status::default()
            })
        };
        assert_eq!(of(false, 2.0, 0.4), None);
        assert!(
            of(true, 1.3, 0.0).unwrap().contains(
                "1.3 times as long as filling one, but 4 disks allow a factor of at most 1"
            )
        );
        assert!(of(true, 1.3, 0.9).unwrap().contains(": use 5 disks"));
        assert!(of(true, 2.1, 0.0).unwrap().contains(": use 7 disks"));
        assert!(of(false, 0.1, 0.5).unwrap().contains("runs are merged (130 now)"));
    }
}
