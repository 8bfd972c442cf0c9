//! What happens in a range and from range to range, as lists and text to be short.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::base91::{BASE, PAIRS, letter, numbers, push_pair};
use super::super::families::Gaps;

/// What happens in a range, as a list to be short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State(
    /// The range: one digit 0 to 3 a level.
    pub String,
    /// Operation, kind and size class.
    pub u16,
    /// Requests.
    pub u64,
    /// Counts by class of the inter-arrival time before it.
    pub Vec<u32>,
    /// The same after it.
    pub Vec<u32>,
    /// Where it is: how many requests of the range ago its place was used (a bin; 0 for new places),
    /// how far from the end of the one before in the range (a bin), count.
    pub Places,
);

/// Where requests of a state are: entries of two bins and a count. Of a place used again: how many
/// requests of the range ago, and how far from the end of the one before in the range; of a new one
/// how it is aligned, and the latter; of a run that goes on: its rank among the latest, and 1 where it is that of the one
/// before. As text: a letter for each bin and two for the count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places(pub Vec<(u8, u8, u32)>);

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for &(first, second, count) in &self.0 {
            text.extend([letter(first.into()), letter(second.into())]);
            push_pair(&mut text, (count as usize).min(PAIRS - 1));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Places, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom("places that are no groups of four letters");
        let numbers = numbers(&text).ok_or_else(wrong)?;
        let (groups, rest) = numbers.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        let place = |g: &[usize; 4]| (g[0] as u8, g[1] as u8, (g[2] * BASE + g[3]) as u32);
        Ok(Places(groups.iter().map(place).collect()))
    }
}

/// From one range to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The range it leaves.
    pub from: String,
    /// The range it enters.
    pub to: String,
    /// Its share of all requests.
    pub share: f64,
    /// How long after the request before.
    pub inter_arrival: Gaps,
    /// How categories follow each other on it.
    pub joint: Vec<Joint>,
}

/// A pair of categories: before, after, count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joint(pub u16, pub u16, pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let places = Places(vec![(0, 44, 1), (90, 0, 8280), (7, 88, 91)]);
        let text = serde_json::to_string(&places).unwrap();
        assert_eq!(serde_json::from_str::<Places>(&text).unwrap(), places);
        assert!(serde_json::from_str::<Places>("\"abc\"").is_err());
    }
}
