//! The lanes of a back: real targets or models, driven by io_uring or, if it is unavailable, by
//! threads.

use std::io;

use forebay_core::DeviceModel;
use forebay_live::{Driver, Emulated, SocketClock, Store, Target, Threads, Uring};

use crate::back::CLIENTS_MAX;
use crate::error::{Error, system, unfit};

/// Lanes that are not connected to a driver yet.
pub(crate) enum Closed {
    /// The lanes have been moved to a driver.
    Gone,
    Real {
        targets: Vec<Target>,
        depth: u32,
    },
    /// Models, and the files that contain their data.
    Models {
        models: Vec<DeviceModel>,
        stores: Vec<Target>,
    },
}

/// Lanes that are connected to a driver.
pub(crate) enum Lanes {
    Uring(Box<Uring>),
    Threads(Box<Threads>),
    Emulated(Box<Emulated<DeviceModel, SocketClock>>),
}

impl Closed {
    /// Opens the lanes on the thread that will drive them, with the requested driver or the best
    /// available one, and starts the lanes' clock.
    pub(crate) fn open(
        self,
        driver: Option<Driver>,
        notes: &mut Vec<String>,
    ) -> Result<Lanes, Error> {
        match self {
            Closed::Gone => Err(unfit("its lanes are driven already")),
            Closed::Real { targets, depth } => real(targets, depth, driver, notes),
            Closed::Models { models, stores } => {
                let stores = stores.into_iter().map(|store| Box::new(store) as Box<dyn Store>);
                let models = Emulated::new(models, clock(driver, notes)?).storing(stores.collect());
                Ok(Lanes::Emulated(Box::new(models)))
            }
        }
    }
}

fn real(
    targets: Vec<Target>,
    depth: u32,
    driver: Option<Driver>,
    notes: &mut Vec<String>,
) -> Result<Lanes, Error> {
    let threads = |targets| {
        let threads = Threads::with_sockets(targets, depth, CLIENTS_MAX);
        Ok(Lanes::Threads(Box::new(threads.map_err(system("starting threads"))?)))
    };
    if driver == Some(Driver::Threads) {
        return threads(targets);
    }
    match Uring::with_sockets(targets, depth, CLIENTS_MAX) {
        Ok(uring) => Ok(Lanes::Uring(Box::new(uring))),
        Err((error, targets)) => {
            without_ring(driver, &error, notes)?;
            threads(targets)
        }
    }
}

fn clock(driver: Option<Driver>, notes: &mut Vec<String>) -> Result<SocketClock, Error> {
    let polled = || SocketClock::polled(CLIENTS_MAX).map_err(system("waiting for clients"));
    if driver == Some(Driver::Threads) {
        return polled();
    }
    SocketClock::in_ring(CLIENTS_MAX).or_else(|error| {
        without_ring(driver, &error, notes)?;
        polled()
    })
}

/// Adds a note that io_uring is unavailable. Fails if the user requested io_uring.
fn without_ring(
    driver: Option<Driver>,
    error: &io::Error,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let why = format!(
        "io_uring is not available ({error}): it needs Linux 5.11 or later, and a container that allows io_uring_setup"
    );
    if driver == Some(Driver::Uring) {
        return Err(unfit(why));
    }
    notes.push(format!("{why}; using threads instead, which is slower"));
    Ok(())
}
