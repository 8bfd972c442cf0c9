//! `plan buy`: which drives to buy, in which layout and how many, to keep the promises to clients;
//! their price and power draw.
//!
//! Every drive is tried in every layout ([`Layout`]), both for all clients together on one set-up
//! and for each client on its own. Three things require drives: the data, their redundancy, and the
//! response times. Each number is found by simulation ([`trial`]) and is the least that keeps every
//! client's promise; the results are ranked by price.
//!
//! Arrivals are as recorded, sped up by the growth factor. Data take up the space up to the highest
//! offset, multiplied by the same factor, and lie all over the drives ([`crate::plan::spread`]). The drives found
//! are simulated once more with one of them missing, and while that one is made anew; how many bytes
//! are lost in a year is computed ([`loss`]).

mod clients;
mod configure;
mod guarantee;
mod layout;
mod loss;
mod page;
mod prices;
mod rank;
mod run;
mod said;
mod speed;
mod spent;
mod trial;
mod verb;

use forebay_ask::{AskError, named};
use forebay_core::device::list::DeviceModel;
use forebay_core::replay::Intensity;
use forebay_core::{Device, Nanos, Policy};
use serde::Serialize;

use self::clients::Clients;
use self::guarantee::Guarantee;
use self::layout::DriveLayout;
use self::run::Case;
use self::trial::Trial;
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::input::Input;
use crate::jobs::{self, side_by_side};
use crate::plan::confidence::Bootstrap;
use crate::plan::consolidate::Begin;
use crate::plan::search::least_capacities;
use crate::progress::Telling;
use crate::shingled;
use crate::simulate::Bed;

pub use clients::{By, Promise};
pub use configure::Configuration;
pub use layout::Layout;
pub use loss::Reliability;
pub use prices::Prices;
pub use rank::{Binds, BuyRow, ClientShare, Sharing};
pub use verb::{BuyAsk, OwnPromise, Shared};

/// A drive and the name under which the user requested it.
pub struct Candidate {
    /// The requested name: a bundled device, a file, or `fixed:RATE`.
    pub asked: String,
    /// The drive.
    pub device: OpenDevice,
}

impl Candidate {
    /// Opens the drive called `name`.
    ///
    /// # Errors
    /// If no such drive exists, or if it is a rented volume.
    pub fn open(name: &str) -> Result<Candidate, Error> {
        let device = devices::open(name)?;
        if matches!(device.model, DeviceModel::Throttled(_)) {
            return Err(Error::Unfit(format!(
                "{}: got {}, a volume that is rented, expected a drive; `forebay plan volume` finds \
                 the size and speed of volumes",
                named("device"),
                device.name
            )));
        }
        Ok(Candidate { asked: name.trim().to_string(), device })
    }
}

/// The options of `plan buy`.
pub struct Question<'a> {
    /// The promise to all clients that have no promise of their own.
    pub promise: Promise,
    /// Individual promises, by client name.
    pub own: &'a [(String, Promise)],
    /// Whether traces or volumes are the clients.
    pub by: By,
    /// When the clients begin.
    pub begin: Begin,
    /// Whether to trust the traces' times even if a clock seems too coarse for the promises.
    pub trust_times: bool,
    /// The growth factor of both the bytes and the requests per second.
    pub growth: f64,
    /// The number of spare drives.
    pub spare: usize,
    /// The least number of drives that may fail without data loss.
    pub survives: usize,
    /// The drives to try.
    pub drives: &'a [Candidate],
    /// The layouts to try.
    pub layouts: &'a [Layout],
    /// The flash drive that disks share as a cache.
    pub flash: &'a Candidate,
    /// The scheduler of each disk; flash drives have none.
    pub scheduler: &'a str,
    /// The largest number of drives to try.
    pub drives_max: usize,
    /// Whether to try sharing drives between clients, separating clients, or both.
    pub sharings: &'a [Sharing],
    /// The user's prices.
    pub prices: &'a Prices,
    /// The share of time that drives are to be idle.
    pub headroom: f64,
    /// How often drives fail, and how fast that is mended.
    pub reliability: Reliability,
    /// Bootstrap settings; none if no intervals are requested.
    pub bootstrap: Option<Bootstrap>,
}

/// The highest number of drives that may be tried.
pub const DRIVES_MAX: usize = 1024;
/// The highest growth factor.
pub const GROWTH_MAX: f64 = 1000.0;

