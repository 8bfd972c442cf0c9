//! Names of threads, which the `blk` tracer does not provide.
//!
//! The name of a thread is looked up when it queues its first request, and again once per second
//! while it queues more, because threads may be renamed. The name of a thread that has ended is
//! taken from the tracer's own list. If a thread is renamed twice within a second, one of the names
//! may be missed.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::TracingPaths;

/// How long a name counts as current.
const FRESH: Duration = Duration::from_secs(1);

/// Looks up names of threads.
pub(crate) struct Names {
    proc: PathBuf,
    saved: Option<PathBuf>,
    known: HashMap<u32, (String, Instant)>,
}

impl Names {
    pub(crate) fn new(places: &TracingPaths) -> Names {
        let saved = places.tracefs.as_ref().map(|tracefs| tracefs.join("saved_cmdlines"));
        Names { proc: places.proc.clone(), saved, known: HashMap::new() }
    }

    /// Returns the thread's name, if it is new or has changed.
    pub(crate) fn changed(&mut self, pid: u32) -> Option<&str> {
        let now = Instant::now();
        let known = self.known.get(&pid);
        if known.is_some_and(|(_, asked)| now.duration_since(*asked) < FRESH) {
            return None;
        }
        let before = known.map(|(name, _)| name.clone());
        let name = self.ask(pid).or_else(|| before.clone()).unwrap_or_default();
        let changed = !name.is_empty() && before.as_ref() != Some(&name);
        self.known.insert(pid, (name, now));
        self.known.get(&pid).filter(|_| changed).map(|(name, _)| name.as_str())
    }

    fn ask(&self, pid: u32) -> Option<String> {
        let alive = fs::read(self.proc.join(format!("{pid}/comm")));
        if let Ok(name) = alive {
            return Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned());
        }
        let saved = fs::read(self.saved.as_ref()?).ok()?;
        let saved = String::from_utf8_lossy(&saved);
        let mut lines = saved.lines().filter_map(|line| line.trim_start().split_once(' '));
        lines.find(|(id, _)| id.parse() == Ok(pid)).map(|(_, name)| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_proc_or_for_ended_threads_from_the_tracer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("7")).unwrap();
        fs::write(root.join("7/comm"), "dd\n").unwrap();
        fs::write(root.join("saved_cmdlines"), "77 other\n9 a b\n").unwrap();
        let mut places = TracingPaths::of_mounts("");
        (places.proc, places.tracefs) = (root.to_owned(), Some(root.to_owned()));
        let mut names = Names::new(&places);
        assert_eq!(names.changed(7), Some("dd"));
        assert_eq!(names.changed(7), None);
        assert_eq!(names.changed(9), Some("a b"));
        assert_eq!(names.changed(8), None);
    }
}
