//! Exposes declared verbs as Python functions. Their signatures, docstrings and stubs are generated
//! from the declarations.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay::progress::ProgressReport;
use forebay::simulate::ServedDisk;
use forebay::verb::{
    Answered, LiveWork, OpenTrace, SecondInterruption, Session, TraceInput, Verb, answer,
};
use forebay_ask::{
    Arity, AskError, Face, Given, Input, Spelling, Takes, named, paragraphs, python_name, read,
    spelled,
};
use forebay_core::Nanos;
use forebay_play::capture::capture_into;
use forebay_play::served::served_disk;
use forebay_trace::unpack::Consumed;
use forebay_trace::write::ProtectedFiles;
use forebay_trace::{Reader, TraceError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCFunction, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

use crate::error::{raised, warn};
use crate::given::shown;
use crate::policy;
use crate::results::loads;
use crate::signals::{Signals, detached};
use crate::source::Source;
use crate::trace::Trace;

/// Converts the answer of a verb to the return value of its Python function.
pub(crate) trait Yield: Send + Sized {
    /// The return type to show in annotations.
    const TYPE: &'static str;

    /// Converts the answer to a Python object.
    fn python(py: Python<'_>, answered: Answered<Self>) -> PyResult<Py<PyAny>>;
}

impl Yield for () {
    const TYPE: &'static str = "dict[str, Any]";

    fn python(py: Python<'_>, answered: Answered) -> PyResult<Py<PyAny>> {
        Ok(loads(py, &answered.data.to_string())?.into_any().unbind())
    }
}

/// Returns the name of a verb's Python function, such as `plan_capacity` for `plan capacity`.
pub(crate) fn name_of<V: Verb>() -> String {
    V::VERB.replace(' ', "_")
}

/// Returns the inputs that the Python function accepts, positional ones first.
fn inputs<V: Verb>() -> Vec<Input> {
    let offered = V::inputs().into_iter().filter(|input| input.face != Face::Command);
    let (mut first, rest): (Vec<Input>, Vec<Input>) = offered.partition(is_by_place);
    first.extend(rest);
    first
}

/// Returns whether an input may be passed as a positional argument, as the output file may.
fn is_by_place(input: &Input) -> bool {
    input.is_positional || input.name == "output"
}

/// Adds the function of verb `V` to the module.
pub(crate) fn add<V: Verb<Beyond: Yield> + Send>(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let name = name_of::<V>();
    let doc = format!("{name}({})\n--\n\n{}", parameters(&inputs::<V>()), docstring::<V>());
    // A function's name and docstring must live as long as the interpreter, so they are leaked.
    let leaked = |text: &str| -> PyResult<&'static std::ffi::CStr> {
        Ok(Box::leak(CString::new(text)?.into_boxed_c_str()))
    };
    let run = |args: &Bound<'_, PyTuple>, given: Option<&Bound<'_, PyDict>>| call::<V>(args, given);
    let (name_text, doc) = (leaked(&name)?, leaked(&doc)?);
    let function = PyCFunction::new_closure(module.py(), Some(name_text), Some(doc), run)?;
    module.add(name.as_str(), function)
}

/// Returns whether a verb reads a trace. The trace may be a table, in which case the argument
/// `names` contains the names of streams and volumes.
fn takes_trace(inputs: &[Input]) -> bool {
    inputs.iter().any(|input| input.takes == Takes::Trace)
}

/// Formats the parameters of a signature, with their defaults.
fn parameters(inputs: &[Input]) -> String {
    let mut all = Vec::new();
    let mut are_keywords = false;
    for input in inputs {
        if !is_by_place(input) && !are_keywords {
            all.push("*".to_string());
            are_keywords = true;
        }
        let name = python_name(input.name);
        all.push(match input.is_required() {
            true => name,
            false => format!("{name}={}", default(input)),
        });
    }
    if takes_trace(inputs) {
        all.push("names=None".to_string());
    }
    all.join(", ")
}

/// Formats a default value as a Python literal.
fn default(input: &Input) -> String {
    let literal = |text: &str| match text.parse::<f64>() {
        Ok(_) if input.takes == Takes::Number => text.to_string(),
        _ => format!("{text:?}"),
    };
    match (input.arity, input.default) {
        (Arity::Flag, _) => "False".to_string(),
        (_, None) => "None".to_string(),
        (Arity::List, Some(texts)) => {
            let each: Vec<String> = texts.split(',').map(literal).collect();
            match each.as_slice() {
                // Python formats a tuple of one element with a trailing comma, but signatures omit
                // it.
                [one] => one.clone(),
                several => format!("({})", several.join(", ")),
            }
        }
        (_, Some(text)) => literal(text),
    }
}

fn docstring<V: Verb<Beyond: Yield>>() -> String {
    let spell = |text: &str| spelled(text, Spelling::Python);
    let mut lines = vec![paragraphs(V::ABOUT).join("\n\n") + ".", String::new()];
    for input in inputs::<V>() {
        let mut said = input.paragraphs().join(" ");
        if !input.choices.is_empty() {
            let names: Vec<String> =
                input.choices.iter().map(|choice| format!("{:?}", choice.name)).collect();
            said += &format!(" ({})", names.join(", "));
        }
        lines.push(format!("{}: {}.", python_name(input.name), spell(&said)));
    }
    if takes_trace(&inputs::<V>()) {
        lines.push("names: a Trace whose stream and volume names a table uses.".into());
    }
    lines.push(String::new());
    let kind = V::Beyond::TYPE.split('[').next().unwrap_or_default();
    let verb = V::VERB;
    lines.push(format!("Returns a {kind} with the keys of `forebay {verb} --format json`."));
    lines.join("\n")
}

/// Generates the stub of verb `V`.
pub(crate) fn stub<V: Verb<Beyond: Yield>>() -> String {
    let mut lines = vec![format!("def {}(", name_of::<V>())];
    let mut are_keywords = false;
    for input in inputs::<V>() {
        if !is_by_place(&input) && !are_keywords {
            lines.push("    *,".into());
            are_keywords = true;
        }
        let each = match input.choices {
            [] => {
                let names = [
                    ("TraceLike", "_Source"),
                    ("str | PathLike[str]", "_Path"),
                    ("PolicyLike", "_PolicyLike"),
                ];
                names.iter().fold(input.python.to_string(), |all, (of, is)| all.replace(of, is))
            }
            choices => {
                let names: Vec<String> =
                    choices.iter().map(|one| format!("{:?}", one.name)).collect();
                format!("Literal[{}]", names.join(", "))
            }
        };
        let annotation = match input.arity {
            Arity::Flag => "bool".to_string(),
            Arity::One => each,
            Arity::Optional => format!("{each} | None"),
            Arity::List if input.is_required() || input.default.is_some() => {
                format!("{each} | Sequence[{each}]")
            }
            Arity::List => format!("{each} | Sequence[{each}] | None"),
        };
        let name = python_name(input.name);
        lines.push(match input.is_required() {
            true => format!("    {name}: {annotation},"),
            false => format!("    {name}: {annotation} = {},", default(&input)),
        });
    }
    if takes_trace(&inputs::<V>()) {
        lines.push("    names: Trace | None = None,".into());
    }
    lines.push(format!(") -> {}:", V::Beyond::TYPE));
    lines.push(format!(
        "    \"\"\"{}.\"\"\"",
        paragraphs(V::ABOUT).first().cloned().unwrap_or_default()
    ));
    lines.join("\n") + "\n"
}

/// Runs verb `V` without holding the interpreter's lock.
fn call<V: Verb<Beyond: Yield> + Send>(
    args: &Bound<'_, PyTuple>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let py = args.py();
    let ask: V = read(&collected(&inputs::<V>(), args, given)?).map_err(|error| refused(&error))?;
    let mut warnings = Vec::new();
    let answered = detached(py, |signals| {
        let mut session = Heard { signals, warnings: &mut warnings };
        answer(ask, &mut session, Spelling::Python)
    });
    for warning in warnings {
        warn(py, warning)?;
    }
    let answered = answered?;
    if let Some(failure) = &answered.failure {
        warn(py, failure.clone())?;
    }
    V::Beyond::python(py, answered)
}

fn refused(error: &AskError) -> PyErr {
    raised(error.clone().into())
}

/// Collects the arguments by the names of their inputs.
fn collected(
    inputs: &[Input],
    args: &Bound<'_, PyTuple>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Given> {
    let mut all: Vec<(String, Bound<'_, PyAny>)> = Vec::new();
    let by_place = inputs.iter().filter(|input| is_by_place(input));
    if args.len() > by_place.clone().count() {
        let (most, got) = (by_place.count(), args.len());
        return Err(PyTypeError::new_err(format!("takes {most} positional arguments, got {got}")));
    }
    for (input, value) in by_place.zip(args.iter()) {
        all.push((input.name.to_string(), value));
    }
    for (key, value) in given.into_iter().flat_map(|given| given.iter()) {
        let key: String = key.extract()?;
        let name = inputs.iter().find(|input| python_name(input.name) == key);
        all.push((name.map_or(key, |input| input.name.to_string()), value));
    }
    let names = all.iter().position(|(name, _)| name == "names" && takes_trace(inputs));
    let names = names.map(|at| all.remove(at).1);
    let names = names.filter(|names| !names.is_none());
    let names = names.as_ref().map(|names| names.cast::<Trace>()).transpose()?;
    let is_parsed = all.iter().any(|(name, value)| name == "from" && !value.is_none());
    let mut collected = Given::default();
    for (name, value) in all.iter().filter(|(_, value)| !value.is_none()) {
        match inputs.iter().find(|input| input.name == name) {
            Some(input) if input.takes == Takes::Trace => {
                let each =
                    match value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
                        true => value.try_iter()?.collect::<PyResult<Vec<_>>>()?,
                        false => vec![value.clone()],
                    };
                let traces = each.iter().map(|one| trace(one, is_parsed, names));
                collected.object(name, Arc::new(traces.collect::<PyResult<Vec<_>>>()?));
            }
            Some(input) => put(&mut collected, input, value)?,
            // Reading the declaration later rejects an unknown name and suggests the right one.
            None => {
                collected.text(name, "");
            }
        }
    }
    Ok(collected)
}

/// Converts a trace argument, which is a path, a `Trace` or a table.
fn trace(
    object: &Bound<'_, PyAny>,
    is_parsed: bool,
    names: Option<&Bound<'_, Trace>>,
) -> PyResult<TraceInput> {
    match Source::new(object, None, names)? {
        // The verb has inputs of its own that specify the format of a file.
        Source::File(path, None) => Ok(path.into()),
        source if is_parsed => {
            drop(source);
            let text = "a Trace and a table have their format; leave it out";
            Err(refused(&AskError::new("from", text)))
        }
        source => {
            let held: Arc<dyn OpenTrace> = Arc::new(Held(AssertUnwindSafe(source)));
            Ok(held.into())
        }
    }
}

/// A trace that was passed as a Python object.
struct Held(AssertUnwindSafe<Source>);

impl OpenTrace for Held {
    fn name(&self) -> &Path {
        self.0.name()
    }
    fn kept(&self) -> ProtectedFiles {
        self.0.kept()
    }
    fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        self.0.open()
    }
}

