//! B-WF2Q+: chooses the next queue so that each gets a share of the bytes according to its weight.
//!
//! Source: Checconi and Valente, "High throughput disk scheduling with fair bandwidth distribution"
//! (IEEE Transactions on Computers, 2010). A queue enters with a budget. Its virtual start is the
//! later of the virtual time and its last virtual finish; its virtual finish is its start plus its
//! budget divided by its weight. Among the queues whose start is not in the future, the one with
//! the earliest finish is next. If it uses less than its budget, its finish is corrected
//! accordingly. The virtual time advances by the service given divided by the total weight, and at
//! least to the earliest start. A queue without requests counts in the total weight until the
//! virtual time reaches its finish.
//!
//! A queue that returns soon after it became empty starts where it ended ([`Wf2q::enter`]), as if
//! it had never left.
//!
//! Invariants: `weight_sum` is the total weight of queues that wait, are in service, or rest; only
//! idle queues may be entered.
//!
//! Departures: queues are found by a linear scan rather than in an augmented tree, because there
//! are at most as many waiting queues as tags, and a queue is chosen once per turn rather than once
//! per request. The next queue is determined only when it is needed.

/// The number of fractional bits of virtual times, whose unit is bytes divided by weight.
const FRACTION: u32 = 24;

#[inline]
fn virtual_span(bytes: u64, weight: u32) -> u128 {
    (u128::from(bytes) << FRACTION) / u128::from(weight.max(1))
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// The queue has no requests, and its past service no longer counts.
    #[default]
    Forgotten,
    /// The queue has no requests, but its virtual finish is later than the virtual time.
    Resting,
    Waiting,
    Serving,
}

/// The state of a queue in the fair scheduler.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    weight: u32,
    start: u128,
    finish: u128,
    /// The number of bytes that the queue may dispatch in a turn, and the number dispatched so far.
    budget: u64,
    served: u64,
    place: Place,
}

impl Entity {
    fn finish_at(&mut self, bytes: u64) {
        self.finish = self.start + virtual_span(bytes, self.weight);
    }
}

/// The fair scheduler of queues 0, 1, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Wf2q {
    entities: Vec<Entity>,
    /// The waiting queues in the order in which they were entered.
    waiting: Vec<u32>,
    resting: Vec<u32>,
    serving: Option<u32>,
    virtual_time: u128,
    weight_sum: u64,
}

impl Wf2q {
    /// Sets the number of queues; new ones are idle.
    pub(super) fn resize(&mut self, count: usize) {
        self.entities.resize(count, Entity::default());
    }

    #[inline]
    fn entity(&mut self, queue: u32) -> &mut Entity {
        &mut self.entities[queue as usize]
    }

    /// Returns whether a queue is neither waiting nor in service.
    #[inline]
    pub(super) fn is_idle(&self, queue: u32) -> bool {
        matches!(self.entities[queue as usize].place, Place::Forgotten | Place::Resting)
    }

    /// Returns the number of queues that are not idle.
    #[inline]
    pub(super) fn busy(&self) -> usize {
        self.waiting.len() + usize::from(self.serving.is_some())
    }

