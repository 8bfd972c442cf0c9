//! Tests of `array score`.

use forebay::array_score::ArrayScoreAsk;
use forebay_ask::{Given, read};

use super::{answered, first_table};

#[test]
fn copies_suit_small_writes() {
    let given = [("device", "st1000nm0011:plain"), ("writes", "200"), ("filled_mib", "2048")];
    let found = answered::<ArrayScoreAsk>(&given);
    assert_eq!(found.data["rows"].as_array().unwrap().len(), 4);
    assert_eq!(first_table(&found.page).rows.len(), 8);
    assert!(found.page.headline.starts_with("Three copies beat RAID 6"), "{}", found.page.headline);
}

#[test]
fn one_load_needs_no_range() {
    let given =
        [("device", "fixed:300"), ("writes", "50"), ("filled_mib", "64"), ("outstanding", "1")];
    let found = answered::<ArrayScoreAsk>(&given);
    let expected = "Three copies beat RAID 6 for writes of up to 3 chunks.";
    assert_eq!(found.page.headline, expected);
}

#[test]
fn too_few_drives_are_refused() {
    let mut given = Given::default();
    given.text("device", "fixed:300").text("drives", "5");
    let said = read::<ArrayScoreAsk>(&given).unwrap_err().to_string();
    assert!(said.contains("from 6 to 32"), "{said}");
}
