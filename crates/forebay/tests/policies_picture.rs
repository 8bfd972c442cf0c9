//! Draws the chart in docs/policies.md, which shows each scheduler on one small trace. `UPDATE=1`
//! redraws it.

use std::fmt::Write;
use std::path::Path;

use forebay::devices;
use forebay::head::HeadPoint;
use forebay::input::Input;
use forebay::progress::untold;
use forebay::simulate::{Run, Setup, run};
use forebay_core::catalog::{POLICIES, YARDSTICKS};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::streams::StreamBy;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream, TraceError};

/// A device that takes one command at a time, as in the papers, so that the disk does exactly what
/// the scheduler chooses.
const DEVICE: &str = "sata250:plain";
const GIB: u64 = 1 << 30;

/// Reads records from memory.
struct Given(Option<Vec<Record>>, Dictionary, Notes);

impl Reader for Given {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        *batch = self.0.take().unwrap_or_default();
        Ok(())
    }
    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.1, &self.2)
    }
}

/// Returns a trace of two distant readers and a writer of scattered blocks between them, all active
/// at the same time. Each reader reads every fourth piece in sequence.
fn trace() -> Vec<Record> {
    let request = |at_us: u64, stream: u32, op: Op, offset: u64| Record {
        at: Nanos(at_us * 1000),
        offset,
        latency: None,
        len: 64 << 10,
        stream,
        volume: 0,
        op,
        flags: Flags::NONE,
    };
    let mut all = Vec::new();
    for n in 0..16u64 {
        all.push(request(n * 400, 0, Op::Read, 20 * GIB + n * (256 << 10)));
        all.push(request(n * 400 + 100, 1, Op::Read, 160 * GIB + n * (256 << 10)));
        // Writes are scattered over 60 GiB, in the same way in every run.
        all.push(request(n * 400 + 200, 2, Op::Write, 60 * GIB + n * 7 % 16 * 4 * GIB));
    }
    all
}

fn dictionary() -> Dictionary {
    let named = |thread: u32, name: &str| Stream {
        thread: Some(thread),
        process: Some(thread),
        name: name.into(),
    };
    Dictionary {
        streams: vec![named(1, "reader"), named(2, "other reader"), named(3, "writer")],
        volumes: vec!["disk".into()],
    }
}

fn input() -> Input {
    let opening = || -> Result<Box<dyn Reader>, TraceError> {
        Ok(Box::new(Given(
            Some(trace()),
            dictionary(),
            Notes { format: "drawn", ..Notes::default() },
        )))
    };
    Input::read_from(Path::new("three streams"), Box::new(opening), StreamBy::Thread, &mut untold)
        .unwrap()
}

const WIDE: f64 = 232.0;
const HIGH: f64 = 150.0;
const COLUMNS: usize = 3;
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222}.b{font-weight:600}.s{font-size:11px;fill:#667}\
.f{fill:none;stroke:#c3cad3}.w{fill:none;stroke:#8fb3d6}.r{fill:#1f6fb2}.o{fill:#c7651a}.k{fill:#5b6675}\
@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.s{fill:#aab}.f{stroke:#445}.w{stroke:#46627f}\
.r{fill:#6ab4f0}.o{fill:#f2a05a}.k{fill:#aab4c0}}";

/// Draws one scheduler's path over the disk, with time on the x axis and position on the y axis.
fn small(
    policy: &str,
    run: &Run,
    (x, y): (f64, f64),
    (longest_s, cylinders): (f64, f64),
) -> String {
    let at = |point: &HeadPoint| {
        let (across, up) = (point.done_s() / longest_s, f64::from(point.cylinder) / cylinders);
        (x + 6.0 + across * (WIDE - 28.0), y + HIGH - 12.0 - up * (HIGH - 40.0))
    };
    let points: Vec<(f64, f64)> = run.head.points.iter().map(at).collect();
    let f = &run.result.figures;
    let mut drawn = format!(
        "<text class=\"b\" x=\"{x}\" y=\"{:.0}\">{policy}</text><text class=\"s\" x=\"{:.0}\" y=\"{:.0}\" \
         text-anchor=\"end\">{:.0} ms; a read takes {:.0}</text>\n<rect class=\"f\" x=\"{x}\" y=\"{:.0}\" \
         width=\"{:.0}\" height=\"{:.0}\"/>\n",
        y + 14.0,
        x + WIDE - 16.0,
        y + 14.0,
        f.makespan_s * 1e3,
        f.read_mean_ms.unwrap_or(0.0),
        y + 20.0,
        WIDE - 16.0,
        HIGH - 26.0,
    );
    let way: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(drawn, "<path class=\"w\" d=\"M{}\"/>", way.join("L"));
    for (point, (x, y)) in run.head.points.iter().zip(&points) {
        let class = match f64::from(point.cylinder) / cylinders {
            up if up < 0.15 => "r",
            up if up > 0.85 => "o",
            _ => "k",
        };
        let _ =
            writeln!(drawn, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>");
    }
    drawn
}

fn picture() -> String {
    let (input, device) = (input(), devices::open(DEVICE).unwrap());
    let listed = [POLICIES, YARDSTICKS].into_iter().flatten();
    let policies: Vec<&str> = listed.map(|one| one.name).collect();
    let runs: Vec<Run> = policies
        .iter()
        .map(|policy| run(&input, &device, policy, Setup::default()).unwrap())
        .collect();
    let longest_s = runs.iter().map(|run| run.result.figures.makespan_s).fold(0.0, f64::max);
    let most =
        runs.iter().flat_map(|run| &run.head.points).map(|point| point.cylinder).max().unwrap();
    let rows = policies.len().div_ceil(COLUMNS);
    let (wide, high) = (WIDE * COLUMNS as f64 + 8.0, HIGH * rows as f64 + 4.0);
    let title = "Where the disk goes over time under each scheduler, on the same 48 requests of three streams";
    let mut all = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" \
         role=\"img\" aria-label=\"{title}\"><title>{title}</title><style>{STYLE}</style>\n"
    );
    for (n, (policy, run)) in policies.iter().zip(&runs).enumerate() {
        let place = (8.0 + (n % COLUMNS) as f64 * WIDE, (n / COLUMNS) as f64 * HIGH);
        all += &small(policy, run, place, (longest_s, f64::from(most) * 1.02));
    }
    all + "</svg>\n"
}

#[test]
fn the_policies_picture_matches_their_behavior() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies/schedulers.svg");
    let drawn = picture();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/policies/schedulers.svg is not what the policies do: UPDATE=1 draws it anew"
    );
}
