//! Makes a declared verb available on the command line: parses its arguments, runs it, and prints
//! its answer in the requested format.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use forebay::Error;
use forebay::progress::ProgressReport;
use forebay::refusal::with_remedy;
use forebay::simulate::ServedDisk;
use forebay::verb::{LiveWork, SecondInterruption, Session, Verb, answer, in_place_of};
use forebay_ask::{Arity, Ask, AskError, Face, Given, Input, Spelling, Takes, read, spelled};
use forebay_core::Nanos;
use forebay_play::capture::capture_into;
use forebay_play::served::served_disk;
use forebay_show::markdown;
use forebay_show::terminal::{self, Extent};
use forebay_trace::unpack::Consumed;

use crate::interrupt;
use crate::output::{self, Exit, Format, say};
use crate::progress::Progress;
use crate::stdin;
use crate::usage;

/// A verb and its parsed arguments.
pub(crate) struct ParsedVerb<V> {
    ask: V,
    format: Format,
    is_explained: bool,
}

impl<V: Verb> ParsedVerb<V> {
    /// Runs the verb and prints its answer.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let report = self.ask.report().map(|path| (path.to_path_buf(), in_place_of(path)));
        let mut session = Watched {
            bar: None,
            doing: String::new(),
            warned: Vec::new(),
            held: HeldWarnings::default(),
        };
        let answered = answer(self.ask, &mut session, Spelling::Command);
        // Warnings that are held are printed when this value is dropped.
        let Watched { bar, warned, mut held, .. } = session;
        drop(bar);
        let mut answered = answered?;
        if let Some((path, replaces)) = &report {
            say!("report: {}{replaces}", path.display());
        }
        let report = report.map(|(path, _)| path);
        let printed = match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &answered.data),
            Format::Markdown => output::print(&markdown::text(&answered.page)).map_err(Into::into),
            Format::Table => {
                let extent = match self.is_explained {
                    true => Extent::Everything,
                    false => Extent::FirstScreen,
                };
                answered.page.leave_out_notes(&warned);
                let mut parts = terminal::parts(&answered.page, output::columns(), extent);
                parts[0] = output::emphasised(&parts[0]);
                if !self.is_explained && answered.page.has_details() && io::stdout().is_terminal() {
                    parts.push(more(report.as_deref()));
                }
                let text = match self.is_explained {
                    true => parts.join("\n\n"),
                    false => held.joined(&parts, report.as_deref()),
                };
                output::print(&text).map_err(Into::into)
            }
        };
        match answered.failure {
            None if answered.is_degraded => {
                output::though_unread(printed)?;
                Err(Exit::DEGRADED.into())
            }
            None => printed,
            Some(failure) => {
                output::though_unread(printed)?;
                Err(anyhow::anyhow!(failure))
            }
        }
    }
}

/// Returns a hint about where the rest of the answer can be found.
fn more(report: Option<&Path>) -> String {
    let report = report.map_or(String::new(), |path| format!(", or open {}", path.display()));
    format!("Add --explain{report} for all details.")
}

/// Shows progress on a terminal and collects warnings.
struct Watched {
    bar: Option<Progress>,
    doing: String,
    warned: Vec<String>,
    held: HeldWarnings,
}

/// Warnings to print after the answer, so that a person who looks at a terminal sees the answer
/// first. Without a terminal they are printed at once.
#[derive(Default)]
struct HeldWarnings(Vec<(PathBuf, String)>);

impl HeldWarnings {
    fn warn(&mut self, subject: &Path, sentence: &str) {
        match io::stdout().is_terminal() && io::stderr().is_terminal() {
            true => self.0.push((subject.to_path_buf(), sentence.to_string())),
            false => say_once(subject, sentence),
        }
    }
}

