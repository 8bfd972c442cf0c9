//! The verb `convert`: a trace from any reader to any writer.

use std::path::Path;

use forebay_trace::Reader;
use forebay_trace::write::Writer;

use crate::error::Error;
use crate::input::refuse_empty;
use crate::progress::{GoOn, Meter};

/// What a conversion came to.
pub struct Converted {
    /// Records written.
    pub records: u64,
    /// What the written format could not keep, one sentence each.
    pub lost: Vec<String>,
}

/// Writes everything that `reader` reads, called `name` in messages. What `writer` began goes away
/// unless all is well.
///
/// # Errors
/// [`Error::Output`] where the system refuses to write.
pub fn convert<P: GoOn>(
    name: &Path,
    reader: &mut dyn Reader,
    mut writer: Box<dyn Writer>,
    progress: impl FnMut(u64) -> P,
) -> Result<Converted, Error> {
    let (mut batch, mut meter) = (Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        writer.write(&batch, reader.dictionary()).map_err(Error::output)?;
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
    }
    refuse_empty(name, meter.count(), reader.notes())?;
    let lost = writer.finish(reader.dictionary(), reader.notes()).map_err(Error::output)?;
    Ok(Converted { records: meter.count(), lost })
}
