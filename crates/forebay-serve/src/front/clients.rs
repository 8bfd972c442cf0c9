//! Connects and disconnects clients, receives their input and sends their answers.

use forebay_core::Nanos;
use forebay_live::{Plug, SocketLanes};

use super::{Course, Front, Newcomer, device};
use crate::connection::{Connection, Next};
use crate::tally::Answered;

impl Front {
    pub(super) fn welcome<L: SocketLanes + ?Sized>(&mut self, newcomer: Newcomer, lanes: &mut L) {
        let Newcomer { socket, agreed, told } = newcomer;
        // If the client's export has been replaced by another one, the client must reconnect.
        let is_stale = match self.exports.get(agreed.export) {
            Some(export) => told.is_some_and(|told| !told.may_become(export)),
            None => true,
        };
        if self.course == Course::Closing || is_stale {
            return;
        }
        // If there are too many clients, the socket is closed.
        let Ok(plug) = lanes.plug(socket) else {
            self.tally.exports[agreed.export].figures.refused += 1;
            return;
        };
        let stream = self.streams.of(plug, agreed.export);
        let connection = Connection::new(agreed, stream, self.memory.shared(), lanes.pool());
        self.seat(plug, connection);
        self.listen(plug, lanes);
    }

    /// Registers a new client.
    pub(super) fn seat(&mut self, plug: Plug, mut connection: Connection) {
        self.label(&mut connection);
        let (at, stream) = (plug as usize, connection.stream);
        self.tally.came(connection.agreed.export);
        self.connections.resize_with(self.connections.len().max(at + 1), || None);
        self.connections[at] = Some(connection);
        if let (Some(policy), Some(_)) = (&self.policy, self.streams.connection(stream)) {
            policy.borrow_mut().begin_stream(stream);
        }
    }

    /// Processes received bytes, or the end of a client's stream.
    pub(super) fn received<L: SocketLanes + ?Sized>(
        &mut self,
        plug: Plug,
        count: Result<u32, i32>,
        lanes: &mut L,
    ) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.receiving = false;
        match count {
            // Requests that arrive after the last flush are ignored, because nothing would make
            // them durable.
            Ok(count) if count > 0 && !connection.leaving && !self.flushing => {
                if connection.received(count)
                    && let Some(payload) = connection.payload.take()
                {
                    let export = connection.agreed.export;
                    self.arrives(payload.asked, export);
                    // If the current policy received data after its last flush, the next policy
                    // might not find that data.
                    match self.course {
                        Course::Held => self.held.push(payload.asked),
                        _ => self.begin(payload.asked),
                    }
                }
                self.read_on(plug, lanes);
            }
            // The client disconnected without notice, possibly in the middle of a write.
            _ => self.leave(plug, lanes),
        }
    }

    /// Processes all complete requests and resumes receiving.
    pub(super) fn read_on<L: SocketLanes + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        while self.course == Course::Open {
            let Some(connection) = &mut self.connections[plug as usize] else { return };
            if connection.leaving || connection.payload.is_some() || !connection.admits() {
                break;
            }
            match connection.next(lanes.pool()) {
                Next::Starved => break,
                Next::Foreign => return self.leave(plug, lanes),
                Next::Request(header) if self.take_in(plug, header, lanes) => {}
                Next::Request(_) => break,
            }
        }
        self.listen(plug, lanes);
    }

    fn listen<L: SocketLanes + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        let wants =
            connection.payload.is_some() || connection.admits() && connection.starving.is_none();
        let wants = wants && connection.device.is_none();
        if self.course == Course::Open && !connection.leaving && !connection.receiving && wants {
            let (room, whole) = connection.room(lanes.pool());
            connection.receiving = true;
            lanes.receive(plug, &[room], whole);
        }
    }

    /// Sends the pending answers.
    pub(crate) fn send<L: SocketLanes + ?Sized>(&mut self, lanes: &mut L) {
        for plug in 0..self.connections.len() as Plug {
            let Some(connection) = &mut self.connections[plug as usize] else { continue };
            if connection.device.is_some() {
                device::answer(plug, connection, lanes);
            } else if connection.deaf {
                connection.forget(lanes.pool());
            } else if connection.has_to_send() {
                let pieces = connection.compose(lanes.pool());
                lanes.send(plug, pieces);
            }
            // Sending answers frees memory for more requests.
            let listens = connection.receiving || connection.leaving;
            if !listens && connection.payload.is_none() {
                self.read_on(plug, lanes);
            }
            self.let_go(plug, lanes);
        }
    }

    pub(super) fn sent<L: SocketLanes + ?Sized>(
        &mut self,
        plug: Plug,
        count: Result<u32, i32>,
        lanes: &mut L,
    ) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        if !connection.was_sent(count.ok(), lanes.pool()) {
            return self.leave(plug, lanes);
        }
        self.let_go(plug, lanes);
    }

    /// Stops communicating with a client.
    pub(super) fn leave<L: SocketLanes + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.leaving = true;
        connection.deaf = true;
        connection.stop_starving();
        // The receive buffer is in use until the receive operation ends, which calls this function
        // again.
        if !connection.receiving
            && let Some(payload) = connection.payload.take()
        {
            connection.under_way -= 1;
            let asked = self.asked.remove(payload.asked);
            let how = Answered { took: Nanos::ZERO, failed: true, kept_after: None };
            self.tally.answered(connection.agreed.export, self.now, &asked.header, how);
            connection.free(asked.buf, payload.len, lanes.pool());
        }
        connection.forget(lanes.pool());
        self.let_go(plug, lanes);
    }

    /// Unplugs a leaving client once it has no pending answers.
    pub(super) fn let_go<L: SocketLanes + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        if connection.leaving && connection.is_done() && !connection.unplugged {
            connection.unplugged = true;
            lanes.unplug(plug);
        }
    }
}
