//! Tracks the files of descriptors, and their positions.
//!
//! Threads share their descriptors. A forked process has copies of them, which share the positions.
//! A descriptor of unknown origin counts as a separate file, whose name is its number.

use std::collections::HashMap;

use forebay_core::Op;

use super::line::Whole;
use crate::fields::digits;
use forebay_words::plural::{counted, verb};

/// An open file.
#[derive(Default)]
pub(super) struct File {
    /// The path, or an empty name if this is not a file.
    pub(super) name: Vec<u8>,
    position: u64,
    /// The highest end of a transfer.
    end: u64,
    appends: bool,
    /// The number of descriptors that refer to the file.
    users: usize,
}

impl File {
    /// Returns where a transfer of `len` bytes begins, and moves the position past it.
    pub(super) fn advance(&mut self, op: Op, len: u64) -> u64 {
        let begin = if self.appends && op == Op::Write { self.end } else { self.position };
        self.position = begin.saturating_add(len);
        begin
    }

    pub(super) fn reaches(&mut self, end: u64) {
        self.end = self.end.max(end);
    }
}

/// The descriptors of all processes.
#[derive(Default)]
pub(super) struct Files {
    files: HashMap<usize, File>,
    next: usize,
    /// The files of each process, by descriptor.
    tables: Vec<HashMap<u64, usize>>,
    /// The index into `tables` for each thread.
    threads: HashMap<u32, usize>,
    /// The number of descriptors of unknown origin.
    unknown: u64,
}

/// Returns the number before the path of a descriptor: `3</etc/passwd>`.
pub(super) fn number_of(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == b'<').next().unwrap_or_default()
}

/// Returns the path of a descriptor if `strace -y` printed it. The path is empty if the descriptor
/// is not a regular file.
fn path_of(word: &[u8]) -> Option<&[u8]> {
    let inside = word.get(memchr::memchr(b'<', word)? + 1..)?;
    let inside = inside.strip_suffix(b">").unwrap_or(inside);
    let is_file = inside.starts_with(b"/") && memchr::memmem::find(inside, b"<char ").is_none();
    Some(if is_file { inside } else { b"" })
}

/// Calls that create descriptors for other things than files.
const OTHERS: [&[u8]; 11] = [
    b"socket",
    b"accept",
    b"accept4",
    b"eventfd",
    b"eventfd2",
    b"epoll_create",
    b"epoll_create1",
    b"timerfd_create",
    b"signalfd4",
    b"inotify_init1",
    b"pidfd_open",
];

impl Files {
    fn table(&mut self, thread: u32) -> usize {
        *self.threads.entry(thread).or_insert_with(|| {
            self.tables.push(HashMap::new());
            self.tables.len() - 1
        })
    }

    fn insert(&mut self, thread: u32, descriptor: u64, file: File) {
        self.files.insert(self.next, file);
        self.name(thread, descriptor, self.next);
        self.next += 1;
    }

    /// Makes a descriptor refer to a file.
    fn name(&mut self, thread: u32, descriptor: u64, file: usize) {
        if self.number(thread, descriptor) == Some(file) {
            return;
        }
        self.close(thread, descriptor);
        let table = self.table(thread);
        if let (Some(table), Some(file_)) = (self.tables.get_mut(table), self.files.get_mut(&file))
        {
            file_.users += 1;
            table.insert(descriptor, file);
        }
    }

    fn close(&mut self, thread: u32, descriptor: u64) {
        let table = self.table(thread);
        let closed = self.tables.get_mut(table).and_then(|table| table.remove(&descriptor));
        if let Some(number) = closed
            && let Some(file) = self.files.get_mut(&number)
        {
            file.users -= 1;
            if file.users == 0 {
                self.files.remove(&number);
            }
        }
    }

    fn number(&mut self, thread: u32, descriptor: u64) -> Option<usize> {
        let table = self.table(thread);
        self.tables.get(table)?.get(&descriptor).copied()
    }

