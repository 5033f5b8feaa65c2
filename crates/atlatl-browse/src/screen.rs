//! Screen: what is seen and what a key does to it.

mod cursor;
mod jobs;
mod prompt;

pub(crate) use self::cursor::Record;
pub(crate) use self::jobs::{Direction, Sorted};
use self::jobs::{Searching, Sorting};
pub(crate) use self::prompt::{Filter, Prompt, Purpose};
use crate::command::Key;
use crate::command::{Ask, Effect};
use crate::lines::{Pattern, Source};
use crate::rows::{Body, Content, Row};

/// What is said of a result above its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a line of the screen has room for no more")]
pub struct About {
    /// Its reference.
    pub reference: String,
    /// The tool that made it: text from outside.
    pub tool: String,
    /// What it holds, as "5,000 records".
    pub holds: String,
    /// How large it is.
    pub size: String,
    /// When it expires.
    pub expires: String,
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are or there are not")]
pub enum Look {
    /// One, beside bold and reversed.
    Colour,
    /// None.
    Plain,
}

/// What fills the screen.
#[derive(Debug)]
pub(crate) enum Mode {
    Table,
    Record(Record),
    Prompt(Prompt),
}

/// Work that is done a piece at a time.
enum Job {
    Search(Searching),
    Sort(Sorting),
}

/// What is seen of a result, and where in it.
pub struct Screen {
    pub(crate) about: About,
    pub(crate) look: Look,
    pub(crate) mode: Mode,
    pub(crate) help: bool,
    /// Said until the next key.
    pub(crate) message: Option<String>,
    pub(crate) filter: Option<Filter>,
    pub(crate) sorted: Option<Sorted>,
    pub(crate) pattern: Option<Pattern>,
    /// The position under the cursor, and the first one that is seen.
    pub(crate) cursor: usize,
    pub(crate) top: usize,
    /// The column under the cursor, and the first one that is seen.
    pub(crate) column: usize,
    pub(crate) first_column: usize,
    /// How far a text is moved to the left.
    pub(crate) shift: usize,
    pub(crate) page: Vec<Row>,
    stored: Body,
    size: (u16, u16),
    job: Option<Job>,
    asking: Option<(String, Ask)>,
    /// What was typed last for either purpose.
    typed: [String; 2],
    /// Which records are seen: counted up when they become others.
    records: u64,
    /// What `page` was made from.
    seen: Option<(usize, usize, u64)>,
    version: u64,
}

impl Screen {
    /// The lines of `source` from the byte `begin` on.
    pub fn new(
        source: Box<dyn Source>,
        begin: u64,
        content: Content,
        about: About,
        look: Look,
    ) -> Self {
        Self {
            about,
            look,
            mode: Mode::Table,
            help: false,
            message: None,
            filter: None,
            sorted: None,
            pattern: None,
            cursor: 0,
            top: 0,
            column: 0,
            first_column: 0,
            shift: 0,
            page: Vec::new(),
            stored: Body::new(source, begin, content),
            size: (80, 24),
            job: None,
            asking: None,
            typed: [String::new(), String::new()],
            records: 0,
            seen: None,
            version: 0,
        }
    }

    /// Tells it how large it is.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.settle();
    }

    /// Tells it when the result expires, as time goes by. Says whether that is news.
    pub fn expires(&mut self, text: &str) -> bool {
        let news = self.about.expires != text;
        if news {
            text.clone_into(&mut self.about.expires);
        }
        news
    }

    /// Does what a key says.
    pub fn update(&mut self, key: Key) -> Option<Effect> {
        if key == Key::Ctrl('c') {
            return Some(Effect::Quit);
        }
        self.message = None;
        let effect = if self.help {
            self.help = false;
            (key == Key::Char('q')).then_some(Effect::Quit)
        } else {
            match self.mode {
                Mode::Table => self.table_key(key),
                Mode::Record(_) => self.record_key(key),
                Mode::Prompt(_) => self.prompt_key(key),
            }
        };
        self.settle();
        effect
    }

