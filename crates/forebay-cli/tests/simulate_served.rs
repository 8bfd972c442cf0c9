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
    // Policies that are named replace the configured one, below the same promises.
    let policy = run(&["--policy", "clook"])["policy"].clone();
    assert_eq!(policy, shaped.replace("over=noop", "over=clook"));
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
    refused(volume, &[], "got a volume, expected a disk");
    refused("disk = 3", &[], "serve.toml");
}
