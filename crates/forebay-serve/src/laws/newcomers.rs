//! Tests a client that connects while its export moves: the client is served from the new offset,
//! although the driver receives the move and the client in the same pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use forebay_core::catalog::build;
use forebay_rig::{Crash, Medium, Troubles};

use super::client::{Client, SECTOR};
use super::{Arriving, export, serve_as};
use crate::Named;
use crate::front::Order;

const SECTORS: u64 = 256;

/// Returns the number of answers to a client whose handshake described the export at `told`, while
/// the driver receives both the client and the order to move the export from `before` to 0.
fn answers(before: u64, told: u64) -> u64 {
    let bytes = SECTORS * SECTOR;
    let crash = Crash::new(vec![Medium::new(7)], 512, 2, 7, Troubles::default());
    let (order, orders) = channel();
    order.send(Order::Exports(vec![Named::all("")], vec![export(0, bytes)])).unwrap();
    let arriving = Arriving::told(export(before, bytes), Some(export(told, bytes)), orders);
    let stop = Arc::new(AtomicBool::new(false));
    let (over, mut passes) = (Arc::clone(&stop), 0);
    let meddle = move |_: &mut Crash, client: &mut Client| {
        passes += 1;
        over.store(client.answered >= 50 || passes > 10_000, Ordering::Relaxed);
    };
    let mut policy = build("noop", 1 << 20).unwrap();
    let client = Client::new(7, SECTORS);
    let served = serve_as(&mut policy, None, crash, client, stop, Box::new(meddle), arriving);
    served.outcome.unwrap();
    served.client.answered
}

#[test]
fn a_client_of_an_export_that_has_just_moved_is_served() {
    assert!(answers(4096, 0) >= 50);
}

#[test]
fn a_client_that_was_told_of_the_former_place_connects_again() {
    assert_eq!(answers(4096, 4096), 0);
}
