//! Detects random writes to shingled disks, which the models of such disks do not cover.
//!
//! The tracks of a shingled disk overlap, so a write in place forces the drive to move the data
//! that follow, immediately or when it is idle. When it does so and for how long is not published,
//! so models of such disks cannot answer questions that depend on it. Sequential reads and writes
//! perform as on any other disk.

use forebay_core::Op;

use crate::quantities::counted;
use crate::{Error, Input, OpenDevice};

/// The maximum number of concurrent sequential writers that are recognized.
const WRITERS: usize = 64;
/// Random writes are negligible if they are fewer than one in this many writes, or fewer than one
/// in [`REQUESTS_ONE_IN`] requests.
const WRITES_ONE_IN: u64 = 10;
const REQUESTS_ONE_IN: u64 = 100;

/// If `device` is shingled and `inputs` write at random, explains why the device cannot be
/// simulated for them.
///
/// # Errors
/// Fails if a trace cannot be read again.
pub(crate) fn refusal(device: &OpenDevice, inputs: &[&Input]) -> Result<Option<String>, Error> {
    if !device.shingled {
        return Ok(None);
    }
    let mut counts = Counts::default();
    for input in inputs {
        counts.add(input)?;
    }
    let Counts { requests, writes, random } = counts;
    let few = random * WRITES_ONE_IN <= writes || random * REQUESTS_ONE_IN <= requests;
    Ok((random > 1 && !few).then(|| {
        format!(
            "{}: got {}, {random} of them random, expected sequential writes: the drive is \
             shingled, and the data that it moves for a random write is not modeled; choose a \
             drive that is not shingled (`forebay devices`)",
            device.name,
            counted(writes, "write"),
        )
    }))
}

/// Returns a note if `device` is shingled, for answers that do not simulate the user's writes.
pub(crate) fn note(device: &OpenDevice) -> Option<String> {
    device.shingled.then(|| {
        format!(
            "{}: the drive is shingled, and the data that it moves for a random write is not modeled, so the answer holds \
             for reads and sequential writes",
            device.name
        )
    })
}

/// Fails if `device` is shingled and `input` writes at random.
pub(crate) fn check(device: &OpenDevice, input: &Input) -> Result<(), Error> {
    refusal(device, &[input])?.map_or(Ok(()), |what| Err(Error::Unfit(what)))
}

#[derive(Default)]
struct Counts {
    requests: u64,
    writes: u64,
    /// The number of writes that do not continue any of the most recent writes.
    random: u64,
}

impl Counts {
    fn add(&mut self, input: &Input) -> Result<(), Error> {
        // The volumes and the ends of the most recent writes, the last write at the end.
        let mut ends: Vec<(u32, u64)> = Vec::with_capacity(WRITERS);
        let records = input.records()?;
        let failed = records.failed();
        for record in records {
            self.requests += 1;
            if record.op != Op::Write || record.len == 0 {
                continue;
            }
            self.writes += 1;
            let place = (record.volume, record.offset);
            match ends.iter().rposition(|end| *end == place) {
                Some(index) => {
                    ends.remove(index);
                }
                None => {
                    self.random += 1;
                    if ends.len() == WRITERS {
                        ends.remove(0);
                    }
                }
            }
            ends.push((place.0, record.offset.saturating_add(record.len.into())));
        }
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::open;
    use forebay_core::{Flags, Nanos};
    use forebay_trace::Record;

    fn input(requests: &[(Op, u64)]) -> Input {
        let record = |(at, &(op, offset)): (u64, &(Op, u64))| Record {
            at: Nanos(at * 1_000),
            offset,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op,
            flags: Flags::NONE,
        };
        Input::from_records((0..).zip(requests).map(record).collect(), vec!["a".into()])
    }

    #[test]
    fn random_writes_are_refused_on_shingled_drives_only() {
        let shingled = ["st2000dm008", "st1000lm035"].map(|name| open(name).unwrap());
        let random: Vec<_> = (0..50).map(|at| (Op::Write, (at * 7919 % 997) << 20)).collect();
        let reads: Vec<_> = random.iter().map(|(_, at)| (Op::Read, *at)).collect();
        // Two sequential writers take turns, with reads in between.
        let in_order: Vec<_> = (0..100)
            .flat_map(|at| {
                [(Op::Write, at << 12), (Op::Read, at << 24), (Op::Write, (9 << 30) + (at << 12))]
            })
            .collect();
        assert_eq!(note(&open("st1000nm0011").unwrap()), None);
        for device in &shingled {
            assert!(device.shingled, "{}", device.name);
            assert!(note(device).unwrap().contains("the drive is shingled"));
            let said = check(device, &input(&random)).unwrap_err();
            assert!(
                said.is_input() && said.to_string().contains("the drive is shingled"),
                "{said}"
            );
            assert!(said.to_string().contains("got 50 writes, 50 of them random"), "{said}");
            assert!(
                check(device, &input(&reads)).is_ok() && check(device, &input(&in_order)).is_ok()
            );
            assert!(
                check(device, &input(&[(Op::Write, 5 << 12)])).is_ok(),
                "one write is in order"
            );
        }
        assert!(check(&open("sata250").unwrap(), &input(&random)).is_ok());
    }
}
