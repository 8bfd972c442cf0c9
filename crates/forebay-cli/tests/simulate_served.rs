//! Tests `simulate --serve`: a trace of a server's clients under the server's configuration.

use crate::command::{Folder, fails, forebay, json};

/// A configuration of two exports with a promise on an emulated disk, and another disk.
const SERVED: &str = "socket = 's'
[[disk]]
name = 'data'
file = 'data.img'
emulate = 'st1000nm0011'
policy = 'noop'
capacity_iops = 78
[[disk]]
name = 'other'
file = 'other.img'
[[export]]
name = 'batch'
on = 'data'
size = '10GiB'
[[export]]
name = 'db'
on = 'data'
offset = '10GiB'
keep_iops = 30
within = '100ms'
[[export]]
name = 'rest'
on = 'other'
";

/// Writes a trace of the clients of `SERVED`: two connections of `db`, and a burst of `batch`.
fn trace() -> String {
    let mut rows = String::from("at_ns,op,offset,len,stream\n");
    for nth in 0..200_u64 {
        let at_ns = nth * 50_000_000;
        let offset = (10 << 30) + nth * 7_919 % 100_000 * 4096;
        rows += &format!("{at_ns},read,{offset},4096,db#{}\n", nth % 2 + 1);
        if nth % 50 == 0 {
            let burst = |one: u64| format!("{at_ns},read,{},1048576,batch#1\n", one << 20);
            rows.extend((0..40).map(burst));
        }
    }
    rows
}

