//! Adaptive RAID levels in the cost model: generates workloads, and compares rules with the offline
//! optimum.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array};
use forebay_core::Op;
use forebay_core::adapt::{
    After, Best, BonusMalus, Class, Costs, Factor, First, Mix, Never, RAID6, RAID10, Trial, Tuning,
    Within, WorkFunction, trial,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::error::argument;
use crate::given::{given, several};
use crate::signals::detached;
use crate::table::Table;

/// The maximum number of writes and of units. It prevents a table indexed by units from exceeding
/// the memory.
const UNITS_MAX: u32 = 1 << 26;

/// Generates the writes of one of the adaptive-RAID paper's workloads: a table with the `unit`
/// (uint32, from 0) and `chunks` (uint8, 1 to 4) of each write.
///
/// `kind`: "a" (all sizes equally likely), "b" (most are large: 3 or 4 chunks) or "c" (most are
/// small); most are nine in ten, or the share `bias`. A unit receives `writes_per_unit` writes on average, in runs of `run`.
/// `within` a run, one size "repeats" or each write "draws" a size with the run's bias; `after` a
/// run comes a run with the "same-bias" or the "opposite-bias". The same `seed` gives the same
/// writes.
#[pyfunction]
#[pyo3(signature = (
    kind, *, units=1000, writes_per_unit=24, run=8, within="repeats", after="same-bias", bias=0.9, seed=1,
))]
#[allow(clippy::too_many_arguments)] // They are keyword arguments.
pub(crate) fn adapt_writes(
    #[pyo3(from_py_with = given)] kind: &str,
    #[pyo3(from_py_with = given)] units: u32,
    #[pyo3(from_py_with = given)] writes_per_unit: u32,
    #[pyo3(from_py_with = given)] run: u32,
    #[pyo3(from_py_with = given)] within: &str,
    #[pyo3(from_py_with = given)] after: &str,
    #[pyo3(from_py_with = given)] bias: f64,
    #[pyo3(from_py_with = given)] seed: u64,
) -> PyResult<Table> {
    if !(1..=UNITS_MAX).contains(&units) {
        return Err(argument("units", format!("got {units}, expected 1 to {UNITS_MAX}")));
    }
    if run == 0 {
        return Err(argument("run", "got 0, expected at least 1".to_string()));
    }
    if !(0.5..=1.0).contains(&bias) {
        return Err(argument("bias", format!("got {bias}, expected 0.5 to 1")));
    }
    let percent = (bias * 100.0).round() as u8;
    let mix = match kind {
        "a" => Mix::a(units, writes_per_unit, seed),
        "b" => Mix { large_percent: percent, ..Mix::b(units, writes_per_unit, run, seed) },
        "c" => Mix { large_percent: 100 - percent, ..Mix::c(units, writes_per_unit, run, seed) },
        _ => return Err(argument("kind", format!("got '{kind}', expected a, b or c"))),
    };
    let within = match within {
        "repeats" => Within::Repeats,
        "draws" => Within::Draws,
        _ => return Err(argument("within", format!("got '{within}', expected repeats or draws"))),
    };
    let after = match after {
        "same-bias" => After::SameBias,
        "opposite-bias" => After::OppositeBias,
        _ => {
            let text = format!("got '{after}', expected same-bias or opposite-bias");
            return Err(argument("after", text));
        }
    };
    let (units, chunks): (Vec<u32>, Vec<u8>) =
        Mix { within, after, ..mix }.draws().map(|(unit, class)| (unit, class + 1)).unzip();
    let columns: [(&str, ArrayRef); 2] = [
        ("unit", Arc::new(UInt32Array::from(units))),
        ("chunks", Arc::new(UInt8Array::from(chunks))),
    ];
    let batch = RecordBatch::try_from_iter(columns);
    Ok(Table(batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))?))
}

