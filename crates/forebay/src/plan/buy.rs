//! `plan buy`: which drives, in which layout and how many, keep what clients are promised; what they cost and draw.
//!
//! Every drive is tried in every layout ([`Layout`]), for all clients together on one set-up and for each on its own.
//! Three things take drives: the bytes, their redundancy, and the time. Each number is found by simulation ([`trial`])
//! and is the least that keeps every client's promise; what is answered is ranked by price.
//!
//! Arrivals are as recorded, faster by the growth that is asked for; data take room as they reach, more by the same
//! growth. A drive that fails, and is made anew from the others, is not simulated.

mod clients;
mod configure;
mod layout;
mod page;
mod prices;
mod rank;
mod run;
mod said;
mod speed;
mod spent;
mod trial;
mod verb;

use std::ops::ControlFlow;

use forebay_ask::{AskError, named};
use forebay_core::replay::Intensity;
use forebay_core::{Device, Nanos, Policy};
use serde::Serialize;

use self::clients::Clients;
use self::layout::Kind;
use self::run::Case;
use self::trial::Trial;
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::input::Input;
use crate::jobs::{self, side_by_side};
use crate::plan::consolidate::Begin;
use crate::plan::search::least_capacities;
use crate::progress::Telling;
use crate::shingled;
use crate::simulate::Bed;

pub use clients::{By, Promise};
pub use configure::Configuration;
pub use layout::Layout;
pub use prices::Prices;
pub use rank::{Binds, ClientShare, Row, Sharing};
pub use verb::{BuyAsk, OwnPromise, Shared};

/// A drive, and how whoever asks names it.
pub struct Candidate {
    /// A bundled name, a file, or `fixed:RATE`.
    pub asked: String,
    /// The drive.
    pub device: OpenDevice,
}

impl Candidate {
    /// The one called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn open(name: &str) -> Result<Candidate, Error> {
        Ok(Candidate { asked: name.trim().to_string(), device: devices::open(name)? })
    }
}

/// What is asked.
pub struct Question<'a> {
    /// What all clients are promised but for those that have another promise.
    pub promise: Promise,
    /// Others' promises, by name.
    pub own: &'a [(String, Promise)],
    /// Which clients there are.
    pub by: By,
    /// When they begin.
    pub begin: Begin,
    /// Times are taken as they are, though a clock seems too coarse for the promises.
    pub trust_times: bool,
    /// How many times as many bytes and requests a second there will be.
    pub growth: f64,
    /// Drives that stand ready.
    pub spare: usize,
    /// Drives that may fail without loss, at least.
    pub survives: usize,
    /// The drives that are tried.
    pub drives: &'a [Candidate],
    /// The layouts that are tried.
    pub layouts: &'a [Layout],
    /// The flash that disks share.
    pub flash: &'a Candidate,
    /// The scheduler of each disk; flash has none.
    pub scheduler: &'a str,
    /// The most drives that are tried.
    pub drives_max: usize,
    /// Which sharing is tried.
    pub sharings: &'a [Sharing],
    /// The user's prices.
    pub prices: &'a Prices,
}

/// The most drives that may be tried.
pub const DRIVES_MAX: usize = 1024;
/// The most that is promised to grow.
pub const GROWTH_MAX: f64 = 1000.0;

/// One client, and what a server of constant rate needs for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientNeed {
    /// Its name.
    pub client: String,
    /// Its requests.
    pub requests: u64,
    /// Bytes that its data reach.
    pub bytes: u64,
    /// The bound.
    pub within_ms: f64,
    /// The share of its requests that is promised.
    pub fraction: f64,
    /// What a server of constant rate needs alone, growth included; none above all rates.
    pub capacity_iops: Option<u64>,
}

/// What to buy.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The answer in words: the headline and its reasons.
    pub said: String,
    /// What to buy, in a sentence.
    #[serde(skip)]
    pub headline: String,
    /// What that means and rests on; a sentence or two each.
    #[serde(skip)]
    pub reasons: Vec<String>,
    /// Who is served.
    pub clients: Vec<ClientNeed>,
    /// How many times as many bytes and requests a second there will be.
    pub growth: f64,
    /// Drives that stand ready, of each set-up.
    pub spare: usize,
    /// The most drives that were tried.
    pub drives_max: usize,
    /// Everything that was tried, the best first; what does not do comes last.
    pub rows: Vec<Row>,
    /// What no number of does it, and why; one sentence each.
    pub refused: Vec<String>,
    /// What to keep in mind; one sentence each.
    pub cautions: Vec<String>,
    /// The first row as configuration; none where nothing does.
    pub configuration: Option<Configuration>,
}

