//! The examples at the end of each verb's help. `tests/examples.rs` runs all of them.

use clap::Command;

/// The full name of a verb, such as `plan capacity`, and its examples.
type Examples = (&'static str, &'static [&'static str]);

/// The examples of every verb that is not just a group of other verbs.
const EACH: &[Examples] = &[
    (
        "advise",
        &[
            "forebay advise                             # the trace that comes with forebay",
            "sudo forebay advise /dev/sda --for 5m      # a disk of this machine",
            "forebay advise mine.parquet -o mine.html",
            "forebay advise mine.parquet --device st1000nm0011 --current bfq --prefer reads -o mine.html",
            "forebay advise mine.parquet --device st1000nm0011 --fit-device -o mine.html",
        ],
    ),
    (
        "describe",
        &[
            "forebay describe mine.parquet",
            "forebay describe mine.parquet --threads --limit 5 --explain",
            "zcat mine.csv.gz | forebay describe -      # from standard input",
        ],
    ),
    (
        "simulate",
        &[
            "forebay simulate mine.parquet --device sata250 --policy noop,mq-deadline,forebay",
            "forebay simulate mine.parquet --device sata250 --policy cfq:quantum=8 --format csv",
            "forebay simulate mine.parquet --device sata250 --flash d7-p5520 --policy cache",
        ],
    ),
    (
        "cache",
        &[
            "forebay cache mine.parquet",
            "forebay cache mine.parquet --sizes-mib 64,256,1024 --format csv",
            "forebay cache mine.parquet --sizes-mib 64,256 -o cache.html",
        ],
    ),
    ("compare", &["forebay compare mine.parquet other.parquet -o card.html"]),
    ("retrodict", &["forebay retrodict mine.parquet --device st1000nm0011 --policy mq-deadline"]),
    (
        "offline",
        &["forebay offline mine.parquet --device sata250:plain --policy noop,forebay --windows 5"],
    ),
    (
        "plan capacity",
        &[
            "forebay plan capacity mine.parquet --within 10ms --fraction 0.99",
            "forebay plan capacity mine.parquet --within 100ms --fraction 0.9 --device st1000nm0011",
        ],
    ),
    (
        "plan volume",
        &[
            "forebay plan volume mine.parquet --within 10ms --fraction 0.99",
            "forebay plan volume mine.parquet --within 50ms --type gp3,io2 --gib 500 --explain",
        ],
    ),
    (
        "plan consolidate",
        &[
            "forebay plan consolidate mine.parquet other.parquet --within 10ms --fraction 0.9",
            "forebay plan consolidate mine.parquet --within 10ms --fraction 0.9 -o shared.html",
        ],
    ),
    (
        "plan sla",
        &[
            "printf '[[tier]]\\nfraction = 0.9\\nwithin_ms = 20\\n' > tiers.toml",
            "forebay plan sla tiers.toml mine.parquet -o tiers.html",
        ],
    ),
    (
        "plan power",
        &["forebay plan power mine.parquet --device st1000nm0011 --epoch 1m -o power.html"],
    ),
    (
        "plan buy",
        &[
            "forebay plan buy mine.parquet --within 50ms --device mg08 --layout mirror,raid6",
            "forebay plan buy mine.parquet other.parquet --within 50ms --device hc550,mg08 --layout mirror",
        ],
    ),
    (
        "convert",
        &[
            "forebay convert mine.parquet mine.csv",
            "forebay convert mine.csv again.parquet --anonymize",
            "zcat mine.csv.gz | forebay convert - from-pipe.parquet",
        ],
    ),
    ("fit", &["forebay fit mine.parquet -o mine.model"]),
    (
        "generate",
        &[
            "forebay generate mine.model -o twin.parquet --seed 1",
            "forebay compare mine.parquet mine.model",
        ],
    ),
    (
        "capture",
        &[
            "sudo forebay capture /dev/sda -o mine.parquet --for 60s",
            "sudo forebay capture /dev/sda -o mine.parquet --for 1h",
        ],
    ),
    (
        "play",
        &[
            "forebay play mine.parquet --emulate st1000nm0011 --policy mq-deadline --for 1s",
            "forebay play mine.parquet --target scratch.img --for 1s",
        ],
    ),
    (
        "serve",
        &[
            "truncate -s 64M disk.img",
            "forebay serve disk.img --socket disk.sock --policy forebay",
            "sudo forebay serve disk.img --ublk         # as /dev/ublkb0",
        ],
    ),
    ("attach", &["sudo forebay attach disk.sock /dev/nbd0"]),
    ("detach", &["sudo forebay detach /dev/nbd0"]),
    ("top", &["forebay top disk.sock --once", "forebay top disk.sock --format json"]),
    ("control reload", &["forebay control reload disk.sock"]),
    ("control policy", &["forebay control policy disk.sock mq-deadline"]),
    ("control drain", &["forebay control drain disk.sock"]),
    ("control start-trace", &["forebay control start-trace disk.sock asked.parquet"]),
    (
        "control rotate-trace",
        &["forebay control rotate-trace disk.sock   # asked.1.parquet is complete"],
    ),
    ("control stop-trace", &["forebay control stop-trace disk.sock"]),
    ("control volume", &["forebay control volume nbd.sock"]),
    ("control check", &["forebay control check nbd.sock --rate 100"]),
    ("control cancel-check", &["forebay control cancel-check nbd.sock"]),
    (
        "control replace",
        &[
            "forebay control replace nbd.sock --with /dev/sdh            # for the missing drive",
            "forebay control replace nbd.sock --with /dev/sdi --drive 3  # which still works",
        ],
    ),
    (
        "control grow",
        &[
            "forebay control grow nbd.sock --with /dev/sdh",
            "forebay control grow nbd.sock                  # continue after a restart of the server",
        ],
    ),
    ("control remove", &["forebay control remove nbd.sock --drive 3"]),
    ("control limit", &["forebay control limit nbd.sock --rate 50"]),
    (
        "volume create",
        &["forebay volume create /dev/sdb /dev/sdc /dev/sdd /dev/sde /dev/sdf /dev/sdg"],
    ),
    ("volume status", &["forebay volume status /dev/sd[b-g]"]),
    ("volume check", &["forebay volume check /dev/sd[b-g]"]),
    ("volume grow", &["forebay volume grow /dev/sd[b-g] --with /dev/sdh"]),
    ("volume remove", &["forebay volume remove /dev/sd[b-h] --drive /dev/sdh"]),
    ("volume replace", &["forebay volume replace /dev/sd[b-g] --with /dev/sdi    # sdh is gone"]),
    ("store create", &["forebay store create disk1 disk2 disk3 disk4 --mb 100"]),
    ("store check", &["forebay store check disk1 disk2 disk3 disk4"]),
    (
        "store bench",
        &[
            "forebay store bench --workload a disk1 disk2 disk3 disk4 --records 100 --operations 100",
        ],
    ),
    (
        "store repair",
        &["forebay store repair --give-up --new disk5 disk1 disk3 disk4   # disk2 is gone"],
    ),
    (
        "store serve",
        &[
            "forebay store serve disk1 disk2 disk3 disk4",
            "forebay store bench --workload a --records 100 --operations 100",
        ],
    ),
    ("store simulate", &["forebay store simulate st1000nm0011 --disks 4 --total-mb 100"]),
    ("array score", &["forebay array score st1000nm0011 --writes 20 --filled-mib 1024"]),
    ("device import", &["forebay device import cheetah9LP.diskspecs -o mine.toml"]),
    ("device probe", &["forebay device probe /dev/nvme1n1 -o mine.toml"]),
    (
        "device validate",
        &[
            "forebay device validate mine.toml depth.json   # fio's results, row by row",
            "forebay device validate mine.toml measured.trace",
        ],
    ),
    ("device job", &["forebay device job > depth.fio"]),
    (
        "device fit",
        &[
            "forebay device fit depth.json -o mine.toml   # a disk or a solid-state drive, as fio's results say",
            "forebay device fit logs --capacity 1000204886016 -o mine.toml",
        ],
    ),
    (
        "devices",
        &["forebay devices", "forebay devices st1000nm0011", "forebay devices --format json"],
    ),
    (
        "policies",
        &["forebay policies", "forebay policies bid cfq", "forebay policies --format csv"],
    ),
    (
        "formats",
        &["forebay formats", "forebay formats msr blkparse", "forebay formats --format json"],
    ),
    ("completions", &["forebay completions bash > forebay.bash"]),
    ("man", &["forebay man man1"]),
];

/// The verbs whose first examples appear in the top-level help.
const FIRST: [&str; 5] = ["advise", "capture", "describe", "simulate", "plan capacity"];

/// Appends examples to the help of every verb and its parent verbs.
pub(crate) fn added(command: Command) -> Command {
    let shown = |lines: &[&str]| format!("Examples:\n  {}", lines.join("\n  "));
    let command = EACH.iter().fold(command, |command, (verb, lines)| {
        let words: Vec<&str> = verb.split(' ').collect();
        to(command, &words, &shown(lines))
    });
    let groups: Vec<String> = command
        .get_subcommands()
        .filter(|verb| verb.has_subcommands())
        .map(|verb| verb.get_name().to_string())
        .collect();
    let command = groups.iter().fold(command, |command, group| {
        to(command, &[group], &shown(&firsts(|verb| verb.starts_with(&format!("{group} ")))))
    });
    to(command, &[], &shown(&firsts(|verb| FIRST.contains(&verb))))
}

/// Returns the first example of each verb for which `wanted` returns true, omitting lines that only
/// create its input.
fn firsts(wanted: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let of = EACH.iter().filter(|(verb, _)| wanted(verb));
    of.filter_map(|(_, lines)| lines.iter().find(|line| line.contains("forebay ")).copied())
        .collect()
}

/// Appends `text` to the help of the subcommand named by `words`.
fn to(command: Command, words: &[&str], text: &str) -> Command {
    match words {
        [] => command.after_help(text.to_string()),
        [word, rest @ ..] => command.mut_subcommand(*word, |verb| to(verb, rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// The help of `forebay` and of groups of verbs ends with examples of some of their verbs.
    #[test]
    fn every_help_ends_with_examples() {
        let all = super::added(crate::Cli::command());
        let ends = |command: &clap::Command| command.get_after_help().map(ToString::to_string);
        let told = ends(&all).unwrap_or_default();
        assert_eq!(told.lines().count(), 1 + super::FIRST.len(), "{told}");
        for verb in all.get_subcommands().filter(|verb| verb.has_subcommands()) {
            let told = ends(verb).unwrap_or_default();
            assert_eq!(told.lines().count(), 1 + verb.get_subcommands().count(), "{told}");
        }
    }

    /// Fails if a verb has no examples, or if examples name a verb that does not exist.
    #[test]
    fn every_verb_has_examples_and_exists() {
        fn each(command: &clap::Command, above: &str, found: &mut Vec<String>) {
            for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
                let name = format!("{above} {}", verb.get_name());
                match verb.has_subcommands() {
                    true => each(verb, &name, found),
                    false => found.push(name.trim().to_string()),
                }
            }
        }
        let mut verbs = Vec::new();
        each(&crate::Cli::command(), "", &mut verbs);
        let mut listed: Vec<&str> = super::EACH.iter().map(|(verb, _)| *verb).collect();
        verbs.sort_unstable();
        listed.sort_unstable();
        assert_eq!(verbs, listed);
    }
}