    /// Returns the file of a descriptor, given the first argument of a call. Returns `None` if it
    /// is not a file. If `is_file` is set, the descriptor must be a file, because the call has an
    /// offset.
    pub(super) fn find(&mut self, thread: u32, word: &[u8], is_file: bool) -> Option<&mut File> {
        let descriptor = digits(number_of(word))?;
        let path = path_of(word);
        let known = self.number(thread, descriptor);
        let is_current = known
            .and_then(|known| self.files.get(&known))
            .is_some_and(|file| path.is_none_or(|path| path == file.name));
        if !is_current {
            let is_standard = descriptor <= 2 && !is_file;
            let name = match path {
                Some(path) => path.to_vec(),
                None if is_standard => return None,
                None => {
                    self.unknown += 1;
                    let process = if thread == 0 { String::new() } else { format!(" of {thread}") };
                    format!("fd {descriptor}{process}").into_bytes()
                }
            };
            self.insert(thread, descriptor, File { name, ..File::default() });
        }
        let number = self.number(thread, descriptor)?;
        self.files.get_mut(&number).filter(|file| !file.name.is_empty())
    }

    /// Processes a call that opens, closes or duplicates a descriptor, or creates a thread.
    pub(super) fn follow(&mut self, thread: u32, call: &Whole<'_>) {
        let argument = |at: usize| call.arguments.get(at).copied().unwrap_or_default();
        let descriptor = |word: &[u8]| digits(number_of(word));
        if call.name == b"close" {
            if let Some(closed) = descriptor(argument(0)) {
                self.close(thread, closed);
            }
            return;
        }
        let Some(result) = call.result else { return };
        let Some(made) = descriptor(result) else { return };
        match call.name {
            b"open" | b"creat" => self.open(thread, made, result, argument(0), argument(1)),
            b"openat" | b"openat2" => self.open(thread, made, result, argument(1), argument(2)),
            b"dup" | b"dup2" | b"dup3" => self.copy(thread, argument(0), made),
            b"fcntl" if argument(1).starts_with(b"F_DUPFD") => self.copy(thread, argument(0), made),
            b"lseek" => {
                if let Some(file) = self.find(thread, argument(0), false) {
                    file.position = made;
                }
            }
            b"fork" | b"vfork" | b"clone" | b"clone3" => {
                let shares = call
                    .arguments
                    .iter()
                    .any(|word| memchr::memmem::find(word, b"CLONE_FILES").is_some());
                self.begin(thread, made as u32, shares);
            }
            other if OTHERS.contains(&other) => self.insert(thread, made, File::default()),
            b"pipe" | b"pipe2" | b"socketpair" => {
                let pair = call.arguments.iter().find(|word| word.starts_with(b"["));
                let inside = pair.map_or(&b""[..], |pair| pair.trim_ascii());
                for word in inside.split(|byte| matches!(byte, b'[' | b']' | b',' | b' ')) {
                    if let Some(made) = descriptor(word) {
                        self.insert(thread, made, File::default());
                    }
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, thread: u32, made: u64, result: &[u8], path: &[u8], mode: &[u8]) {
        let path = path.strip_prefix(b"\"").unwrap_or(path);
        let path = path.strip_suffix(b"\"").unwrap_or(path);
        let name = path_of(result).unwrap_or(path).to_vec();
        let appends = memchr::memmem::find(mode, b"O_APPEND").is_some();
        self.insert(thread, made, File { name, appends, ..File::default() });
    }

    fn copy(&mut self, thread: u32, from: &[u8], to: u64) {
        let from = digits(number_of(from)).and_then(|from| self.number(thread, from));
        match from {
            Some(file) => self.name(thread, to, file),
            None => self.close(thread, to),
        }
    }

    /// Adds a thread, which shares the descriptors of its parent, or a process, which gets copies.
    fn begin(&mut self, parent: u32, child: u32, shares: bool) {
        let mut table = self.table(parent);
        if !shares {
            let copies = self.tables.get(table).cloned().unwrap_or_default();
            for number in copies.values() {
                if let Some(file) = self.files.get_mut(number) {
                    file.users += 1;
                }
            }
            self.tables.push(copies);
            table = self.tables.len() - 1;
        }
        self.threads.insert(child, table);
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let unknown = (self.unknown > 0).then(|| {
            format!(
                "{} {} opened before the trace began, or by calls that it leaves out, and {} named \
                 by number; strace -y, or openat among the traced calls, records the files",
                counted(self.unknown, "descriptor"),
                verb(self.unknown, "was", "were"),
                verb(self.unknown, "is", "are")
            )
        });
        unknown.into_iter().collect()
    }
}