/// Compares `rules` of adaptation with the offline optimum in the cost model. Each write is a unit,
/// counted from 0, and the number of chunks that it affects.
///
/// `rules`: "never", "bonus-malus" (the paper's), "half-thresholds", "twice-thresholds",
/// "work-function", "best". `costs`: the paper's "hdd" or "ssd", or a dict of milliseconds by
/// layout (RAID 6, then RAID 10 with three copies): `writes_ms`, the cost of a write of 1, 2, ...
/// chunks in each, and `to_mirrors_ms` and `to_parity_ms`, the cost of a switch; a threshold is a
/// hundredth above the cost of the switch. `first`: the initial layout of units, "raid6", "raid10"
/// or "write" (the best layout for the first write).
///
/// Returns a list with one dict per rule: `requests`, `switches`, `paid_ms`, `optimum_ms` (with the
/// rule's initial layout), `free_optimum_ms` (with a free choice of the initial layout), and
/// `raid6_ms` and `raid10_ms`, the costs of static arrays.
#[pyfunction]
#[pyo3(signature = (units, chunks, *, rules, costs=None, first="raid6"))]
pub(crate) fn adapt<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] units: Vec<u32>,
    #[pyo3(from_py_with = given)] chunks: Vec<u8>,
    #[pyo3(from_py_with = several)] rules: Vec<String>,
    costs: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = given)] first: &str,
) -> PyResult<Bound<'py, PyAny>> {
    if units.len() != chunks.len() {
        let text = format!("got {} for {} units, expected as many", chunks.len(), units.len());
        return Err(argument("chunks", text));
    }
    if let Some(unit) = units.iter().find(|unit| **unit >= UNITS_MAX) {
        return Err(argument("units", format!("got {unit}, expected less than {UNITS_MAX}")));
    }
    let costs = costs_of(costs)?;
    let first = match first {
        "raid6" => First::Fixed(RAID6),
        "raid10" => First::Fixed(RAID10),
        "write" => First::ByFirstWrite,
        _ => {
            let text = format!("got '{first}', expected raid6, raid10 or write");
            return Err(argument("first", text));
        }
    };
    let class = |chunks: &u8| costs.class(Op::Write, usize::from(*chunks));
    let requests: Vec<(u32, Class)> = units.iter().copied().zip(chunks.iter().map(class)).collect();
    let mut told = Vec::new();
    for rule in rules {
        let ruled = detached(py, |_| Ok(held(&rule, &costs, first, &requests)))?;
        let Some(ruled) = ruled else {
            let text = format!(
                "got '{rule}', expected never, bonus-malus, half-thresholds, twice-thresholds, \
                 work-function or best"
            );
            return Err(argument("rules", text));
        };
        told.push(row(&rule, &ruled));
    }
    py.import("json")?.call_method1("loads", (Value::from(told).to_string(),))
}

/// Runs the rule called `name` on these requests. Returns None if there is no such rule.
fn held(name: &str, costs: &Costs, first: First, requests: &[(u32, Class)]) -> Option<Trial> {
    let requests = requests.iter().copied();
    let scaled = |times, over| BonusMalus::new(Factor { times, over });
    Some(match name {
        "never" => trial(&mut Never, costs, first, requests),
        "bonus-malus" => trial(&mut scaled(1, 1), costs, first, requests),
        "half-thresholds" => trial(&mut scaled(1, 2), costs, first, requests),
        "twice-thresholds" => trial(&mut scaled(2, 1), costs, first, requests),
        "work-function" => trial(&mut WorkFunction, costs, first, requests),
        "best" => trial(&mut Best::new(costs, Tuning::default()), costs, first, requests),
        _ => return None,
    })
}

fn row(rule: &str, trial: &Trial) -> Value {
    let ms = |ns: u64| ns as f64 / 1e6;
    json!({
        "rule": rule,
        "requests": trial.requests,
        "switches": trial.switches,
        "paid_ms": ms(trial.paid),
        "optimum_ms": ms(trial.optimum),
        "free_optimum_ms": ms(trial.free_optimum),
        "raid6_ms": ms(trial.fixed[usize::from(RAID6)]),
        "raid10_ms": ms(trial.fixed[usize::from(RAID10)]),
    })
}

/// Returns the paper's costs, or those in a dict.
fn costs_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Costs> {
    let Some(given) = given else { return Ok(Costs::paper_hdd()) };
    if let Ok(name) = given.extract::<String>() {
        return match name.as_str() {
            "hdd" => Ok(Costs::paper_hdd()),
            "ssd" => Ok(Costs::paper_ssd()),
            _ => Err(argument("costs", format!("got '{name}', expected hdd, ssd or a dict"))),
        };
    }
    let given = given.cast::<PyDict>()?;
    let get = |key: &str| {
        let missing = || argument("costs", format!("got no {key}, expected one"));
        given.get_item(key)?.ok_or_else(missing)
    };
    let ns = |ms: f64| match ms {
        ms if (0.0..1e9).contains(&ms) => Ok((ms * 1e6) as u64),
        ms => Err(argument("costs", format!("got {ms}, expected milliseconds from 0 to 1e9"))),
    };
    let writes: Vec<Vec<f64>> = get("writes_ms")?.extract()?;
    let writes = writes
        .into_iter()
        .map(|row| row.into_iter().map(ns).collect())
        .collect::<PyResult<Vec<Vec<u64>>>>()?;
    let there = ns(get("to_mirrors_ms")?.extract()?)?;
    let back = ns(get("to_parity_ms")?.extract()?)?;
    let square = |there: u64, back: u64| [vec![0, there], vec![back, 0]];
    let thresholds = square(there + there / 100, back + back / 100);
    let costs = (writes.len() == 2)
        .then(|| Costs::new(&writes, &[], &square(there, back), &thresholds))
        .flatten();
    let wrong = "writes_ms: expected two rows of one length, 1 to 64 numbers".to_string();
    costs.ok_or_else(|| argument("costs", wrong))
}
