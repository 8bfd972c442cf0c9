//! Charts that show how the bursts of clients on a shared server overlap: the clients' requests per
//! second over time, stacked.

use std::fmt::Write;

use forebay_core::Nanos;

use forebay_show::Block;
use forebay_show::html::axis::Axis;
use forebay_show::html::charts::STRIPS;
use forebay_show::html::plot::{Caption, Plot};
use forebay_show::html::text::{seconds, significant};

use super::merged::times;
use super::page::{COLORS, Shown, apart, client_names, color, legend};

/// The maximum number of shifts for which there are charts.
const PICTURES_MAX: usize = 3;

/// Builds the charts of the clients' overlapping bursts, for the first shifts.
pub(super) fn bursts(page: &Shown<'_>) -> Vec<Block> {
    let shifts = page.shifts.iter().take(PICTURES_MAX).enumerate();
    let mut blocks: Vec<Block> =
        shifts.filter_map(|(index, shift)| stacked(page, index, *shift)).collect();
    if !blocks.is_empty() {
        blocks.insert(0, legend(&page.found.clients));
    }
    blocks
}

/// The number of time steps in a chart.
pub(super) const STEPS: usize = 400;

/// Returns the total duration of all clients in seconds, and the layers of the chart as requests
/// per time step. Layers are cumulative: each includes all clients before it, so the last layer is
/// the total. Returns `None` if all requests arrive at once.
pub(super) fn layers(page: &Shown<'_>, shift: Nanos) -> Option<(f64, Vec<[u64; STEPS]>)> {
    let each = || times(page.clients, page.begin, shift).into_iter();
    let end = each().filter_map(Iterator::last).max().unwrap_or_default().as_secs_f64();
    if end <= 0.0 {
        return None;
    }
    let mut layers = vec![[0u64; STEPS]; page.clients.len().min(COLORS)];
    for (client, of) in each().enumerate() {
        for at in of {
            let at = ((at.as_secs_f64() / end * STEPS as f64) as usize).min(STEPS - 1);
            layers[client.min(COLORS - 1)..].iter_mut().for_each(|layer| layer[at] += 1);
        }
    }
    Some((end, layers))
}

/// Builds a stacked chart of each client's requests per second over time.
fn stacked(page: &Shown<'_>, index: usize, shift: Nanos) -> Option<Block> {
    const SIZE: (f64, f64) = (1140.0, 240.0);
    let (end, layers) = layers(page, shift)?;
    let step = end / STEPS as f64;
    let highest = layers.last()?.iter().copied().max().unwrap_or(0) as f64 / step;
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::linear(end, left, right);
    let y = Axis::linear(highest * 1.05, bottom, top);
    let title = match page.shifts.len() {
        1 => "Requests per second, all clients".to_string(),
        _ => format!("Requests per second, all clients, {}", apart(shift.as_secs_f64())),
    };
    let caption = Caption {
        id: &format!("bursts-{index}"),
        title: &title,
        description: &format!(
            "Requests per second of each client over time, stacked: at most {} in all.",
            significant(highest)
        ),
    };
    let mut plot = Plot::new(&caption, SIZE, (x, "time, s"), (y, "requests per second"));
    plot.zoomable();
    for (client, layer) in layers.iter().enumerate().rev() {
        let mut path = format!("M{left:.1} {bottom:.1}");
        for (at, requests) in layer.iter().enumerate() {
            let height = plot.y.at(*requests as f64 / step);
            let to = plot.x.at((at + 1) as f64 * step);
            let _ = write!(path, "V{height:.1}H{to:.1}");
        }
        plot.add(&format!("<path class=\"{}\" d=\"{path}V{bottom:.1}Z\"/>", color(client)));
    }
    strips(&mut plot, &layers, step, &client_names(&page.found.clients));
    let caption = format!("<b>{title}</b>, stacked");
    Some(Block::Picture { svg: plot.finish(), caption })
}

/// Adds a tooltip for each time step: the requests per second, and the client that sends most of
/// them.
fn strips(plot: &mut Plot, layers: &[[u64; STEPS]], step: f64, called: &[String]) {
    let part = STEPS.div_ceil(STRIPS);
    for from in (0..STEPS).step_by(part) {
        let to = (from + part).min(STEPS);
        let lasts = (to - from) as f64 * step;
        let up_to: Vec<u64> = layers.iter().map(|layer| layer[from..to].iter().sum()).collect();
        let own = |at: usize| up_to[at] - at.checked_sub(1).map_or(0, |before| up_to[before]);
        let all = up_to.last().copied().unwrap_or(0);
        let rate = |requests: u64| significant(requests as f64 / lasts);
        let most =
            (0..up_to.len()).max_by_key(|at| (own(*at), usize::MAX - at)).filter(|_| all > 0);
        let whose = most.map_or(String::new(), |at| {
            let is_shared = at + 1 == COLORS && called.len() > COLORS;
            let whose = if is_shared { "all others" } else { called[at].as_str() };
            format!(
                ", most of {}{whose}: {}",
                if is_shared { "" } else { "client " },
                rate(own(at))
            )
        });
        let (begin, end) = (from as f64 * step, to as f64 * step);
        let told =
            format!("{} to {}: {} requests/s{whose}", seconds(begin), seconds(end), rate(all));
        plot.strip((begin, end), &told);
    }
}
