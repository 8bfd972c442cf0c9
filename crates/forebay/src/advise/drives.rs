//! The variants of a drive whose parameters are partly guesses, with a cache of the runs on each
//! variant, so that no run is made twice.

use std::sync::Mutex;

use crate::devices::{OpenDevice, Varied};
use crate::progress::{Progress, ProgressReport, Telling, untold};
use crate::simulate::{Bed, Replay, RunResult, Setup, run_all, run_on};
use crate::{Error, Input};

/// A run on one of the variants: the variant's index, the replay, and the result.
type Ran = (usize, Replay, RunResult);

/// The variants of a drive, with the runs made so far.
pub(super) struct Drives<'a> {
    input: &'a Input,
    flash: &'a OpenDevice,
    /// All variants; the two with the smallest and the largest plausible catch margin come first.
    all: Vec<Varied>,
    margins: usize,
    ran: Mutex<Vec<Ran>>,
}

impl<'a> Drives<'a> {
    pub(super) fn of(input: &'a Input, device: &OpenDevice, flash: &'a OpenDevice) -> Drives<'a> {
        let margins = device.at_margins();
        let count = margins.len();
        let all = [margins, device.varied()].concat();
        Drives { input, flash, all, margins: count, ran: Mutex::new(Vec::new()) }
    }

    /// Returns the variants with the smallest and the largest plausible catch margin; an empty
    /// slice if the margin is known.
    pub(super) fn at_margins(&self) -> &[Varied] {
        &self.all[..self.margins]
    }

    /// Returns all variants: those with the smallest and the largest catch margin, and those in
    /// which another parameter is halved or doubled.
    pub(super) fn all(&self) -> &[Varied] {
        &self.all
    }

    fn bed(&self, at: usize) -> Bed<'_> {
        Bed { flash: Some(self.flash), ..Bed::of(&self.all[at].device) }
    }

    fn known(&self, at: usize, policy: &str, replay: Replay) -> Option<RunResult> {
        let ran = self.ran.lock().ok()?;
        let is_it =
            |(drive, how, run): &&Ran| (*drive, *how, &run.policy[..]) == (at, replay, policy);
        ran.iter().find(is_it).map(|(_, _, run)| run.clone())
    }

    /// Adds a run on variant number `at` to the cache.
    pub(super) fn keep(&self, at: usize, run: &RunResult) {
        if let Ok(mut ran) = self.ran.lock() {
            ran.push((at, run.replay, run.clone()));
        }
    }

    /// Returns the run of `policy` on variant number `at`, from the cache if possible.
    pub(super) fn run(
        &self,
        at: usize,
        policy: &str,
        setup: Setup,
        progress: Progress<'_>,
    ) -> Result<RunResult, Error> {
        if let Some(known) = self.known(at, policy, setup.replay) {
            return Ok(known);
        }
        let run = run_on(self.input, self.bed(at), policy, setup, progress)?.result;
        self.keep(at, &run);
        Ok(run)
    }

    /// Returns the runs of both `policies` on variant number `at`, made in up to `jobs` parallel
    /// runs.
    pub(super) fn both(
        &self,
        at: usize,
        policies: [&str; 2],
        setup: Setup,
        jobs: usize,
        progress: Telling<'_>,
    ) -> Result<[RunResult; 2], Error> {
        let is_new = |policy: &&str| self.known(at, policy, setup.replay).is_none();
        let new: Vec<&str> = policies.into_iter().filter(is_new).collect();
        for run in run_all(self.input, self.bed(at), &new, setup, jobs, progress)? {
            self.keep(at, &run.result);
        }
        let [one, other] = policies.map(|policy| self.run(at, policy, setup, &mut untold));
        Ok([one?, other?])
    }

    /// Returns the progress report for the runs on variant number `at`.
    pub(super) fn told(&self, at: usize, done_share: f64) -> ProgressReport {
        ProgressReport { doing: format!("with {}", self.all[at].with), done_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::default_flash;
    use crate::devices::open;
    use crate::progress::unheard;
    use crate::retrodict::tests::{input_of, records};

    #[test]
    fn runs_are_not_repeated() {
        let (device, flash) = (open("sata250").unwrap(), default_flash().unwrap());
        let input = input_of(records(300, 9_000));
        let drives = Drives::of(&input, &device, &flash);
        assert_eq!(drives.at_margins().len(), 2);
        assert!(drives.all().len() > 2, "{}", drives.all().len());
        let setup = Setup::default();
        let names = ["none", "clook"];
        let first = drives.both(1, names, setup, 2, &mut unheard).unwrap();
        let kept = || drives.ran.lock().unwrap().len();
        assert_eq!((kept(), first[1].policy.as_str()), (2, "clook"));
        let again = drives.both(1, ["none", "noop"], setup, 2, &mut unheard).unwrap();
        assert_eq!((kept(), again[0].figures.busy_s), (3, first[0].figures.busy_s));
        drives.run(1, "noop", setup, &mut untold).unwrap();
        assert_eq!(kept(), 3);
        // Another variant or another policy requires another run.
        drives.run(0, "noop", setup, &mut untold).unwrap();
        drives.run(1, "cache:size-mib=64", setup, &mut untold).unwrap();
        assert_eq!(kept(), 5);
        assert!(Drives::of(&input, &flash, &flash).at_margins().is_empty());
    }
}
