use super::*;

fn told(text: &str) -> Result<Config, String> {
    parse(Path::new("serve.toml"), text).map_err(|error| error.to_string())
}

const WHOLE: &str = r#"
socket = "/run/nbd.sock"
tcp = "127.0.0.1:0"
metrics = "127.0.0.1:9122"

[[disk]]
name = "data"
file = "/srv/data.img"
read_only = false
policy = "forebay"
depth = 8
page_cache = true
capacity_iops = 900

[[volume]]
name = "safe"
drives = ["/srv/drives"]

[[export]]
name = "steady"
on = "data"
size = "1GiB"
keep_iops = 300
within = "10ms"

[[export]]
name = "best"
on = "data"
offset = "1GiB"
read_only = true
weight = 3

[[export]]
name = "safe"
on = "safe"
"#;

#[test]
fn sockets_have_a_mode_and_a_group() {
    let disk = "socket = 's'\n[[disk]]\nname = 'a'\nfile = 'f'\n";
    let access = told(&format!("socket_mode = '0660'\nsocket_group = 'root'\n{disk}"));
    let expected = SocketAccess { mode: Some(0o660), group: Some(0) };
    assert_eq!(access.unwrap().access, expected);
    for (line, what) in [
        ("socket_mode = '0999'", "expected permissions in octal"),
        ("socket_mode = '1777'", "expected permissions in octal"),
        ("socket_group = 'no such group'", "expected a group of /etc/group"),
        ("memory = '1MiB'", "expected at least 64MiB"),
        ("memory = 'much'", "expected a size with its unit"),
    ] {
        let said = told(&format!("{line}\n{disk}")).unwrap_err();
        assert!(said.contains("line 1") && said.contains(what), "{said}");
    }
    assert_eq!(told(&format!("memory = '64MiB'\n{disk}")).unwrap().memory_bytes, 64 << 20);
}

