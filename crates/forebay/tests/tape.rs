//! Tapes: what a policy answered in a run it answers again, and whatever is altered is found.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use forebay::Error;
use forebay::tape::{Blank, Checked, Header, check, check_content};
use forebay_core::catalog::{DeviceSet, FlashLane, PLACEMENTS, POLICIES, SHAPERS, build_placed};
use forebay_core::device::fixed::Fixed;
use forebay_core::device::list::DeviceModel;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Flags, Nanos, Op, Policy, Request, simulate};

const LEN_MAX: u32 = 1 << 20;

/// Half a second of requests of three streams: some at once, some neighbours, some without data.
fn requests(count: u64) -> Vec<Request> {
    let request = |id: u64| {
        let dice = (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let op = match dice % 16 {
            0 => Op::Flush,
            1 => Op::Trim,
            2..=6 => Op::Write,
            _ => Op::Read,
        };
        Request {
            at: Nanos::from_micros(id / 2 * 500_000 / count),
            offset: if id.is_multiple_of(3) { id * 4096 } else { dice / 16 % 4000 * 4096 },
            id,
            len: if op == Op::Flush { 0 } else { 4096 << (dice / 64 % 3) },
            stream: (dice / 256 % 3) as u32,
            lane: 0,
            op,
            flags: if id.is_multiple_of(5) { Flags::SYNC } else { Flags::NONE },
        }
    };
    (0..count).map(request).collect()
}

/// Writes the tape of a simulated run to `path`; answers how many I/Os there were.
fn tape(path: &Path, policy: &str, requests: &[Request]) -> u64 {
    let flash = FlashLane { len_max: LEN_MAX, capacity_bytes: 8 << 20 };
    let needs_flash = PLACEMENTS.iter().any(|listed| policy.starts_with(listed.name));
    let lanes = DeviceSet {
        disks: 1,
        disk_len_max: LEN_MAX,
        disk_bytes: 1 << 40,
        flash: needs_flash.then_some(flash),
        restarts: false,
    };
    let tape = Blank::new(path, Path::new("trace"))
        .unwrap()
        .begin(&Header { policy: policy.into(), lanes });
    let mut taped = tape.record(build_placed(policy, &lanes).unwrap());
    let device = DeviceModel::Fixed(Fixed::new(1500.0).unwrap());
    let servers = taped.servers().len().max(1);
    let mut devices = vec![device; servers + usize::from(needs_flash)];
    let mut workload = Open::new(requests.to_vec(), Intensity::RECORDED);
    let mut ios = Ios::default();
    simulate::run(&mut taped, &mut devices, &mut workload, &mut ios);
    drop(taped);
    assert!(tape.finish().unwrap() > 0, "{policy}");
    ios.0
}

#[derive(Default)]
struct Ios(u64);

impl forebay_core::Observer for Ios {
    fn io(&mut self, _: &forebay_core::Completion) {
        self.0 += 1;
    }
}

fn checked(text: &[u8]) -> Result<Checked, Error> {
    check_content(Path::new("t.tape"), text, |_| ControlFlow::Continue(()))
}

#[test]
fn every_policy_answers_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.tape");
    let listed = POLICIES.iter().chain(PLACEMENTS).map(|listed| listed.name.to_string());
    let shaped = SHAPERS.iter().map(|listed| match listed.name {
        "fcfs" | "dmclock" => listed.name.to_string(),
        "token-bucket" => "token-bucket:rate=900".into(),
        "split" => "split:cmin=700:delta-c=300".into(),
        name => format!("{name}:cmin=700"),
    });
    let requests = requests(600);
    for policy in listed.chain(shaped) {
        let ios = tape(&path, &policy, &requests);
        let checked = check(&path, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(checked.difference, None, "{policy}");
        assert!(checked.identical, "{policy}");
        let counts = (checked.requests, checked.finished, checked.ios);
        assert_eq!(counts, (600, 600, ios), "{policy}");
        // As another policy answers it is another tape.
        let text = fs::read_to_string(&path).unwrap();
        let other = if policy == "cfq" { "policy noop\n" } else { "policy cfq\n" };
        let other = text.replacen(&format!("policy {policy}\n"), other, 1);
        assert!(
            !self::checked(other.as_bytes()).is_ok_and(|checked| checked.identical),
            "{policy}"
        );
    }
}

/// Every number of every answer counts, and so does every answer.
#[test]
fn whatever_is_altered_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.tape");
    tape(&path, "cfq", &requests(60));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |index: usize, line: Option<&str>| {
        let mut altered: Vec<&str> = lines.clone();
        match line {
            Some(line) => altered[index] = line,
            None => drop(altered.remove(index)),
        }
        altered.join("\n") + "\n"
    };
    let (mut answers, mut questions) = (0, 0);
    for (index, line) in lines.iter().enumerate().skip(3) {
        let words: Vec<&str> = line.split(' ').collect();
        // What was asked, up to the answer.
        let asked = match words[0] {
            "dispatch" => 3,
            "complete" => 6,
            "wake" => 2,
            _ => words.len(),
        };
        for place in 1..words.len() {
            let mut altered = words.clone();
            let changed = format!("{}1", words[place]);
            altered[place] = &changed;
            let found = checked(with(index, Some(&altered.join(" "))).as_bytes());
            if place >= asked {
                let found = found.unwrap();
                let line = found.difference.as_ref().map(|one| one.line);
                assert_eq!((found.identical, line), (false, Some(index as u64 + 1)), "{line:?}");
                answers += 1;
            } else {
                // A question that makes no difference is none; most do.
                questions += u64::from(!found.is_ok_and(|found| found.identical));
            }
        }
        let left_out = checked(with(index, None).as_bytes());
        assert!(!left_out.is_ok_and(|checked| checked.identical), "without line {}", index + 1);
    }
    assert!(answers > 400 && questions > 400, "{answers}, {questions}");
}

