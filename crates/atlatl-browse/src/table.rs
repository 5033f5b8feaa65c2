//! A stored result as a table for a page: a range of its rows, sorted and searched, and the values of a
//! column. Without a screen.

use std::io;
use std::sync::Arc;

use crate::cell::{Cell, Key, Kind};
use crate::fields::value_of;
use crate::lines::{MAX_LINE_LEN, Pattern, RowContent, RowSource};
use crate::rows::RowSet;
use crate::tally::{Tally, TallySummary};
use crate::text::CUT;

/// The most characters of a value in a page; a record shows all of them.
const CELL_CHARS: usize = 300;
/// The most rows. The index of so many takes 32 MiB, and their numbers in another order 16 MiB.
const MAX_ROWS: usize = 4 << 20;
/// The memory limit of sort keys.
const MAX_SORT_KEY_BYTES: usize = 256 << 20;
/// The keys that are sorted between two looks at a deadline.
const SORT_STEP_KEYS: usize = 64 << 10;
/// The title of the column of a text.
const TEXT_COLUMN: &str = "text";

/// The most rows and bytes that are read between two looks at a deadline.
const ROWS_PER_LOOK: usize = 1024;
const BYTES_PER_LOOK: usize = 4 << 20;

/// When a request must end.
pub struct Deadline(Box<dyn Fn() -> bool>);

impl Deadline {
    /// A deadline that has passed once `has_passed` returns true.
    pub fn new(has_passed: impl Fn() -> bool + 'static) -> Self {
        Self(Box::new(has_passed))
    }

    /// No deadline.
    pub fn never() -> Self {
        Self::new(|| false)
    }

    /// Whether it has passed.
    pub fn has_passed(&self) -> bool {
        (self.0)()
    }

    fn check(&self) -> Result<(), TableError> {
        if self.has_passed() { Err(TableError::Stopped) } else { Ok(()) }
    }

    fn pace(&self) -> Pace<'_> {
        Pace { deadline: self, rows: 0, bytes: 0 }
    }
}

/// Looks at a deadline while rows are read: rarely for short ones, often for long ones.
struct Pace<'a> {
    deadline: &'a Deadline,
    rows: usize,
    bytes: usize,
}

impl Pace<'_> {
    /// Whether another row may be read after this one.
    fn goes_on(&mut self, row: &[u8]) -> bool {
        self.rows += 1;
        self.bytes += row.len();
        if self.rows < ROWS_PER_LOOK && self.bytes < BYTES_PER_LOOK {
            return true;
        }
        (self.rows, self.bytes) = (0, 0);
        !self.deadline.has_passed()
    }
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Deadline").finish_non_exhaustive()
    }
}

/// A result whose rows can be requested in any order.
pub struct ResultTable {
    rows: RowSet,
    matched: Option<(String, RowNumbers)>,
    sorted: Option<(TableOrder, RowNumbers)>,
    /// The matching rows in the requested order, for the last request; `None` for all rows in the
    /// order of the result.
    shown: Option<(TableFilter, Option<RowNumbers>)>,
}

/// Numbers of rows, from 0. What several requests have in common is stored once.
type RowNumbers = Arc<Vec<u32>>;

/// Which rows are requested, in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a request that a page makes")]
pub struct TableFilter {
    /// The column to sort by; `None` for the order of the result.
    pub order: Option<TableOrder>,
    /// A regular expression, or a text if it is not a valid one, without regard to case.
    pub search: Option<String>,
}

/// A sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a request that a page makes")]
pub struct TableOrder {
    /// The title of the column.
    pub column: String,
    /// Whether the largest value is first. Rows without a value are last in both directions.
    pub descending: bool,
}

