//! The verb `plan buy`: finds which drives to buy, how many and in which layout, to keep the
//! promises to clients, with their price and power draw.
//!
//! Every drive is tried in every layout ([`Layout`]), both with all clients sharing one setup and
//! with a separate setup for each client. Drives are needed for three reasons: the data, their
//! redundancy, and the response times. The smallest number that keeps every client's promise is
//! found by simulation ([`trial`]), and the results are ranked by price.
//!
//! Arrivals are as recorded, sped up by the growth factor. Data extend up to the highest offset,
//! multiplied by the same factor, and are spread over the whole drives ([`crate::plan::spread`]).
//! The drives found are also simulated with one of them missing, and during the rebuild of that
//! drive. The bytes expected to be lost per year are computed ([`loss`]).

mod budget;
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
use forebay_core::replay::Intensity;
use forebay_core::{Device, DeviceModel, Nanos, Policy};
use serde::Serialize;

use self::guarantee::Guarantee;
use crate::devices::{self, OpenDevice};
use crate::jobs::{self, side_by_side};
use crate::plan::confidence::Bootstrap;
use crate::plan::consolidate::Begin;
use crate::plan::page::too_few;
use crate::plan::search::least_capacities;
use crate::{Bed, Error, Input, Telling, shingled};
use clients::{Clients, Merged};
use layout::{CHUNK_KIB, Data, DriveLayout, Set, is_pressed};
use run::{Case, Come, Count, Health, Run};
use trial::{Never, Trial, TrialResult};

pub use budget::Budget;
pub use clients::{By, Promise};
pub use configure::Configuration;
pub use guarantee::guaranteed_iops;
pub use layout::Layout;
pub use loss::Reliability;
pub use prices::Prices;
use rank::BuyRefusal;
pub use rank::{Binds, BuyRow, ClientShare, Sharing};
use said::REASONS_FIRST;
use speed::Speed;
use spent::Spent;
pub use verb::{BuyAsk, OwnPromise, Shared};

/// A drive to try, with the name by which the user requested it.
pub struct Candidate {
    /// The name as the user wrote it: a bundled device, a file, or `fixed:RATE`.
    pub asked: String,
    /// The model of the drive.
    pub device: OpenDevice,
}