impl HeldWarnings {
    /// Returns the parts of an answer as text. If the terminal is too short for them and the
    /// warnings, one line tells how many warnings there are and where they can be read.
    fn joined(&mut self, parts: &[String], report: Option<&Path>) -> String {
        let room = output::rows().saturating_sub(1 + usize::from(report.is_some()));
        let (spaced, tight) = (parts.join("\n\n"), parts.join("\n"));
        if tight.lines().count() + self.lines() > room && self.0.len() > 1 {
            let report = report.map_or(String::new(), |path| format!(" or {}", path.display()));
            let said = format!("{} warnings about the input; see --explain{report}", self.0.len());
            self.0 = vec![(PathBuf::new(), said)];
        }
        match spaced.lines().count() + self.lines() <= room {
            true => spaced,
            false => tight,
        }
    }

    fn lines(&self) -> usize {
        let lines = |(subject, sentence): &(PathBuf, String)| {
            output::wrapped(&format!("forebay: {}", about(subject, sentence))).lines().count()
        };
        self.0.iter().map(lines).sum()
    }
}

impl Drop for HeldWarnings {
    fn drop(&mut self) {
        self.0.iter().for_each(|(subject, sentence)| say_once(subject, sentence));
    }
}

impl Session for Watched {
    fn begin(&mut self, doing: &str, file: Option<&Path>) -> Consumed {
        self.doing = doing.to_string();
        // The previous line is cleared before the next one is drawn.
        self.bar = None;
        let bar = match file {
            Some(file) => Progress::reading(doing, file),
            None => Progress::new(doing),
        };
        self.bar.insert(bar).consumed()
    }

    fn progress(&mut self, told: &ProgressReport) -> ControlFlow<()> {
        self.bar.get_or_insert_with(|| Progress::new(&told.doing)).tell(told)
    }

    fn read(&mut self, file: &Path, requests: u64) -> ControlFlow<()> {
        let said = format!("{} {}: {requests} requests", self.doing, file.display());
        self.bar.as_ref().map_or(ControlFlow::Continue(()), |bar| bar.say(said))
    }

    fn report(&mut self, doing: String, done_share: Option<f64>) -> ControlFlow<()> {
        self.bar.get_or_insert_with(|| Progress::new(&doing)).report(doing, done_share)
    }

    fn warn(&mut self, subject: &Path, sentence: &str) {
        let sentence = spelled(sentence, Spelling::Command);
        self.held.warn(subject, &sentence);
        self.warned.extend([format!("{}: {sentence}", subject.display()), sentence]);
    }

    fn capture(&mut self, device: &Path, length: Nanos, output: &Path) -> Result<(), Error> {
        capture_into(device, length, output, self)
    }

    fn served_disk(&mut self, config: &Path, disk: Option<&str>) -> Result<ServedDisk, Error> {
        served_disk(config, disk)
    }

    fn shorten(&mut self, second: SecondInterruption, work: LiveWork<'_>) {
        let bar = self.bar.get_or_insert_with(|| Progress::new(""));
        interrupt::shortens(second, |stop| {
            work(stop, &mut |doing, done_share| {
                let _ = bar.report(doing, done_share);
            });
        });
    }
}

/// Begins a sentence with its subject, if it has one.
fn about(subject: &Path, sentence: &str) -> String {
    match subject.as_os_str().is_empty() {
        true => sentence.to_string(),
        false => format!("{}: {sentence}", subject.display()),
    }
}

/// Prints a sentence about `subject` on standard error, unless it was already printed.
fn say_once(subject: &Path, sentence: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = about(subject, sentence);
    if SAID.lock().is_ok_and(|mut said| said.insert(line.clone())) {
        output::tell(&line);
    }
}

const FORMAT: &str = "format";
const EXPLAIN: &str = "explain";
/// The output formats of an answer that has no page. With a page, there are more.
const WITHOUT_PAGE: [&str; 3] = ["table", "json", "csv"];
const WITH_PAGE: [&str; 4] = ["table", "json", "csv", "markdown"];

