//! The declaration of a policy: its name, description and parameters. Each default is declared
//! once; both the policy and its help are derived from the declaration.

use std::fmt;

use super::spec::{Spec, SpecError};
use super::time::Nanos;

/// Where a policy is available, from the viewpoint of a system administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In Linux.
    Linux,
    /// In Linux before 5.0, which removed its single-queue schedulers.
    LinuxBefore5,
    /// In Linux before 2.6.33.
    LinuxBefore2_6_33,
    /// In Forebay, if it is in the data path.
    Forebay,
    /// Nowhere: the policy distinguishes processes, which only a scheduler inside the kernel can
    /// see.
    KernelOnly,
}

/// A policy that users can select by name.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The name, as in `--policy`.
    pub name: &'static str,
    /// The origin of the policy.
    pub origin: Origin,
    /// A one-line description.
    pub summary: &'static str,
    /// The parameter tables; a parameter is given as `name:key=value`.
    pub parameters: &'static [&'static [Parameter]],
}

impl Listed {
    /// Returns the parameters of all tables.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.parameters.iter().copied().flatten()
    }

    /// Returns the shortest valid spec: the name, and a rate for each parameter that requires one.
    pub fn shortest_spec(&self) -> String {
        let rates = self.parameters().filter(|parameter| parameter.default_shown() == "IOPS");
        let rates = rates.map(|parameter| format!(":{}=1000", parameter.key));
        [self.name.to_string()].into_iter().chain(rates).collect()
    }
}

/// The kind of value that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Takes {
    /// One of these values; the first is the default.
    Choice(&'static [&'static str]),
    /// Milliseconds.
    Millis(f64),
    /// A whole number of at least `least`.
    Whole { default: u32, least: u32 },
    /// A value that the policy parses itself; the text is the default as displayed.
    Own(&'static str),
}

/// A parameter: its key, the values it accepts and its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// The key, as in `key=value`.
    pub key: &'static str,
    /// A one-line description.
    pub about: &'static str,
    takes: Takes,
}

type Text = &'static str;

impl Parameter {
    /// Returns a parameter that accepts one of `choices`; the first is the default.
    pub const fn choice(key: Text, choices: &'static [Text]) -> Parameter {
        Parameter { key, about: "", takes: Takes::Choice(choices) }
    }

    /// Returns a parameter in milliseconds, from 0 to a day; its key ends in `-ms`.
    pub const fn millis(key: Text, default_ms: f64) -> Parameter {
        Parameter { key, about: "", takes: Takes::Millis(default_ms) }
    }

    /// Returns a parameter that accepts a whole number of at least `least`.
    pub const fn whole(key: Text, default: u32, least: u32) -> Parameter {
        Parameter { key, about: "", takes: Takes::Whole { default, least } }
    }

    /// Returns a parameter that the policy parses itself; `shown` is its default as displayed.
    pub const fn own(key: Text, shown: Text) -> Parameter {
        Parameter { key, about: "", takes: Takes::Own(shown) }
    }

    /// Returns the parameter with this description.
    pub const fn about(self, about: Text) -> Parameter {
        Parameter { about, ..self }
    }

    /// Returns the accepted values if the parameter is a choice, with the default first.
    pub const fn choices(&self) -> &'static [Text] {
        match self.takes {
            Takes::Choice(choices) => choices,
            _ => &[],
        }
    }

    /// Returns the default value as displayed; a name in capitals means that there is no default.
    pub fn default_shown(&self) -> String {
        match self.takes {
            Takes::Choice(choices) => choices[0].to_string(),
            Takes::Millis(ms) => ms.to_string(),
            Takes::Whole { default, .. } => default.to_string(),
            Takes::Own(shown) => shown.to_string(),
        }
    }
}

/// Formats a parameter as in help: `key=default` or `key=first|other`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.choices() {
            [] => write!(f, "{}={}", self.key, self.default_shown()),
            choices => write!(f, "{}={}", self.key, choices.join("|")),
        }
    }
}

