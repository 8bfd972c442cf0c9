//! The fuzzer's seeds of models are models: from files that are refused at once it learns nothing.

use std::fs;
use std::path::Path;

use forebay::model::check;
use forebay::model::generate::{GenerateOptions, Generator};

#[test]
fn every_seed_of_a_model_is_read_and_drawn_from() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/model");
    let mut seeds = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read(&path).unwrap();
        // The fuzzer looks no farther.
        assert!(content.len() <= 1 << 16, "{}", path.display());
        let model = check::parse(&path, &content).unwrap_or_else(|error| panic!("{error}"));
        let options = GenerateOptions { requests: Some(300), ..GenerateOptions::default() };
        assert_eq!(Generator::new(&model, options).count(), 300, "{}", path.display());
        seeds += 1;
    }
    assert!(seeds >= 4, "{seeds} seeds");
}