/// Adds the value of an input that is not a trace.
fn put(collected: &mut Given, input: &Input, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let expected = || {
        let one = match input.takes {
            _ if input.arity == Arity::Flag => "True or False",
            Takes::TextOrDict => "text, a dict",
            Takes::PathOrPairs => "a path, or a list of pairs of numbers",
            Takes::Path | Takes::Trace => "a path",
            Takes::Text | Takes::Number | Takes::Policy => input.python,
        };
        let several = if input.arity == Arity::List { ", or several in a list" } else { "" };
        let text = format!("got {}, expected {one}{several}", shown(value));
        PyTypeError::new_err(format!("{}: {text}", spelled(&named(input.name), Spelling::Python)))
    };
    if input.arity == Arity::Flag {
        let is: bool = value.extract().map_err(|_| expected())?;
        if is {
            collected.text(input.name, "true");
        }
        return Ok(());
    }
    if input.takes == Takes::Policy {
        collected.object(input.name, Arc::new(policy::inputs(value)?));
        return Ok(());
    }
    let is_one = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    let each: Vec<Bound<'_, PyAny>> = match input.arity {
        Arity::List if !is_one => value.extract().unwrap_or_else(|_| vec![value.clone()]),
        _ => vec![value.clone()],
    };
    if let (true, Ok(dict)) = (input.takes == Takes::TextOrDict, value.cast::<PyDict>()) {
        let texts = dict.iter().map(|(key, value)| pair(&key, &value).ok_or_else(expected));
        collected.texts(input.name, texts.collect::<PyResult<Vec<String>>>()?);
        return Ok(());
    }
    if input.takes == Takes::PathOrPairs {
        let one = value.extract().map(|pair: (f64, f64)| vec![pair]);
        if let Ok(pairs) = one.or_else(|_| value.extract::<Vec<(f64, f64)>>()) {
            collected.object(input.name, Arc::new(pairs));
            return Ok(());
        }
    }
    if input.takes.is_path() {
        let paths = each.iter().map(|one| one.extract::<PathBuf>().map_err(|_| expected()));
        collected.object(input.name, Arc::new(paths.collect::<PyResult<Vec<_>>>()?));
        return Ok(());
    }
    let texts = each.iter().map(|one| match text(one) {
        Some(text) => Ok(text),
        None if one.is_instance_of::<PyString>() => {
            let said = format!("got {}, expected text that UTF-8 can hold", shown(one));
            Err(refused(&AskError::new(input.name, said)))
        }
        None => Err(expected()),
    });
    collected.texts(input.name, texts.collect::<PyResult<Vec<String>>>()?);
    Ok(())
}