    /// Returns the busy queues: first the one in service, then the others from the latest entered
    /// to the earliest.
    #[inline]
    pub(super) fn each_busy(&self) -> impl Iterator<Item = u32> + '_ {
        self.serving.into_iter().chain(self.waiting.iter().rev().copied())
    }

    /// Returns the weight of a queue and the total weight; `None` if the queue is forgotten.
    #[inline]
    pub(super) fn share(&self, queue: u32) -> Option<(u32, u64)> {
        let Entity { weight, place, .. } = self.entities[queue as usize];
        (place != Place::Forgotten).then_some((weight, self.weight_sum))
    }

    #[inline]
    pub(super) fn budget(&self, queue: u32) -> u64 {
        self.entities[queue as usize].budget
    }

    /// Returns how many bytes of its budget a queue has used.
    #[inline]
    pub(super) fn served(&self, queue: u32) -> u64 {
        self.entities[queue as usize].served
    }

    /// Returns how many bytes of its budget a queue has left.
    #[inline]
    pub(super) fn left(&self, queue: u32) -> u64 {
        let Entity { budget, served, .. } = self.entities[queue as usize];
        budget.saturating_sub(served)
    }

    /// Adds an idle queue that has requests again. If `back` is given, the queue returns soon and
    /// starts where its last turn ended, delayed by at most its lag divided by the raising factor
    /// in `back`.
    pub(super) fn enter(&mut self, queue: u32, weight: u32, budget: u64, back: Option<u32>) {
        debug_assert!(self.is_idle(queue), "the entry exists already");
        let now = self.virtual_time;
        let entity = &mut self.entities[queue as usize];
        let back = back.filter(|_| now > entity.finish);
        let earliest = if back.is_some() { entity.finish } else { now };
        if entity.place == Place::Resting {
            entity.start = earliest.max(entity.finish);
            self.weight_sum -= u64::from(entity.weight);
            self.resting.retain(|&other| other != queue);
        } else {
            entity.start = earliest;
        }
        self.weight_sum += u64::from(weight);
        (entity.weight, entity.budget, entity.served) = (weight, budget, 0);
        entity.place = Place::Waiting;
        entity.finish_at(budget);
        if let Some(raised) = back
            && now > entity.finish
        {
            let lag = (now - entity.finish) / u128::from(raised.max(1));
            (entity.start, entity.finish) = (entity.start + lag, entity.finish + lag);
        }
        self.waiting.push(queue);
    }

    /// Changes the weight and budget of a waiting queue.
    pub(super) fn change(&mut self, queue: u32, weight: u32, budget: u64) {
        let entity = &mut self.entities[queue as usize];
        self.weight_sum += u64::from(weight);
        self.weight_sum -= u64::from(entity.weight);
        (entity.weight, entity.budget) = (weight, budget);
        entity.finish_at(budget);
        self.waiting.retain(|&other| other != queue);
        self.waiting.push(queue);
    }

    /// Changes the weight of the queue in service.
    pub(super) fn weigh(&mut self, queue: u32, weight: u32) {
        let entity = &mut self.entities[queue as usize];
        self.weight_sum += u64::from(weight);
        self.weight_sum -= u64::from(entity.weight);
        entity.weight = weight;
    }

    /// Starts the service of the next queue. No queue may be in service.
    pub(super) fn serve_next(&mut self) -> Option<u32> {
        let entities = &self.entities;
        let of = |queue: &u32| &entities[*queue as usize];
        let least = self.waiting.iter().map(|queue| of(queue).start).min()?;
        self.virtual_time = self.virtual_time.max(least);
        let now = self.virtual_time;
        let eligible = self.waiting.iter().enumerate().filter(|(_, queue)| of(queue).start <= now);
        let (at, _) = eligible.min_by_key(|(_, queue)| of(queue).finish)?;
        let queue = self.waiting.remove(at);
        self.entity(queue).place = Place::Serving;
        self.serving = Some(queue);
        Some(queue)
    }

    /// Records that `bytes` of a busy queue were dispatched.
    #[inline]
    pub(super) fn serve(&mut self, queue: u32, bytes: u64) {
        self.entity(queue).served += bytes;
        let sum = u32::try_from(self.weight_sum).unwrap_or(u32::MAX);
        self.virtual_time += virtual_span(bytes, sum);
        self.forget();
    }

    /// Charges the queue in service `bytes` in total, even if that exceeds its budget.
    pub(super) fn charge(&mut self, queue: u32, bytes: u64) {
        let entity = self.entity(queue);
        entity.budget = entity.budget.max(bytes);
        let more = bytes.saturating_sub(entity.served);
        self.serve(queue, more);
    }

    /// Ends the service of the current queue. If it still has requests, it waits again with the
    /// given weight and budget.
    pub(super) fn end_service(&mut self, waits: Option<(u32, u64)>) {
        let Some(queue) = self.serving.take() else { return };
        let Some((weight, budget)) = waits else { return self.rest(queue) };
        let entity = &mut self.entities[queue as usize];
        entity.finish_at(entity.served);
        entity.start = entity.finish;
        self.weight_sum += u64::from(weight);
        self.weight_sum -= u64::from(entity.weight);
        (entity.weight, entity.budget, entity.served) = (weight, budget, 0);
        entity.place = Place::Waiting;
        entity.finish_at(budget);
        self.waiting.push(queue);
    }

    /// Removes a waiting queue that has lost its requests.
    pub(super) fn leave(&mut self, queue: u32) {
        self.waiting.retain(|&other| other != queue);
        self.rest(queue);
        let entity = self.entity(queue);
        (entity.budget, entity.served) = (0, 0);
    }

    /// Forgets the service that a queue without requests has received, unless it is in service.
    pub(super) fn renew(&mut self, queue: u32) {
        if self.serving == Some(queue) {
            return;
        }
        if !self.is_idle(queue) {
            self.leave(queue);
        }
        let entity = std::mem::take(self.entity(queue));
        if entity.place == Place::Resting {
            self.weight_sum -= u64::from(entity.weight);
            self.resting.retain(|&other| other != queue);
        }
    }

    /// Makes a queue without requests rest. It is forgotten once the virtual time reaches its
    /// virtual finish.
    fn rest(&mut self, queue: u32) {
        let entity = &mut self.entities[queue as usize];
        entity.finish_at(entity.served);
        entity.place = Place::Resting;
        self.resting.push(queue);
        self.forget();
    }

    #[inline]
    fn forget(&mut self) {
        let Wf2q { entities, resting, virtual_time, weight_sum, .. } = self;
        resting.retain(|&queue| {
            let entity = &mut entities[queue as usize];
            let stays = entity.finish > *virtual_time;
            if !stays {
                entity.place = Place::Forgotten;
                *weight_sum -= u64::from(entity.weight);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET_MAX: u64 = 10_000;

    proptest! {
        /// Compares two queues that always have requests. Their service divided by weight never
        /// differs by more than the largest budget divided by either weight, regardless of how much
        /// of their budgets they use and of what other queues do.
        #[test]
        fn backlogged_queues_get_their_shares_within_a_budget(
            weights in (1u32..1000, 1u32..1000, 1u32..1000),
            turns in prop::collection::vec((1..=BUDGET_MAX, 0.0f64..=1.0, any::<bool>()), 1..300),
        ) {
            let weights = [weights.0, weights.1, weights.2];
            let mut fair = Wf2q::default();
            fair.resize(3);
            fair.enter(0, weights[0], BUDGET_MAX, None);
            fair.enter(1, weights[1], BUDGET_MAX, None);
            let mut served = [0u64; 3];
            for (budget, used, third_enters) in turns {
                if third_enters && fair.is_idle(2) {
                    fair.enter(2, weights[2], budget, None);
                }
                let place = fair.serve_next().expect("two always wait");
                let bytes = ((BUDGET_MAX as f64 * used) as u64).max(1);
                fair.serve(place, bytes);
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
        fair.enter(0, 100, BUDGET_MAX, None);
        for _ in 0..100 {
            assert_eq!(fair.serve_next(), Some(0));
            fair.serve(0, BUDGET_MAX);
            fair.end_service(Some((100, BUDGET_MAX)));
        }
        fair.enter(1, 100, BUDGET_MAX, None);
        let mut turns = [0; 2];
        for _ in 0..20 {
            let place = fair.serve_next().expect("both wait");
            fair.serve(place, BUDGET_MAX);
            fair.end_service(Some((100, BUDGET_MAX)));
            turns[place as usize] += 1;
        }
        assert_eq!(turns, [10, 10]);
    }
}
