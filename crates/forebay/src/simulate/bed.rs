//! The test bed: the devices that a trace is simulated on, which are disks and optionally a flash
//! device.

use forebay_ask::named;
use forebay_core::catalog::{
    DeviceSet, FlashLane, PLACEMENTS, array_ssds, build_measured, is_array, is_placement,
    needs_costs, volume_bytes,
};
use forebay_core::contract::Class;
use forebay_core::device::failing::Failure;
use forebay_core::{Device, DeviceModel, Spec};

use crate::array_score::drive_costs;
use crate::devices::{self, OpenDevice};
use crate::layout::VolumeLayout;
use crate::quantities::{bytes, counted, promised};
use crate::replayed::Setup;
use crate::simulate::{LateCount, Rebuild, RunResult};
use crate::{Error, Input};

/// The devices that a trace is simulated on.
#[derive(Clone, Copy)]
pub struct Bed<'a> {
    /// The model of each disk; may also be a solid-state drive or a constant-rate server.
    pub disk: &'a OpenDevice,
    /// The number of disks, at least one. Volumes are assigned to them in turn.
    pub disks: u16,
    /// The flash device that the disks share. Only placement policies use it.
    pub flash: Option<&'a OpenDevice>,
    /// Which I/Os fail, by lane.
    pub failures: &'a [Failure],
    /// Whether to divide runs into slices, which confidence intervals require.
    pub slices: bool,
    /// The policy whose run is compared with the recording, if any (see [`crate::retrodict`]).
    pub judged: Option<&'a str>,
    /// Counts late requests, if the run may end early because of them.
    pub late: Option<&'a LateCount>,
    /// The reads of a rebuild that the run makes beside the requests of the trace, if any.
    pub rebuild: Option<&'a Rebuild>,
    /// The promises of exports that runs report, and that of requests that belong to no export.
    /// Streams of an export are equal modulo their number. Empty if the policy's own classes are
    /// reported.
    pub promises: &'a [Option<Class>],
    /// How much of each disk an array uses at most.
    pub disk_bytes_max: u64,
}

impl<'a> Bed<'a> {
    /// Creates a test bed with a single device.
    pub fn of(disk: &'a OpenDevice) -> Bed<'a> {
        let (flash, judged, late, rebuild) = (None, None, None, None);
        let (disks, failures, slices, disk_bytes_max) = (1, &[][..], false, u64::MAX);
        let promises = &[][..];
        Bed {
            disk,
            disks,
            flash,
            failures,
            slices,
            judged,
            late,
            rebuild,
            promises,
            disk_bytes_max,
        }
    }

    /// Returns the devices that `policy` uses, disks first. Schedulers do not use the flash.
    pub fn devices(&self, policy: &str) -> Vec<&'a OpenDevice> {
        let disks = usize::from(self.disks.max(1));
        let flash = self.flash.filter(|_| is_placement(policy));
        let ssds = self.flash.iter().copied().cycle().take(array_ssds(policy).into());
        std::iter::repeat_n(self.disk, disks).chain(flash).chain(ssds).collect()
    }

    /// Returns the layout of the volumes of `input` under `policy`: on the disks, or on the one
    /// volume that an array forms from them.
    pub fn placement(&self, input: &Input, policy: &str, setup: Setup) -> VolumeLayout {
        if let Ok(Some(bytes)) = volume_bytes(policy, &self.lanes()) {
            return VolumeLayout::new(&input.extents, bytes, setup.map)
                .without_gaps(&input.stretches);
        }
        VolumeLayout::over(&input.extents, self.disks, self.disk.model.capacity(), setup.map)
            .without_gaps(&input.stretches)
    }

    /// Returns a description of the devices for policies.
    pub fn lanes(&self) -> DeviceSet {
        let flash = |device: &OpenDevice| FlashLane {
            len_max: device.model.len_max(),
            capacity_bytes: device.model.capacity(),
        };
        DeviceSet {
            disks: self.disks.max(1),
            disk_len_max: self.disk.model.len_max(),
            disk_bytes: self.disk.model.capacity().min(self.disk_bytes_max),
            flash: self.flash.map(flash),
            restarts: false,
            costs: [None; 2],
        }
    }

