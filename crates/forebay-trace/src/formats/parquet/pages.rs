//! Checks the pages of a column before they are decoded, and replaces strings by numbers.
//!
//! A column of strings usually contains few distinct ones, but the decoder would allocate a string
//! for each row. Therefore, each distinct string is assigned a number here. The decoder treats the
//! column as integers and returns the number of each row's string.

use std::str;
use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::basic::{Encoding, Repetition, Type as Physical};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, ColumnPath, Type};
use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::trace::BATCH;

type Result<T> = std::result::Result<T, ParquetError>;

/// The maximum size of the distinct strings of a column in a row group, including [`ENTRY_BYTES`]
/// for each. This is twice what the names of a trace may take.
const TEXTS_BYTES_MAX: usize = 64 << 20;
/// The approximate memory that a string takes in addition to its bytes.
const ENTRY_BYTES: usize = 64;

/// The strings that have received numbers since the last call of `take`, in the order of their
/// numbers.
#[derive(Clone, Default)]
pub(super) struct NewStrings(Arc<Mutex<Vec<String>>>);

impl NewStrings {
    fn push(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Moves the strings to the end of `to`.
    pub(super) fn take(&self, to: &mut Vec<String>) {
        to.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The pages of a column.
pub(super) struct Pages {
    pages: Box<dyn PageReader>,
    /// The numbers assigned to strings, for a column of strings.
    numbering: Option<Numbering>,
}

impl Pages {
    /// Creates the pages of a column that does not contain strings.
    pub(super) fn new(pages: Box<dyn PageReader>) -> Pages {
        Pages { pages, numbering: None }
    }

    /// Creates the pages of a column of strings, and the description of the column of their
    /// numbers. `fresh` receives new strings.
    pub(super) fn of_texts(
        pages: Box<dyn PageReader>,
        column: ColumnDescPtr,
        fresh: NewStrings,
    ) -> Result<(Pages, ColumnDescPtr)> {
        let numbers = alike(&column, Physical::INT32, column.max_def_level())?;
        let entries = alike(&column, Physical::BYTE_ARRAY, 0)?;
        let (known, left_bytes) = (FxHashMap::default(), TEXTS_BYTES_MAX);
        let numbering = Numbering { column, entries, known, left_bytes, fresh };
        Ok((Pages { pages, numbering: Some(numbering) }, numbers))
    }
}

/// Returns a description like `column` but with another physical type. With 0 definition levels, it
/// has no nulls.
fn alike(column: &ColumnDescriptor, physical: Physical, levels: i16) -> Result<ColumnDescPtr> {
    let repetition = if levels > 0 { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let kind = Type::primitive_type_builder(column.name(), physical);
    let kind = Arc::new(kind.with_repetition(repetition).build()?);
    let path = ColumnPath::new(column.path().parts().to_vec());
    Ok(Arc::new(ColumnDescriptor::new(kind, levels, 0, path)))
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
        // The decoder allocates memory for as many values as a dictionary claims to contain.
        if page.is_dictionary_page() && page.num_values() as usize > page.buffer().len() {
            let text = "a dictionary that claims more values than bytes";
            return Err(ParquetError::General(text.into()));
        }
        match &mut self.numbering {
            Some(numbering) => numbering.numbered(page).map(Some),
            None => Ok(Some(page)),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

/// The numbers assigned to the strings of a column.
struct Numbering {
    column: ColumnDescPtr,
    /// A description of the dictionary's entries as a column without nulls.
    entries: ColumnDescPtr,
    known: FxHashMap<Box<str>, i32>,
    /// The number of bytes that are left for more strings.
    left_bytes: usize,
    fresh: NewStrings,
}

impl Numbering {
    /// Converts a page of strings to a page of their numbers.
    fn numbered(&mut self, page: Page) -> Result<Page> {
        let by_dictionary = [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
        Ok(match page {
            Page::DictionaryPage { buf, num_values, encoding, is_sorted } => {
                let entries = Page::DataPage {
                    buf,
                    num_values,
                    encoding: Encoding::PLAIN,
                    def_level_encoding: Encoding::RLE,
                    rep_level_encoding: Encoding::RLE,
                    statistics: None,
                };
                let (numbers, count) = self.numbers(entries, self.entries.clone(), Vec::new())?;
                if count != num_values as usize {
                    let text = "a dictionary that ends before its last value";
                    return Err(ParquetError::General(text.into()));
                }
                Page::DictionaryPage { buf: numbers, num_values, encoding, is_sorted }
            }
            page if by_dictionary.contains(&page.encoding()) => page,
            mut page => {
                let levels = self.levels(&page)?;
                let (numbers, _) = self.numbers(page.clone(), self.column.clone(), levels)?;
                if let Page::DataPage { buf, encoding, .. }
                | Page::DataPageV2 { buf, encoding, .. } = &mut page
                {
                    (*buf, *encoding) = (numbers, Encoding::PLAIN);
                }
                page
            }
        })
    }

    /// Returns the part of a data page that specifies which values are null. It precedes the
    /// values.
    fn levels(&self, page: &Page) -> Result<Vec<u8>> {
        let buffer = page.buffer();
        let length = match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len)
            }
            _ if self.column.max_def_level() == 0 => 0,
            Page::DataPage { def_level_encoding: Encoding::RLE, .. } => {
                let length = buffer.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
                4 + u64::from(length.unwrap_or_default())
            }
            _ => u64::from(page.num_values().div_ceil(8)),
        };
        let levels = usize::try_from(length).ok().and_then(|length| buffer.get(..length));
        let cut = || ParquetError::General("a page that ends before its values".into());
        levels.map(<[u8]>::to_vec).ok_or_else(cut)
    }

    /// Appends the numbers of a page's strings to `numbers`, in PLAIN encoding. Returns how many
    /// there are.
    fn numbers(
        &mut self,
        page: Page,
        column: ColumnDescPtr,
        mut numbers: Vec<u8>,
    ) -> Result<(Bytes, usize)> {
        let mut reader = ColumnReaderImpl::<ByteArrayType>::new(column, Box::new(One(Some(page))));
        let (mut texts, mut levels, mut count) = (Vec::new(), Vec::new(), 0);
        loop {
            texts.clear();
            levels.clear();
            // Read values in batches, because a page may claim to contain any number of them.
            let (rows, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut texts)?;
            if rows == 0 {
                return Ok((numbers.into(), count));
            }
            for text in &texts {
                numbers.extend_from_slice(&self.number(text)?.to_le_bytes());
            }
            count += texts.len();
        }
    }

    fn number(&mut self, text: &ByteArray) -> Result<i32> {
        let text = str::from_utf8(text.data())
            .map_err(|_| ParquetError::General("a string that is not UTF-8".into()))?;
        if let Some(number) = self.known.get(text) {
            return Ok(*number);
        }
        let number = i32::try_from(self.known.len()).ok();
        let left_bytes = self.left_bytes.checked_sub(text.len() + ENTRY_BYTES);
        let (Some(number), Some(left_bytes)) = (number, left_bytes) else {
            let mib = TEXTS_BYTES_MAX >> 20;
            let told = format!("a column with more than {mib} MiB of different strings");
            return Err(ParquetError::General(told));
        };
        self.left_bytes = left_bytes;
        self.known.insert(text.into(), number);
        self.fresh.push(text.into());
        Ok(number)
    }
}

/// A page reader that returns a single page.
struct One(Option<Page>);

impl Iterator for One {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageReader for One {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    // Only called to skip rows, which this reader never does.
    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}
