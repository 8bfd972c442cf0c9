//! What a benchmark measures: a store on local disks, or a server that speaks the Redis protocol.

use forebay_store::{Key, OperationError, Store, Value};

use super::{Client, SPACE};

/// The reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The operation was rejected; later ones may succeed.
    Refused(String),
    /// The server is unreachable, so the run must end.
    Gone(String),
    /// The run ended before the answer arrived.
    Over,
}

/// Keys and values returned by a scan.
pub(super) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// One client's connection to the target.
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
            // This is never reached, because the options exclude scans of a server.
            Target::Server(_) => {
                Err(Failure::Refused("no Redis command scans from a given key".into()))
            }
            Target::Disks(store) => {
                let records = store.scan(from, count).map_err(of_store)?;
                // Keys of other programs may follow those of the benchmark.
                let own = |(key, _): &(Key, Value)| key.starts_with(SPACE.as_bytes());
                let own = records.into_iter().take_while(own);
                Ok(own.map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
            }
        }
    }
}

fn of_store(trouble: OperationError) -> Failure {
    match trouble {
        OperationError::Closed => Failure::Gone(trouble.to_string()),
        _ => Failure::Refused(trouble.to_string()),
    }
}
