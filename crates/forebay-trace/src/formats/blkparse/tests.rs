use super::*;
use crate::formats::events::Layer;
use crate::formats::tests::{drain, input, leniently};
use crate::{Notes, Record};

fn read(text: &str) -> Result<(Vec<Record>, Notes), TraceError> {
    read_at(text, Layer::Bottom)
}

fn read_at(text: &str, layer: Layer) -> Result<(Vec<Record>, Notes), TraceError> {
    let input = Input { layer, ..input(text.as_bytes()) };
    drain(leniently(open)(input)?).map(|(records, _, notes)| (records, notes))
}

fn read_as(format: &str, text: &str) -> Result<(Vec<Record>, Vec<String>), TraceError> {
    let input = Input { parameter: Some(format.to_owned()), ..input(text.as_bytes()) };
    drain(open(input)?).map(|(records, dictionary, _)| (records, dictionary.volumes))
}

const Q: &str = "  8,16   0  1  0.000000100  5  Q  RA 800 + 8 [a b]\n";

#[test]
fn mixed_line_ends_comments_and_summary_are_passed_over() {
    let text = format!(
        "#Maj\r\n\r\n{}8,16 1 2 0.5 0 C RA 800 + 8 [0]\nCPU0 (x):\n Reads Queued: 1\n",
        Q.replace('\n', "\r\n")
    );
    let (records, notes) = read(&text).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].latency.unwrap().0, 499_999_900);
    assert_eq!(notes.warnings, [""; 0]);
}

