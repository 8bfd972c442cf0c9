//! The Python package: verbs as functions, and traces and results as Arrow tables.
//!
//! This crate is a thin layer over `forebay` and computes nothing itself. Work runs in the caller's
//! thread without the interpreter's lock and periodically checks for signals. The crate
//! `arrow-pyarrow` imports Arrow's C structures, which cannot be validated.

#![deny(unsafe_code)]

mod adapt;
mod arrow;
mod asked;
mod batches;
mod error;
mod given;
mod page;
mod policy;
mod results;
mod signals;
mod source;
mod store_handle;
mod table;
mod tabled;
mod together;
mod trace;

use forebay::advise::verb::AdviseAsk;
use forebay::array_score::ArrayScoreAsk;
use forebay::cache_curve::CacheAsk;
use forebay::compare::CompareAsk;
use forebay::convert::verb::ConvertAsk;
use forebay::describe::DescribeAsk;
use forebay::device::verb::{DeviceFitAsk, DeviceImportAsk, DeviceValidateAsk};
use forebay::listings::{DevicesAsk, FormatsAsk, PoliciesAsk};
use forebay::model::fit::verb::FitAsk;
use forebay::model::generate::verb::GenerateAsk;
use forebay::offline::OfflineAsk;
use forebay::plan::buy::BuyAsk;
use forebay::plan::capacity::CapacityAsk;
use forebay::plan::consolidate::ConsolidateAsk;
use forebay::plan::power::PowerAsk;
use forebay::plan::sla::SlaAsk;
use forebay::plan::volume::VolumeAsk;
use forebay::retrodict::RetrodictAsk;
use forebay::simulate::SimulateAsk;
use forebay_play::PlayAsk;
use forebay_play::capture::CaptureAsk;
use forebay_play::probe::DeviceProbeAsk;
use forebay_play::volume::{
    VolumeCheckAsk, VolumeCreateAsk, VolumeGrowAsk, VolumeRemoveAsk, VolumeReplaceAsk,
    VolumeStatusAsk,
};
use forebay_store::StoreSimulateAsk;
use pyo3::prelude::*;

/// Calls the functions that every declared verb needs, to generate its Python function, stub and
/// documentation.
macro_rules! verbs {
    ($($verb:ty),* $(,)?) => {
        fn add_verbs(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(asked::add::<$verb>(module)?;)*
            module.add("VERBS", names())
        }

        fn names() -> Vec<String> {
            vec![$(asked::name_of::<$verb>()),*]
        }

        fn stubs() -> Vec<String> {
            vec![$(asked::stub::<$verb>()),*]
        }

        fn references() -> Vec<String> {
            vec![$(forebay_ask::reference::<$verb>()),*]
        }
    };
}

verbs! {
    AdviseAsk,
    ArrayScoreAsk,
    BuyAsk,
    CacheAsk,
    CapacityAsk,
    CaptureAsk,
    CompareAsk,
    ConsolidateAsk,
    ConvertAsk,
    DescribeAsk,
    DeviceFitAsk,
    DeviceImportAsk,
    DeviceProbeAsk,
    DeviceValidateAsk,
    DevicesAsk,
    FitAsk,
    FormatsAsk,
    GenerateAsk,
    OfflineAsk,
    PlayAsk,
    PoliciesAsk,
    PowerAsk,
    RetrodictAsk,
    SimulateAsk,
    SlaAsk,
    StoreSimulateAsk,
    VolumeAsk,
    VolumeCheckAsk,
    VolumeCreateAsk,
    VolumeGrowAsk,
    VolumeRemoveAsk,
    VolumeReplaceAsk,
    VolumeStatusAsk,
}

/// The native part of Forebay.
#[pymodule]
mod _forebay {
    use super::*;

    #[pymodule_export]
    use super::adapt::{adapt, adapt_writes};
    #[pymodule_export]
    use super::error::{Error, TraceWarning};
    #[pymodule_export]
    use super::page::{axis_scale, key_words, page, shown_value, write_page};
    #[pymodule_export]
    use super::policy::{Request, laws_check};
    #[pymodule_export]
    use super::results::{Advice, Simulation};
    #[pymodule_export]
    use super::store_handle::{Snapshot, Store};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::together::Together;
    #[pymodule_export]
    use super::trace::{Trace, TraceBatches, read};

    /// Returns the stubs of all declared verbs, and their names.
    #[pyfunction]
    fn declared_stubs() -> String {
        let names: Vec<String> =
            super::names().iter().map(|name| format!("    {name:?},\n")).collect();
        format!("__all__ += [\n{}]\n\n{}", names.concat(), super::stubs().join("\n"))
    }

    /// Returns the options of all declared verbs, in Markdown.
    #[pyfunction]
    fn declared_options() -> String {
        super::references().join("\n")
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Panics of libraries on damaged input are caught where they are called and reported as
        // errors. Other panics reach Python with their message.
        std::panic::set_hook(Box::new(|_| ()));
        super::add_verbs(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