/// One client and the constant-rate capacity that it needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientNeed {
    /// The client's name.
    pub client: String,
    /// The number of its requests.
    pub requests: u64,
    /// The extent of its data, in bytes.
    pub bytes: u64,
    /// The promised bound.
    pub within_ms: f64,
    /// The promised share of its requests.
    pub fraction: f64,
    /// The constant-rate capacity that it needs alone, growth included; none if no supported rate
    /// is enough.
    pub capacity_iops: Option<u64>,
}

/// The result of `plan buy`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The headline and its reasons as one text.
    pub said: String,
    /// What to buy, in one sentence.
    #[serde(skip)]
    pub headline: String,
    /// What the headline means and is based on; a sentence or two each.
    #[serde(skip)]
    pub reasons: Vec<String>,
    /// The clients and their needs.
    pub clients: Vec<ClientNeed>,
    /// The growth factor of both the bytes and the requests per second.
    pub growth: f64,
    /// Spare drives of each set-up.
    pub spare: usize,
    /// The largest number of drives that was tried.
    pub drives_max: usize,
    /// The share of time that drives are to be idle.
    pub headroom_share: f64,
    /// All combinations that were tried, the best first; those that cannot keep the promises come
    /// last.
    pub rows: Vec<BuyRow>,
    /// Drives that cannot keep the promises in any number, with the reason; one sentence each.
    pub refused: Vec<String>,
    /// Cautions; one sentence each.
    pub cautions: Vec<String>,
    /// The configuration for the first row; none if no row keeps the promises.
    pub configuration: Option<Configuration>,
}

/// A drive in a layout, to be tried for a group of clients.
struct Tried<'a> {
    kind: DriveLayout<'a>,
    sharing: Sharing,
}

/// Finds the drives that keep the promises of `question` to the clients in `inputs`.
///
/// # Errors
/// If a trace has no times, has a clock that is too coarse, or cannot be read again; if the
/// scheduler is invalid; if a promise names an unknown client.
pub fn answer(
    inputs: &[Input],
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    check(question)?;
    let told = clients::ClientOptions {
        by: question.by,
        begin: question.begin,
        promise: question.promise,
        own: question.own,
        trust_times: question.trust_times,
    };
    let clients = &Clients::new(inputs, told)?;
    let intensity = Intensity::new(question.growth).ok_or_else(|| wrong_growth(question.growth))?;
    let used = inputs.iter().map(|input| input.description.footprint_bytes);
    let used = used.fold(0, u64::saturating_add);
    let asked = BuySearch { clients, intensity, used, question };
    let mut tried = tried(question, clients.clients.len());
    if tried.is_empty() {
        return Err(nothing_to_try(question));
    }
    let shingled = leave_shingled_out(&mut tried, inputs)?;
    if tried.is_empty() {
        return Err(Error::Unfit(shingled.join("; ")));
    }
    let names: Vec<String> = tried.iter().map(Tried::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // An estimate of about a dozen passes per case; progress only has to move.
    let steps = inputs.iter().map(|input| input.description.records).sum::<u64>() * 12;
    let work = |at: usize, tell: jobs::Tell<'_>| asked.row(&tried[at], tell);
    let mut rows = side_by_side(&names, (jobs::all(), steps), 0.0..1.0, work, progress)?;
    rank::rank(&mut rows);
    let needs = needs(clients, question.growth);
    let best = rows.first().filter(|row| row.drives.is_some());
    let best = best.and_then(|row| Some((row, tried.iter().find(|tried| tried.is(row))?)));
    let configuration = match best {
        Some((row, tried)) => {
            let guarantees = asked.guarantees(tried, &row.drives_each)?;
            let kind = &tried.kind;
            Some(configure::configuration(row, kind, &needs, &guarantees, question.growth))
        }
        None => None,
    };
    let cautions = cautions(clients, question, &rows)?;
    let refused = said::refusals(&rows, question.drives_max).into_iter().chain(shingled).collect();
    let headline = page::headline(&rows, &needs, question.drives_max);
    let reasons = said::reasons(&rows, &needs, question);
    let said = format!("{headline} {}", reasons.join(" ")).trim_end().to_string();
    let (growth, spare, drives_max) = (question.growth, question.spare, question.drives_max);
    Ok(Answer {
        said,
        headline,
        reasons,
        clients: needs,
        growth,
        spare,
        drives_max,
        headroom_share: question.headroom,
        rows,
        refused,
        cautions,
        configuration,
    })
}

/// Rejects impossible options before anything is read.
fn check(question: &Question<'_>) -> Result<(), Error> {
    let scheduler = forebay_core::catalog::build(question.scheduler, u32::MAX)?;
    if !scheduler.servers().is_empty() || !scheduler.classes().is_empty() {
        return Err(Error::Unfit(format!(
            "'{}': got a shaper, expected a scheduler for each disk, as in mq-deadline",
            question.scheduler
        )));
    }
    let flash = question.layouts.contains(&Layout::FlashCache).then_some(&question.flash.device);
    match flash {
        Some(flash) => Bed { flash: Some(flash), ..Bed::of(flash) }.check_flash(),
        None => Ok(()),
    }
}

/// The options together with the clients that they apply to.
struct BuySearch<'a> {
    clients: &'a Clients<'a>,
    intensity: Intensity,
    /// Bytes used by all traces.
    used: u64,
    question: &'a Question<'a>,
}

