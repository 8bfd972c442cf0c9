//! Scripts: the I/Os of several tasks, in a text format that people can write.
//!
//! ```text
//! task reader pace=think depth=1 batch=1 start-us=500
//! read 4096 8192 100000
//! ```
//!
//! A line that begins with `task` starts a task. The lines below it are its I/Os: operation, first
//! byte, length in bytes, and a time in microseconds. With `pace=think`, each of `depth` places
//! waits for this time between the completion of an I/O and the next one. With `pace=at`, an I/O is
//! due at this time after the start of the task, regardless of completions. I/Os are submitted in
//! batches of `batch`. With `pace=buffered`, a task writes through the page cache.

use std::fmt::Write;

use forebay_core::{Nanos, Op};

/// A complete load: the tasks that run on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) tasks: Vec<Task>,
}

/// The I/Os of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) pace: Pace,
    /// The number of places, each of which has at most one I/O outstanding.
    pub(crate) depth: u32,
    /// The number of I/Os that are submitted together.
    pub(crate) batch: u32,
    /// When the task begins.
    pub(crate) start: Nanos,
    pub(crate) ios: Vec<Io>,
}

/// The meaning of the time of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The wait after the previous I/O in the same place completed.
    Think,
    /// The time from the start of the task to when the I/O is due.
    At,
    /// Like `Think`, but the task writes through the page cache.
    Buffered,
    /// Like `At`, but for writes of the kernel's flusher, which no thread performs.
    Flushed,
}

impl Pace {
    /// Returns whether I/Os are due regardless of completions.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Pace::At | Pace::Flushed)
    }
}

/// An I/O of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) time: Nanos,
}

const PACES: [(&str, Pace); 4] = [
    ("think", Pace::Think),
    ("at", Pace::At),
    ("buffered", Pace::Buffered),
    ("flushed", Pace::Flushed),
];

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// Reports the first invalid line and its fault.
    pub(crate) fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        for (index, line) in text.lines().enumerate() {
            let told = |what: String| format!("line {}: {what}", index + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["task", name, ref rest @ ..] => {
                    script.tasks.push(Task::parse(name, rest).map_err(told)?);
                }
                [op, offset, len, time] => {
                    let io = Io::parse([op, offset, len, time]).map_err(told)?;
                    let task = script.tasks.last_mut().ok_or_else(|| told(no_task()))?;
                    task.ios.push(io);
                }
                _ => return Err(told(format!("got '{line}', expected a task or an I/O"))),
            }
        }
        Ok(script)
    }

    /// Formats the script so that [`Script::parse`] can read it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Task { name, pace, depth, batch, start, ios } in &self.tasks {
            let pace = PACES.iter().find(|(_, known)| known == pace).map_or("", |(name, _)| name);
            let start = start.0 / 1000;
            let _ = writeln!(
                text,
                "task {name} pace={pace} depth={depth} batch={batch} start-us={start}"
            );
            for Io { op, offset, len, time } in ios {
                let _ = writeln!(text, "{} {offset} {len} {}", op.name(), time.0 / 1000);
            }
        }
        text
    }
}

fn no_task() -> String {
    "an I/O before the first task".into()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("got '{text}', expected a whole number"))
}

impl Task {
    fn parse(name: &str, words: &[&str]) -> Result<Task, String> {
        let mut task = Task {
            name: name.into(),
            pace: Pace::Think,
            depth: 1,
            batch: 1,
            start: Nanos::ZERO,
            ios: Vec::new(),
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "pace" => {
                    let known = PACES.iter().find(|(name, _)| *name == value);
                    task.pace = known.ok_or("pace: expected think, at or buffered")?.1;
                }
                "depth" => task.depth = number(value)?.clamp(1, 65_536) as u32,
                "batch" => task.batch = number(value)?.clamp(1, 65_536) as u32,
                "start-us" => task.start = Nanos::from_micros(number(value)?),
                _ => return Err(format!("no attribute '{key}' of a task")),
            }
        }
        match task.batch <= task.depth || task.pace.is_open() {
            true => Ok(task),
            false => Err("a batch larger than the depth is never issued".into()),
        }
    }
}

impl Io {
    fn parse([op, offset, len, time]: [&str; 4]) -> Result<Io, String> {
        let op = match op {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => return Err(format!("got '{op}', expected read or write")),
        };
        let len = u32::try_from(number(len)?).map_err(|_| "an I/O of more than 4 GiB")?;
        Ok(Io { op, offset: number(offset)?, len, time: Nanos::from_micros(number(time)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        let text = "task a pace=at depth=2 batch=2 start-us=7\nread 0 4096 5\nwrite 8192 512 0\n\
                    task b pace=buffered depth=1 batch=1 start-us=0\n";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.tasks.len(), 2);
        assert_eq!(script.text(), text);
        assert_eq!(Script::parse(&script.text()), Ok(script));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text| Script::parse(text).unwrap_err();
        assert!(told("read 0 1 2").contains("line 1: an I/O before"));
        assert!(told("task a\nread 0 x 2").contains("line 2: got 'x'"));
        assert!(told("task a pace=slow").contains("expected think"));
        assert!(told("task a batch=4").contains("never issued"));
        assert!(told("task a\ntrim 0 1 2").contains("expected read or write"));
    }
}
