//! Figures in plain words, for sentences.

pub(crate) use forebay_trace::plural::counted;

pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s >= 36_000.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.1} ms", s * 1e3),
    }
}

pub(crate) fn millis(ms: f64) -> String {
    match ms {
        ms if ms >= 999_500.0 => seconds(ms / 1e3),
        ms if ms >= 99_950.0 => format!("{:.0} s", ms / 1e3),
        ms if ms >= 9_995.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 999.5 => format!("{:.2} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    match share.abs() * 100.0 {
        p if p >= 10.0 => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}

/// "-12 %" or "+3.4 %".
pub(crate) fn change(now: f64, before: f64) -> String {
    if before <= 0.0 {
        return "no baseline".to_string();
    }
    let share = now / before - 1.0;
    format!("{}{}", if share < 0.0 { "-" } else { "+" }, percent(share))
}

/// Bytes in KiB, MiB or GiB by size, three digits.
pub(crate) fn bytes(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    match mib {
        mib if mib >= 102_400.0 => format!("{:.0} GiB", mib / 1024.0),
        mib if mib >= 10_240.0 => format!("{:.1} GiB", mib / 1024.0),
        mib if mib >= 1024.0 => format!("{:.2} GiB", mib / 1024.0),
        mib if mib >= 10.0 => format!("{mib:.0} MiB"),
        mib if mib >= 1.0 => format!("{mib:.2} MiB"),
        mib if mib >= 1.0 / 1024.0 => format!("{:.0} KiB", mib * 1024.0),
        _ => format!("{bytes:.0} B"),
    }
}
