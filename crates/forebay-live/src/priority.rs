//! The kernel's I/O priorities. Drives that support priorities (SATA's `ncq_prio_enable`) and the
//! kernel's mq-deadline and BFQ perform I/Os of the real-time class first.
#![allow(unsafe_code)]

/// No explicit priority: the I/O has that of the thread.
pub(crate) const NO_PRIORITY: u16 = 0;
/// The real-time class, with the middle of its eight levels.
const REAL_TIME: u16 = 1 << 13 | 4;

const WHO_PROCESS: libc::c_int = 1;
const THIS_THREAD: libc::c_int = 0;

/// Returns the priority of I/Os that a promise depends on: the real-time class, if the kernel
/// permits this process to use it (`CAP_SYS_NICE`).
pub(crate) fn promised_priority() -> u16 {
    let set = |priority: u16| {
        // SAFETY: the arguments are three numbers, and the call does not access this process's
        // memory.
        unsafe {
            libc::syscall(
                libc::SYS_ioprio_set,
                WHO_PROCESS,
                THIS_THREAD,
                libc::c_int::from(priority),
            )
        }
    };
    let is_permitted = set(REAL_TIME) == 0;
    // This only tested the permission; the thread itself keeps no priority.
    if is_permitted && set(NO_PRIORITY) == 0 { REAL_TIME } else { NO_PRIORITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_keeps_its_priority() {
        let priority = promised_priority();
        assert!([NO_PRIORITY, REAL_TIME].contains(&priority));
        // SAFETY: as above, the arguments are numbers.
        let now = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, THIS_THREAD) };
        assert_ne!(now, i64::from(REAL_TIME));
    }
}