impl Candidate {
    /// Opens the drive called `name`.
    ///
    /// # Errors
    /// Fails if there is no such drive, or if it is a cloud volume, which cannot be bought.
    pub fn open(name: &str) -> Result<Candidate, Error> {
        let device = devices::open(name)?;
        if matches!(device.model, DeviceModel::Throttled(_)) {
            return Err(Error::Unfit(format!(
                "{}: got {}, a rented cloud volume, expected a drive; `forebay plan volume` finds \
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
    /// The promise to clients that have no promise of their own.
    pub promise: Promise,
    /// Promises to single clients, by client name.
    pub own: &'a [(String, Promise)],
    /// Whether each trace or each volume is a client.
    pub by: By,
    /// How the clients' start times are aligned.
    pub begin: Begin,
    /// Whether to trust the traces' times even if a clock seems too coarse for the promises.
    pub trust_times: bool,
    /// The factor by which both the data and the request rate are assumed to grow.
    pub growth: f64,
    /// The size in GiB of the data of all clients, including growth; `None` for all addresses up to
    /// the highest of each volume.
    pub gib: Option<u64>,
    /// The number of spare drives per setup.
    pub spare: usize,
    /// The minimum number of drives that must be able to fail without data loss.
    pub survives: usize,
    /// The drives to try.
    pub drives: &'a [Candidate],
    /// The layouts to try.
    pub layouts: &'a [Layout],
    /// The flash drive that disks share as a cache, in layouts with such a cache.
    pub flash: &'a Candidate,
    /// The scheduler of each disk; flash drives have none.
    pub scheduler: &'a str,
    /// The maximum number of drives to try.
    pub drives_max: usize,
    /// Whether to try sharing drives among all clients, a setup for each client, or both.
    pub sharings: &'a [Sharing],
    /// Prices and power figures from the user.
    pub prices: &'a Prices,
    /// The most that the drives may cost.
    pub budget: Option<&'a Budget>,
    /// Whether to recommend nothing if the traces have too few requests to decide anything.
    pub refuses_few: bool,
    /// The share of the time that drives must be idle.
    pub headroom: f64,
    /// How often drives fail, and how fast they are rebuilt.
    pub reliability: Reliability,
    /// The settings for bootstrap intervals; `None` if no intervals are requested.
    pub bootstrap: Option<Bootstrap>,
}
/// The upper limit of the growth factor.
pub const GROWTH_MAX: f64 = 1000.0;

/// A client, with the constant-rate capacity that keeps its promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientNeed {
    /// The client's name.
    pub client: String,
    /// The number of the client's requests.
    pub requests: u64,
    /// The extent of the client's data in bytes.
    pub bytes: u64,
    /// The time within which the client's requests are promised an answer.
    pub within_ms: f64,
    /// The share of the client's requests that are promised an answer within that time.
    pub fraction: f64,
    /// The constant-rate capacity that the client needs if it is alone, including growth; `None` if
    /// no supported rate is enough.
    pub capacity_iops: Option<u64>,
}

/// The answer of `plan buy`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The headline and the reasons as one text.
    pub said: String,
    /// What to buy, in one sentence.
    #[serde(skip)]
    pub headline: String,
    /// The meaning of the headline and the evidence for it; one or two sentences per entry.
    #[serde(skip)]
    pub reasons: Vec<String>,
    /// The clients with the capacities that they need.
    pub clients: Vec<ClientNeed>,
    /// The factor by which both the data and the request rate were assumed to grow.
    pub growth: f64,
    /// The number of spare drives per setup.
    pub spare: usize,
    /// The maximum number of drives that was tried.
    pub drives_max: usize,
    /// The share of the time that drives must be idle.
    pub headroom_share: f64,
    /// All combinations of drive, layout and sharing that were tried, the best first. Those that
    /// cannot keep the promises come last.
    pub rows: Vec<BuyRow>,
    /// Drives that cannot keep the promises in any number, with the reasons, one sentence each.
    pub refused: Vec<String>,
    /// Cautions about the answer, one sentence each.
    pub cautions: Vec<String>,
    /// The cautions about the size of the data.
    #[serde(skip)]
    of_size: Vec<String>,
    /// The configuration for the drives in the first row; `None` if no row keeps the promises
    /// within the budget.
    pub configuration: Option<Configuration>,
    /// Whether rows keep the promises, but none is known to cost no more than the budget.
    pub is_over_budget: bool,
}

impl Answer {
    /// Creates the answer for traces that do not show what to buy, for the reason `why`.
    fn undecided(question: &Question<'_>, why: String) -> Answer {
        Answer {
            said: why.clone(),
            headline: why,
            reasons: Vec::new(),
            clients: Vec::new(),
            growth: question.growth,
            spare: question.spare,
            drives_max: question.drives_max,
            headroom_share: question.headroom,
            rows: Vec::new(),
            refused: Vec::new(),
            cautions: Vec::new(),
            of_size: Vec::new(),
            configuration: None,
            is_over_budget: false,
        }
    }
}

/// A combination to try: a drive, a layout, and how clients share drives.
struct Tried<'a> {
    kind: DriveLayout<'a>,
    sharing: Sharing,
}

/// Finds the drives that keep the promises of `question` to the clients in `inputs`.
///
/// # Errors
/// Fails if a trace has no times, has a clock that is too coarse, or cannot be read again; if the
/// scheduler is invalid; or if a promise names an unknown client.
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
        bytes: question.gib.map(|gib| gib as f64 * f64::from(1 << 30) / question.growth),
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
    let requests = inputs.iter().map(|input| input.description.requests).sum();
    if let Some(why) = too_few(requests).filter(|_| question.refuses_few) {
        return Ok(Answer::undecided(question, why));
    }
    let names: Vec<String> = tried.iter().map(Tried::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Assume about a dozen passes per combination; this estimate only serves to report progress.
    let steps = inputs.iter().map(|input| input.description.records).sum::<u64>() * 12;
    let work = |at: usize, tell: jobs::Tell<'_>| asked.row(&tried[at], tell);
    let mut rows = side_by_side(&names, (jobs::all(), steps), 0.0..1.0, work, progress)?;
    rank::rank(&mut rows);
    if let Some(budget) = question.budget {
        budget.rank(&mut rows);
    }
    asked.answer(inputs, rows, &tried, shingled)
}

/// Fails if the options cannot be satisfied, before any trace is read.
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

/// The options of `plan buy`, with the clients that they apply to.
struct BuySearch<'a> {
    clients: &'a Clients<'a>,
    intensity: Intensity,
    /// The number of bytes that all traces use.
    used: u64,
    question: &'a Question<'a>,
}

impl BuySearch<'_> {
    /// Puts the answer into words. `rows` has the best of `tried` first; `shingled` explains which
    /// were left out.
    fn answer(
        &self,
        inputs: &[Input],
        rows: Vec<BuyRow>,
        tried: &[Tried<'_>],
        shingled: Vec<String>,
    ) -> Result<Answer, Error> {
        let (clients, question) = (self.clients, self.question);
        let needs = needs(clients, question.growth);
        let lack = question.budget.and_then(|budget| budget.lack(&rows, &page::promise(&needs)));
        let best = rows.first().filter(|row| row.drives.is_some() && lack.is_none());
        let best = best.and_then(|row| Some((row, tried.iter().find(|tried| tried.is(row))?)));
        let configuration = match best {
            Some((row, tried)) => {
                let guarantees = self.guarantees(tried, &row.drives_each)?;
                let kind = &tried.kind;
                Some(configure::configuration(row, kind, &needs, &guarantees, question.growth))
            }
            None => None,
        };
        let of_size = clients.told_of_gaps(question.growth);
        let cautions = cautions(clients, question, &rows, &of_size)?;
        let writes = inputs.iter().any(|input| input.description.writes > 0);
        let refused_rows = rows.iter().filter(|row| row.refusal.is_some());
        let reads_first = said::reads_first(refused_rows).filter(|_| writes);
        let refused = said::refusals(&rows, question.drives_max).into_iter();
        let refused = refused.chain(reads_first).chain(shingled).collect();
        let is_over_budget = lack.is_some();
        let headline = lack.unwrap_or_else(|| page::headline(&rows, &needs, question.drives_max));
        let mut reasons = said::reasons(&rows, &needs, question);
        let first_rows = rows.iter().take(page::FIRST_ROWS).filter(|row| row.drives.is_some());
        if let (Some(why), Some(first)) = (said::reads_first(first_rows), reasons.first_mut())
            && writes
        {
            *first += &format!(" {why}");
        }
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
            of_size,
            configuration,
            is_over_budget,
        })
    }

    /// Returns the groups of clients that share drives, as indices of clients.
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

    /// Returns the rate that each setup, with the drives found for it, guarantees at its tightest
    /// promise.
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

