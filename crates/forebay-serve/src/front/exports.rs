//! The exports of a running server, and the names of its streams in traces.

use std::sync::Arc;

use forebay_core::{BACKGROUND, Request};
use forebay_live::{Plug, SocketLanes};

use super::Front;
use crate::connection::Connection;
use crate::{Export, Named};

/// Returns the names of exports, as streams of a trace.
pub(super) fn names_of(exports: &[Export]) -> Vec<Arc<str>> {
    exports.iter().map(|export| Arc::from(&*export.name)).collect()
}

impl Front {
    /// Changes the exports. Clients stay if their export is the same and has not shrunk; others,
    /// which have connected since the change was decided, are disconnected.
    pub(crate) fn change_exports<L: SocketLanes + ?Sized>(
        &mut self,
        named: &[Named],
        exports: Vec<Export>,
        lanes: &mut L,
    ) {
        let before = std::mem::replace(&mut self.exports, exports);
        self.names = names_of(&self.exports);
        self.tally.promise(named);
        for plug in 0..self.connections.len() {
            let Some(connection) = &self.connections[plug] else { continue };
            let at = connection.agreed.export;
            let stays = match (before.get(at), self.exports.get(at)) {
                (Some(before), Some(now)) => before.may_become(now),
                _ => false,
            };
            if !stays {
                self.leave(plug as Plug, lanes);
            }
        }
    }

    /// Names a new connection after its export, with the lowest free number.
    pub(super) fn label(&self, connection: &mut Connection) {
        let at = connection.agreed.export;
        let others = || self.connections.iter().flatten().filter(|one| one.agreed.export == at);
        let is_free = |number: &u32| others().all(|one| one.number != *number);
        let number = (0..).find(is_free).expect("there are more numbers than connections");
        let name = &self.exports[at].name;
        connection.number = number;
        connection.name = Arc::from(match name.is_empty() {
            true => number.to_string(),
            false => format!("{name}#{}", number + 1),
        });
    }

    /// Returns the export whose client requested an I/O; None if no client did.
    pub(super) fn export_of(&self, io: &Request) -> Option<usize> {
        if io.stream == BACKGROUND || io.stream == self.own_stream() {
            return None;
        }
        self.streams.export(io.stream).or_else(|| {
            let connection = self.connections.get(io.stream as usize)?;
            connection.as_ref().map(|one| one.agreed.export)
        })
    }

    /// Returns the name in traces of the client that requested an I/O, or of its export if the
    /// layers below a promise treat exports as streams; None if no client requested the I/O.
    pub(super) fn owner_of(&self, io: &Request) -> Option<Arc<str>> {
        let export = self.export_of(io)?;
        match self.streams.export(io.stream) {
            Some(_) => self.names.get(export).cloned(),
            None => self.name_of(io.stream),
        }
    }

    /// Returns the name of a stream in traces; None for the server's own requests.
    pub(crate) fn name_of(&self, stream: u32) -> Option<Arc<str>> {
        if stream == self.own_stream() {
            return None;
        }
        match self.streams.connection(stream) {
            None => self.names.get(stream as usize).cloned(),
            Some(at) => Some(Arc::clone(&self.connections.get(at)?.as_ref()?.name)),
        }
    }
}
