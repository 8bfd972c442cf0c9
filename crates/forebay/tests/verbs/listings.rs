//! Tests of `devices` and `policies`.

use forebay::listings::{DevicesAsk, FormatsAsk, PoliciesAsk};
use forebay::verb::answer;
use forebay_ask::{Given, Spelling, read};
use forebay_show::terminal::{self, Extent};

use super::{Quiet, answered};

#[test]
fn every_device_is_listed_and_described() {
    let all = answered::<DevicesAsk>(&[]);
    let screen = terminal::text(&all.page, 80, Extent::FirstScreen);
    let rows = all.data["rows"].as_array().unwrap();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let name = row["device"].as_str().unwrap();
        assert!(screen.contains(name), "{name}");
        let one = answered::<DevicesAsk>(&[("device", name)]);
        assert_eq!(one.data["rows"].as_array().unwrap(), std::slice::from_ref(row));
    }
    let two = answered::<DevicesAsk>(&[("device", "sata250,fixed:100")]);
    assert_eq!(two.data["rows"].as_array().unwrap().len(), 2);
    assert_eq!(two.page.headline, "sata250 and fixed:100.");
}

#[test]
fn every_policy_is_listed_and_described() {
    let all = answered::<PoliciesAsk>(&[]);
    let screen = terminal::text(&all.page, 80, Extent::FirstScreen);
    let rows = all.data["rows"].as_array().unwrap();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let name = row["policy"].as_str().unwrap();
        assert!(screen.contains(name), "{name}");
        let one = answered::<PoliciesAsk>(&[("policy", name)]);
        let everything = terminal::text(&one.page, 80, Extent::Everything);
        for parameter in row["described"].as_array().unwrap() {
            let key = parameter["parameter"].as_str().unwrap();
            assert!(everything.contains(key), "{name}: {key}");
        }
    }
}

#[test]
fn every_format_is_listed_with_an_example() {
    let all = answered::<FormatsAsk>(&[]);
    let screen = terminal::text(&all.page, 80, Extent::FirstScreen);
    let everything = terminal::text(&all.page, 200, Extent::Everything);
    let rows = all.data["rows"].as_array().unwrap();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(screen.contains(name), "{name}");
        let example = row["example"].as_str().unwrap().lines().next().unwrap();
        assert!(everything.contains(example), "{name}: {example}");
    }
    let one = answered::<FormatsAsk>(&[("name", "msr")]);
    let everything = terminal::text(&one.page, 200, Extent::Everything);
    assert!(
        everything.contains("at:filetime") && everything.contains(",usr,0,Read,"),
        "{everything}"
    );
    let mut given = Given::default();
    given.text("name", "mrs");
    let ask = read::<FormatsAsk>(&given).unwrap();
    let said = answer(ask, &mut Quiet::default(), Spelling::Command).unwrap_err().to_string();
    assert_eq!(said, "no format 'mrs' (did you mean msr?); `forebay formats` lists all");
}

#[test]
fn unknown_policies_are_rejected() {
    let mut given = Given::default();
    given.text("policy", "bids");
    let ask = read::<PoliciesAsk>(&given).unwrap();
    let said = answer(ask, &mut Quiet::default(), Spelling::Command).unwrap_err().to_string();
    let expected = "no policy 'bids' (did you mean bid?); `forebay policies` lists all";
    assert_eq!(said, expected);
}
