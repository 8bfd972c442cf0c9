//! `forebay attach` and `forebay detach`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::verb::SecondInterruption;
use forebay_core::Nanos;
use forebay_serve::{Address, Attach, AttachEvent, address, detach};

use crate::interrupt;
use crate::output::tell;
use crate::verb::Run;

forebay_ask::ask! {
    /// Make an export of `forebay serve` a block device of this machine, with the kernel's nbd
    /// driver
    ///
    /// Runs until Ctrl-C, which disconnects the device. When the server is killed or restarted, the
    /// device is connected to it again, and the kernel sends outstanding requests once more. Needs
    /// root and `modprobe nbd`. On Linux 6.5 or later, `forebay serve --ublk` is faster.
    pub(crate) struct AttachAsk("attach") {
        /// The socket or the loopback address that the server listens on
        server: PathBuf [.positional().word("SOCKET|ADDRESS")],
        /// The device, such as /dev/nbd0
        device: PathBuf [.positional().word("DEVICE")],
        /// The name of the export
        export: Option<String> [.word("NAME").otherwise("the first export")],
        /// How long a request may take before it is sent again on a new connection; whole seconds
        timeout: Nanos = "10s",
        /// How long requests wait for a server that no longer runs before they fail; whole seconds
        wait: Nanos = "3600s",
    }
}

forebay_ask::ask! {
    /// Remove a block device that nothing uses: of `forebay attach`, or one of `forebay serve --ublk`
    /// whose server has ended
    pub(crate) struct DetachAsk("detach") {
        /// The device, such as /dev/nbd0 or /dev/ublkb0
        device: PathBuf [.positional().word("DEVICE")],
    }
}

/// How often to check whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

impl Run for AttachAsk {
    fn run(self) -> anyhow::Result<()> {
        let AttachAsk { server, device, export, timeout, wait } = self;
        let tcp = server.to_str().and_then(|text| address(text).ok());
        let asked = Attach {
            server: tcp.map_or(Address::Unix(server), Address::Tcp),
            export: export.unwrap_or_default(),
            device: device.clone(),
            timeout_s: seconds(timeout),
            wait_s: seconds(wait),
        };
        let outcome = interrupt::shortens(SecondInterruption::Ends, |stop| {
            let mut attached = asked.begin()?;
            tell(&format!("{} is connected", device.display()));
            while !stop.load(Ordering::Relaxed) {
                match attached.turn(TICK)? {
                    AttachEvent::Nothing => {}
                    AttachEvent::Said(said) => tell(&said),
                    AttachEvent::Over => {
                        tell(&format!("{} was disconnected", device.display()));
                        return Ok(());
                    }
                }
            }
            attached.end()?.iter().for_each(|said| tell(said));
            Ok::<(), forebay_serve::Error>(())
        });
        Ok(outcome?)
    }
}

impl Run for DetachAsk {
    fn run(self) -> anyhow::Result<()> {
        Ok(detach(&self.device)?)
    }
}

/// Rounds up to whole seconds, and at least to one, because 0 means no limit to the driver.
fn seconds(span: Nanos) -> u64 {
    span.0.div_ceil(1_000_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_whole_seconds() {
        assert_eq!([0, 1, 1000, 1001].map(|ms| seconds(Nanos::from_millis(ms))), [1, 1, 1, 2]);
    }
}
