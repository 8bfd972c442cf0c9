//! Writes the tables for these tests. Columns can have any type of Parquet, as tables of other
//! tools may have.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, Int96};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};

/// The content of a column. Some types have a choice of annotations, which come first.
#[derive(Clone, Debug)]
pub(crate) enum Cells {
    Longs(&'static str, Vec<Option<i64>>),
    Ints(&'static str, Vec<Option<i32>>),
    /// The timestamps of older writers: the nanoseconds within a day, and the day.
    Int96(Vec<Option<Int96>>),
    Doubles(Vec<Option<f64>>),
    Floats(Vec<Option<f32>>),
    Truths(Vec<Option<bool>>),
    Bytes(&'static str, Vec<Option<Vec<u8>>>),
    /// Byte strings of a fixed length, the length of the first one.
    Fixed(&'static str, Vec<Option<Vec<u8>>>),
    /// A group that contains one number in each of three rows.
    Nested(&'static str),
}

impl Cells {
    pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> Cells {
        let bytes = texts.into_iter().map(|text| Some(text?.as_bytes().to_vec()));
        Cells::Bytes("STRING", bytes.collect())
    }

    /// Returns the line that declares the column in Parquet's message language.
    fn line(&self, name: &str) -> String {
        let (kind, annotation) = match self {
            Cells::Longs(annotation, _) => ("int64", *annotation),
            Cells::Ints(annotation, _) => ("int32", *annotation),
            Cells::Int96(_) => ("int96", ""),
            Cells::Doubles(_) => ("double", ""),
            Cells::Floats(_) => ("float", ""),
            Cells::Truths(_) => ("boolean", ""),
            Cells::Bytes(annotation, _) => ("binary", *annotation),
            Cells::Fixed("FLOAT16", _) => ("fixed_len_byte_array(2)", "FLOAT16"),
            Cells::Fixed(annotation, _) => ("fixed_len_byte_array(4)", *annotation),
            Cells::Nested("LIST") => {
                let of = "(LIST) { repeated group list { optional int64 element; } }";
                return format!("optional group {name} {of}");
            }
            Cells::Nested("MAP") => {
                let of = "(MAP) { repeated group key_value { required int64 key; } }";
                return format!("optional group {name} {of}");
            }
            Cells::Nested(_) => return format!("optional group {name} {{ optional int64 part; }}"),
        };
        let annotation = match annotation {
            "" => String::new(),
            said => format!(" ({said})"),
        };
        format!("optional {kind} {name}{annotation};")
    }

    fn rows(&self) -> usize {
        match self {
            Cells::Longs(_, cells) => cells.len(),
            Cells::Ints(_, cells) => cells.len(),
            Cells::Int96(cells) => cells.len(),
            Cells::Doubles(cells) => cells.len(),
            Cells::Floats(cells) => cells.len(),
            Cells::Truths(cells) => cells.len(),
            Cells::Bytes(_, cells) | Cells::Fixed(_, cells) => cells.len(),
            Cells::Nested(_) => 3,
        }
    }

    fn write(&self, to: &mut ColumnWriter<'_>, rows: Range<usize>) {
        let array = |bytes: &Vec<u8>| ByteArray::from(bytes.clone());
        macro_rules! write {
            ($to:expr, $cells:expr, $value:expr) => {{
                let cells = &$cells[rows];
                let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let values: Vec<_> = cells.iter().flatten().map($value).collect();
                $to.write_batch(&values, Some(&levels), None).unwrap();
            }};
        }
        match (self, to) {
            (Cells::Longs(_, cells), ColumnWriter::Int64ColumnWriter(to)) => {
                write!(to, cells, |v| *v)
            }
            (Cells::Ints(_, cells), ColumnWriter::Int32ColumnWriter(to)) => {
                write!(to, cells, |v| *v)
            }
            (Cells::Int96(cells), ColumnWriter::Int96ColumnWriter(to)) => write!(to, cells, |v| *v),
            (Cells::Doubles(cells), ColumnWriter::DoubleColumnWriter(to)) => {
                write!(to, cells, |v| *v)
            }
            (Cells::Floats(cells), ColumnWriter::FloatColumnWriter(to)) => {
                write!(to, cells, |v| *v)
            }
            (Cells::Truths(cells), ColumnWriter::BoolColumnWriter(to)) => write!(to, cells, |v| *v),
            (Cells::Bytes(_, cells), ColumnWriter::ByteArrayColumnWriter(to)) => {
                write!(to, cells, array)
            }
            (Cells::Fixed(_, cells), ColumnWriter::FixedLenByteArrayColumnWriter(to)) => {
                write!(to, cells, |bytes| array(bytes).into());
            }
            (Cells::Nested(kind), ColumnWriter::Int64ColumnWriter(to)) => {
                let (levels, repeats): (&[i16], Option<&[i16]>) = match *kind {
                    "LIST" => (&[3, 3, 3], Some(&[0, 0, 0])),
                    "MAP" => (&[2, 2, 2], Some(&[0, 0, 0])),
                    _ => (&[2, 2, 2], None),
                };
                to.write_batch(&[1, 2, 3], Some(levels), repeats).unwrap();
            }
            _ => panic!("{self:?}"),
        }
    }
}

pub(crate) fn integers(values: &[i64]) -> Cells {
    Cells::Longs("", values.iter().copied().map(Some).collect())
}

pub(crate) fn unsigned(values: &[u64]) -> Cells {
    Cells::Longs("INTEGER(64, false)", values.iter().map(|value| Some(*value as i64)).collect())
}

pub(crate) fn timestamps(unit: &str, values: &[i64]) -> Cells {
    let annotation = match unit {
        "MILLIS" => "TIMESTAMP(MILLIS, true)",
        "MICROS" => "TIMESTAMP(MICROS, false)",
        _ => "TIMESTAMP(NANOS, true)",
    };
    Cells::Longs(annotation, values.iter().copied().map(Some).collect())
}

pub(crate) fn int96(ns: &[i64]) -> Cells {
    // The Julian day of 1970-01-01.
    let cell = |ns: &i64| {
        let mut cell = Int96::new();
        cell.set_data(*ns as u32, (*ns >> 32) as u32, 2_440_588);
        Some(cell)
    };
    Cells::Int96(ns.iter().map(cell).collect())
}

pub(crate) fn doubles(values: &[f64]) -> Cells {
    Cells::Doubles(values.iter().copied().map(Some).collect())
}

pub(crate) fn floats(values: &[f32]) -> Cells {
    Cells::Floats(values.iter().copied().map(Some).collect())
}

/// Creates a column of 16-bit floating-point numbers from their bits.
pub(crate) fn halves(values: &[u16]) -> Cells {
    Cells::Fixed("FLOAT16", values.iter().map(|bits| Some(bits.to_le_bytes().to_vec())).collect())
}

pub(crate) fn truths(values: &[bool]) -> Cells {
    Cells::Truths(values.iter().copied().map(Some).collect())
}

pub(crate) fn texts(values: &[&str]) -> Cells {
    Cells::texts(values.iter().copied().map(Some))
}

pub(crate) fn nested(annotation: &'static str) -> Cells {
    Cells::Nested(annotation)
}

/// Writes a table with these properties and this metadata.
pub(crate) fn write_as(
    path: &Path,
    table: &[(String, Cells)],
    properties: WriterPropertiesBuilder,
    metadata: &[(&str, &str)],
) {
    let said =
        metadata.iter().map(|(key, value)| KeyValue::new(key.to_string(), value.to_string()));
    let properties = properties.set_key_value_metadata(Some(said.collect())).build();
    let rows = table.iter().map(|(_, cells)| cells.rows()).max().unwrap_or(0);
    let group_rows = properties.max_row_group_row_count().unwrap_or(rows).max(1);
    let file = File::create(path).unwrap();
    let mut file = SerializedFileWriter::new(file, schema(table), Arc::new(properties)).unwrap();
    for from in (0..rows).step_by(group_rows) {
        let mut group = file.next_row_group().unwrap();
        for (_, cells) in table {
            let mut column = group.next_column().unwrap().unwrap();
            cells.write(column.untyped(), from..rows.min(from + group_rows));
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    file.close().unwrap();
}

/// The message language does not permit names with spaces, so columns are renamed afterwards.
fn schema(table: &[(String, Cells)]) -> TypePtr {
    let named = |(name, cells): &(String, Cells)| {
        let text = format!("message table {{ {} }}", cells.line("column"));
        let parsed = parse_message_type(&text).unwrap();
        let kind = &parsed.get_fields()[0];
        let about = kind.get_basic_info();
        let named = match &**kind {
            Type::GroupType { fields, .. } => Type::group_type_builder(name)
                .with_repetition(about.repetition())
                .with_logical_type(about.logical_type_ref().cloned())
                .with_converted_type(about.converted_type())
                .with_fields(fields.clone())
                .build(),
            Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
                Type::primitive_type_builder(name, *physical_type)
                    .with_repetition(about.repetition())
                    .with_logical_type(about.logical_type_ref().cloned())
                    .with_converted_type(about.converted_type())
                    .with_length(*type_length)
                    .with_scale(*scale)
                    .with_precision(*precision)
                    .build()
            }
        };
        Arc::new(named.unwrap())
    };
    let fields = table.iter().map(named).collect();
    Arc::new(Type::group_type_builder("table").with_fields(fields).build().unwrap())
}
