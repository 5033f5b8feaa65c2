//! The state of the browser, and what each key does.

mod columns;
mod copy;
mod cursor;
mod export;
mod jobs;
mod matches;
mod prompt;
mod values;

pub(crate) use self::cursor::Record;
pub use self::export::ExportFile;
use self::export::ExportJob;
pub(crate) use self::jobs::{Direction, SortOrder};
use self::jobs::{SearchJob, SortJob};
use self::matches::Matches;
pub(crate) use self::prompt::{Filter, Prompt, Purpose};
pub(crate) use self::values::Values;
use self::values::ValuesJob;
use crate::command::KeyPress;
use crate::command::{ScreenCommand, SqlRequest};
use crate::lines::{Pattern, RowContent, RowSource};
use crate::rows::{Row, RowSet};

/// The facts in the header line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a line of the screen has no room for other facts")]
pub struct HeaderInfo {
    /// The reference of the result.
    pub reference: String,
    /// The tool: untrusted text.
    pub tool: String,
    /// The content, such as "5,000 records".
    pub holds: String,
    /// The size.
    pub size: String,
    /// The expiry.
    pub expires: String,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are or there are not")]
pub enum ColorMode {
    /// One colour, bold and reversed.
    Colour,
    /// No colours.
    Plain,
}

/// The active view.
#[derive(Debug)]
pub(crate) enum Mode {
    Table,
    Record(Record),
    Values(Values),
    Prompt(Prompt),
}

/// Work that is done in steps.
enum Job {
    Search(SearchJob),
    Sort(SortJob),
    Values(ValuesJob),
    Export(ExportJob),
}

/// The state of the browser: the visible part of a result, and the mode.
pub struct Screen {
    pub(crate) about: HeaderInfo,
    pub(crate) look: ColorMode,
    pub(crate) mode: Mode,
    pub(crate) help: bool,
    /// Shown until the next key.
    pub(crate) message: Option<String>,
    pub(crate) filter: Option<Filter>,
    pub(crate) sort_order: Option<SortOrder>,
    pub(crate) pattern: Option<Pattern>,
    matches: Option<Matches>,
    /// The position of the cursor, and of the first visible row.
    pub(crate) cursor: usize,
    pub(crate) top: usize,
    /// The column of the cursor, and the first visible column.
    pub(crate) column: usize,
    pub(crate) first_column: usize,
    /// The horizontal scroll offset of text.
    pub(crate) shift: usize,
    pub(crate) page: Vec<Row>,
    stored: RowSet,
    size: (u16, u16),
    job: Option<Job>,
    pending_query: Option<(String, SqlRequest)>,
    /// The last input for each purpose.
    history: [String; Purpose::COUNT],
    /// Incremented when other records are shown.
    records: u64,
    /// What `page` was loaded for.
    page_key: Option<(usize, usize, u64)>,
    version: u64,
}

impl Screen {
    /// Creates a screen with the lines of `source` from byte `begin`.
    pub fn new(
        source: Box<dyn RowSource>,
        begin: u64,
        content: RowContent,
        about: HeaderInfo,
        look: ColorMode,
    ) -> Self {
        Self {
            about,
            look,
            mode: Mode::Table,
            help: false,
            message: None,
            filter: None,
            sort_order: None,
            pattern: None,
            matches: None,
            cursor: 0,
            top: 0,
            column: 0,
            first_column: 0,
            shift: 0,
            page: Vec::new(),
            stored: RowSet::new(source, begin, content),
            size: (80, 24),
            job: None,
            pending_query: None,
            history: Default::default(),
            records: 0,
            page_key: None,
            version: 0,
        }
    }

    /// Sets the size of the screen.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.settle();
    }

    /// Updates the expiry in the header. Returns whether it changed.
    pub fn expires(&mut self, text: &str) -> bool {
        let news = self.about.expires != text;
        if news {
            text.clone_into(&mut self.about.expires);
        }
        news
    }

    /// Handles a key press.
    pub fn update(&mut self, key: KeyPress) -> Option<ScreenCommand> {
        if key == KeyPress::Ctrl('c') {
            return Some(ScreenCommand::Quit);
        }
        self.message = None;
        let effect = if key == KeyPress::Char('q')
            && let Some(Job::Export(export)) = &self.job
        {
            self.message = Some(export.notice());
            self.help = false;
            None
        } else if self.help {
            self.help = false;
            (key == KeyPress::Char('q')).then_some(ScreenCommand::Quit)
        } else {
            match self.mode {
                Mode::Table => self.table_key(key),
                Mode::Record(_) => self.record_key(key),
                Mode::Values(_) => self.values_key(key),
                Mode::Prompt(_) => self.prompt_key(key),
            }
        };
        self.settle();
        effect
    }

    /// Does one step of pending work; returns whether there is more.
    pub fn work(&mut self) -> bool {
        if !self.stored.lines.is_finished() {
            if let Err(error) = self.stored.index() {
                self.stored.lines.stop();
                self.show_read_error(&error);
            }
            if self.stored.lines.cut {
                let most = crate::lines::MAX_LINES;
                self.message = Some(format!("only the first {most} lines are shown"));
            }
            // While indexing, the page may not be full yet.
            if self.page.len() < self.height() || self.stored.lines.is_finished() {
                self.version += 1;
            }
        } else if let Some(job) = self.job.take() {
            match job {
                Job::Search(search) => self.continue_search(search),
                Job::Sort(sort) => self.continue_sort(sort),
                Job::Values(values) => self.continue_values(values),
                Job::Export(export) => self.continue_export(export),
            }
        } else if self.is_counting() {
            self.continue_matches();
        }
        self.settle();
        self.is_busy()
    }

