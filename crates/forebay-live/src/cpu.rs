//! The CPU time of this process, including its kernel threads.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use forebay_core::Nanos;

/// The CPU time used since the start of the process, or in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// The time in user mode.
    pub user: Nanos,
    /// The time in the kernel.
    pub system: Nanos,
}

impl CpuTime {
    /// Returns the CPU time that this process has used since its start (getrusage(2)).
    pub fn used() -> CpuTime {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a complete `rusage`, which the call fills in or leaves zeroed.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let span = |time: libc::timeval| {
            Nanos::from_secs(time.tv_sec as u64) + Nanos::from_micros(time.tv_usec as u64)
        };
        CpuTime { user: span(usage.ru_utime), system: span(usage.ru_stime) }
    }

    /// Returns the time used since `earlier`.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// Returns how often this thread has gone to sleep since it was started.
pub(crate) fn sleeps() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: as above, the pointer is to a complete `rusage`.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nvcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = CpuTime::used();
        let mut sum = 0u64;
        let spent = loop {
            sum = (0..100_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
            let spent = CpuTime::used().since(before);
            if spent.user + spent.system > Nanos::ZERO {
                break spent;
            }
        };
        assert!(spent.user + spent.system > Nanos::ZERO, "{sum}");
    }
}