#[test]
fn a_file_says_what_is_served() {
    let config = told(WHOLE).unwrap();
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.backs.len(), 2);
    let data = &config.backs[0];
    assert_eq!((data.depth, data.who()), (8, Streams::ConnectionsOf(3)));
    assert_eq!(config.backs[1].who(), Streams::Connections);
    assert_eq!(data.exports[1].offset, 1 << 30);
    assert_eq!(
        data.shaped().unwrap(),
        "promised:cmin=300/0/0:delta-ms=10/10/10:weight=1/3/1:shared=yes:dependencies=no:delta-c=600:depth=8:over=forebay"
    );
    assert_eq!(
        config.backs[1].shaped().unwrap(),
        "promised:cmin=0:dependencies=no:depth=64:over=noop"
    );
    let emulated = WHOLE.replace("drives = [", "emulate = \"fixed:100\"\ndrives = [");
    assert!(matches!(told(&emulated).unwrap().backs[1].on, On::EmulatedVolume { .. }));
    let measured =
        WHOLE.replace("capacity_iops = 900", "capacity_iops = 900\ncapacity = \"measured\"");
    let shaped = told(&measured).unwrap().backs[0].shaped().unwrap();
    assert!(shaped.contains(":capacity=measured:delta-c=600:depth=8:over="), "{shaped}");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let changed = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        told(&WHOLE.replacen(from, to, 1)).unwrap_err()
    };
    let cases = [
        ("depth = 8", "dept = 8", "line 11", "unknown field `dept`"),
        ("\"1GiB\"", "\"1\"", "line 19", "size: got '1', expected a size with its unit"),
        ("\"10ms\"", "\"0ms\"", "line 19", "expected more than 0 and at most 24 hours"),
        ("\"10ms\"", "\"10\"", "line 19", "within: got '10', expected a time with its unit"),
        ("on = \"safe\"", "on = \"safer\"", "line 33", "on: got 'safer'"),
        ("name = \"safe\"", "name = \"data\"", "line 15", "'data' is used twice"),
        ("keep_iops = 300\n", "", "line 19", "keep_iops: not given"),
        ("keep_iops = 300", "keep_iops = 850", "line 6", "exceeds capacity_iops (900)"),
        ("capacity_iops = 900\n", "", "line 6", "capacity_iops: not given"),
        ("read_only = false", "emulate = \"nothing\"", "line 6", "no device 'nothing'"),
        ("read_only = false", "emulate = \"fixed:9\"", "line 6", "page_cache: has no effect"),
        (
            "read_only = false\npolicy = \"forebay\"\ndepth = 8\npage_cache = true",
            "emulate = \"fixed:9\"\ndepth = 8",
            "line 6",
            "depth: has no effect on an emulated device",
        ),
        ("capacity_iops = 900", "capacity = \"guessed\"", "line 13", "unknown variant `guessed`"),
        ("depth = 8", "depth = 0", "line 6", "expected 1 to 4096"),
        ("\"forebay\"", "\"bfq:slice=abc\"", "line 6", "'data': policy: 'bfq:slice=abc': no param"),
        ("\"forebay\"", "\"\"", "line 6", "'data': policy: "),
        ("depth = 8", "depth = '8'", "line 11", "depth: got '8', expected a number, such as"),
        ("= false", "= 'no'", "line 9", "read_only: got 'no', expected true or false"),
        (
            "\"1GiB\"",
            "5",
            "line 22",
            "size: got 5, expected a text in quotes, as in size = \"10GiB\"",
        ),
        ("\"10ms\"", "10", "line 24", "within: got 10, expected a text in quotes, as in within"),
        ("[\"/srv/drives\"]", "\"d\"", "line 17", "drives: got \"d\", expected a list"),
        ("\"/srv/data.img\"", "a.img", "line 8", "file: expected a text in quotes"),
        (
            "policy = \"forebay\"",
            "emulate = \"fixed:9\"\nflash = \"/f\"",
            "line 6",
            "emulate_flash too",
        ),
        ("drives = [", "depth = 0\ndrives = [", "line 15", "expected 1 to 4096"),
        ("drives = [", "emulate = \"none\"\ndrives = [", "line 15", "no device 'none'"),
        ("weight = 3", "weight = 0", "line 26", "weight: got 0, expected 1 to 1000000000"),
        ("read_only = false", "window = 4", "line 9", "unknown field `window`"),
        ("\"127.0.0.1:0\"", "\"localhost:0\"", "line 3", "expected a loopback address and port"),
    ];
    for (from, to, line, what) in cases {
        let said = changed(from, to);
        assert!(said.contains(line) && said.contains(what), "{said}");
    }
    let idle = |key: &str| {
        let plain = WHOLE.replace("keep_iops = 300\nwithin = \"10ms\"\n", "");
        let plain = plain.replace("weight = 3\n", "");
        told(&plain.replace("capacity_iops = 900", key)).map(drop)
    };
    let above = WHOLE
        .replace("drives = [", "capacity_iops = 500\ndepth = 9\ndrives = [")
        .replace("on = \"safe\"", "on = \"safe\"\nkeep_iops = 200\nwithin = \"20ms\"");
    assert_eq!(
        told(&above).unwrap().backs[1].shaped().unwrap(),
        "promised:cmin=200/0:delta-ms=20/10:weight=1/1:shared=yes:dependencies=no:delta-c=300:depth=9:over=noop"
    );
    for (key, what) in [
        ("capacity_iops = 900", "'data': capacity_iops: has no effect, because no export"),
        ("capacity = \"measured\"", "'data': capacity: has no effect, because no export"),
    ] {
        let said = idle(key).unwrap_err();
        assert!(said.contains("line 6") && said.contains(what), "{said}");
    }
    idle("").unwrap();
    assert!(told("").unwrap_err().contains("nothing to serve"));
    let silent = "[[disk]]\nname = \"a\"\nfile = \"b\"\n";
    assert!(told(silent).unwrap_err().contains("no address to listen on"));
    assert_eq!(told(&format!("socket = \"s\"\n{silent}")).unwrap().backs[0].exports[0].name, "a");
}