/// Returns the layouts that need more drives than the maximum to try.
fn too_wide(question: &Question<'_>) -> Vec<&'static str> {
    let wide = question.layouts.iter().filter(|layout| layout.width() > question.drives_max);
    wide.map(|layout| layout.name()).collect()
}

fn nothing_to_try(question: &Question<'_>) -> Error {
    let layouts: Vec<&str> = question.layouts.iter().map(|layout| layout.name()).collect();
    Error::Unfit(format!(
        "nothing to try: got the layout {} with up to {} drives of which {} may fail; a mirror takes 2 drives, RAID 6 \
         takes 6, and only disks can have a flash cache",
        layouts.join(", "),
        question.drives_max,
        question.survives
    ))
}

fn wrong_growth(growth: f64) -> Error {
    AskError::new("growth", format!("got {growth}, expected 0.001 to {GROWTH_MAX}")).into()
}

/// Returns all requested combinations of drive, layout and sharing that are possible.
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
                costs: layout.costs(&candidate.device),
            };
            let sharings = question.sharings.iter().filter(|sharing| {
                clients > 1 || **sharing == Sharing::Shared || question.sharings.len() == 1
            });
            all.extend(sharings.map(|sharing| Tried { kind, sharing: *sharing }));
        }
    }
    all
}

/// Removes shingled drives, if these clients' random writes cannot be simulated on them, and
/// returns the reasons.
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

/// Computes the constant-rate capacity that each client needs if requests arrive `growth` times as
/// fast.
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

/// Returns cautions about the answer, one sentence each.
fn cautions(
    clients: &Clients<'_>,
    question: &Question<'_>,
    rows: &[BuyRow],
    of_size: &[String],
) -> Result<Vec<String>, Error> {
    let mut told = clients.cautions(question.begin)?;
    told.extend(of_size.iter().cloned());
    let wide = too_wide(question);
    if !wide.is_empty() {
        let (names, most) = (wide.join(", "), question.drives_max);
        told.push(format!("Not tried, because they require more than {most} drives: {names}."));
    }
    let unpriced = unpriced(question, rows);
    // If nothing has a price, nothing is listed last for lack of one.
    if !unpriced.is_empty() && rows.iter().any(|row| row.price.is_some()) {
        let names = unpriced.join(", ");
        told.push(format!(
            "The prices of the following are unknown, so configurations that need them are listed \
             last: {names}. Specify {}.",
            named("prices")
        ));
    }
    let bytes = clients.clients.iter().map(|client| client.bytes).fold(0, u64::saturating_add);
    if rows.iter().any(|row| rank::is_any_pressed(row, bytes)) {
        told.push(
            "Arrays are simulated with the data compressed into 512 GiB per set, so seeks are shorter than in reality."
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
    told.extend(best.and_then(|best| said::too_busy(best, rows)));
    told.extend(best.and_then(said::worn_soon));
    let mut bought: Vec<&OpenDevice> = all.filter(is_bought).collect();
    bought.dedup_by(|a, b| a.name == b.name);
    told.extend(devices::cautions(&bought));
    Ok(told)
}

/// Returns the names of drives whose price is needed for ranking but is unknown.
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