    /// Does a piece of the work that is to be done; says whether there is more.
    pub fn work(&mut self) -> bool {
        if !self.stored.lines.is_finished() {
            if let Err(error) = self.stored.index() {
                self.stored.lines.give_up();
                self.trouble(&error);
            }
            if self.stored.lines.cut {
                let most = crate::lines::MAX_LINES;
                self.message = Some(format!("only the first {most} lines are shown"));
            }
            // While it grows, what is on the screen may be less than fits.
            if self.page.len() < self.height() || self.stored.lines.is_finished() {
                self.version += 1;
            }
        } else if let Some(job) = self.job.take() {
            match job {
                Job::Search(search) => self.search_on(search),
                Job::Sort(sort) => self.sort_on(sort),
            }
        }
        self.settle();
        self.is_busy()
    }

    /// Where the cursor is, from 0, and how many there are to scroll through.
    pub fn position(&self) -> (usize, usize) {
        (self.cursor, self.count())
    }

    /// Whether there is work to do.
    pub fn is_busy(&self) -> bool {
        !self.stored.lines.is_finished() || self.job.is_some()
    }

    fn table_key(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?') => self.help = true,
            Key::Char('/') => self.prompt(Purpose::Search),
            Key::Char(':') => self.prompt(Purpose::Filter),
            Key::Char('n') => self.search_again(true),
            Key::Char('N') => self.search_again(false),
            Key::Char('s') => self.sort(),
            Key::Enter => self.open_record(),
            Key::Esc => return self.escape(),
            key => self.move_by(key),
        }
        None
    }

    /// Ends what goes on; where nothing does, goes back to all records.
    fn escape(&mut self) -> Option<Effect> {
        if self.asking.take().is_some() {
            return Some(Effect::Cancel);
        }
        if self.job.take().is_none() && self.filter.take().is_some() {
            self.restart();
        } else {
            self.pattern = None;
        }
        None
    }

    /// Begins at the top of other records.
    fn restart(&mut self) {
        self.job = None;
        self.sorted = None;
        self.records += 1;
        if let Mode::Record(_) = self.mode {
            self.mode = Mode::Table;
        }
        (self.cursor, self.top, self.column, self.first_column) = (0, 0, 0, 0);
        self.version += 1;
    }

    /// The lines that are seen: those of the result, or those of an answer.
    pub(crate) fn body(&self) -> &Body {
        match &self.filter {
            Some(Filter::Answer { body, .. }) => body,
            _ => &self.stored,
        }
    }

    fn body_mut(&mut self) -> &mut Body {
        match &mut self.filter {
            Some(Filter::Answer { body, .. }) => body,
            _ => &mut self.stored,
        }
    }

    /// How many there are to scroll through.
    pub(crate) fn count(&self) -> usize {
        match (&self.sorted, &self.filter) {
            (Some(sorted), _) => sorted.order.len(),
            (None, Some(Filter::Records { numbers, .. })) => numbers.len(),
            _ => self.body().lines.count(),
        }
    }

    /// The number of the line at a position.
    pub(crate) fn number(&self, position: usize) -> usize {
        match &self.sorted {
            Some(sorted) => sorted.order.get(position).map_or(0, |number| *number as usize),
            None => self.stored_number(position),
        }
    }

    /// The same, whatever they are sorted by.
    fn stored_number(&self, position: usize) -> usize {
        match &self.filter {
            Some(Filter::Records { numbers, .. }) => {
                numbers.get(position).map_or(0, |number| *number as usize)
            }
            _ => position,
        }
    }

    /// What goes on, where something does.
    pub(crate) fn doing(&self) -> Option<String> {
        if !self.stored.lines.is_finished() {
            return Some(format!("indexing {} %", self.stored.lines.percent()));
        }
        if self.asking.is_some() {
            return Some("asking\u{2026} Esc ends it".to_owned());
        }
        let percent = |done: usize, all: usize| (done * 100).checked_div(all).unwrap_or(100);
        Some(match self.job.as_ref()? {
            Job::Search(search) => format!("searching {} %", percent(search.done(), search.all)),
            Job::Sort(sort) => format!("sorting {} %", percent(sort.done(), self.count())),
        })
    }

    fn trouble(&mut self, error: &std::io::Error) {
        self.message = Some(format!("the result cannot be read: {error}"));
    }
}