    /// The cursor position, from 0, and the number of rows.
    pub fn position(&self) -> (usize, usize) {
        (self.cursor, self.count())
    }

    /// Whether there is pending work.
    pub fn is_busy(&self) -> bool {
        !self.stored.lines.is_finished() || self.job.is_some() || self.is_counting()
    }

    fn table_key(&mut self, key: KeyPress) -> Option<ScreenCommand> {
        if let (
            Some(Job::Export(export)),
            KeyPress::Char('/' | ':' | 'n' | 'N' | 's' | 'v' | 'e'),
        ) = (&self.job, key)
        {
            self.message = Some(export.notice());
            return None;
        }
        match key {
            KeyPress::Char('q') => return Some(ScreenCommand::Quit),
            KeyPress::Char('?') => self.help = true,
            KeyPress::Char('/') => self.prompt(Purpose::Search),
            KeyPress::Char(':') => self.prompt(Purpose::Filter),
            KeyPress::Char('n') => self.search_again(true),
            KeyPress::Char('N') => self.search_again(false),
            KeyPress::Char('s') => self.sort(),
            KeyPress::Char('v') => self.count_values(),
            KeyPress::Char('e') => self.prompt(Purpose::Export),
            KeyPress::Char('y') => return self.copy_cell(),
            KeyPress::Char('Y') => return self.copy_row(),
            KeyPress::Char('-') => self.hide_column(),
            KeyPress::Char('+') => self.reset_columns(),
            KeyPress::Char('<') => self.resize_column(false),
            KeyPress::Char('>') => self.resize_column(true),
            KeyPress::Enter => self.open_record(),
            KeyPress::Esc => return self.escape(),
            key => self.move_by(key),
        }
        None
    }

    /// Cancels the running work, or else shows all records again.
    fn escape(&mut self) -> Option<ScreenCommand> {
        if self.pending_query.take().is_some() {
            return Some(ScreenCommand::Cancel);
        }
        match self.job.take() {
            Some(Job::Export(export)) => self.export_stopped(export, "cancelled"),
            Some(_) => {}
            None if self.filter.take().is_some() => self.restart(),
            None => {
                self.pattern = None;
                self.reset_matches();
            }
        }
        None
    }

    /// Resets the view to the top after the records changed.
    fn restart(&mut self) {
        self.job = None;
        self.reset_matches();
        self.sort_order = None;
        self.records += 1;
        if let Mode::Record(_) | Mode::Values(_) = self.mode {
            self.mode = Mode::Table;
        }
        (self.cursor, self.top, self.column, self.first_column) = (0, 0, 0, 0);
        self.version += 1;
    }

    /// The visible row set: the result, or the rows of a query.
    pub(crate) fn row_set(&self) -> &RowSet {
        match &self.filter {
            Some(Filter::Query { row_set, .. }) => row_set,
            _ => &self.stored,
        }
    }

    fn row_set_mut(&mut self) -> &mut RowSet {
        match &mut self.filter {
            Some(Filter::Query { row_set, .. }) => row_set,
            _ => &mut self.stored,
        }
    }

    /// The number of rows to scroll through.
    pub(crate) fn count(&self) -> usize {
        match (&self.sort_order, &self.filter) {
            (Some(sort_order), _) => sort_order.order.len(),
            (None, Some(Filter::Records { numbers, .. })) => numbers.len(),
            _ => self.row_set().lines.count(),
        }
    }

    /// The line number at a position.
    pub(crate) fn number(&self, position: usize) -> usize {
        match &self.sort_order {
            Some(sort_order) => sort_order.order.get(position).map_or(0, |number| *number as usize),
            None => self.stored_number(position),
        }
    }

    /// The line number at a position, ignoring the sort order.
    fn stored_number(&self, position: usize) -> usize {
        match &self.filter {
            Some(Filter::Records { numbers, .. }) => {
                numbers.get(position).map_or(0, |number| *number as usize)
            }
            _ => position,
        }
    }

    /// A description of the running work, if any.
    pub(crate) fn activity(&self) -> Option<String> {
        if !self.stored.lines.is_finished() {
            return Some(format!("indexing {} %", self.stored.lines.percent()));
        }
        if self.pending_query.is_some() {
            return Some("running\u{2026} Esc cancels".to_owned());
        }
        let percent = |done: usize, all: usize| (done * 100).checked_div(all).unwrap_or(100);
        Some(match self.job.as_ref()? {
            Job::Search(search) => format!("searching {} %", percent(search.done(), search.all)),
            Job::Sort(sort) => format!("sorting {} %", percent(sort.done(), self.count())),
            Job::Values(values) => format!("counting {} %", percent(values.done, self.count())),
            Job::Export(export) => format!("writing {} %", percent(export.done, self.count())),
        })
    }

    fn show_read_error(&mut self, error: &std::io::Error) {
        self.message = Some(format!("cannot read the result: {error}"));
    }
}
