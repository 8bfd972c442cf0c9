//! The kernel's I/O priorities. Drives that support priorities (SATA's `ncq_prio_enable`) and the
//! kernel's mq-deadline and BFQ perform I/Os of the real-time class first.
#![allow(unsafe_code)]

/// No explicit priority: the I/O has that of the thread.
pub(crate) const NO_PRIORITY: u16 = 0;
/// The real-time class, with the middle of its eight levels.
pub(crate) const REAL_TIME: u16 = 1 << 13 | 4;

const WHO_PROCESS: libc::c_int = 1;
const THIS_THREAD: libc::c_int = 0;

/// Sets the priority of all I/Os of this thread that have none of their own; returns whether the
/// kernel permits it.
pub(crate) fn set_thread_priority(priority: u16) -> bool {
    // SAFETY: the arguments are three numbers, and the call does not access this process's memory.
    let set = unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, THIS_THREAD, libc::c_int::from(priority))
    };
    set == 0
}

/// Returns the priority of I/Os that a promise depends on: the real-time class, if the kernel
/// permits this process to use it (`CAP_SYS_NICE`).
pub(crate) fn promised_priority() -> u16 {
    // This only tests the permission; the thread itself keeps no priority.
    let is_permitted = set_thread_priority(REAL_TIME) && set_thread_priority(NO_PRIORITY);
    if is_permitted { REAL_TIME } else { NO_PRIORITY }
}

/// Returns the priority of this thread's I/Os.
#[cfg(test)]
pub(crate) fn thread_priority() -> u16 {
    priority_of(THIS_THREAD)
}

/// Returns the priority of a thread's I/Os.
#[cfg(test)]
pub(crate) fn priority_of(thread: libc::c_int) -> u16 {
    // SAFETY: as above, the arguments are numbers.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread) };
    priority as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether this process has `CAP_SYS_NICE` or `CAP_SYS_ADMIN`, which permit the class.
    fn may_be_real_time() -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 23 | 1 << 21) != 0
    }

    #[test]
    fn promises_have_the_real_time_class_if_the_process_may_use_it() {
        let before = thread_priority();
        let expected = if may_be_real_time() { REAL_TIME } else { NO_PRIORITY };
        assert_eq!(promised_priority(), expected);
        assert_eq!(thread_priority(), before, "the thread keeps its priority");
        assert_eq!(REAL_TIME >> 13, 1, "IOPRIO_CLASS_RT");
    }
}
