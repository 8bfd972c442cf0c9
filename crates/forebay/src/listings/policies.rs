//! The verb `policies`, which lists policies with their parameters.

use forebay_ask::named;
use forebay_core::SpecError;
use forebay_core::catalog::{
    ARRAYS, BLOCK_PARAMETERS, DIVERTING, Listed, PLACEMENTS, POLICIES, Parameter,
    SHAPER_PARAMETERS, SHAPERS, YARDSTICKS, no_policy,
};
use forebay_show::{Block, Column, Page, Place, Table, Tone, Verdict};
use forebay_words::plural::{counted, listed};
use serde::Serialize;

use crate::Error;
use crate::verb::{Answered, Session, Verb};

forebay_ask::ask! {
    /// List the policies, or describe some of them with their parameters
    pub struct PoliciesAsk("policies") {
        /// The policies to describe; without any, all are listed
        policy: Vec<String> [.positional().word("POLICY")],
    }
}

#[derive(Serialize)]
struct PoliciesAnswer {
    rows: Vec<ListedPolicy>,
}

impl Verb for PoliciesAsk {
    type Beyond = ();

    fn run(self, _: &mut dyn Session) -> Result<Answered, Error> {
        let rows = policies_named(&self.policy)?;
        let page = match self.policy.is_empty() {
            true => all_page(&rows),
            false => named_page(&rows),
        };
        Answered::new(&PoliciesAnswer { rows }, page)
    }
}

/// A policy with its parameters.
#[derive(Clone, Serialize)]
struct ListedPolicy {
    /// The policy's name.
    policy: &'static str,
    /// The policy's kind, such as `scheduler`.
    kind: &'static str,
    /// A description of the policy.
    summary: &'static str,
    /// The policy's own parameters, each as KEY=DEFAULT.
    parameters: Vec<String>,
    /// The parameters that every policy of this kind has, each as KEY=DEFAULT.
    parameters_of_kind: Vec<String>,
    /// Descriptions of the policy's own parameters, then of those of its kind.
    described: Vec<ListedParameter>,
}

/// A parameter of a policy.
#[derive(Clone, Serialize)]
struct ListedParameter {
    /// The parameter's name, as in KEY=VALUE.
    parameter: &'static str,
    /// The default value, or a word in capitals if there is none.
    default: String,
    /// The accepted values, if the parameter accepts only certain words.
    choices: &'static [&'static str],
    /// A description of the parameter.
    about: &'static str,
}

impl ListedParameter {
    fn of(parameter: &Parameter) -> ListedParameter {
        ListedParameter {
            parameter: parameter.key,
            default: parameter.default_shown(),
            choices: parameter.choices(),
            about: parameter.about,
        }
    }
}

impl ListedPolicy {
    fn of(listed: &'static Listed, kind: &'static str) -> ListedPolicy {
        let of_kind = of_kind(listed.name, kind);
        let shown = |parameters: &mut dyn Iterator<Item = &'static Parameter>| {
            parameters.map(Parameter::to_string).collect()
        };
        ListedPolicy {
            policy: listed.name,
            kind,
            summary: listed.summary,
            parameters: shown(&mut listed.parameters()),
            parameters_of_kind: shown(&mut of_kind.iter()),
            described: listed.parameters().chain(of_kind).map(ListedParameter::of).collect(),
        }
    }
}

/// Returns the parameters that a policy shares with all others of its kind.
fn of_kind(name: &str, kind: &str) -> &'static [Parameter] {
    match kind {
        SHAPER => SHAPER_PARAMETERS,
        SCHEDULER | YARDSTICK => BLOCK_PARAMETERS,
        _ if DIVERTING.contains(&name) => BLOCK_PARAMETERS,
        _ => &[],
    }
}

const SCHEDULER: &str = "scheduler";
const PLACEMENT: &str = "placement";
const ARRAY: &str = "array";
const SHAPER: &str = "shaper";
const YARDSTICK: &str = "yardstick";
/// The kinds of policies, in the order in which they are listed.
const KINDS: [&str; 5] = [SCHEDULER, PLACEMENT, ARRAY, YARDSTICK, SHAPER];

/// Returns all policies.
fn policies() -> Vec<ListedPolicy> {
    let kinds: [(&'static [Listed], &str); 5] = [
        (POLICIES, SCHEDULER),
        (PLACEMENTS, PLACEMENT),
        (ARRAYS, ARRAY),
        (YARDSTICKS, YARDSTICK),
        (SHAPERS, SHAPER),
    ];
    let each = kinds
        .into_iter()
        .flat_map(|(listed, kind)| listed.iter().map(move |listed| ListedPolicy::of(listed, kind)));
    each.collect()
}

/// Returns the policies with these names, or all policies if `names` is empty.
fn policies_named(names: &[String]) -> Result<Vec<ListedPolicy>, SpecError> {
    let all = policies();
    if names.is_empty() {
        return Ok(all);
    }
    let named = |name: &String| {
        let found = all.iter().find(|listed| listed.policy == name).cloned();
        found.ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|listed| listed.policy).collect();
            no_policy(name, &known)
        })
    };
    names.iter().map(named).collect()
}