#[test]
fn a_format_without_process_ids_has_unknown_threads() {
    let format = "%T.%t %D %a %d %S %n %C\\n";
    let input = Input {
        parameter: Some(format.to_owned()),
        ..input(b"1.0 8,0 Q R 8 8 a\n1.1 8,0 Q R 16 8 b\n1.2 8,0 Q R 24 8 a\n1.3 8,0 C R 8 8 0\n")
    };
    let (records, dictionary, _) = drain(open(input).unwrap()).unwrap();
    let streams: Vec<_> = dictionary.streams.iter().map(|s| (s.thread, s.name.as_str())).collect();
    assert_eq!(streams, [(None, "a"), (None, "b")]);
    assert_eq!(records.iter().map(|r| r.stream).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn text_that_is_no_event_is_an_error_before_the_first_and_counted_later() {
    let error = read("hello\n").err().unwrap().to_string();
    assert!(error.contains("trace, line 1: got \"hello\""), "{error}");
    let (records, notes) = read(&format!("{Q}hello\nworld\n")).unwrap();
    assert_eq!(records.len(), 1);
    assert!(notes.warnings.iter().any(|w| w.starts_with("2 lines") && w.ends_with("line 2")));
    assert!(read("").is_err());
}

#[test]
fn a_broken_event_names_its_line_unless_it_is_the_cut_last_one() {
    let (records, notes) = read(&format!("{Q}8,16 0 x\n{Q}")).unwrap();
    let warning = "1 row cannot be read and is left out: line 2 (got";
    assert!(records.len() == 2 && notes.warnings.iter().any(|w| w.starts_with(warning)));
    let error = read(&format!("{Q}8,16 0 x\n8,16 0 y\n{Q}")).err().unwrap().to_string();
    assert!(error.contains("line 2: got") && error.contains("line 3 (got"), "{error}");
    let (records, notes) = read(&format!("{Q}8,16 0 2 0.1")).unwrap();
    assert_eq!(records.len(), 1);
    assert!(notes.warnings.iter().any(|w| w.contains("is truncated")));
}

#[test]
fn a_number_that_is_cut_at_the_end_is_left_out() {
    let done = "8,16 0 2 0.1 0 C RA 800 + 8 [0]\n";
    for cut in ["8,16 0 2 0.2 0 C RA 900 + 1", "8,16 0 2 0.2 0 C RA 900 + 16 [0"] {
        let (records, notes) = read(&format!("{Q}{done}{cut}")).unwrap();
        assert_eq!(records.len(), 1);
        assert!(notes.warnings.iter().any(|w| w.contains("is truncated")), "{notes:?}");
    }
    let (records, notes) = read(&format!("{Q}{}", done.trim_end())).unwrap();
    assert!(records[0].latency.is_some() && notes.warnings.is_empty(), "{notes:?}");
}

#[test]
fn a_second_run_and_lost_events_are_reported() {
    let event = |at: &str| Q.replace("0.000000100", at);
    let text =
        format!("{}{}{}Skips: 0 forward (0 -   0.0%)\n", event("1.0"), event("9.5"), event("0.0"));
    let (records, notes) = read(&text).unwrap();
    assert_eq!(records.len(), 3);
    let told = "the clock goes back, by 9.50 s at line 3, ";
    assert!(notes.warnings.iter().any(|w| w.starts_with(told)), "{notes:?}");
    assert!(!notes.warnings.iter().any(|w| w.contains("lost")), "{notes:?}");
    let (_, notes) = read(&format!("{Q}Skips: 7 forward (1,234 -   0.2%)\n")).unwrap();
    assert!(notes.warnings.iter().any(|w| w.contains("the tracer lost 7 events")), "{notes:?}");
}

const REMAP: &str = "8,16 0 2 0.000000200 5 A RA 900 + 8 <- (253,0) 800\n";

/// A request to a volume that is remapped to a disk, which also has a separate request.
fn layers() -> String {
    let upper = Q.replace("8,16", "253,0");
    let lower = Q.replace("800", "900").replace("0100", "0300");
    let own = Q.replace("800", "5000").replace("0100", "0400");
    let ends = "8,16 0 5 0.000001 0 C RA 900 + 8 [0]\n253,0 0 6 0.000002 0 C RA 800 + 8 [0]\n";
    format!("{upper}{REMAP}{lower}{own}{ends}")
}

#[test]
fn a_request_at_two_layers_counts_once() {
    let offsets = |records: &[Record]| -> Vec<u64> {
        records.iter().map(|record| record.offset / 512).collect()
    };
    let (records, notes) = read(&layers()).unwrap();
    assert_eq!(offsets(&records), [900, 5000]);
    assert_eq!(records[0].latency.unwrap().0, 700);
    let warning = "volume 253,0 is a layer above volume 8,16 (the trace has remaps): its 1 request";
    assert!(notes.warnings.iter().any(|w| w.starts_with(warning)), "{notes:?}");
    let (records, notes) = read_at(&layers(), Layer::Top).unwrap();
    assert_eq!(offsets(&records), [800, 5000]);
    assert_eq!(records[0].latency.unwrap().0, 1900);
    let warning = "1 request of volume 8,16 comes";
    assert!(notes.warnings.iter().any(|w| w.starts_with(warning)), "{notes:?}");
    let (records, notes) = read_at(&layers(), Layer::Every).unwrap();
    assert_eq!((records.len(), notes.warnings.len()), (3, 1), "{notes:?}");
}

#[test]
fn a_device_without_requests_in_the_trace_is_no_layer() {
    let upper = Q.replace("8,16", "253,0");
    for layer in [Layer::Top, Layer::Bottom] {
        for one in [format!("{REMAP}{Q}"), format!("{upper}{REMAP}"), format!("{upper}{Q}")] {
            let (records, notes) = read_at(&one, layer).unwrap();
            assert_eq!(records.len(), one.matches(" Q ").count(), "{one}");
            assert!(!notes.warnings.iter().any(|w| w.contains("volume")), "{notes:?}");
        }
    }
}

#[test]
fn layers_are_followed_through_a_partition() {
    // The volume is on a partition. blktrace names the disk as the device of both remaps.
    let text = format!(
        "{}8,16 0 2 0.0000002 5 A RA 900 + 8 <- (253,0) 800\n\
         8,16 0 3 0.0000002 5 A RA 2948 + 8 <- (8,17) 900\n{}",
        Q.replace("8,16", "253,0"),
        Q.replace("800", "2948").replace("0100", "0300")
    );
    for (layer, sector) in [(Layer::Bottom, 2948), (Layer::Top, 800)] {
        let (records, _) = read_at(&text, layer).unwrap();
        assert_eq!((records.len(), records[0].offset / 512), (1, sector));
    }
}

/// Events of multipath: the only arrivals at a path are those of the path checker.
const PATHS: &str = "8,0 0 1 0.0 9 Q R 0 + 8 [multipathd]\n8,0 0 2 0.001 0 C R 0 + 8 [0]\n\
    253,0 0 3 1.0 7 Q W 1000 + 8 [db]\n8,0 0 4 1.00001 7 A W 2000 + 8 <- (253,0) 1000\n\
    8,0 0 5 1.00002 7 D W 2000 + 8 [db]\n8,0 0 6 1.001 0 C W 2000 + 8 [0]\n";

#[test]
fn a_request_that_arrives_nowhere_below_counts_above() {
    let own = format!("{PATHS}253,0 0 7 1.00101 0 C W 1000 + 8 [0]\n");
    let again = own.replace("1.0", "0.0").replace(" 2000 ", " 3000 ").replace(" 1000", " 5000");
    for text in [own.clone(), format!("{again}{own}")] {
        let (records, _) = read(&text).unwrap();
        let seen: Vec<_> =
            records.iter().map(|one| (one.offset / 512, one.latency.unwrap().0)).collect();
        assert_eq!(records.len(), text.matches(" Q ").count(), "{seen:?}");
        assert_eq!(seen.last(), Some(&(1000, 1_010_000)));
    }
}

#[test]
fn requests_end_with_completions_below_if_they_have_none_above() {
    for layer in [Layer::Top, Layer::Bottom, Layer::Every] {
        let (records, _) = read_at(PATHS, layer).unwrap();
        assert_eq!(records[1].latency.map(|one| one.0), Some(1_000_000));
        // The request completes in two parts, one of them together with following sectors. There
        // are so many requests that none has to wait for its own completion any longer.
        let one = |n: u64| {
            let (upper, lower) = (n * 100, 5000 + n * 100);
            format!(
                "259,0 0 1 {n}.0 7 Q R {upper} + 8 [db]\n\
                 259,1 0 1 {n}.1 7 A R {lower} + 8 <- (259,0) {upper}\n\
                 259,1 0 1 {n}.2 7 C R {lower} + 4 [0]\n259,1 0 1 {n}.3 7 C R {} + 12 [0]\n",
                lower + 4
            )
        };
        let (records, notes) = read_at(&(0..40).map(one).collect::<String>(), layer).unwrap();
        assert_eq!((records.len(), notes.warnings.len()), (40, 0), "{notes:?}");
        assert!(records.iter().all(|one| one.latency.unwrap().0 == 300_000_000));
    }
}

#[test]
fn a_lower_request_names_the_volume_at_the_top() {
    let text = format!(
        "{}253,0 0 2 0.00000015 5 A RA 800 + 8 <- (253,1) 700\n{}{REMAP}{}",
        Q.replace("8,16", "253,1").replace("800", "700"),
        Q.replace("8,16", "253,0").replace("0100", "0200"),
        Q.replace("800", "900").replace("0100", "0300")
    );
    let (records, notes) = read_at(&text, Layer::Top).unwrap();
    assert_eq!(records.len(), 1);
    let told = "1 request of volume 8,16 comes from volume 253,1 and counts once, there";
    assert!(notes.warnings.iter().any(|one| one.starts_with(told)), "{notes:?}");
}

#[test]
fn a_requeued_request_counts_once_from_its_first_issue() {
    let event = |at: &str, what: &str| format!("8,52 3 1 {at} 226 {what} W 8 + 8 [k]\n");
    let lines = |what: &[(&str, &str)]| -> String {
        what.iter().map(|(at, what)| event(at, what)).collect()
    };
    // With a requeue event (R), the second issue may come minutes later.
    let requeued = [("0.0", "D"), ("0.1", "R"), ("30.5", "D"), ("31.0", "C")];
    for text in [&requeued[..], &[("0.0", "D"), ("0.4", "D"), ("0.5", "C")]] {
        let (records, notes) = read(&lines(text)).unwrap();
        let end = text.last().unwrap().0.parse::<f64>().unwrap() * 1e9;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].latency.unwrap().0, end as u64);
        assert!(notes.warnings.iter().any(|w| w.starts_with("1 request was issued again")));
    }
}

