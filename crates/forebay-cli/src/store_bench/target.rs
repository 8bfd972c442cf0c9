//! What is put under load: a store's own disks, or anything that answers a client of Redis.

use forebay_store::{Key, Store, Trouble, Value};

use super::client::Client;
use super::value::SPACE;

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was refused, and the next may do better.
    Refused(String),
    /// Nothing can be asked any more.
    Gone(String),
    /// The run is over and nobody waits for the answer.
    Over,
}

/// Keys and values, as a scan finds them.
pub(super) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// One client's way to it.
pub(super) enum Target {
    Server(Box<Client>),
    Disks(Store),
}

impl Target {
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self {
            Target::Server(client) => client.put(key, value),
            Target::Disks(store) => store.put(key, value).map_err(of_store),
        }
    }

    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Target::Server(client) => client.get(key),
            Target::Disks(store) => {
                let value = store.get(key).map_err(of_store)?;
                Ok(value.map(|value| value.to_vec()))
            }
        }
    }

    pub(super) fn scan(&mut self, from: &[u8], count: usize) -> Result<Records, Failure> {
        match self {
            // The options do not let it come to this.
            Target::Server(_) => Err(Failure::Refused("no command scans from a key on".into())),
            Target::Disks(store) => {
                let records = store.scan(from, count).map_err(of_store)?;
                // Behind the benchmark's keys there may be others.
                let own = |(key, _): &(Key, Value)| key.starts_with(SPACE.as_bytes());
                let own = records.into_iter().take_while(own);
                Ok(own.map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
            }
        }
    }
}

fn of_store(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Closed => Failure::Gone(trouble.to_string()),
        _ => Failure::Refused(trouble.to_string()),
    }
}