/// Formats an entry of a dict as users would write it: `key=value`. The values of a tuple are
/// separated by colons. A value may be a path.
fn pair(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<String> {
    let part = |value: &Bound<'_, PyAny>| {
        let path = || value.extract::<PathBuf>().ok()?.into_os_string().into_string().ok();
        text(value).or_else(path)
    };
    let parts = match value.cast::<PyTuple>() {
        Ok(parts) => parts.iter().map(|one| part(&one)).collect::<Option<Vec<String>>>()?,
        Err(_) => vec![part(value)?],
    };
    Some(format!("{}={}", text(key)?, parts.join(":")))
}

/// Converts a string or a number to text. Floats get the fewest digits that identify them, and no
/// exponent, which Python would use below 0.0001.
fn text(value: &Bound<'_, PyAny>) -> Option<String> {
    if value.is_instance_of::<PyBool>() {
        return None;
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Some(number.value().to_string());
    }
    let is_written = value.is_instance_of::<PyString>() || value.is_instance_of::<PyInt>();
    let is_number = || {
        value.hasattr("__index__").unwrap_or(false) || value.hasattr("__float__").unwrap_or(false)
    };
    (is_written || is_number()).then(|| value.str().ok()?.extract().ok()).flatten()
}

/// A session that checks for signals and collects warnings.
struct Heard<'a> {
    signals: &'a mut Signals,
    warnings: &'a mut Vec<String>,
}

