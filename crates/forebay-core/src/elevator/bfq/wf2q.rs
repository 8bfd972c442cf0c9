//! B-WF2Q+: who is served next, so that every queue gets its weight's share of the bytes.
//!
//! Source: Checconi and Valente, "High throughput disk scheduling with fair bandwidth distribution"
//! (IEEE Transactions on Computers, 2010). A queue enters with a budget; its virtual start is the
//! later of the virtual time and its last virtual finish, its virtual finish a budget over its
//! weight later. Of the queues whose start has come the one with the least finish goes next. It may
//! use less than its budget: its finish is then corrected to what it used. The virtual time advances
//! by the service given over the weights of all who have requests, and at least to the least start.
//!
//! Invariants: `weight_sum` is that of the waiting queues and the one in service; only idle queues
//! may be entered.
//!
//! Departure: queues are found by a scan, not in an augmented tree. Those that wait are at most as
//! many as there are tags, and one is chosen in a slice, not for each request.

/// Fractional bits of virtual times, which count bytes over weight.
const FRACTION: u32 = 24;

#[inline]
fn virtual_span(bytes: u64, weight: u32) -> u128 {
    (u128::from(bytes) << FRACTION) / u128::from(weight.max(1))
}

/// What a queue is to the fair scheduler.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    weight: u32,
    start: u128,
    finish: u128,
    served_bytes: u64,
    is_idle: bool,
}

/// The fair scheduler of queues 0, 1, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Wf2q {
    entities: Vec<Entity>,
    waiting: Vec<u32>,
    serving: Option<u32>,
    virtual_time: u128,
    weight_sum: u64,
}

impl Wf2q {
    /// Knows `count` queues from now on, new ones idle.
    pub(super) fn resize(&mut self, count: usize) {
        let idle = Entity { is_idle: true, ..Entity::default() };
        self.entities.resize(count, idle);
    }

    #[inline]
    pub(super) fn is_idle(&self, place: u32) -> bool {
        self.entities[place as usize].is_idle
    }

    /// Queues that are not idle.
    #[inline]
    pub(super) fn busy(&self) -> usize {
        self.waiting.len() + usize::from(self.serving.is_some())
    }

    /// Whether all busy queues have the weight of `place`, which is busy.
    #[inline]
    pub(super) fn is_symmetric(&self, place: u32) -> bool {
        let weight = u64::from(self.entities[place as usize].weight);
        self.weight_sum == weight * self.busy() as u64
    }

    /// An idle queue has requests.
    pub(super) fn enter(&mut self, place: u32, weight: u32, budget_bytes: u64) {
        let entity = &mut self.entities[place as usize];
        debug_assert!(entity.is_idle, "entering what is there");
        entity.is_idle = false;
        entity.weight = weight;
        entity.start = self.virtual_time.max(entity.finish);
        entity.finish = entity.start + virtual_span(budget_bytes, weight);
        self.weight_sum += u64::from(weight);
        self.waiting.push(place);
    }

    /// Takes the next queue into service; nobody is.
    pub(super) fn serve_next(&mut self) -> Option<u32> {
        let entities = &self.entities;
        let of = |place: &u32| &entities[*place as usize];
        let least = self.waiting.iter().map(|place| of(place).start).min()?;
        self.virtual_time = self.virtual_time.max(least);
        let eligible = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, place)| of(place).start <= self.virtual_time);
        let (at, _) = eligible.min_by_key(|(_, place)| (of(place).finish, **place))?;
        let place = self.waiting.swap_remove(at);
        self.entities[place as usize].served_bytes = 0;
        self.serving = Some(place);
        Some(place)
    }

    /// The queue in service was given `bytes`.
    #[inline]
    pub(super) fn serve(&mut self, bytes: u64) {
        let Some(place) = self.serving else { return };
        self.entities[place as usize].served_bytes += bytes;
        let sum = u32::try_from(self.weight_sum).unwrap_or(u32::MAX);
        self.virtual_time += virtual_span(bytes, sum);
    }

    /// Ends the service of a queue, which goes on waiting with a weight and a budget if it has
    /// requests.
    pub(super) fn end_service(&mut self, waits: Option<(u32, u64)>) {
        let Some(place) = self.serving.take() else { return };
        let entity = &mut self.entities[place as usize];
        self.weight_sum -= u64::from(entity.weight);
        entity.finish = entity.start + virtual_span(entity.served_bytes, entity.weight);
        let Some((weight, budget_bytes)) = waits else {
            entity.is_idle = true;
            return;
        };
        entity.start = entity.finish;
        entity.weight = weight;
        entity.finish = entity.start + virtual_span(budget_bytes, weight);
        self.weight_sum += u64::from(weight);
        self.waiting.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET_MAX: u64 = 10_000;

    proptest! {
        /// Service over weight of two queues that always have requests never differs by more than
        /// the largest budget over either weight, whatever share of its budgets a queue uses and
        /// whoever else comes and goes.
        #[test]
        fn backlogged_queues_get_their_shares_within_a_budget(
            weights in (1u32..1000, 1u32..1000, 1u32..1000),
            turns in prop::collection::vec((1..=BUDGET_MAX, 0.0f64..=1.0, any::<bool>()), 1..300),
        ) {
            let weights = [weights.0, weights.1, weights.2];
            let mut fair = Wf2q::default();
            fair.resize(3);
            fair.enter(0, weights[0], BUDGET_MAX);
            fair.enter(1, weights[1], BUDGET_MAX);
            let mut served = [0u64; 3];
            for (budget, used, third_enters) in turns {
                if third_enters && fair.is_idle(2) {
                    fair.enter(2, weights[2], budget);
                }
                let place = fair.serve_next().expect("two always wait");
                let bytes = ((BUDGET_MAX as f64 * used) as u64).max(1);
                fair.serve(bytes);
                served[place as usize] += bytes;
                fair.end_service((place != 2).then_some((weights[place as usize], BUDGET_MAX)));
                let [a, b] = [0, 1].map(|i| served[i] as f64 / f64::from(weights[i]));
                let bound: f64 =
                    weights[..2].iter().map(|&w| BUDGET_MAX as f64 / f64::from(w)).sum();
                prop_assert!((a - b).abs() <= bound * 1.000_001, "{a} {b}, at most {bound} apart");
            }
        }
    }

    #[test]
    fn a_queue_that_was_idle_gets_no_credit() {
        let mut fair = Wf2q::default();
        fair.resize(2);
        fair.enter(0, 100, BUDGET_MAX);
        for _ in 0..100 {
            assert_eq!(fair.serve_next(), Some(0));
            fair.serve(BUDGET_MAX);
            fair.end_service(Some((100, BUDGET_MAX)));
        }
        fair.enter(1, 100, BUDGET_MAX);
        let mut turns = [0; 2];
        for _ in 0..20 {
            let place = fair.serve_next().expect("both wait");
            fair.serve(BUDGET_MAX);
            fair.end_service(Some((100, BUDGET_MAX)));
            turns[place as usize] += 1;
        }
        assert_eq!(turns, [10, 10]);
    }
}