/// A range of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablePage {
    /// The columns that were seen so far.
    pub columns: Vec<TableColumn>,
    /// The number of matching rows.
    pub matched: u64,
    /// The rows.
    pub rows: Vec<TableRow>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableColumn {
    /// The name.
    pub title: String,
    /// Whether it holds mostly numbers.
    pub is_numeric: bool,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRow {
    /// The number in the result, from 1.
    pub number: u64,
    /// The cells by column; `None` if the record does not have the member.
    pub cells: Vec<Option<TableCell>>,
}

/// A value on one line, without characters that control a terminal or the direction of text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCell {
    /// The kind: `number`, `text`, `word` or `nested`.
    pub kind: &'static str,
    /// The value; numbers as they are written.
    pub text: String,
}

/// How often each value of a column occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueCounts {
    /// The most frequent values. Long ones are counted by their beginning, which ends with "…".
    pub values: Vec<(String, u64)>,
    /// The number of different values; a lower bound if `is_partial`.
    pub distinct: u64,
    /// The rows without the member, or with `null`.
    pub missing: u64,
    /// Whether there are more different values than fit into memory.
    pub is_partial: bool,
}

/// Why a table has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// No column has this name.
    UnknownColumn,
    /// The search text is too long.
    SearchTooLong,
    /// The sort keys do not fit into memory.
    TooLargeToSort,
    /// The deadline has passed.
    Stopped,
    /// The result cannot be read.
    Read(io::Error),
}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownColumn => f.write_str("no column has this name"),
            Self::SearchTooLong => f.write_str("the search text is too long"),
            Self::TooLargeToSort => {
                f.write_str("too many rows to sort: select fewer with SQL and ORDER BY")
            }
            Self::Stopped => f.write_str("reading takes too long: select fewer rows with SQL"),
            Self::Read(error) => write!(f, "cannot read the result: {error}"),
        }
    }
}

impl std::error::Error for TableError {}

impl ResultTable {
    /// Opens the lines of `source` from byte `begin`, and finds where they are.
    pub fn open(
        source: Box<dyn RowSource>,
        begin: u64,
        content: RowContent,
        deadline: &Deadline,
    ) -> Result<Self, TableError> {
        let mut rows = RowSet::new(source, begin, content);
        rows.lines.limit = MAX_ROWS;
        while !rows.lines.is_finished() {
            deadline.check()?;
            rows.index()?;
        }
        Ok(Self { rows, matched: None, sorted: None, shown: None })
    }

    /// The number of rows.
    pub fn total(&self) -> u64 {
        self.rows.lines.count() as u64
    }

    /// Whether the result has more lines than a table can have.
    pub fn is_cut(&self) -> bool {
        self.rows.lines.cut
    }

    /// The rows from `offset` on, at most `limit`.
    pub fn page(
        &mut self,
        filter: &TableFilter,
        offset: u64,
        limit: usize,
        deadline: &Deadline,
    ) -> Result<TablePage, TableError> {
        let numbers = self.numbers(filter, deadline)?;
        let matched = numbers.as_ref().map_or(self.rows.lines.count(), |numbers| numbers.len());
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(matched);
        let wanted = offset..offset.saturating_add(limit).min(matched);
        let mut rows = Vec::with_capacity(wanted.len());
        for index in wanted {
            let number = numbers.as_ref().map_or(index, |numbers| numbers[index] as usize);
            let row = self.rows.row(number)?;
            let cells = match self.rows.content {
                RowContent::Records => {
                    row.cells.into_iter().map(|cell| cell.map(cell_of)).collect()
                }
                RowContent::Text => vec![Some(TableCell { kind: "text", text: cut(row.text) })],
            };
            rows.push(TableRow { number: number as u64 + 1, cells });
        }
        Ok(TablePage { columns: self.columns(), matched: matched as u64, rows })
    }

    /// Whether [`columns`](Self::columns) are those of all rows. They are determined by the first
    /// rows, and others are added when they are seen.
    pub fn has_all_columns(&self) -> bool {
        self.rows.has_all_columns()
    }

    /// The columns that were seen so far.
    pub fn columns(&self) -> Vec<TableColumn> {
        match self.rows.content {
            RowContent::Text => {
                vec![TableColumn { title: TEXT_COLUMN.to_owned(), is_numeric: false }]
            }
            RowContent::Records => (0..self.rows.columns.len())
                .filter_map(|column| self.rows.columns.get(column))
                .map(|column| TableColumn {
                    title: column.title.clone(),
                    is_numeric: column.is_numeric(),
                })
                .collect(),
        }
    }