#[test]
fn what_is_no_tape_is_refused_in_a_line() {
    let head = "forebay tape 2\npolicy noop\nlanes 1 1048576\n";
    let submit = "submit 5 0 5 read 0 0 4096 0 0\n";
    let io = "dispatch 5 0 0 5 read 0 0 4096 0 0\n";
    let cases = [
        (String::new(), "line 1: got an empty file"),
        ("at_ns,op\n".into(), "line 1: got 'at_ns,op', expected a tape"),
        ("forebay tape 2\nlanes 1 4096\n".into(), "line 2: got 'lanes 1 4096', expected policy"),
        ("forebay tape 2\npolicy nope\nlanes 1 4096\n".into(), "line 2: got 'nope', expected a"),
        ("forebay tape 2\npolicy noop\n".into(), "line 2: got '', expected lanes"),
        ("forebay tape 2\npolicy noop\nlanes 0 4096\n".into(), "line 3: got 'lanes 0 4096'"),
        ("forebay tape 2\npolicy noop\nlanes 1 4096 9\n".into(), "line 3: got 'lanes 1 4096 9'"),
        ("forebay tape 2\npolicy cache\nlanes 1 4096\n".into(), "no flash device"),
        (format!("{head}{submit}"), "line 4: got no more after 1 calls, expected the tape's last"),
        (format!("{head}{submit}dispa"), "line 5: got a line without an end after 5 bytes"),
        (format!("{head}jump 5\n"), "line 4: got 'jump 5', expected submit, dispatch"),
        (format!("{head}submit 5 0 5 read 0 0 x 0 0\n"), "line 4: got 'submit 5 0 5 read 0 0 x"),
        (format!("{head}submit 5 0 5 read 0 0 +1 0 0\n"), "expected submit AT ID"),
        (format!("{head}submit 5 0 5 read 0 0 1 1048576 0\n"), "expected submit AT ID"),
        (format!("{head}submit 5 0 5 read 0 0 1 4294967295 0\n"), "expected submit AT ID"),
        (format!("{head}submit 5 0 5 read 0 18446744073709551615 1 0 0\n"), "expected submit AT"),
        (format!("{head}submit 5 0 5 read 1 0 1 0 0\n"), "got a request to lane 1"),
        (format!("{head}submit 5 0 6 read 0 0 1 0 0\n"), "got a request of 6 ns"),
        (format!("{head}dispatch 5 1 -\n"), "got lane 1, expected one that there is"),
        (format!("{head}{submit}dispatch 4 0 -\n"), "line 5: got a call at 4 ns, expected none"),
        (format!("{head}complete 5 0 0 5 ok\n"), "got the completion of I/O 0 on lane 0"),
        (
            format!("{head}{submit}{io}complete 6 0 0 5 ok 0/1/0\ncomplete 7 0 0 5 ok\n"),
            "line 7: got the",
        ),
        (format!("{head}{submit}end 2\n"), "line 5: got 1 calls, expected as many as"),
        (format!("{head}{submit}end 1\nend 1\n"), "line 6: got 'end 1', expected nothing after"),
    ];
    for (text, part) in cases {
        let said = checked(text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(part) && said.starts_with("t.tape, line "), "{part}: {said}");
        assert_eq!(said.lines().count(), 1);
    }
    let whole = format!("{head}{submit}{io}complete 6 0 0 5 ok 0/1/0\nend 3\n");
    assert!(checked(whole.as_bytes()).unwrap().identical);
    let long = format!("{head}submit {}\n", "5".repeat(2 << 20));
    assert!(checked(long.as_bytes()).unwrap_err().to_string().contains("without an end"));
    assert!(checked(b"forebay tape 2\npolicy \xff\n").unwrap_err().to_string().contains("no text"));
}

#[test]
fn a_tape_that_cannot_be_written_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::write(&trace, "a trace").unwrap();
    let said = Blank::new(&trace, &trace).err().unwrap().to_string();
    assert!(said.contains("got a file that is read as the one to write"), "{said}");
    assert!(Blank::new(&folder.path().join("no/such"), &trace).is_err());
    drop(Blank::new(&folder.path().join("t.tape"), &trace).unwrap());
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!((left, fs::read_to_string(&trace).unwrap()), (1, "a trace".to_string()));
}