#[test]
fn a_stated_format_is_read() {
    let lines = "10.000000100 8,16 Q WS 800 8 a b\n\n10.000000200 8,16 U N 0 0 a b\n\
                 10.000005100 8,16 C WS 800 8 0\nReads Queued: 0\n";
    let (records, volumes) = read_as("%T.%9t %D %a %d %S %n %C\\n", lines).unwrap();
    assert_eq!(volumes, ["8,16"]);
    assert_eq!(
        (records[0].offset, records[0].len, records[0].latency.unwrap().0),
        (409_600, 4096, 5000)
    );
    let lines = "Q,7,R,800,4096,[a,b],1.5\nC,0,R,800,4096,[0],1.75\n";
    let (records, volumes) = read_as("%a,%p,%3d,%S,%N,[%C],%T.%t", lines).unwrap();
    assert_eq!((records[0].len, records[0].latency.unwrap().0), (4096, 70));
    assert_eq!(volumes, ["disk"]);
    let (_, volumes) = read_as("%a,%D,%d,%S,%n,%T.%t", "Q,8,0,R,800,8,1.5\n").unwrap();
    assert_eq!(volumes, ["8,0"]);
    let error = read_as("%T.%t %a %S %n", "1.1 Q 8 8\n").err().unwrap().to_string();
    assert!(error.contains("expected a format with %d (RWBS)"), "{error}");
}

#[test]
fn sniffs_its_own() {
    assert!(sniff(format!("# x\n{Q}").as_bytes()));
    assert!(!sniff(b"0,1234,512,R,0.5\n1,2,3,W,0.6\n"));
    assert!(!sniff(b"\x07\x74\x61\x65"));
}

#[test]
fn a_completion_with_an_error_gives_no_latency() {
    for (error, latency) in [("0", Some(100)), ("65531", None), ("-5", None)] {
        let end = format!("8,16 1 2 0.0000002 0 C RA 800 + 8 [{error}]\n");
        let (records, notes) = read(&format!("{Q}{end}")).unwrap();
        assert_eq!(records[0].latency.map(|latency| latency.0), latency);
        let is_told = notes.warnings.iter().any(|told| told.starts_with("1 request failed"));
        assert_eq!(is_told, latency.is_none(), "{notes:?}");
        let text = format!("0.0000001 8,0 Q R 8 8 0\n0.0000002 8,0 C R 8 8 {error}\n");
        let (records, _) = read_as("%T.%t %D %a %d %S %n %e\\n", &text).unwrap();
        assert_eq!(records[0].latency.is_some(), latency.is_some(), "{text}");
    }
}