    /// How often each value of a column occurs in the matching rows: the `most` frequent ones.
    pub fn counts(
        &mut self,
        column: &str,
        search: Option<&str>,
        most: usize,
        deadline: &Deadline,
    ) -> Result<ValueCounts, TableError> {
        let name = self.member(column, deadline)?;
        let filter = TableFilter { order: None, search: search.map(str::to_owned) };
        let numbers = self.numbers(&filter, deadline)?;
        let (mut tally, mut pace) = (Tally::default(), deadline.pace());
        let content = self.rows.content;
        let add = |_: usize, line: &[u8]| {
            let value = match content {
                RowContent::Records => value_of(line, name.as_deref()),
                RowContent::Text => Some(line),
            };
            tally.add(value);
            pace.goes_on(line)
        };
        match &numbers {
            None => self.rows.each_of(0..self.rows.lines.count(), add)?,
            Some(numbers) => self.rows.each_of(numbers.iter().map(|n| *n as usize), add)?,
        }
        deadline.check()?;
        let TallySummary { values, distinct, missing, is_partial } = tally.finish(most);
        let values = values.iter().map(|one| (cut(one.cell(content).text), one.count)).collect();
        Ok(ValueCounts { values, distinct, missing, is_partial })
    }

    /// A row as it is stored, at most `most` bytes, and whether it is longer. `None` if there is no row
    /// with this number, from 1.
    pub fn record(&self, number: u64, most: usize) -> io::Result<Option<(Vec<u8>, bool)>> {
        let Some(index) = number.checked_sub(1).filter(|index| *index < self.total()) else {
            return Ok(None);
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let line = self.rows.line(index, most.min(MAX_LINE_LEN))?;
        Ok(Some((line.bytes, line.cut)))
    }

    /// Whether the rows are JSON values.
    pub fn has_records(&self) -> bool {
        self.rows.content == RowContent::Records
    }

    /// The matching rows in the requested order; `None` for all rows in the order of the result.
    fn numbers(
        &mut self,
        filter: &TableFilter,
        deadline: &Deadline,
    ) -> Result<Option<RowNumbers>, TableError> {
        if let Some((last, numbers)) = &self.shown
            && last == filter
        {
            return Ok(numbers.clone());
        }
        let numbers = self.filtered(filter, deadline)?;
        self.shown = Some((filter.clone(), numbers.clone()));
        Ok(numbers)
    }

    fn filtered(
        &mut self,
        filter: &TableFilter,
        deadline: &Deadline,
    ) -> Result<Option<RowNumbers>, TableError> {
        let matched = match &filter.search {
            Some(search) if !search.is_empty() => Some(self.matches(search, deadline)?),
            _ => None,
        };
        let Some(order) = &filter.order else { return Ok(matched) };
        let sorted = self.sorted(order, deadline)?;
        let Some(matched) = matched else { return Ok(Some(sorted)) };
        // Both are ascending by number or a permutation of all rows, so a mark per row is enough.
        let mut is_match = vec![false; sorted.len()];
        for number in &*matched {
            is_match[*number as usize] = true;
        }
        let mut numbers = Vec::with_capacity(matched.len());
        numbers.extend(sorted.iter().copied().filter(|number| is_match[*number as usize]));
        Ok(Some(Arc::new(numbers)))
    }

    /// The rows that match, in the order of the result.
    fn matches(&mut self, search: &str, deadline: &Deadline) -> Result<RowNumbers, TableError> {
        if let Some((_, matched)) = self.matched.as_ref().filter(|(last, _)| last == search) {
            return Ok(Arc::clone(matched));
        }
        let pattern = Pattern::new(search).ok_or(TableError::SearchTooLong)?;
        let (mut matched, content) = (Vec::new(), self.rows.content);
        let mut pace = deadline.pace();
        self.rows.each_of(0..self.rows.lines.count(), |index, line| {
            if pattern.matches_line(line, content) {
                matched.push(u32::try_from(index).unwrap_or(u32::MAX));
            }
            pace.goes_on(line)
        })?;
        deadline.check()?;
        matched.shrink_to_fit();
        let matched = Arc::new(matched);
        self.matched = Some((search.to_owned(), Arc::clone(&matched)));
        Ok(matched)
    }

    /// All rows in an order.
    fn sorted(
        &mut self,
        order: &TableOrder,
        deadline: &Deadline,
    ) -> Result<RowNumbers, TableError> {
        if let Some((last, sorted)) = &self.sorted
            && last == order
        {
            return Ok(Arc::clone(sorted));
        }
        let name = self.member(&order.column, deadline)?;
        let (all, content) = (self.rows.lines.count(), self.rows.content);
        let mut keys = Vec::with_capacity(all.min(MAX_SORT_KEY_BYTES / size_of::<SortKey>()));
        let (mut bytes, mut pace) = (0, deadline.pace());
        self.rows.each_of(0..all, |index, line| {
            let key = match content {
                RowContent::Records => Key::from_json(value_of(line, name.as_deref())),
                RowContent::Text => Key::from_text(line),
            };
            bytes += size_of::<SortKey>() + key.heap();
            keys.push((key, u32::try_from(index).unwrap_or(u32::MAX)));
            bytes <= MAX_SORT_KEY_BYTES && pace.goes_on(line)
        })?;
        deadline.check()?;
        if bytes > MAX_SORT_KEY_BYTES {
            return Err(TableError::TooLargeToSort);
        }
        sort_keys(&mut keys, order.descending, deadline)?;
        // `collect` would reuse the memory of the keys, and keep all of it.
        let mut sorted = Vec::with_capacity(keys.len());
        sorted.extend(keys.into_iter().map(|(_, number)| number));
        let sorted = Arc::new(sorted);
        self.sorted = Some((order.clone(), Arc::clone(&sorted)));
        Ok(sorted)
    }

    /// The name of a column as it is written in the records; `None` for the whole line.
    fn member(
        &mut self,
        column: &str,
        deadline: &Deadline,
    ) -> Result<Option<Box<[u8]>>, TableError> {
        if self.rows.content == RowContent::Text {
            return if column == TEXT_COLUMN { Ok(None) } else { Err(TableError::UnknownColumn) };
        }
        if self.rows.columns.find(column).is_none() {
            // A page remembers columns of later rows, and the table may have been opened again.
            let mut pace = deadline.pace();
            self.rows.find_column(column, |line| pace.goes_on(line))?;
            deadline.check()?;
        }
        let columns = &self.rows.columns;
        let found = columns.find(column).ok_or(TableError::UnknownColumn)?;
        let name = columns.get(found).map(|found| found.name.clone());
        Ok(name.filter(|_| !columns.is_plain(found)))
    }
}

impl std::fmt::Debug for ResultTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultTable").field("total", &self.total()).finish_non_exhaustive()
    }
}

