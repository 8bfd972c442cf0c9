//! The environments of the engines: the unlimited disk, or a separate file system limited to the
//! rate of one disk with blkio; and processes with limited memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The cgroup whose I/O is limited. It contains all processes, so that write-back is limited too.
const BLKIO: &str = "/sys/fs/cgroup/blkio";
const MEMORY: &str = "/sys/fs/cgroup/memory";

/// The rate of one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) mb_per_s: u64,
    /// Writes per second. A durable write counts as two: the write and a flush.
    pub(crate) writes_per_s: u64,
}

impl Rate {
    /// No limit.
    const NONE: Rate = Rate { mb_per_s: 0, writes_per_s: 0 };
}

/// A rate-limited file system on its own loop device, which is removed on drop.
pub(crate) struct Held {
    pub(crate) folder: PathBuf,
    device: String,
    number: String,
    image: PathBuf,
    rate: Rate,
}

/// Runs a command and returns its output, or the error.
fn tell(words: &[&str]) -> Result<String, String> {
    let line = words.join(" ");
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Held {
    /// Creates the file system, `bytes` long, in an image file in `folder` that bypasses the page
    /// cache below.
    pub(crate) fn new(folder: &Path, bytes: u64, rate: Rate) -> Result<Held, String> {
        write(&Path::new(BLKIO).join("cgroup.procs"), &std::process::id().to_string())?;
        let image = folder.join("image");
        tell(&["fallocate", "-l", &bytes.to_string(), &image.display().to_string()])?;
        // Writes the image once, because otherwise the underlying file system would allocate space
        // during each write.
        let (out, count) = (format!("of={}", image.display()), format!("count={}", bytes >> 20));
        tell(&["dd", "if=/dev/zero", &out, "bs=1M", &count, "oflag=direct", "conv=notrunc,fsync"])?;
        let loop_words = ["losetup", "--find", "--show", "--direct-io=on"];
        let device = tell(&[&loop_words[..], &[&image.display().to_string()]].concat())?;
        let name = device.trim_start_matches("/dev/");
        let number = fs::read_to_string(format!("/sys/block/{name}/dev"));
        let number = number.map_err(|error| error.to_string())?.trim().to_string();
        let held = Held { folder: folder.join("held"), device, number, image, rate };
        let eager = "lazy_itable_init=0,lazy_journal_init=0";
        // Reserves no space for root, who writes here.
        tell(&["mkfs.ext4", "-q", "-m", "0", "-E", eager, &held.device])?;
        fs::create_dir(&held.folder).map_err(|error| error.to_string())?;
        tell(&["mount", &held.device, &held.folder.display().to_string()])?;
        held.limit(rate)?;
        Ok(held)
    }

    /// Turns the rate limit on or off.
    pub(crate) fn hold(&self, is_held: bool) {
        // Setting a limit succeeded when the file system was created.
        self.limit(if is_held { self.rate } else { Rate::NONE }).unwrap();
    }

    fn limit(&self, rate: Rate) -> Result<(), String> {
        let limits = [
            ("write_bps", rate.mb_per_s * 1_000_000),
            ("read_bps", rate.mb_per_s * 1_000_000),
            ("write_iops", rate.writes_per_s),
        ];
        limits.into_iter().try_for_each(|(name, limit)| {
            let file = format!("{BLKIO}/blkio.throttle.{name}_device");
            write(Path::new(&file), &format!("{} {limit}", self.number))
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Leftovers are reported, but do not stop the benchmark.
        let folder = self.folder.display().to_string();
        for done in [
            self.limit(Rate::NONE),
            tell(&["umount", &folder]).map(drop),
            tell(&["losetup", "--detach", &self.device]).map(drop),
        ] {
            if let Err(what) = done {
                eprintln!("left behind: {what}");
            }
        }
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// A program's environment: unlimited, or with a memory cgroup.
pub(crate) struct Cell(Option<PathBuf>);

impl Cell {
    pub(crate) const OPEN: Cell = Cell(None);

    /// Creates an environment with limited memory, which includes the page cache of the program's
    /// files.
    pub(crate) fn of_memory(bytes: u64) -> Result<Cell, String> {
        let group = Path::new(MEMORY).join(format!("forebay-bench-{}", std::process::id()));
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let cell = Cell(Some(group.clone()));
        write(&group.join("memory.limit_in_bytes"), &bytes.to_string())?;
        Ok(cell)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let Some(group) = &self.0 else { return Command::new(program) };
        let mut command = Command::new("sh");
        let enter = r#"echo $$ >"$0" && exec "$@""#;
        command.args(["-c", enter]).arg(group.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            let _ = fs::write(group.join("memory.force_empty"), "0");
            if let Err(error) = fs::remove_dir(group) {
                eprintln!("left behind: {}: {error}", group.display());
            }
        }
    }
}
