//! Varies a drive's assumed parameters to determine how much a result depends on them. Data sheets
//! state the size of a drive's memory and the depth of its queue, but not how the drive uses them.
//! A parameter with a known range is set to both ends; other parts of the controller are halved and
//! doubled.

use forebay_core::DeviceModel;
use forebay_core::device::drive::{Controller, Drive};

use super::OpenDevice;

/// A part of the controller: its name, the keys whose values may be assumed, and a function that
/// multiplies the part by a factor.
type Part = (&'static str, &'static [&'static str], fn(&mut Controller, f64));

const PARTS: [Part; 2] = [
    ("memory for reads", &["segments", "segment_sectors"], |controller, times| {
        if let Some(buffer) = &mut controller.buffer {
            buffer.segments = scaled(buffer.segments.into(), times) as u32;
        }
    }),
    ("memory for writes", &["extents", "sectors"], |controller, times| {
        if let Some(cache) = &mut controller.write_cache {
            cache.extents = scaled(cache.extents.into(), times) as u32;
            cache.sectors = scaled(cache.sectors, times).max(cache.extent_sectors);
        }
    }),
];

/// A variant of a drive that differs in one part of its controller.
#[derive(Clone, Debug)]
pub struct Varied {
    /// The part that was varied.
    pub part: &'static str,
    /// The changed value, such as "half the memory for reads" or "a catch margin of 2.1 ms".
    pub with: String,
    /// The resulting drive.
    pub device: OpenDevice,
}

impl OpenDevice {
    /// Returns variants with the smallest and the largest catch margin, or nothing if the margin is
    /// known.
    pub fn at_margins(&self) -> Vec<Varied> {
        let at = |margin| {
            let with = format!("a catch margin of {margin}");
            Some(Varied { part: "catch margin", with, device: self.at_catch_margin(margin)? })
        };
        self.catch_margin_range().into_iter().flatten().filter_map(at).collect()
    }

    /// Returns variants in which one assumed part of the controller is halved or doubled, or
    /// nothing if no part is assumed.
    pub fn varied(&self) -> Vec<Varied> {
        let (Some(spec), DeviceModel::Drive(_)) = (&self.drive, &self.model) else {
            return Vec::new();
        };
        let is_assumed =
            |keys: &[&str]| self.sources.assumed.iter().any(|key| keys.contains(&&key[..]));
        let parts = PARTS.iter().filter(|(_, keys, _)| is_assumed(keys));
        let each = parts.flat_map(|part| [0.5, 2.0].map(|times| (part, times)));
        let varied = |((part, _, scale), times): (&Part, f64)| {
            let mut spec = spec.clone();
            scale(&mut spec.controller, times);
            // Skip variants that do not differ, because the drive does not use the part, and
            // variants that are invalid.
            let changed = self.drive.as_ref() != Some(&spec);
            let model = Drive::new(&spec).ok().filter(|_| changed)?;
            let name = format!("{} with its {part} times {times}", self.name);
            let (model, drive) = (DeviceModel::Drive(Box::new(model)), Some(spec));
            let with = format!("{} the {part}", if times < 1.0 { "half" } else { "twice" });
            Some(Varied { part, with, device: OpenDevice { name, model, drive, ..self.clone() } })
        };
        each.filter_map(varied).collect()
    }
}

fn scaled(size: u64, times: f64) -> u64 {
    ((size as f64 * times) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;

    #[test]
    fn assumed_values_are_halved_and_doubled() {
        let drive = open("st1000nm0011").unwrap();
        let whole = drive.drive.clone().unwrap().controller;
        let varied = drive.varied();
        assert_eq!(varied.len(), 4);
        for Varied { part, with, device } in varied {
            let times = if with.starts_with("half the ") { 0.5 } else { 2.0 };
            assert!(with.ends_with(part), "{with}");
            let mut expected = whole;
            match part {
                "memory for reads" => {
                    expected.buffer.as_mut().unwrap().segments = (16.0 * times) as u32
                }
                _ => {
                    let cache = expected.write_cache.as_mut().unwrap();
                    (cache.extents, cache.sectors) =
                        ((64.0 * times) as u32, (65536.0 * times) as u64);
                }
            }
            assert_eq!(device.drive.unwrap().controller, expected, "{with}");
        }
    }

    #[test]
    fn a_guessed_margin_is_tried_at_both_ends() {
        let drive = open("sata250").unwrap();
        let margins = drive.at_margins().into_iter();
        let margins =
            margins.map(|varied| varied.device.drive.unwrap().controller.queue.catch_margin);
        assert_eq!(Some(margins.collect::<Vec<_>>()), drive.catch_margin_range().map(Into::into));
        assert!(open("sata250:plain").unwrap().at_margins().is_empty());
        assert!(open("fixed:100").unwrap().at_margins().is_empty());
    }

    #[test]
    fn devices_without_a_controller_or_assumptions_stay_unchanged() {
        assert!(open("st1000nm0011:plain").unwrap().varied().is_empty());
        assert!(open("d7-p5520").unwrap().varied().is_empty());
        assert!(open("fixed:100").unwrap().varied().is_empty());
        let off = open("st1000nm0011:write-cache=off").unwrap();
        let parts: Vec<&str> = off.varied().iter().map(|varied| varied.part).collect();
        assert!(!parts.contains(&"memory for writes"), "{parts:?}");
        let mut known = open("st1000nm0011").unwrap();
        known.sources.assumed.clear();
        assert!(known.varied().is_empty());
    }
}
