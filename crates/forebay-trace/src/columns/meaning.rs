//! Explains how each column of a text is interpreted, and why.

use crate::ColumnMeaning;
use crate::columns::notation::Mark;
use crate::columns::reader::Header;
use crate::columns::spec::Columns;
use crate::formats::Format;
use forebay_ask::named;

/// Explains columns whose names come from a header, a format or the user.
pub(super) fn of(columns: &Columns, header: Header, format: &str) -> Vec<ColumnMeaning> {
    let because = match header {
        Header::Preset => in_format(format),
        Header::Guessed => format!("declared with {}", named("columns")),
        Header::Named => "its name".into(),
    };
    let read = columns.declared().chain(std::iter::repeat("_"));
    let meaning = |((read_as, title), column): ((&str, &String), usize)| ColumnMeaning {
        column: title.clone(),
        read_as: read_as.to_owned(),
        because: columns.reasons.get(column).unwrap_or(&because).clone(),
    };
    read.zip(&columns.titles).zip(0..).map(meaning).collect()
}

/// Explains the fields of a format that has its own reader and, for a binary format, how the format
/// was recognized.
pub(crate) fn of_format(name: &str) -> Vec<ColumnMeaning> {
    let (fields, sign) =
        Format::named(name).map_or((&[][..], ""), |format| (format.fields, format.sign));
    let meaning = |column: &str, read_as: &str, because: String| ColumnMeaning {
        column: column.to_owned(),
        read_as: read_as.to_owned(),
        because,
    };
    let file = (!sign.is_empty()).then(|| meaning("the file", name, sign.to_owned()));
    let fields = fields.iter().map(|(column, read_as)| meaning(column, read_as, in_format(name)));
    file.into_iter().chain(fields).collect()
}

fn in_format(name: &str) -> String {
    format!("format {name} has it there")
}

/// Adds the decimal mark that was derived from the rows.
pub(super) fn add_mark(meanings: &mut [ColumnMeaning], mark: Option<Mark>) {
    let sign = match mark {
        Some(Mark::Comma) => "comma",
        Some(Mark::Point) => "point",
        None => return,
    };
    let is_number = |meaning: &&mut ColumnMeaning| {
        let role = meaning.read_as.split(':').next().unwrap_or_default();
        ["at", "end", "latency", "offset", "len"].contains(&role)
    };
    for meaning in meanings.iter_mut().filter(is_number) {
        meaning.because += &format!("; the rows show that the decimal mark is a {sign}");
    }
}