/// What is tried: a drive in a layout, for the clients of a group.
struct Tried<'a> {
    kind: Kind<'a>,
    sharing: Sharing,
}

/// What keeps the promises of `question` to the clients that `inputs` are.
///
/// # Errors
/// A trace without times, with a clock that is too coarse, or that cannot be read again; a wrong scheduler; a promise
/// to nobody.
pub fn answer(
    inputs: &[Input],
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    check(question)?;
    let told = clients::Told {
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
    let asked = Asked { clients, intensity, used, question };
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
    // Some dozen passes a case; it only has to move.
    let steps = inputs.iter().map(|input| input.description.records).sum::<u64>() * 12;
    let work = |at: usize, tell: jobs::Tell<'_>| asked.row(&tried[at], tell);
    let mut rows = side_by_side(&names, (jobs::all(), steps), 0.0..1.0, work, progress)?;
    rank::rank(&mut rows);
    let needs = needs(clients, question.growth);
    let best = rows.first().filter(|row| row.drives.is_some());
    let best = best.and_then(|row| Some((row, tried.iter().find(|tried| tried.is(row))?)));
    let configuration = match best {
        Some((row, tried)) => {
            let rates = asked.rates_iops(tried, &row.drives_each)?;
            let kind = &tried.kind;
            Some(configure::configuration(row, kind, &needs, &rates, question.growth))
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
        rows,
        refused,
        cautions,
        configuration,
    })
}

/// Refuses what nothing could be made of, before anything is read.
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

/// What is asked of whom.
struct Asked<'a> {
    clients: &'a Clients<'a>,
    intensity: Intensity,
    /// Bytes that all traces use.
    used: u64,
    question: &'a Question<'a>,
}

impl Asked<'_> {
    /// Who is on the same drives.
    fn groups(&self, sharing: Sharing) -> Vec<Vec<usize>> {
        let everybody = 0..self.clients.clients.len();
        match sharing {
            Sharing::Shared => vec![everybody.collect()],
            Sharing::Apart => everybody.map(|client| vec![client]).collect(),
        }
    }

    fn case<'b>(&'b self, kind: Kind<'b>, group: &'b [usize]) -> Case<'b> {
        Case {
            clients: self.clients,
            group,
            kind,
            intensity: self.intensity,
            growth: self.question.growth,
            used: self.used,
            drives_max: self.question.drives_max,
        }
    }

    fn row(&self, tried: &Tried<'_>, tell: jobs::Tell<'_>) -> Result<Row, Error> {
        let groups = self.groups(tried.sharing);
        let mut counted = 0;
        let mut find = |group: &Vec<usize>| {
            Trial::new(self.case(tried.kind, group), &mut counted, &mut *tell).find()
        };
        let found = groups.iter().map(&mut find).collect::<Result<_, _>>()?;
        Ok(rank::row(&tried.kind, tried.sharing, self.clients, found, self.question))
    }

    /// Requests a second that each set-up of so many drives does.
    fn rates_iops(&self, tried: &Tried<'_>, drives_each: &[usize]) -> Result<Vec<f64>, Error> {
        let groups = self.groups(tried.sharing);
        let rate = |(group, drives): (&Vec<usize>, &usize)| {
            let (mut counted, mut tell) = (0, |_| ControlFlow::Continue(()));
            Trial::new(self.case(tried.kind, group), &mut counted, &mut tell).rate_iops(*drives)
        };
        groups.iter().zip(drives_each).map(rate).collect()
    }
}

/// Layouts that more drives are needed for than may be tried.
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

/// Everything that is asked for and makes sense.
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
            let kind = Kind {
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

/// Takes out what has no answer for random writes, and says why.
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

/// What a server of constant rate needs for each client, whose requests come so much faster.
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

/// What to keep in mind; one sentence each.
fn cautions(
    clients: &Clients<'_>,
    question: &Question<'_>,
    rows: &[Row],
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
    let own = |row: &&Row| row.price.is_some();
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
    let mut bought: Vec<&OpenDevice> = all.filter(is_bought).collect();
    bought.dedup_by(|a, b| a.name == b.name);
    told.extend(devices::cautions(&bought));
    Ok(told)
}

/// Drives that rows need and nobody says the price of.
fn unpriced(question: &Question<'_>, rows: &[Row]) -> Vec<String> {
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
