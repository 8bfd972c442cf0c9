//! DiskSim's seek files, which contain a measured seek curve.

use super::model::SeekPoint;

/// If no seek takes longer than this, in ms, the times of a file are not in ms.
const LONGEST_LEAST_MS: f64 = 0.1;

/// Parses a seek file: a header line, then pairs of distance (in cylinders) and time (in ms).
pub(super) fn points(text: &str, name: &str) -> Result<Vec<SeekPoint>, String> {
    let mut points: Vec<SeekPoint> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fail = |what: String| Err(format!("{name}, line {}: {what}", index + 1));
        match point(line) {
            Some((0, _)) => {}
            Some((cylinders, ms))
                if points.last().is_none_or(|last| last.cylinders < cylinders) =>
            {
                points.push(SeekPoint { cylinders, ms, line: index + 1 });
            }
            Some((distance, _)) => {
                return fail(format!(
                    "got distance {distance}, expected a greater one than before"
                ));
            }
            None if line.trim().is_empty() || index == 0 => {}
            None => {
                let line: String = line.chars().take(40).collect();
                return fail(format!(
                    "got '{line}', expected only a distance and a time in ms, such as '10, 1.95'"
                ));
            }
        }
    }
    if points.is_empty() {
        return Err(format!("{name}: got no points, expected distances and times in ms"));
    }
    let longest = points.iter().map(|point| point.ms).fold(0.0, f64::max);
    if longest < LONGEST_LEAST_MS {
        return Err(format!(
            "{name}: got times of at most {longest} ms, expected the seek times of a disk in ms; \
             if the file's times are in seconds, multiply them by 1000"
        ));
    }
    // The header is `Seek distances measured: 87`.
    let said = text.lines().next().and_then(|line| line.rsplit(':').next()?.trim().parse().ok());
    if let Some(said) = said
        && points.len() + 1 < said
    {
        return Err(format!(
            "{name}: got {} distances, expected the {said} that its first line states: copy the \
             file again",
            points.len()
        ));
    }
    Ok(points)
}

/// Parses a distance and a time. A third field is an error, because it may be the decimals of a
/// time that was written with a comma.
fn point(line: &str) -> Option<(u32, f64)> {
    let mut fields = line.split([',', ' ', '\t']).filter(|field| !field.is_empty());
    let distance: u32 = fields.next()?.parse().ok()?;
    let ms: f64 = fields.next()?.parse().ok()?;
    let is_all = fields.next().is_none();
    (is_all && (0.0..=1_000.0).contains(&ms)).then_some((distance, ms))
}

#[cfg(test)]
mod tests {
    use super::points;

    fn refused(text: &str) -> String {
        points(text, "c").err().unwrap()
    }

    #[test]
    fn invalid_lines_are_named() {
        assert!(refused("head\n1, 2\n1, 3\n").contains("c, line 3"));
        assert!(refused("head\n1, x\n").contains("a distance and a time"));
        assert!(refused("head\n").contains("no points"));
        let cut = "Seek distances measured: 87\n1, 2\n2, 3\n";
        assert!(refused(cut).contains("got 2 distances, expected the 87"));
    }

    #[test]
    fn decimal_commas_are_refused() {
        for separator in [" ", ", ", "\t"] {
            let said = refused(&format!("head\n1{separator}1,943\n2{separator}1,956\n"));
            assert!(said.contains("c, line 2: got '1") && said.contains("'10, 1.95'"), "{said}");
        }
    }

    #[test]
    fn times_in_seconds_are_refused() {
        let said = refused("head\n1 0.001943\n5000 0.0167\n");
        assert!(said.contains("at most 0.0167 ms") && said.contains("by 1000"), "{said}");
        assert_eq!(points("head\n1 0.05\n5000 0.2\n", "c").unwrap().len(), 2);
    }
}