impl BuySearch<'_> {
    /// Returns the groups of clients that share drives.
    fn groups(&self, sharing: Sharing) -> Vec<Vec<usize>> {
        let everybody = 0..self.clients.clients.len();
        match sharing {
            Sharing::Shared => vec![everybody.collect()],
            Sharing::Apart => everybody.map(|client| vec![client]).collect(),
        }
    }

    fn case<'b>(&'b self, kind: DriveLayout<'b>, group: &'b [usize]) -> Case<'b> {
        Case {
            clients: self.clients,
            group,
            kind,
            intensity: self.intensity,
            growth: self.question.growth,
            used: self.used,
            drives_max: self.question.drives_max,
            headroom: self.question.headroom,
            rebuild_bytes_per_s: self.question.reliability.rebuild_bytes_per_s,
            bootstrap: self.question.bootstrap,
        }
    }

    fn row(&self, tried: &Tried<'_>, tell: jobs::Tell<'_>) -> Result<BuyRow, Error> {
        let groups = self.groups(tried.sharing);
        let mut counted = 0;
        let mut find = |group: &Vec<usize>| {
            Trial::new(self.case(tried.kind, group), &mut counted, &mut *tell).find()
        };
        let found = groups.iter().map(&mut find).collect::<Result<_, _>>()?;
        Ok(rank::row(&tried.kind, tried.sharing, self.clients, found, self.question))
    }

    /// Returns what each set-up guarantees to the client with the tightest promise, given its
    /// number of drives.
    fn guarantees(
        &self,
        tried: &Tried<'_>,
        drives_each: &[usize],
    ) -> Result<Vec<Guarantee>, Error> {
        let groups = self.groups(tried.sharing);
        let each = groups.iter().zip(drives_each).map(|(group, drives)| {
            let promises = group.iter().map(|client| self.clients.clients[*client].promise);
            let tightest = promises.min_by_key(|promise| promise.within);
            let Promise { within, fraction } = tightest.unwrap_or(self.question.promise);
            guarantee::guarantee(&tried.kind, *drives, within, fraction.as_f64())
        });
        each.collect()
    }
}

/// Returns the layouts whose least number of drives exceeds the maximum to try.
fn too_wide(question: &Question<'_>) -> Vec<&'static str> {
    let wide = question.layouts.iter().filter(|layout| layout.width() > question.drives_max);
    wide.map(|layout| layout.name()).collect()
}

fn nothing_to_try(question: &Question<'_>) -> Error {
    let layouts: Vec<&str> = question.layouts.iter().map(|layout| layout.name()).collect();
    Error::Unfit(format!(
        "nothing to try: got the layout {} with up to {} drives of which {} may fail; a mirror takes 2 drives, RAID 6 \
         takes 6, and only a disk has flash before it",
        layouts.join(", "),
        question.drives_max,
        question.survives
    ))
}

fn wrong_growth(growth: f64) -> Error {
    AskError::new("growth", format!("got {growth}, expected 0.001 to {GROWTH_MAX}")).into()
}

/// Returns all combinations of drive, layout and sharing that are requested and possible.
fn tried<'a>(question: &Question<'a>, clients: usize) -> Vec<Tried<'a>> {
    let flash = question.flash;
    let mut all = Vec::new();
    for candidate in question.drives {
        let has_arm = candidate.device.model.cylinders() > 0;
        let is_flash = candidate.device.model.wear().is_some();
        let wanted = question.layouts.iter().filter(|layout| {
            layout.survives() >= question.survives
                && layout.width() <= question.drives_max
                && (**layout != Layout::FlashCache || has_arm)
        });
        for layout in wanted {
            let kind = DriveLayout {
                drive: &candidate.device,
                asked: &candidate.asked,
                layout: *layout,
                flash: (*layout == Layout::FlashCache).then_some(&flash.device),
                flash_asked: &flash.asked,
                scheduler: if is_flash { "none" } else { question.scheduler },
            };
            let sharings = question.sharings.iter().filter(|sharing| {
                clients > 1 || **sharing == Sharing::Shared || question.sharings.len() == 1
            });
            all.extend(sharings.map(|sharing| Tried { kind, sharing: *sharing }));
        }
    }
    all
}

