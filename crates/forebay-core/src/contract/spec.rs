//! Specs, which select policies and devices on a command line: `name[:key=value]...`.
//!
//! Keys may also be written as in sysfs (`fifo_batch`, see [`sysfs`]). A bare value after the first
//! colon (`fixed:500`) is the unnamed argument. Unused keys are errors, so that a misspelled
//! parameter is never silently ignored.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::contract::Nanos;
use crate::contract::near;
use crate::contract::sysfs;

/// An error in a spec, as one line that also says what is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(pub String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

/// A parsed spec.
#[derive(Clone, Debug)]
pub struct Spec {
    text: String,
    name: String,
    argument: Option<String>,
    parameters: Vec<(String, String)>,
    asked: RefCell<Vec<String>>,
}

impl Spec {
    /// Parses `text`. The name and keys are case-insensitive.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let mut fields = text.trim().split(':');
        let name = fields.next().unwrap_or_default().trim().to_ascii_lowercase();
        if name.is_empty() {
            return Err(SpecError(format!("'{text}': got no name, expected NAME[:KEY=VALUE]...")));
        }
        let mut spec = Spec {
            text: text.trim().to_string(),
            name,
            argument: None,
            parameters: Vec::new(),
            asked: RefCell::default(),
        };
        for (index, field) in fields.enumerate() {
            match field.split_once('=') {
                Some((key, value)) => {
                    let key = key.trim().to_ascii_lowercase();
                    for (key, value) in sysfs::translated(&spec.name, key, value.trim()) {
                        if spec.parameters.iter().any(|(known, _)| *known == key) {
                            return Err(SpecError(format!("'{text}': '{key}' is given twice")));
                        }
                        spec.parameters.push((key, value));
                    }
                }
                None if index == 0 && !field.trim().is_empty() => {
                    spec.argument = Some(field.trim().to_string());
                }
                None => {
                    return Err(SpecError(format!(
                        "'{text}': got '{field}', expected KEY=VALUE after each colon"
                    )));
                }
            }
        }
        Ok(spec)
    }

    /// Returns the name before the first colon, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole spec as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the unnamed argument, as in `fixed:500`.
    pub fn argument(&self) -> Option<&str> {
        self.asked.borrow_mut().push(String::new());
        self.argument.as_deref()
    }

    /// Returns parameter `key`, or `default` if it is not given. `expected` describes the accepted
    /// values in the error message.
    pub fn get<T: FromStr>(&self, key: &str, default: T, expected: &str) -> Result<T, SpecError> {
        match self.raw(key) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| self.wrong(key, value, expected)),
        }
    }

    /// Returns parameter `key` as a whole number of at least `least`.
    pub fn at_least(&self, key: &str, default: u32, least: u32) -> Result<u32, SpecError> {
        let value = self.get(key, default, "a whole number")?;
        if value < least {
            let expected = format!("a whole number of at least {least}");
            return Err(self.wrong(key, &value.to_string(), &expected));
        }
        Ok(value)
    }

    /// Returns parameter `key`, whose name ends in `-ms`, in milliseconds from 0 to a day.
    pub fn millis(&self, key: &str, default_ms: f64) -> Result<Nanos, SpecError> {
        let expected = "milliseconds from 0 to 86400000";
        let value = self.between(key, default_ms, 0.0..=86_400_000.0, expected)?;
        Ok(Nanos::from_millis_f64(value))
    }

    /// Returns parameter `key` as a number in `range`. The error message quotes the value as
    /// written, because `1e300` would print with 301 digits.
    pub fn between<T: FromStr + PartialOrd>(
        &self,
        key: &str,
        default: T,
        range: RangeInclusive<T>,
        expected: &str,
    ) -> Result<T, SpecError> {
        let value = self.get(key, default, expected)?;
        if !range.contains(&value) {
            return Err(self.wrong(key, self.raw(key).unwrap_or("the default"), expected));
        }
        Ok(value)
    }

    /// Returns parameter `key` as a number in `range`; `None` if it is not given.
    pub fn number(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
        expected: &str,
    ) -> Result<Option<f64>, SpecError> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| self.wrong(key, value, expected))
    }

    /// Returns the index of the value of parameter `key` among `choices`, by default the first.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<usize, SpecError> {
        Ok(self.chosen(key, choices)?.unwrap_or(0))
    }

    /// Returns the index of the value of parameter `key` among `choices`; None if it is not given.
    pub fn chosen(&self, key: &str, choices: &[&str]) -> Result<Option<usize>, SpecError> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let found = choices.iter().position(|choice| value.eq_ignore_ascii_case(choice));
        found.map(Some).ok_or_else(|| self.wrong(key, value, &choices.join(" or ")))
    }

    /// Returns parameter `key` as the spec of another policy, in which `+` stands for `:` and `++`
    /// for `+`.
    pub fn inner(&self, key: &str) -> Option<String> {
        let parts = self.raw(key)?.split("++").map(|part| part.replace('+', ":"));
        Some(parts.collect::<Vec<_>>().join("+"))
    }

    /// Returns the spec of a policy in the form of a parameter of another one, as [`Spec::inner`]
    /// reads it.
    pub fn nested(spec: &str) -> String {
        spec.replace('+', "++").replace(':', "+")
    }

    /// Fails if the spec contains an argument or a key that nothing has read.
    pub fn finish(&self) -> Result<(), SpecError> {
        let asked = self.asked.borrow();
        if let (Some(argument), false) = (&self.argument, asked.iter().any(String::is_empty)) {
            let keys = known(&asked);
            return Err(SpecError(format!("'{}': got '{argument}', expected {keys}", self.text)));
        }
        for (key, _) in &self.parameters {
            if !asked.contains(key) {
                let names: Vec<&str> = asked.iter().map(String::as_str).collect();
                let expected = match near::suggestion(key, &names) {
                    none if none.is_empty() => format!(", expected {}", known(&asked)),
                    near => near,
                };
                return Err(SpecError(format!("'{}': no parameter '{key}'{expected}", self.text)));
            }
        }
        Ok(())
    }

    fn raw(&self, key: &str) -> Option<&str> {
        self.asked.borrow_mut().push(key.to_string());
        self.parameters.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn wrong(&self, key: &str, got: &str, expected: &str) -> SpecError {
        SpecError(format!("'{}': {key}: got '{got}', expected {expected}", self.text))
    }
}