    /// Returns a description of the devices for a run of `policy`, with the costs of writes to them
    /// if `policy` adapts to these. Costs are determined by simulation, which takes time.
    pub fn lanes_with_costs(&self, policy: &str) -> DeviceSet {
        let lanes = self.lanes();
        let Some(geometry) = needs_costs(policy, &lanes) else { return lanes };
        let of = |device: Option<&OpenDevice>, count: u16| {
            let devices = vec![device?; count.into()];
            drive_costs(&devices, geometry.chunk_bytes, geometry.chunks, geometry.update)
        };
        let costs = [of(Some(self.disk), lanes.disks), of(self.flash, array_ssds(policy))];
        DeviceSet { costs, ..lanes }
    }

    /// Fails if `policy` cannot run on these devices. Called before any trace is read.
    pub fn check(&self, policy: &str) -> Result<(), Error> {
        self.check_flash()?;
        self.check_failures(policy)?;
        build_measured(policy, &self.lanes(), &self.disk.model)?;
        self.check_promise(policy)
    }

    /// Fails if an I/O is to fail on a lane that does not exist.
    pub fn check_failures(&self, policy: &str) -> Result<(), Error> {
        let policy_built = build_measured(policy, &self.lanes(), &self.disk.model)?;
        let servers = policy_built.servers().len();
        // Schedulers may run in comparison with placements. They do not use the flash, but failures
        // of the flash are still allowed.
        let devices = usize::from(self.disks.max(1)) + usize::from(self.flash.is_some());
        let lanes = devices.max(servers);
        let beyond = |lane: &u16| usize::from(*lane) >= lanes;
        match self.failures.iter().filter_map(|failure| failure.lane).find(beyond) {
            None => Ok(()),
            Some(lane) => Err(Error::Unfit(format!(
                "'{policy}': a failure of lane {lane}: got {}, expected a lane from 0 to {}",
                counted(lanes as u64, "lane"),
                lanes - 1
            ))),
        }
    }

    /// Fails if the flash device is a mechanical disk.
    pub(crate) fn check_flash(&self) -> Result<(), Error> {
        let Some(flash) = self.flash.filter(|flash| flash.model.cylinders() > 0) else {
            return Ok(());
        };
        Err(Error::Unfit(format!(
            "{}: got a mechanical disk, expected a solid-state drive, e.g. d7-p5520",
            named(&format!("flash={}", flash.name))
        )))
    }

    /// Fails if a shaper promises more than its constant-rate server can serve.
    fn check_promise(&self, policy: &str) -> Result<(), Error> {
        let DeviceModel::Fixed(server) = &self.disk.model else { return Ok(()) };
        let promised: String = Spec::parse(policy)?.get("cmin", String::new(), "rates")?;
        let rates = promised.split('/').filter_map(|rate| rate.parse::<f64>().ok());
        let promised = rates.sum::<f64>();
        let served = 1e9 / server.service().0.max(1) as f64;
        // Service times are rounded to whole nanoseconds, so allow a small excess.
        if promised <= served * 1.001 {
            return Ok(());
        }
        Err(Error::Unfit(format!(
            "'{policy}' on {}: cmin: got {promised} requests a second in all, expected at most the \
             {served:.0} that the server can serve; otherwise none of its promises would be kept",
            self.disk.name
        )))
    }

    /// Returns cautions about the device models, and about requests of the trace that `run`
    /// changed; one sentence each.
    pub fn cautions(&self, run: Option<&RunResult>) -> Vec<String> {
        let models: Vec<_> = std::iter::once(self.disk).chain(self.flash).collect();
        let changed = run.into_iter().flat_map(|run| run.changed.told());
        let named = changed.map(|told| format!("{}: {told}", self.disk.name));
        let each = run.into_iter().flat_map(|run| &run.devices);
        let worn = each.filter_map(|figures| {
            let model = models.iter().find(|model| model.name == figures.device)?;
            fresh_after_all(model, figures.written_bytes, figures.write_amplification)
        });
        let worn: std::collections::BTreeSet<String> = worn.collect();
        devices::cautions(&models).into_iter().chain(named).chain(worn).collect()
    }

