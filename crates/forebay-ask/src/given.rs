//! The values of inputs that a front end has collected, by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::input::{Arity, Input};
use crate::nearest;
use crate::{AskError, named};

/// The value of an input, as passed on by a front end.
#[derive(Clone)]
pub enum GivenValue {
    /// The text that the user wrote; several texts if the input is a list.
    Texts(Vec<String>),
    /// An object of the front end's own type, such as a table in memory.
    Object(Arc<dyn Any + Send + Sync>),
}

impl fmt::Debug for GivenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GivenValue::Texts(texts) => texts.fmt(f),
            GivenValue::Object(_) => f.write_str("(object)"),
        }
    }
}

/// The inputs that the user gave, by name.
#[derive(Clone, Debug, Default)]
pub struct Given {
    values: BTreeMap<String, GivenValue>,
}

impl Given {
    /// Adds an input that is given as text.
    pub fn text(&mut self, name: &str, text: impl Into<String>) -> &mut Given {
        self.texts(name, [text.into()])
    }

    /// Adds an input that is given as a list of texts.
    pub fn texts(&mut self, name: &str, texts: impl IntoIterator<Item = String>) -> &mut Given {
        let texts = texts.into_iter().collect();
        self.values.insert(name.to_string(), GivenValue::Texts(texts));
        self
    }

    /// Adds an input that is given as an object.
    pub fn object(&mut self, name: &str, object: Arc<dyn Any + Send + Sync>) -> &mut Given {
        self.values.insert(name.to_string(), GivenValue::Object(object));
        self
    }

    /// Returns whether the input `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns the object given for the input `name`, if it has type `T`.
    pub fn as_object<T: Any>(&self, name: &str) -> Option<&T> {
        match self.values.get(name)? {
            GivenValue::Object(object) => object.downcast_ref(),
            GivenValue::Texts(_) => None,
        }
    }

    /// Returns the texts given for `input`, or its default. Lists are split into entries.
    ///
    /// # Errors
    /// Fails if an object was given where text is expected.
    pub(crate) fn of(&self, input: &Input) -> Result<Vec<String>, AskError> {
        let given = match self.values.get(input.name) {
            None => input.default.map(|default| vec![default.to_string()]).unwrap_or_default(),
            Some(GivenValue::Texts(texts)) => texts.clone(),
            Some(GivenValue::Object(_)) => {
                return Err(AskError::new(input.name, "got an object, expected text"));
            }
        };
        match input.arity == Arity::List && !input.allows_commas {
            true => Ok(given.iter().flat_map(|text| text.split(',')).map(String::from).collect()),
            false => Ok(given),
        }
    }

    /// Checks that what the values of `input` name exists.
    pub(crate) fn check_named(&self, input: &Input) -> Result<(), String> {
        let (Some(check), true) = (input.check, self.has(input.name)) else { return Ok(()) };
        if let Some(paths) = self.as_object::<Vec<PathBuf>>(input.name) {
            return paths.iter().try_for_each(|path| check(path.as_os_str()));
        }
        let texts = self.of(input).unwrap_or_default();
        texts.iter().try_for_each(|text| check(text.trim().as_ref()))
    }

    /// Fails if a given name is not in `inputs`, or if inputs that exclude or require each other
    /// are combined wrongly.
    pub(crate) fn check(&self, inputs: &[Input]) -> Result<(), AskError> {
        for name in self.values.keys() {
            if !inputs.iter().any(|input| input.name == name) {
                let names: Vec<&str> = inputs.iter().map(|input| input.name).collect();
                let near =
                    nearest(name, &names).map(|near| format!("; did you mean {}?", named(near)));
                let text = format!("no such input{}", near.unwrap_or_default());
                return Err(AskError::new(name, text));
            }
        }
        for input in inputs.iter().filter(|input| self.has(input.name)) {
            if let Some(other) = input.excludes.iter().find(|other| self.has(other)) {
                let text =
                    format!("cannot be combined with {}; leave one of them out", named(other));
                return Err(AskError::new(input.name, text));
            }
            if let Some(other) = input.requires.filter(|other| !self.has(other)) {
                let text = format!("has an effect only with {}; add it", named(other));
                return Err(AskError::new(input.name, text));
            }
        }
        Ok(())
    }
}