/// A row's key, and its number.
type SortKey = (Key, u32);

/// Sorts in steps. A sort is stable: rows with equal values keep the order of the result.
fn sort_keys(
    keys: &mut [SortKey],
    descending: bool,
    deadline: &Deadline,
) -> Result<(), TableError> {
    let mut step = SORT_STEP_KEYS;
    loop {
        for keys in keys.chunks_mut(step) {
            deadline.check()?;
            // From the second round on, it merges two sorted halves: at most as many comparisons as keys.
            keys.sort_by(|one, two| one.0.compare(&two.0, descending));
        }
        if step >= keys.len() {
            return Ok(());
        }
        step *= 2;
    }
}

fn cell_of(cell: Cell) -> TableCell {
    let kind = match cell.kind {
        Kind::Number => "number",
        Kind::Text => "text",
        Kind::Word => "word",
        Kind::Nested => "nested",
    };
    TableCell { kind, text: cut(cell.text) }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(CELL_CHARS) {
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn table(lines: &str) -> ResultTable {
        let source = Box::new(lines.as_bytes().to_vec());
        ResultTable::open(source, 0, RowContent::Records, &Deadline::never()).unwrap()
    }

    fn numbers(table: &mut ResultTable, filter: &TableFilter) -> Vec<u64> {
        let page = table.page(filter, 0, 100, &Deadline::never()).unwrap();
        page.rows.iter().map(|row| row.number).collect()
    }

    fn by(column: &str, descending: bool) -> TableFilter {
        let order = TableOrder { column: column.to_owned(), descending };
        TableFilter { order: Some(order), search: None }
    }

    const FRUIT: &str = "{\"name\":\"Pear\",\"price\":2.50}\n{\"name\":\"apple\",\"price\":10}\n\
                         {\"name\":null,\"price\":1}\n{\"price\":10,\"tags\":[1]}\n";

    #[test]
    fn a_page_has_rows_as_they_are_written() {
        let mut table = table(FRUIT);
        let page = table.page(&TableFilter::default(), 1, 2, &Deadline::never()).unwrap();
        let titles: Vec<_> = page.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["name", "price", "tags"]);
        assert!(page.columns[1].is_numeric && !page.columns[0].is_numeric);
        assert_eq!((table.total(), page.matched, page.rows.len()), (4, 4, 2));
        assert_eq!(page.rows[0].number, 2);
        let text =
            |cell: &Option<TableCell>| cell.as_ref().map(|cell| (cell.kind, cell.text.clone()));
        assert_eq!(text(&page.rows[0].cells[0]), Some(("text", "apple".to_owned())));
        assert_eq!(text(&page.rows[1].cells[0]), Some(("word", "null".to_owned())));
        let last = table.page(&TableFilter::default(), 3, 9, &Deadline::never()).unwrap();
        assert_eq!(text(&last.rows[0].cells[0]), None);
        assert_eq!(text(&last.rows[0].cells[2]), Some(("nested", "[1]".to_owned())));
        assert!(
            table
                .page(&TableFilter::default(), u64::MAX, 9, &Deadline::never())
                .unwrap()
                .rows
                .is_empty()
        );
    }

    #[test]
    fn rows_are_sorted_and_searched_at_once() {
        let mut table = table(FRUIT);
        assert_eq!(numbers(&mut table, &by("price", false)), [3, 1, 2, 4]);
        assert_eq!(numbers(&mut table, &by("price", true)), [2, 4, 1, 3]);
        assert_eq!(numbers(&mut table, &by("name", true)), [1, 2, 3, 4]);
        let mut filter = by("name", false);
        filter.search = Some("P.*R".to_owned());
        assert_eq!(numbers(&mut table, &filter), [2, 1, 3, 4]);
        filter.search = Some("APPLE|pear".to_owned());
        assert_eq!(numbers(&mut table, &filter), [2, 1]);
        filter.search = Some("(".to_owned());
        assert!(numbers(&mut table, &filter).is_empty());
        filter.search = Some(String::new());
        assert_eq!(table.page(&filter, 0, 1, &Deadline::never()).unwrap().matched, 4);
        let unknown = table.page(&by("weight", false), 0, 1, &Deadline::never()).unwrap_err();
        assert_eq!(unknown.to_string(), "no column has this name");
    }

    #[test]
    fn values_are_counted_in_matching_rows() {
        let mut table = table(FRUIT);
        let counts = table.counts("price", None, 1, &Deadline::never()).unwrap();
        assert_eq!(counts.values, [("10".to_owned(), 2)]);
        assert_eq!((counts.distinct, counts.missing, counts.is_partial), (3, 0, false));
        let counts = table.counts("name", None, 9, &Deadline::never()).unwrap();
        assert_eq!((counts.distinct, counts.missing), (2, 2));
        let counts = table.counts("price", Some("apple"), 9, &Deadline::never()).unwrap();
        assert_eq!(counts.values, [("10".to_owned(), 1)]);
        assert!(table.counts("weight", None, 9, &Deadline::never()).is_err());
    }

    #[test]
    fn records_are_whole_up_to_a_limit() {
        let table = table(FRUIT);
        let record = table.record(2, 1000).unwrap().unwrap();
        assert_eq!(record, (br#"{"name":"apple","price":10}"#.to_vec(), false));
        assert_eq!(table.record(2, 7).unwrap().unwrap(), (br#"{"name""#.to_vec(), true));
        for missing in [0, 5, u64::MAX] {
            assert!(table.record(missing, 9).unwrap().is_none());
        }
    }

    #[test]
    fn a_request_ends_with_its_deadline() {
        let passed = Deadline::new(|| true);
        let lines = FRUIT.as_bytes().to_vec();
        let opened = ResultTable::open(Box::new(lines), 0, RowContent::Records, &passed);
        assert!(matches!(opened, Err(TableError::Stopped)));
        let mut table = table(FRUIT);
        let searched = TableFilter { order: None, search: Some("a".to_owned()) };
        for filter in [searched, by("price", false)] {
            let stopped = table.page(&filter, 0, 9, &passed).unwrap_err();
            assert!(matches!(stopped, TableError::Stopped), "{stopped}");
        }
        assert!(matches!(table.counts("price", None, 9, &passed), Err(TableError::Stopped)));
        // What was not finished is done again.
        assert_eq!(numbers(&mut table, &by("price", false)), [3, 1, 2, 4]);
    }

    #[test]
    fn a_deadline_is_looked_at_in_few_long_rows() {
        let lines = format!("{}\n", "x".repeat(1 << 20)).repeat(16).into_bytes();
        let mut table =
            ResultTable::open(Box::new(lines), 0, RowContent::Text, &Deadline::never()).unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let deadline = Deadline::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        });
        table.page(&by("text", false), 0, 1, &deadline).unwrap();
        assert!(looks.load(Ordering::Relaxed) >= 5, "{looks:?}");
    }

    #[test]
    fn a_sort_is_stable_and_ends_with_its_deadline() {
        let keys = || -> Vec<SortKey> {
            let value = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) % 1000);
            (0..200_000).map(|n| (Key::Number(value(n), 0), n)).collect()
        };
        for descending in [false, true] {
            let (mut sorted, mut expected) = (keys(), keys());
            expected.sort_by(|one, two| one.0.compare(&two.0, descending));
            sort_keys(&mut sorted, descending, &Deadline::never()).unwrap();
            assert!(sorted == expected, "descending: {descending}");
        }
        let looks = AtomicUsize::new(0);
        let deadline = Deadline::new(move || looks.fetch_add(1, Ordering::Relaxed) >= 2);
        let stopped = sort_keys(&mut keys(), false, &deadline);
        assert!(matches!(stopped, Err(TableError::Stopped)));
    }

    #[test]
    fn a_table_has_a_limit_and_stores_no_numbers_of_all_rows() {
        let lines = "\n".repeat(MAX_ROWS + 1).into_bytes();
        let mut table =
            ResultTable::open(Box::new(lines), 0, RowContent::Text, &Deadline::never()).unwrap();
        let total = MAX_ROWS as u64;
        assert_eq!((table.total(), table.is_cut()), (total, true));
        let last = table.page(&TableFilter::default(), total - 1, 9, &Deadline::never()).unwrap();
        assert_eq!((last.matched, last.rows.len(), last.rows[0].number), (total, 1, total));
        assert!(table.shown.is_some_and(|(_, numbers)| numbers.is_none()));
    }

    #[test]
    fn a_sort_order_keeps_no_memory_of_its_keys() {
        let mut table = table(FRUIT);
        assert_eq!(numbers(&mut table, &by("price", false)), [3, 1, 2, 4]);
        assert!(table.sorted.is_some_and(|(_, sorted)| sorted.capacity() == 4));
    }

    #[test]
    fn columns_of_later_rows_are_found_after_the_table_was_opened_again() {
        let never = Deadline::never();
        let lines = "{\"n\":1}\n".repeat(300) + "{\"n\":2,\"late\":7}\n8\n";
        assert!(table(FRUIT).has_all_columns() && !table(&lines).has_all_columns());
        let page = table(&lines).page(&by("late", false), 0, 1, &never).unwrap();
        let titles: Vec<_> = page.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!((page.rows[0].number, titles), (301, vec!["n", "late"]));
        let page = table(&lines).page(&by("value", true), 0, 1, &never).unwrap();
        assert_eq!(page.rows[0].number, 302);
        let counts = table(&lines).counts("late", None, 9, &never).unwrap();
        assert_eq!((counts.values, counts.missing), (vec![("7".to_owned(), 1)], 301));
        let unknown = table(&lines).counts("later", None, 9, &never);
        assert!(matches!(unknown, Err(TableError::UnknownColumn)));
    }

    #[test]
    fn a_long_value_is_found_by_its_counted_beginning() {
        let never = Deadline::never();
        let mut table = table(&format!("{{\"a\":\"{}\"}}\n", "é".repeat(200)));
        let counts = table.counts("a", None, 9, &never).unwrap();
        assert_eq!(counts.values, [("é".repeat(127) + "…", 1)]);
        let found = table.counts("a", Some(&"é".repeat(127)), 9, &never).unwrap();
        assert_eq!(found.values, counts.values);
    }

    #[test]
    fn text_has_one_column() {
        let lines = b"one\ntwo \x1b[2J\n\nTWO".to_vec();
        let mut table =
            ResultTable::open(Box::new(lines), 0, RowContent::Text, &Deadline::never()).unwrap();
        let page = table.page(&TableFilter::default(), 0, 9, &Deadline::never()).unwrap();
        assert_eq!((page.columns[0].title.as_str(), page.matched), ("text", 4));
        let texts: Vec<_> =
            page.rows.iter().map(|row| row.cells[0].as_ref().unwrap().text.as_str()).collect();
        assert_eq!(texts, ["one", "two <U+001B>[2J", "", "TWO"]);
        let filter = TableFilter { search: Some("two".to_owned()), ..by("text", true) };
        assert_eq!(numbers(&mut table, &filter), [2, 4]);
        assert_eq!(table.counts("text", None, 9, &Deadline::never()).unwrap().missing, 1);
    }

    #[test]
    fn long_values_are_cut_in_a_page_only() {
        let long = "x".repeat(CELL_CHARS + 1);
        let mut table = table(&format!("{{\"a\":\"{long}\"}}\n"));
        let page = table.page(&TableFilter::default(), 0, 1, &Deadline::never()).unwrap();
        let text = &page.rows[0].cells[0].as_ref().unwrap().text;
        assert_eq!((text.chars().count(), text.ends_with('…')), (CELL_CHARS + 1, true));
        assert!(!table.record(1, 10_000).unwrap().unwrap().1);
    }

    proptest! {
        #[test]
        fn pages_together_are_all_rows(
            values in proptest::collection::vec(0_u8..20, 0..60),
            limit in 1_usize..9,
            descending: bool,
        ) {
            let lines: Vec<String> = values.iter().map(|value| format!("{{\"v\":{value}}}\n")).collect();
            let lines = lines.concat();
            let mut table = table(&lines);
            let filter = if values.is_empty() { TableFilter::default() } else { by("v", descending) };
            let mut seen = Vec::new();
            loop {
                let page = table.page(&filter, seen.len() as u64, limit, &Deadline::never()).unwrap();
                if page.rows.is_empty() {
                    break;
                }
                seen.extend(page.rows.iter().map(|row| usize::try_from(row.number).unwrap() - 1));
            }
            let mut expected: Vec<usize> = (0..values.len()).collect();
            expected.sort_by(|one, two| {
                let order = values[*one].cmp(&values[*two]);
                if descending { order.reverse() } else { order }
            });
            prop_assert_eq!(seen, expected);
        }
    }
}
