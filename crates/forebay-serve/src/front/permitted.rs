//! Determines which requests are refused before they begin, and with which error.

use crate::Export;
use crate::handshake::Agreed;
use crate::protocol::{Command, CommandFlags, Errno, Header, PAYLOAD_MAX};

/// Checks whether a request is allowed.
pub(super) fn permitted(header: &Header, export: &Export, agreed: &Agreed) -> Result<(), Errno> {
    let block = u64::from(export.block_bytes);
    let changes = matches!(header.command, Command::Write | Command::Trim | Command::WriteZeroes);
    let end = header.offset.checked_add(u64::from(header.len));
    let is_within = end.is_some_and(|end| end <= export.bytes);
    let is_whole =
        header.offset.is_multiple_of(block) && u64::from(header.len).is_multiple_of(block);
    match header.command {
        _ if !header.flags.are_allowed(header.command) => Err(Errno::Invalid),
        Command::Unknown | Command::Disconnect => Err(Errno::Invalid),
        Command::Flush => match (header.offset, header.len) {
            (0, 0) => Ok(()),
            _ => Err(Errno::Invalid),
        },
        Command::BlockStatus if !agreed.allocation => Err(Errno::Invalid),
        _ if changes && export.read_only => Err(Errno::NotPermitted),
        _ if header.len == 0 => Err(Errno::Invalid),
        _ if !is_within && changes => Err(Errno::NoSpace),
        _ if !is_within => Err(Errno::Invalid),
        Command::Read if header.len > PAYLOAD_MAX => Err(Errno::Invalid),
        // A status query need not consist of whole blocks.
        Command::BlockStatus => Ok(()),
        _ if !is_whole => Err(Errno::Invalid),
        // If the client requires fast zeroing, writing actual zeros is not permitted.
        Command::WriteZeroes
            if header.flags.has(CommandFlags::FAST_ZERO)
                && (header.flags.has(CommandFlags::NO_HOLE) || !export.trims_to_zero) =>
        {
            Err(Errno::NotSupported)
        }
        _ => Ok(()),
    }
}
