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