#[test]
fn clients_of_a_server_are_replayed_under_its_policy_and_promises() {
    let folder = Folder::new();
    let trace = folder.file("asked.csv", trace());
    let config = folder.file("serve.toml", SERVED);
    let shaped = forebay_serve::file::read(&config).unwrap().backs.remove(0).shaped().unwrap();
    let run = |more: &[&str]| {
        let mut simulate = forebay(&["simulate", "--served-disk", "data"]);
        let (found, _) = json(simulate.args(more).arg("--serve").arg(&config).arg(&trace));
        found["runs"][0].clone()
    };
    let found = run(&[]);
    assert_eq!(found["policy"], shaped, "what the server builds");
    let classes = found["classes"].as_array().unwrap();
    let names: Vec<_> = classes.iter().map(|class| class["class"].as_str().unwrap()).collect();
    assert_eq!(names, ["all", "db", "not promised"]);
    let db = &classes[1];
    assert!(db["requests"].as_u64().unwrap() >= 190 && db["bound_ms"] == 100.0, "{db}");
    assert!(db["within_bound_share"].as_f64().unwrap() >= 0.985, "{db}");
    // The page says that clients of `batch` may have waited for answers.
    let page = |more: &[&str]| {
        let mut simulate = forebay(&["simulate", "--served-disk", "data"]);
        let out = simulate.args(more).arg("--serve").arg(&config).arg(&trace).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let (open, closed) = (page(&[]), page(&["--replay", "closed"]));
    assert!(
        open.contains("Requests arrive as recorded.") && open.contains("--replay closed"),
        "{open}"
    );
    assert!(open.lines().count() <= 24 && !closed.contains("arrive as recorded"), "{open}{closed}");
    // Policies that are named replace the configured one, below the same promises.
    let policy = run(&["--policy", "clook"])["policy"].clone();
    assert_eq!(policy, shaped.replace("over=noop", "over=clook"));
}

/// A configuration of one disk with these exports, each with its keys.
fn served(exports: &[(&str, &str)]) -> String {
    let disk = "socket = 's'\n[[disk]]\nname = 'data'\nfile = 'd.img'\n";
    let export = |(nth, (name, keys)): (usize, &(&str, &str))| {
        format!(
            "[[export]]\nname = '{name}'\non = 'data'\noffset = '{nth}GiB'\nsize = '1GiB'\n{keys}\n"
        )
    };
    let exports: String = exports.iter().enumerate().map(export).collect();
    format!("{disk}emulate = 'fixed:20'\ncapacity_iops = 20\n{exports}")
}

#[test]
fn connections_of_an_export_wait_for_their_own_answers() {
    let folder = Folder::new();
    let config = served(&[("db", "weight = 2"), ("batch", "")]).replace("capacity_iops = 20\n", "");
    let config = folder.file("serve.toml", config);
    // Each of two connections reads for 2 ms, then pauses for 58 ms.
    let mut rows = String::from("at_ns,op,offset,len,latency_ns,stream\n");
    for nth in 0..100_u64 {
        let at_ns = nth * 30_000_000;
        rows += &format!("{at_ns},read,{},4096,2000000,db#{}\n", nth * 8192, nth % 2 + 1);
    }
    let trace = folder.file("asked.csv", rows);
    let mut simulate = forebay(&["simulate", "--replay", "closed", "--serve"]);
    let (found, _) = json(simulate.arg(&config).arg(&trace));
    // Reads take 50 ms. If both connections waited for each answer, this would take 7.8 s.
    let elapsed_s = found["runs"][0]["makespan_s"].as_f64().unwrap();
    assert!((5.0..6.5).contains(&elapsed_s), "{elapsed_s}");
}

#[test]
fn streams_belong_to_the_exports_that_the_configuration_names() {
    let folder = Folder::new();
    let promise = "keep_iops = 4\nwithin = '1s'";
    let config =
        folder.file("serve.toml", served(&[("db", promise), ("db#1", ""), ("x", promise)]));
    let trace = |streams: &[&str]| {
        let mut rows = String::from("at_ns,op,offset,len,stream\n");
        for nth in 0..60_usize {
            let stream = streams[nth % streams.len()];
            rows += &format!("{},read,{},4096,{stream}\n", nth * 500_000_000, nth * 8192);
        }
        folder.file("asked.csv", rows)
    };
    let run = |streams: &[&str]| {
        let mut simulate = forebay(&["simulate", "--serve"]);
        let (found, said) = json(simulate.arg(&config).arg(trace(streams)));
        let classes = found["runs"][0]["classes"].as_array().unwrap().clone();
        let of = |class: &serde_json::Value| class["requests"].as_u64().unwrap();
        (classes[1..].iter().map(of).collect::<Vec<_>>(), said)
    };
    // The classes are db, x, and requests without a promise.
    let (counts, said) = run(&["db", "db#1", "db#2", "db#1#1", "x#1", "(server)"]);
    assert_eq!(counts, [20, 10, 30]);
    assert!(!said.contains("belong"), "{said}");
    let (counts, said) = run(&["db#2", "y#1", "x"]);
    assert_eq!(counts, [20, 20, 20]);
    assert!(
        said.contains(
            "20 of 60 requests belong to no export of the configuration (stream 'y#1'); they have no \
             promise; its exports: 'db', 'db#1' and 'x'"
        ),
        "{said}"
    );
    let mut simulate = forebay(&["simulate", "--serve"]);
    let expected = ["asked.csv", "only streams 'y#1' and 'z'", "its exports: 'db', 'db#1' and 'x'"];
    fails(simulate.arg(&config).arg(trace(&["y#1", "z"])), 2, &expected);
}

#[test]
fn clients_of_a_volume_are_replayed_on_models_of_its_drives() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("v")).unwrap();
    (0..6).for_each(|nth| drop(folder.holes(&format!("v/{nth}"), 64 << 20)));
    let drives = folder.path("v").display().to_string();
    forebay(&["volume", "create", &drives]).assert().success();
    let text = format!(
        "socket = 's'\n[[volume]]\nname = 'safe'\ndrives = ['{drives}']\npolicy = 'clook'\n\
         emulate = 'st1000nm0011'\ncapacity_iops = 200\n[[export]]\nname = 'batch'\non = 'safe'\n\
         size = '64MiB'\n[[export]]\nname = 'db'\non = 'safe'\noffset = '64MiB'\nkeep_iops = 40\n\
         within = '100ms'\n"
    );
    let config = folder.file("serve.toml", &text);
    let mut rows = String::from("at_ns,op,offset,len,stream\n");
    for nth in 0..400_u64 {
        let (at_ns, place) = (nth * 50_000_000, nth * 7919 % 12_000 * 4096);
        rows += &format!("{at_ns},read,{},4096,db#1\n", (64 << 20) + place);
        rows += &format!("{at_ns},write,{},262144,batch#1\n", nth % 200 * 262_144);
    }
    let trace = folder.file("asked.csv", rows);
    let run = |more: &[&str]| {
        let mut simulate = forebay(&["simulate"]);
        let (found, _) = json(simulate.args(more).arg("--serve").arg(&config).arg(&trace));
        found["runs"][0].clone()
    };
    let found = run(&[]);
    let policy = found["policy"].as_str().unwrap();
    assert!(policy.contains(":over=array+level=raid6+") && policy.ends_with("+disk=clook"));
    assert_eq!(found["devices"].as_array().unwrap().len(), 6, "{found}");
    let db = &found["classes"][1];
    assert!(db["class"] == "db" && db["requests"].as_u64().unwrap() >= 390, "{db}");
    assert!(db["within_bound_share"].as_f64().unwrap() >= 0.985, "{db}");
    // Reads of data that was written before the trace began take time.
    assert!(db["p50_ms"].as_f64().unwrap() > 1.0, "{db}");
    let policy = run(&["--policy", "noop"])["policy"].clone();
    assert!(policy.as_str().unwrap().ends_with("+disk=noop"), "{policy}");
    let mut with_disks = forebay(&["simulate", "--disks", "8"]);
    let expected = "got 8, expected none, because the volume has 6 drives";
    fails(with_disks.arg("--serve").arg(&config).arg(&trace), 2, &["--disks", expected]);
    // A volume of real drives needs a model of them.
    let config = folder.file("real.toml", text.replace("emulate = 'st1000nm0011'\n", ""));
    let mut without = forebay(&["simulate", "--serve"]);
    let expected = "expected the model of the configured disk or drives";
    fails(without.arg(&config).arg(&trace), 2, &["--device", expected]);
    let mut with = forebay(&["simulate", "--device", "sata250", "--serve"]);
    with.arg(&config).arg(&trace).assert().success();
}

#[test]
fn a_configuration_that_cannot_be_simulated_is_refused() {
    let folder = Folder::new();
    let trace = folder.file("asked.csv", trace());
    let refused = |text: &str, more: &[&str], part: &str| {
        let config = folder.file("serve.toml", text);
        let mut simulate = forebay(&["simulate"]);
        fails(simulate.args(more).arg("--serve").arg(config).arg(&trace), 2, &[part]);
    };
    refused(SERVED, &[], "got none, expected one of 'data', 'other'");
    refused(SERVED, &["--served-disk", "x"], "got 'x', expected one of");
    refused(SERVED, &["--served-disk", "other"], "because the configuration emulates none");
    let volume = "socket = 's'\n[[volume]]\nname = 'safe'\ndrives = ['d']\n";
    refused(volume, &[], "'safe': drives: none of them has the label of a volume");
    refused("disk = 3", &[], "serve.toml");
}