    /// Returns warnings about limitations of simulating `input` under `policies`, such as options
    /// without effect and reads that cost nothing; one sentence each.
    pub fn warnings(&self, input: &Input, policies: &[String]) -> Vec<String> {
        let mut told = Vec::new();
        let volumes = input.extents.len().max(1);
        let arrays = policies.iter().any(|name| is_array(name));
        if usize::from(self.disks) > volumes && !arrays {
            let idle = usize::from(self.disks) - volumes;
            told.push(format!(
                "{} of the {} disks stay{} idle: each volume is on one disk, and the trace has {}",
                idle,
                self.disks,
                if idle == 1 { "s" } else { "" },
                counted(volumes as u64, "volume")
            ));
        }
        let is_empty = |name: &String| is_array(name) && !name.contains("filled-mib");
        if policies.iter().any(is_empty) && input.description.reads > 0 {
            told.push(
                "the array is empty at the start, so reads of data that the trace did not write \
                 before cost nothing; filled-mib=MIB fills it beforehand"
                    .to_string(),
            );
        }
        let uses = |name: &str| is_placement(name) || array_ssds(name) > 0;
        if let Some(flash) = self.flash.filter(|_| !policies.iter().any(|name| uses(name))) {
            let known: Vec<&str> = PLACEMENTS.iter().map(|listed| listed.name).collect();
            told.push(format!(
                "{} stays idle: none of the policies uses flash; those that do are {}",
                flash.name,
                known.join(", ")
            ));
        }
        told
    }
}

/// Returns a caution if a preconditioned drive never reached garbage collection.
fn fresh_after_all(
    device: &OpenDevice,
    written_bytes: u64,
    amplification: Option<f64>,
) -> Option<String> {
    let DeviceModel::Ssd(ssd) = &device.model else { return None };
    let spec = ssd.spec();
    let is_worn = spec.precondition.overwrites_share > 0.0;
    if !is_worn || written_bytes == 0 || amplification.is_none_or(|pages| pages > 1.0) {
        return None;
    }
    Some(format!(
        "{}: worn in, but the run of {} was too short to collect garbage, so writes are as fast as a fresh drive's; \
         overwrite more than the {} of spare flash (:overwritten-percent=)",
        device.name,
        bytes(written_bytes as f64),
        promised(spec.over_provisioning_share),
    ))
}

#[cfg(test)]
mod tests {
    use forebay_core::{Nanos, Op};

    use super::*;
    use crate::devices::open;
    use crate::progress::untold;
    use crate::retrodict::tests::{input_of, records};
    use crate::simulate::run_on;

    fn run(input: &Input, bed: Bed<'_>, policy: &str) -> Result<RunResult, Error> {
        Ok(run_on(input, bed, policy, Setup::default(), &mut untold)?.result)
    }

    #[test]
    fn a_worn_drive_that_collects_nothing_is_reported() {
        let open = |name: &str| open(name).unwrap();
        let barely = open("samsung-830:capacity-gb=4:overwritten-percent=1");
        let told = fresh_after_all(&barely, 1 << 20, Some(1.0)).unwrap();
        assert!(
            told.contains("1 MiB was too short") && told.contains("overwritten-percent=1"),
            "{told}"
        );
        assert_eq!(fresh_after_all(&barely, 1 << 20, Some(1.01)), None);
        assert_eq!(fresh_after_all(&barely, 0, None), None);
        let fresh = open("samsung-830:capacity-gb=4");
        assert_eq!(fresh_after_all(&fresh, 1 << 20, Some(1.0)), None);
        assert_eq!(fresh_after_all(&open("fixed:100"), 1 << 20, Some(1.0)), None);
    }

    /// As md does, an array that is written in place writes no more than what clients write, even
    /// if a drive is missing, and waits for its successor instead of using the space on other
    /// drives.
    #[test]
    fn small_writes_to_a_degraded_array_stay_small() {
        let (disk, input) = (open("sata250").unwrap(), input_of(records(2000, 20_000)));
        let written_bytes = |level: &str, disks: u16, failures: &[Failure]| -> u64 {
            let bed = Bed { disks, failures, ..Bed::of(&disk) };
            let policy =
                format!("array:level={level}:update=in-place:chunk-kib=512:filled-mib=102400");
            let run = run(&input, bed, &policy).unwrap();
            run.devices.iter().map(|device| device.written_bytes).sum()
        };
        let missing = [Failure::parse("lane=0:from-s=0").unwrap()];
        for (level, disks) in [("raid10", 2), ("raid6", 6)] {
            let [whole, degraded] = [&[][..], &missing].map(|it| written_bytes(level, disks, it));
            // Writes that were outstanding when the drive failed are repeated.
            assert!(whole > 0 && degraded <= whole + (4 << 20), "{level}: {degraded} of {whole}");
        }
        let [whole, degraded] = [&[][..], &missing].map(|it| written_bytes("raid10", 8, it));
        let lost = whole - degraded.min(whole);
        assert!(lost > whole / 12 && lost < whole / 6, "an eighth of {whole}: {lost}");
    }