/// Removes shingled drives that cannot be simulated under random writes, and returns the reasons.
fn leave_shingled_out(tried: &mut Vec<Tried<'_>>, inputs: &[Input]) -> Result<Vec<String>, Error> {
    let inputs: Vec<&Input> = inputs.iter().collect();
    let mut told: Vec<(&str, String)> = Vec::new();
    for one in tried.iter() {
        let drive = one.kind.drive;
        if told.iter().all(|(name, _)| *name != drive.name)
            && let Some(why) = shingled::refusal(drive, &inputs)?
        {
            told.push((&drive.name, why));
        }
    }
    let is_told = |one: &Tried<'_>| told.iter().any(|(name, _)| *name == one.kind.drive.name);
    tried.retain(|one| !is_told(one));
    Ok(told.into_iter().map(|(_, why)| why).collect())
}

/// Computes the constant-rate capacity that each client needs when its requests arrive `growth`
/// times as fast.
fn needs(clients: &Clients<'_>, growth: f64) -> Vec<ClientNeed> {
    let need = |client: &clients::Client| {
        let grown = |at: Nanos| Nanos((at.0 as f64 / growth) as u64);
        let gaps = client.gaps.times().map(grown).collect();
        let requests = client.gaps.len() as u64;
        let wanted = client.promise.fraction.of(requests);
        ClientNeed {
            client: client.name.clone(),
            requests,
            bytes: client.bytes,
            within_ms: client.promise.within.as_millis_f64(),
            fraction: client.promise.fraction.as_f64(),
            capacity_iops: least_capacities(&gaps, client.promise.within, &[wanted])[0],
        }
    };
    clients.clients.iter().map(need).collect()
}

/// Returns cautions; one sentence each.
fn cautions(
    clients: &Clients<'_>,
    question: &Question<'_>,
    rows: &[BuyRow],
) -> Result<Vec<String>, Error> {
    let mut told = clients.cautions(question.begin)?;
    let wide = too_wide(question);
    if !wide.is_empty() {
        let (names, most) = (wide.join(", "), question.drives_max);
        told.push(format!("Not tried, since they take more than {most} drives: {names}."));
    }
    let unpriced = unpriced(question, rows);
    if !unpriced.is_empty() {
        let names = unpriced.join(", ");
        told.push(format!(
            "Nobody says what these cost, and what needs them comes last: {names}. Give {}.",
            named("prices")
        ));
    }
    let own = |row: &&BuyRow| row.price.is_some();
    if let Some(dated) = rows.iter().filter(own).filter_map(|row| row.priced_on.as_ref()).min() {
        told.push(format!("Prices are of days from {dated} on."));
    }
    let bytes = clients.clients.iter().map(|client| client.bytes).fold(0, u64::saturating_add);
    if rows.iter().any(|row| rank::is_any_pressed(row, bytes)) {
        told.push(
            "Arrays are simulated with the data pressed onto 512 GiB a set, where arms move less than they would."
                .into(),
        );
    }
    let best = rows.first().filter(|row| row.drives.is_some());
    let is_bought = |device: &&OpenDevice| {
        best.is_some_and(|row| {
            row.drive == device.name || row.cache_drive.as_ref() == Some(&device.name)
        })
    };
    let all = question.drives.iter().chain([question.flash]).map(|candidate| &candidate.device);
    told.extend(best.and_then(said::too_busy));
    told.extend(best.and_then(said::worn_soon));
    let mut bought: Vec<&OpenDevice> = all.filter(is_bought).collect();
    bought.dedup_by(|a, b| a.name == b.name);
    told.extend(devices::cautions(&bought));
    Ok(told)
}

/// Returns the drives whose price is needed but unknown.
fn unpriced(question: &Question<'_>, rows: &[BuyRow]) -> Vec<String> {
    let does = || rows.iter().filter(|row| row.drives.is_some());
    let is_used = |device: &OpenDevice| {
        does().any(|row| row.drive == device.name || row.cache_drive.as_ref() == Some(&device.name))
    };
    let all = question.drives.iter().chain([question.flash]).map(|candidate| &candidate.device);
    let unknown = all.filter(|device| is_used(device) && question.prices.price(device).is_none());
    let mut names: Vec<String> = unknown.map(|device| device.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
