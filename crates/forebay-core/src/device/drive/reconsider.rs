//! Choices of commands that the host's response may still change.
//!
//! If the drive waits for the host's response to a completion before it chooses, a command that the
//! host sends in response is among the candidates. The model does not know whether one will arrive.
//! It therefore chooses at once, with an arm that does not move before the response is due, and
//! revokes the choice if a command arrives at the same instant.

use super::{Buffer, Command, Drive, Flags, Motion, Pick, Turns};

/// The state of the drive before a choice.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    at: u64,
    command: Command,
    turns: Turns,
    motion: Motion,
    buffer: Option<Buffer>,
    bus_free_at: u64,
}

impl Drive {
    pub(super) fn waits_for_the_host(&self) -> bool {
        self.controller.queue.ahead < 0
    }

    /// Saves the state that `pick` will change. The choice of a command that empties the cache
    /// first cannot be revoked.
    pub(super) fn remember(&mut self, now: u64, pick: Pick) {
        let command = self.waiting[pick.index];
        let moves_one = command.io.op.moves_data() && !command.io.flags.has(Flags::PREFLUSH);
        self.choice = (self.waits_for_the_host() && moves_one).then(|| Choice {
            at: now,
            command,
            turns: self.turns,
            motion: self.mechanism.motion,
            buffer: self.buffer.clone(),
            bus_free_at: self.bus_free_at,
        });
    }

    /// Revokes a choice that was made at the same instant.
    pub(super) fn take_back(&mut self, now: u64) {
        let Some(choice) = self.choice.take().filter(|choice| choice.at == now) else { return };
        self.served.retain(|served| !served.at_media);
        self.insert(choice.command);
        self.waiting.iter().for_each(|command| self.hopes.insert(command.spot.key));
        self.turns = choice.turns;
        self.mechanism.motion = choice.motion;
        self.buffer = choice.buffer;
        self.bus_free_at = choice.bus_free_at;
    }
}