    /// On these disks, copies are faster for three chunks, but not in the paper's table.
    #[test]
    fn an_adaptive_array_uses_the_costs_of_its_drives() {
        let disk = open("st1000nm0011").unwrap();
        let write = |n: u64| forebay_trace::Record {
            at: Nanos::from_millis(n * 20),
            offset: (n % 8) << 20,
            len: 192 << 10,
            op: Op::Write,
            ..records(1, 1).remove(0)
        };
        let input = input_of((0..200).map(write).collect());
        let switches = |costs: &str| {
            let policy = format!("array:adapt=work-function{costs}:filled-mib=1024");
            let run = run(&input, Bed { disks: 6, ..Bed::of(&disk) }, &policy).unwrap();
            run.placement["switches"]
        };
        assert_eq!(["", ":costs=device", ":costs=hdd"].map(switches), [8.0, 8.0, 0.0]);
    }

    #[test]
    fn conflicting_inputs_are_rejected() {
        let (disk, server) = (open("sata250").unwrap(), open("fixed:500").unwrap());
        let (flash, rate) = (open("samsung-830").unwrap(), open("fixed:9000").unwrap());
        let with = |flash| Bed { flash: Some(flash), ..Bed::of(&disk) };
        assert!(with(&flash).check("bid-hybrid").is_ok() && with(&rate).check("cache").is_ok());
        for policy in ["bid-hybrid", "noop"] {
            let said = with(&disk).check(policy).unwrap_err().to_string();
            assert!(said.contains("flash=sata250\u{1}: got a mechanical disk"), "{said}");
        }
        let said = |policy: &str| Bed::of(&server).check(policy).map_err(|error| error.to_string());
        assert_eq!(said("miser:cmin=500"), Ok(()));
        assert_eq!(said("split:cmin=300/200:delta-ms=20/50"), Ok(()));
        for (policy, cmin) in
            [("miser:cmin=501", "501"), ("wf2q:cmin=300/201:delta-ms=20/50", "501")]
        {
            let said = said(policy).unwrap_err();
            assert!(
                said.contains(&format!("got {cmin} requests")) && said.contains("500"),
                "{said}"
            );
        }
        assert!(Bed::of(&disk).check("miser:cmin=5000").is_ok(), "a disk has no single rate");
    }

    #[test]
    fn idle_devices_are_reported() {
        let record = forebay_trace::Record {
            at: forebay_core::Nanos::ZERO,
            offset: 0,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: forebay_core::Op::Read,
            flags: forebay_core::Flags::NONE,
        };
        let input = Input::from_records(vec![record], vec!["a".into()]);
        let (disk, flash) = (open("sata250").unwrap(), open("samsung-830").unwrap());
        let told = |disks, flash, policies: &[&str]| {
            let policies: Vec<String> = policies.iter().map(|name| name.to_string()).collect();
            Bed { disks, flash, ..Bed::of(&disk) }.warnings(&input, &policies)
        };
        assert!(told(1, None, &["noop"]).is_empty());
        assert!(told(1, Some(&flash), &["noop", "cache:size-mib=9"]).is_empty());
        let idle = told(3, Some(&flash), &["noop", "cfq"]);
        assert!(idle[0].starts_with("2 of the 3 disks stay idle") && idle[0].contains("1 volume"));
        assert!(idle[1].starts_with("samsung-830 stays idle") && idle[1].contains("bid-hybrid"));
        assert!(told(2, None, &["noop"])[0].starts_with("1 of the 2 disks stays idle"));
        assert!(told(6, None, &["array"])[0].starts_with("the array is empty at the start"));
        assert!(told(6, None, &["array:filled-mib=10"]).is_empty());
    }
}