/// The values given for some parameters; all others have their defaults.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The spec that contains the values.
    pub spec: &'a Spec,
    tables: &'a [&'a [Parameter]],
}

/// The methods for values panic if the tables do not have the key with this type.
impl<'a> Given<'a> {
    /// Returns the values that `spec` gives for the parameters in `tables`.
    pub fn new(spec: &'a Spec, tables: &'a [&'a [Parameter]]) -> Given<'a> {
        Given { spec, tables }
    }

    /// Returns the result of `read` for the defaults of a table.
    pub fn defaults<T>(
        table: &[Parameter],
        read: impl FnOnce(&Given<'_>) -> Result<T, SpecError>,
    ) -> T {
        let read = Spec::parse("defaults").and_then(|spec| read(&Given::new(&spec, &[table])));
        read.expect("a default is a valid value of its parameter")
    }

    /// Returns a parameter in milliseconds.
    pub fn millis(&self, key: &str) -> Result<Nanos, SpecError> {
        let Takes::Millis(default) = self.takes(key) else { panic!("{key}: no milliseconds") };
        self.spec.millis(key, default)
    }

    /// Returns a parameter that is a whole number.
    pub fn whole(&self, key: &str) -> Result<u32, SpecError> {
        let Takes::Whole { default, least } = self.takes(key) else { panic!("{key}: no number") };
        self.spec.at_least(key, default, least)
    }

    /// Returns the index of the selected choice.
    pub fn choice(&self, key: &str) -> Result<usize, SpecError> {
        let Takes::Choice(choices) = self.takes(key) else { panic!("{key}: no choice") };
        self.spec.choice(key, choices)
    }

    /// Returns whether the first choice is selected, as in `yes|no`.
    pub fn is_first(&self, key: &str) -> Result<bool, SpecError> {
        Ok(self.choice(key)? == 0)
    }

    /// Returns whether a table contains the key.
    pub fn has(&self, key: &str) -> bool {
        self.parameter(key).is_some()
    }

    fn takes(&self, key: &str) -> Takes {
        self.parameter(key).unwrap_or_else(|| panic!("{key}: no such parameter")).takes
    }

    fn parameter(&self, key: &str) -> Option<&Parameter> {
        self.tables.iter().copied().flatten().find(|parameter| parameter.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Parameter] = &[
        Parameter::choice("form", &["linux", "paper"]),
        Parameter::millis("wait-ms", 6.7),
        Parameter::whole("quantum", 8, 1),
        Parameter::own("size-mib", "ALL"),
    ];

    #[test]
    fn help_is_made_from_the_table() {
        let listed =
            Listed { name: "x", origin: Origin::Forebay, summary: "", parameters: &[TABLE, TABLE] };
        let shown: Vec<String> = listed.parameters().map(Parameter::to_string).collect();
        let expected = ["form=linux|paper", "wait-ms=6.7", "quantum=8", "size-mib=ALL"];
        assert_eq!(shown[..4], expected);
        assert_eq!(shown[4..], expected);
    }

    #[test]
    fn omitted_values_have_their_default() {
        let read = |text: &str| -> Result<_, SpecError> {
            let (spec, tables) = (Spec::parse(text)?, [TABLE]);
            let given = Given::new(&spec, &tables);
            Ok((given.is_first("form")?, given.millis("wait-ms")?, given.whole("quantum")?))
        };
        let defaults = (true, Nanos::from_micros(6700), 8);
        assert_eq!(read("x"), Ok(defaults));
        assert_eq!(
            Given::defaults(TABLE, |given| Ok((
                given.is_first("form")?,
                given.millis("wait-ms")?,
                given.whole("quantum")?
            ))),
            defaults
        );
        assert_eq!(read("x:form=paper:wait-ms=1:quantum=1"), Ok((false, Nanos::from_millis(1), 1)));
        assert!(read("x:quantum=0").is_err_and(|error| error.0.contains("at least 1")));
    }
}