/// Declares the verbs of a command with their arguments, as an enum for clap, and runs the one that
/// the user gave.
macro_rules! verbs {
    ($name:ident { $($(#[$meta:meta])* $verb:ident($arguments:ty),)* }) => {
        #[derive(clap::Subcommand)]
        enum $name {
            $($(#[$meta])* $verb($arguments),)*
        }

        impl $name {
            fn run(self) -> anyhow::Result<()> {
                match self {
                    $($name::$verb(verb) => verb.run(),)*
                }
            }
        }
    };
}
pub(crate) use verbs;

/// The inputs of an [`Ask`] as command-line arguments, for commands that print their own answers.
pub(crate) struct Arguments<A>(pub(crate) A);

/// A command that prints its own answer.
pub(crate) trait Run: Ask {
    /// Does the work of the command.
    fn run(self) -> anyhow::Result<()>;
}

impl<A: Run> Arguments<A> {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.0.run()
    }
}

impl<A: Ask> Args for Arguments<A> {
    fn augment_args(command: Command) -> Command {
        let about = forebay_ask::paragraphs(A::ABOUT);
        let command = match about.as_slice() {
            [line] => command.about(line.clone()),
            [line, ..] => command.about(line.clone()).long_about(about.join("\n\n")),
            [] => command,
        };
        let inputs: Vec<Input> =
            A::inputs().into_iter().filter(|input| input.face != Face::Python).collect();
        let has_volume = inputs.iter().any(|input| input.name == VOLUME);
        let options: Vec<Arg> = inputs.iter().filter_map(option_for).collect();
        let arguments = inputs.into_iter().map(|input| match input.name {
            // Use a short alias, unless the verb has another option of that name.
            ONLY_VOLUME if !has_volume => argument(input).alias(VOLUME),
            _ => argument(input),
        });
        command.args(arguments).args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: Ask> FromArgMatches for Arguments<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = given(&A::inputs(), matches);
        let ask = read(&given).map_err(|error| (given.has(&error.input), error));
        // What does not exist is reported before what is missing, so that a user who corrects the
        // command does not find the second error only afterwards.
        if !matches!(ask, Err((true, _))) {
            forebay_ask::check::<A>(&given)
                .map_err(|said| usage::refusal(with_remedy(spelled(&said, Spelling::Command))))?;
        }
        ask.map(Arguments).map_err(|(is_given, error)| match is_given {
            true => refused(&error),
            false => usage::missing(refused(&error)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The inputs of an [`Ask`] as command-line arguments, and the output format.
pub(crate) struct Formatted<A> {
    pub(crate) ask: A,
    pub(crate) format: Format,
}

impl<A: Ask> Args for Formatted<A> {
    fn augment_args(command: Command) -> Command {
        let format = Arg::new(FORMAT)
            .long(FORMAT)
            .value_name("FORMAT")
            .default_value("table")
            .value_parser(WITHOUT_PAGE)
            .help("How to print the answer");
        Arguments::<A>::augment_args(command).arg(format)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: Ask> FromArgMatches for Formatted<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Arguments(ask) = Arguments::from_arg_matches(matches)?;
        let format = matches.get_one::<String>(FORMAT).map(String::as_str).unwrap_or_default();
        let format = Format::from_str(format, false).unwrap_or_default();
        Ok(Formatted { ask, format })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<V: Verb> Args for ParsedVerb<V> {
    fn augment_args(command: Command) -> Command {
        let explain = Arg::new(EXPLAIN)
            .long(EXPLAIN)
            .action(ArgAction::SetTrue)
            .help("Print everything that the report shows, not just the first screen");
        let with_page = |format: Arg| format.value_parser(WITH_PAGE);
        Formatted::<V>::augment_args(command).mut_arg(FORMAT, with_page).arg(explain)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns whether an option accepts several paths. Its value is not split at commas.
fn takes_pattern(input: &Input) -> bool {
    input.takes == Takes::Path && input.allows_commas
}

/// The option that selects the only volume of a trace to read, and its alias.
const ONLY_VOLUME: &str = "only_volume";
const VOLUME: &str = "volume";

/// Formats the name of an input as an option: `--kebab-case`.
fn long(name: &str) -> String {
    name.replace('_', "-")
}

/// Returns the name of the option that a positional input can also be given as.
fn option_id(name: &str) -> String {
    format!("{name}-option")
}

/// Returns the option for a positional input that has a letter, such as the output of `convert`.
fn option_for(input: &Input) -> Option<Arg> {
    let letter = input.short.filter(|_| input.is_positional)?;
    let option = Arg::new(option_id(input.name)).short(letter).long(long(input.name));
    let option = option.value_name(input.word).value_parser(clap::value_parser!(PathBuf));
    Some(option.conflicts_with(input.name).help(format!("Another way to specify {}", input.word)))
}

fn argument(input: Input) -> Arg {
    let paragraphs = input.paragraphs();
    let mut help = paragraphs.first().cloned().unwrap_or_default();
    if let Some(range) = input.range_text() {
        help += &format!(" [{range}]");
    }
    if let Some(said) = input.default_text {
        help += &format!(" [default: {said}]");
    }
    let mut argument = Arg::new(input.name).help(help);
    argument = match option_for(&input) {
        Some(option) => argument.required_unless_present(option.get_id()),
        None => argument.required(input.is_required()),
    };
    if paragraphs.len() > 1 {
        argument = argument.long_help(paragraphs.join("\n\n"));
    }
    if !input.is_positional {
        argument = argument.long(long(input.name));
        if let Some(letter) = input.short {
            argument = argument.short(letter);
        }
    }
    if let Some(default) = input.default.or(input.command_default) {
        argument = argument.default_value(default);
    }
    if !input.choices.is_empty() && input.arity != Arity::List {
        let names = input
            .choices
            .iter()
            .map(|choice| clap::builder::PossibleValue::new(choice.name).help(choice.about));
        argument = argument.value_parser(PossibleValuesParser::new(names));
    }
    match input.arity {
        Arity::Flag => return argument.action(ArgAction::SetTrue),
        // The shell may expand a pattern to several values.
        Arity::List if input.is_positional || takes_pattern(&input) => {
            argument = argument.num_args(1..);
        }
        Arity::List => argument = argument.action(ArgAction::Append),
        Arity::One | Arity::Optional => {}
    }
    let is_separated = input.arity == Arity::List && !input.allows_commas && !input.is_positional;
    let word = match is_separated {
        true => format!("{},...", input.word),
        false => input.word.to_string(),
    };
    if is_separated && input.takes.is_path() {
        argument = argument.value_delimiter(',');
    }
    // The values of an expanded pattern end at the next option. After an option that names an
    // output file, another option is not mistaken for the name, because a file of that name would
    // be overwritten.
    let may_begin_with_hyphen =
        !input.is_positional && !takes_pattern(&input) && !input.takes.is_path();
    argument = argument.value_name(word).allow_hyphen_values(may_begin_with_hyphen);
    match input.takes {
        Takes::Trace => argument.value_parser(stdin::trace_path()),
        takes if takes.is_path() => argument.value_parser(clap::value_parser!(PathBuf)),
        _ => argument,
    }
}

impl<V: Verb> FromArgMatches for ParsedVerb<V> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Formatted { ask, format } = Formatted::from_arg_matches(matches)?;
        Ok(ParsedVerb { ask, format, is_explained: matches.get_flag(EXPLAIN) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Collects the arguments that the user wrote. Defaults come from the declaration.
fn given(inputs: &[Input], matches: &ArgMatches) -> Given {
    let mut given = Given::default();
    let is_written = |name: &str| {
        matches!(matches.try_contains_id(name), Ok(true))
            && matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
    };
    let is_given = |input: &&Input| {
        is_written(input.name)
            || is_written(&option_id(input.name))
            || input.command_default.is_some()
    };
    for input in inputs.iter().filter(is_given) {
        if input.arity == Arity::Flag {
            given.text(input.name, "true");
        } else if input.takes.is_path() {
            let id = option_id(input.name);
            let id = if is_written(&id) { id.as_str() } else { input.name };
            let paths: Vec<PathBuf> =
                matches.get_many::<PathBuf>(id).into_iter().flatten().cloned().collect();
            given.object(input.name, Arc::new(paths));
        } else {
            let texts = matches.get_many::<String>(input.name).into_iter().flatten().cloned();
            given.texts(input.name, texts);
        }
    }
    given
}

/// Converts an input error to an error of clap, with names written as options.
fn refused(error: &AskError) -> clap::Error {
    usage::refusal(spelled(&error.to_string(), Spelling::Command))
}