impl Session for Heard<'_> {
    fn begin(&mut self, _: &str, _: Option<&Path>) -> Consumed {
        Consumed::default()
    }

    fn progress(&mut self, _: &ProgressReport) -> ControlFlow<()> {
        self.signals.go_on()
    }

    fn read(&mut self, _: &Path, _: u64) -> ControlFlow<()> {
        self.signals.go_on()
    }

    fn report(&mut self, _: String, _: Option<f64>) -> ControlFlow<()> {
        self.signals.go_on()
    }

    fn warn(&mut self, subject: &Path, sentence: &str) {
        let said = spelled(sentence, Spelling::Python);
        let said = match subject.as_os_str().is_empty() {
            true => said,
            false => format!("{}: {said}", subject.display()),
        };
        if !self.warnings.contains(&said) {
            self.warnings.push(said);
        }
    }

    fn capture(
        &mut self,
        device: &Path,
        length: Nanos,
        output: &Path,
    ) -> Result<(), forebay::Error> {
        capture_into(device, length, output, self)
    }

    fn served_disk(
        &mut self,
        config: &Path,
        disk: Option<&str>,
    ) -> Result<ServedDisk, forebay::Error> {
        served_disk(config, disk)
    }

    fn shorten(&mut self, _: SecondInterruption, work: LiveWork<'_>) {
        let stop = AtomicBool::new(false);
        self.signals.beside(&stop, || work(&stop, &mut |_, _| ()));
    }
}