fn titled(headline: String) -> Page {
    let verdict = Verdict::new(Tone::Calm, "Policies");
    Page { title: "Policies".into(), verdict, headline, ..Page::default() }
}

/// Builds the page of all policies: their names by kind, then a description of each.
fn all_page(rows: &[ListedPolicy]) -> Page {
    let of = |kind: &str| rows.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
    let counts = KINDS.map(|kind| counted(of(kind).len() as u64, kind));
    let mut page = titled(format!("There are {}.", listed(&counts)));
    let names = KINDS.map(|kind| {
        let names: Vec<&str> = of(kind).iter().map(|row| row.policy).collect();
        format!("{}: {}", plural(kind), names.join(", "))
    });
    let more = "`forebay policies NAME` describes a policy and its parameters; with `--explain`, \
        also the parameters that all policies of its kind have. `forebay policies --explain` \
        describes all policies.";
    let first = vec![Block::List(names.into()), Block::Text(how()), Block::Text(more.into())];
    page.add("Names", Place::FirstScreen, first);
    for kind in KINDS {
        let mut blocks = vec![Block::Table(table(&of(kind)))];
        let shared = of(kind).first().map(|row| row.parameters_of_kind.join(" "));
        if let Some(shared) = shared.filter(|shared| !shared.is_empty()) {
            blocks.push(Block::Text(format!("Each also has: {shared}")));
        }
        page.add(&plural(kind), Place::Detail, blocks);
    }
    page
}

/// Returns the plural of a kind, capitalized: "Schedulers" for "scheduler".
fn plural(kind: &str) -> String {
    let (first, rest) = kind.split_at(1);
    format!("{}{rest}s", first.to_uppercase())
}

fn table(rows: &[&ListedPolicy]) -> Table {
    Table::listing(
        rows,
        &[
            (Column::words("policy"), &|of| of.policy.into()),
            (Column::words("what it does"), &|of| of.summary.into()),
            (Column::words("parameters"), &|of| of.parameters.join(" ").into()),
        ],
    )
}

/// The maximum number of parameters described on the first screen.
const SHOWN_MAX: usize = 10;

/// Builds the page of the policies that the user named, with their parameters.
fn named_page(rows: &[ListedPolicy]) -> Page {
    let names: Vec<&str> = rows.iter().map(|row| row.policy).collect();
    let mut page = titled(match rows {
        [one] => format!("{} is {}.", one.policy, article(one.kind)),
        _ => format!("{}.", listed(&names)),
    });
    for row in rows {
        let (own, of_kind) = row.described.split_at(row.parameters.len());
        let said = Block::Text(format!("{}: {}.", row.policy, row.summary));
        let of_kind = (!of_kind.is_empty()).then(|| {
            let title = format!("Parameters of every {}", row.kind);
            (title, Block::Table(parameters(&row.parameters_of_kind, of_kind)))
        });
        let own = Block::Table(parameters(&row.parameters, own));
        match row.parameters.len() {
            0 => page.add(row.policy, Place::FirstScreen, vec![said]),
            1..=SHOWN_MAX => page.add(row.policy, Place::FirstScreen, vec![said, own]),
            _ => {
                let names = Block::Text(format!("Parameters: {}", row.parameters.join(" ")));
                page.add(row.policy, Place::FirstScreen, vec![said, names]);
                page.add(&format!("Parameters of {}", row.policy), Place::Detail, vec![own]);
            }
        }
        // Parameters common to a kind are on the first screen only if the policy has no specific
        // ones.
        let place = if row.parameters.is_empty() { Place::FirstScreen } else { Place::Detail };
        if let Some((title, table)) = of_kind {
            page.add(&title, place, vec![table]);
        }
    }
    page.add("How to set parameters", Place::Detail, vec![Block::Text(how())]);
    page
}

/// Explains how to set a policy's parameters.
fn how() -> String {
    format!(
        "Set parameters with {}, with a colon before each. The first value of a choice is its default.",
        named("policy=NAME:KEY=VALUE:KEY=VALUE")
    )
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with('a') { "an" } else { "a" };
    format!("{article} {kind}")
}

fn parameters(shown: &[String], described: &[ListedParameter]) -> Table {
    Table::listing(
        shown.iter().zip(described),
        &[
            (Column::words("parameter"), &|(shown, _)| shown.as_str().into()),
            (Column::words("what it does"), &|(_, of)| of.about.into()),
        ],
    )
}