fn known(asked: &[String]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    // A key may be read several times, with other keys in between.
    for key in asked.iter().map(String::as_str).filter(|key| !key.is_empty()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    match keys.is_empty() {
        true => "nothing after the name".to_string(),
        false => format!("one of {}", keys.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_spec_comes_back() {
        for inner in ["noop", "cfq:quantum=8", "miser:cmin=9:over=cache+disk=bid++wait-ms=1"] {
            let spec = Spec::parse(&format!("cache:disk={}", Spec::nested(inner))).unwrap();
            assert_eq!(spec.inner("disk").as_deref(), Some(inner));
        }
    }

    #[test]
    fn parameters_are_found_and_defaulted() {
        let spec = Spec::parse("Deadline:fifo-batch=4:read-expire-ms=2.5").unwrap();
        assert_eq!(spec.name(), "deadline");
        assert_eq!(spec.at_least("fifo-batch", 16, 1), Ok(4));
        assert_eq!(spec.at_least("writes-starved", 2, 1), Ok(2));
        assert_eq!(spec.millis("read-expire-ms", 500.0), Ok(Nanos(2_500_000)));
        assert_eq!(spec.finish(), Ok(()));
    }

    #[test]
    fn sysfs_names_are_translated() {
        let spec = Spec::parse("deadline:fifo_batch=4:read_expire=250").unwrap();
        assert_eq!(spec.at_least("fifo-batch", 16, 1), Ok(4));
        assert_eq!(spec.millis("read-expire-ms", 500.0), Ok(Nanos(250_000_000)));
        assert_eq!(spec.finish(), Ok(()));
        let twice = Spec::parse("deadline:fifo_batch=4:fifo-batch=4").unwrap_err().0;
        assert!(twice.contains("'fifo-batch' is given twice"), "{twice}");
    }

    #[test]
    fn errors_say_what_is_expected() {
        let error = |text: &str| {
            let spec = Spec::parse(text)?;
            spec.at_least("quantum", 8, 1)?;
            spec.choice("form", &["linux", "paper"])?;
            spec.at_least("quantum", 8, 1)?;
            spec.finish()
        };
        let said = |text: &str| error(text).unwrap_err().0;
        assert_eq!(error("cfq:quantum=2:form=paper"), Ok(()));
        assert!(said("").contains("got no name"));
        assert!(said("cfq:quantum=0").contains("at least 1"));
        assert!(said("cfq:quantum=two").contains("got 'two'"));
        assert!(said("cfq:quantum=1:quantum=2").contains("twice"));
        let near = "no parameter 'quantun' (did you mean quantum?)";
        assert!(said("cfq:quantun=2").ends_with(near));
        let far = "no parameter 'slice', expected one of quantum, form";
        assert!(said("cfq:slice=2").ends_with(far));
        assert!(said("cfq:form=bsd").contains("linux or paper"));
        assert!(said("cfq:8").contains("got '8'"));
        let spec = Spec::parse("bid:wait-ms=1e300").unwrap();
        let far = spec.millis("wait-ms", 1.0).unwrap_err().0;
        assert!(far.ends_with("got '1e300', expected milliseconds from 0 to 86400000"), "{far}");
        assert!(said("cfq:quantum=2:8").contains("KEY=VALUE"));
    }

    #[test]
    fn specs_within_specs() {
        let spec = Spec::parse("miser:over=cache+write=back+disk=bid++wait-ms=1:cmin=3").unwrap();
        assert_eq!(spec.inner("over").as_deref(), Some("cache:write=back:disk=bid+wait-ms=1"));
        let within = Spec::parse(&spec.inner("over").unwrap()).unwrap();
        assert_eq!(within.inner("disk").as_deref(), Some("bid:wait-ms=1"));
        assert_eq!(spec.inner("disk"), None);
    }

    #[test]
    fn the_unnamed_argument() {
        let spec = Spec::parse("fixed:500").unwrap();
        assert_eq!(spec.argument(), Some("500"));
        assert_eq!(spec.finish(), Ok(()));
    }
}
