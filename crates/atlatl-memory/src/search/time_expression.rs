//! Time expressions in queries: months, dates, years, and spans such as "last week".
//!
//! A memory of the time that a query names ranks higher. Whether a memory is of that time is decided
//! by its creation time, its time of recording and its validity, not by its words, which the
//! full-text index compares. Only English expressions are known. Days are those of UTC. Text in
//! double quotes is not a time expression: it is the wording of a memory.

mod period;

use std::ops::RangeInclusive;

use chrono::{DateTime, NaiveDate, Utc};
use mif::Memory;

use self::period::{DateSpan, Period, Unit, date};
use super::query::{strip_possessive, trim_punctuation};

/// The numbers that are years.
const YEARS: RangeInclusive<i32> = 1970..=2099;
/// The maximum number of periods of one query.
const MAX_PERIODS: usize = 32;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const COUNTS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];
/// Words before a month that are joined to it by a hyphen: `mid-May`.
const QUALIFIERS: [&str; 3] = ["early", "late", "mid"];
/// Words after which `may` is the month and not the verb.
const BEFORE_MAY: [&str; 15] = [
    "after", "before", "between", "by", "during", "early", "from", "in", "last", "late", "mid",
    "of", "since", "through", "until",
];

/// The times that a query names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeExpression(Vec<Period>);

impl TimeExpression {
    /// Returns the times that `query` names, or `None` if it names none.
    ///
    /// A month without a year is that month of the years in the query, or else of every year.
    pub(crate) fn parse(query: &str, now: DateTime<Utc>) -> Option<Self> {
        let query = query.to_lowercase();
        let tokens = tokens(&query);
        let years = years(&tokens);
        let mut periods = months(&tokens, &years);
        if periods.is_empty() {
            periods.extend(years.into_iter().filter_map(DateSpan::year).map(Period::Once));
        }
        let dates = tokens.iter().filter_map(|token| match token {
            Token::Date(span) => Some(*span),
            _ => None,
        });
        periods.extend(dates.map(Period::Once));
        periods.extend(relative_spans(&tokens, now.date_naive()).map(Period::Once));
        periods.truncate(MAX_PERIODS);
        (!periods.is_empty()).then_some(Self(periods))
    }

    /// Returns whether a memory was created, recorded or valid at one of the times.
    pub(crate) fn matches(&self, memory: &Memory) -> bool {
        let temporal = memory.temporal.as_ref();
        let recorded = temporal.and_then(|temporal| temporal.recorded_at.as_ref());
        let points = [Some(&memory.created), recorded].into_iter().flatten();
        let mut spans = points
            .map(|time| DateSpan::day(date(time)))
            .chain(temporal.and_then(DateSpan::from_validity));
        spans.any(|span| self.0.iter().any(|period| period.overlaps(span)))
    }
}

/// Returns whether a word is part of time expressions. Such a word is not a misspelling, although no
/// memory contains it.
pub(crate) fn is_time_word(word: &str) -> bool {
    matches!(
        Token::parse(&word.to_lowercase()),
        Token::Month(_, MonthForm::Name | MonthForm::May)
            | Token::Unit(_)
            | Token::Word("today" | "yesterday")
    )
}

/// How a month is written, which decides whether it needs a day or a year beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MonthForm {
    /// The name.
    Name,
    /// Three or four letters, such as `jan` or `mar`, which are words of their own.
    Abbreviation,
    /// `may`, which is usually a verb.
    May,
}

/// A word of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A date such as `2023-05-07` or `2023-05`.
    Date(DateSpan),
    /// A month, by its number.
    Month(u32, MonthForm),
    /// A number, also an ordinal such as `7th`.
    Number(u32),
    Unit(Unit),
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn parse(word: &'a str) -> Self {
        if let Some((month, form)) = month(word) {
            Self::Month(month, form)
        } else if let Some(number) = number(word) {
            Self::Number(number)
        } else {
            Unit::parse(word).map_or(Self::Word(word), Self::Unit)
        }
    }
}

/// Splits a lowercase query into words.
fn tokens(query: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (part, is_quoted) in query.split('"').zip([false, true].into_iter().cycle()) {
        if is_quoted {
            // What is before the quotes does not continue after them.
            tokens.push(Token::Word(""));
            continue;
        }
        for word in part.split_whitespace() {
            let word = strip_possessive(trim_punctuation(word));
            if let Some(span) = iso_date(word) {
                tokens.push(Token::Date(span));
                continue;
            }
            let parts: Vec<Token<'_>> = word.split(['-', '–', '/']).map(Token::parse).collect();
            let is_time = |part: &Token<'_>| match part {
                Token::Word(word) => QUALIFIERS.contains(word),
                _ => true,
            };
            // `mid-May` and `2021-2023` are times; the year in `CVE-2023-1234` is not.
            if parts.len() == 1 || parts.iter().all(is_time) {
                tokens.extend(parts);
            } else {
                tokens.push(Token::Word(word));
            }
        }
    }
    tokens
}

/// Parses `2023-05-07` or `2023-05`, also with slashes.
fn iso_date(word: &str) -> Option<DateSpan> {
    let parts: Vec<&str> = word.split(['-', '/']).collect();
    if !parts.iter().map(|part| part.len()).eq([4, 2, 2].into_iter().take(parts.len())) {
        return None;
    }
    let numbers: Vec<u32> = parts.iter().map(|part| number(part)).collect::<Option<_>>()?;
    match numbers[..] {
        [year, month] => DateSpan::month(to_year(year)?, month),
        [year, month, day] => DateSpan::month_or_day(to_year(year)?, month, Some(day)),
        _ => None,
    }
}

fn month(word: &str) -> Option<(u32, MonthForm)> {
    if word == "sept" {
        return Some((9, MonthForm::Abbreviation));
    }
    let (number, name) = (1..)
        .zip(MONTHS)
        .find(|(_, name)| word == *name || (word.len() == 3 && name.starts_with(word)))?;
    let form = match name {
        "may" => MonthForm::May,
        _ if name == word => MonthForm::Name,
        _ => MonthForm::Abbreviation,
    };
    Some((number, form))
}

/// Parses a number of at most four digits, also an ordinal.
fn number(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"]
        .into_iter()
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    let is_number = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

fn to_year(number: u32) -> Option<i32> {
    i32::try_from(number).ok().filter(|year| YEARS.contains(year))
}

/// Returns the distinct years of a query. The number in "2000 days" is not one.
fn years(tokens: &[Token<'_>]) -> Vec<i32> {
    let mut years = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if let Token::Number(number) = token
            && !matches!(tokens.get(at + 1), Some(Token::Unit(_)))
            && let Some(year) = to_year(*number)
            && !years.contains(&year)
        {
            years.push(year);
        }
    }
    years
}

/// Returns the months and the days of months, in the `years` of the query where no year is beside
/// them.
fn months(tokens: &[Token<'_>], years: &[i32]) -> Vec<Period> {
    let mut periods = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Month(month, form) = *token else { continue };
        let (before, after) = (&tokens[..at], &tokens[at + 1..]);
        let day = day_beside(month, before, after);
        let year = year_after(after);
        if day.is_none() && year.is_none() && !is_month_alone(form, before, after) {
            continue;
        }
        let years = year.as_ref().map_or(years, std::slice::from_ref);
        if years.is_empty() {
            periods.push(Period::Yearly { month, day });
        } else {
            let spans = years.iter().filter_map(|year| DateSpan::month_or_day(*year, month, day));
            periods.extend(spans.map(Period::Once));
        }
    }
    periods
}

/// Returns the day in `7 May`, `7th of May` or `May 7`, if the month has it in some year.
fn day_beside(month: u32, before: &[Token<'_>], after: &[Token<'_>]) -> Option<u32> {
    // 2000 is a leap year.
    let is_day = |day: &u32| NaiveDate::from_ymd_opt(2000, month, *day).is_some();
    let day_before = match before {
        [.., Token::Number(day)] | [.., Token::Number(day), Token::Word("of")] => Some(*day),
        _ => None,
    };
    let day_after = match after {
        [Token::Number(day), ..] => Some(*day),
        _ => None,
    };
    day_before.filter(is_day).or(day_after.filter(is_day))
}

/// Returns the year in `May 2023`, `May 7, 2023` or `May of 2023`.
fn year_after(after: &[Token<'_>]) -> Option<i32> {
    let first_year = |tokens: &[Token<'_>]| match tokens {
        [Token::Number(number), ..] => to_year(*number),
        _ => None,
    };
    first_year(after).or_else(|| match after {
        [Token::Number(_) | Token::Word("of" | "in"), rest @ ..] => first_year(rest),
        _ => None,
    })
}

/// Returns whether a month without a day and a year is one.
fn is_month_alone(form: MonthForm, before: &[Token<'_>], after: &[Token<'_>]) -> bool {
    match form {
        MonthForm::Name => true,
        MonthForm::Abbreviation => false,
        MonthForm::May => {
            let is_after_preposition =
                matches!(before, [.., Token::Word(word)] if BEFORE_MAY.contains(word));
            let is_beside_another = matches!(
                (before, after),
                ([.., Token::Month(_, MonthForm::Name), Token::Word("and" | "or" | "to")], _)
                    | (_, [Token::Word("and" | "or" | "to"), Token::Month(_, MonthForm::Name), ..])
            );
            is_after_preposition || is_beside_another
        }
    }
}

/// Returns the spans that are relative to today. "Last week" and "a week ago" are the week of the
/// calendar before this one, "the past week" and "the last 7 days" the days until today.
fn relative_spans(tokens: &[Token<'_>], today: NaiveDate) -> impl Iterator<Item = DateSpan> {
    let until_today = move |unit: Unit, count: u32| {
        Some(DateSpan { first: unit.before(today, count)?, last: today })
    };
    let ago = move |unit: Unit, count: u32| unit.containing(unit.before(today, count)?);
    (0..tokens.len()).filter_map(move |at| match tokens[at..] {
        [Token::Word("today"), ..] => Some(DateSpan::day(today)),
        [Token::Word("yesterday"), ..] => ago(Unit::Day, 1),
        // "The last day" is rarely yesterday.
        [Token::Word("this"), Token::Unit(unit), ..] if unit != Unit::Day => ago(unit, 0),
        [Token::Word("last"), Token::Unit(unit), ..] if unit != Unit::Day => ago(unit, 1),
        [Token::Word("past"), Token::Unit(unit), ..] => until_today(unit, 1),
        [Token::Word("last" | "past"), amount, Token::Unit(unit), ..] => {
            until_today(unit, count(amount)?)
        }
        [amount, Token::Unit(unit), Token::Word("ago"), ..] => ago(unit, count(amount)?),
        _ => None,
    })
}

/// Returns the number that is written in digits or as a word.
fn count(token: Token<'_>) -> Option<u32> {
    match token {
        Token::Number(number) => Some(number),
        Token::Word("a" | "an") => Some(1),
        Token::Word(word) => (1..).zip(COUNTS).find(|(_, name)| *name == word).map(|(n, _)| n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mif::{MemoryId, MemoryType, Temporal};

    use super::*;

    /// Returns the periods of a query on Tuesday, 17 November 2026.
    fn periods(query: &str) -> Vec<String> {
        let now = "2026-11-17T20:00:00Z".parse().unwrap();
        let periods = TimeExpression::parse(query, now).map_or_else(Vec::new, |named| named.0);
        periods
            .into_iter()
            .map(|period| match period {
                Period::Once(DateSpan { first, last }) if first == last => first.to_string(),
                Period::Once(DateSpan { first, last }) => format!("{first}..{last}"),
                Period::Yearly { month, day: None } => format!("every {month}"),
                Period::Yearly { month, day: Some(day) } => format!("every {month}-{day}"),
            })
            .collect()
    }

    #[test]
    fn expressions_name_their_times() {
        for (query, expected) in [
            ("what happened in March", "every 3"),
            ("quillon outage june", "every 6"),
            ("December's report", "every 12"),
            ("In May, what did we decide?", "every 5"),
            ("mid-May", "every 5"),
            ("early may", "every 5"),
            ("who joined since may", "every 5"),
            ("april or may", "every 4, every 5"),
            ("may to june", "every 5, every 6"),
            ("Quillon outage of 3 May", "every 5-3"),
            ("the 3rd of May", "every 5-3"),
            ("May 3rd", "every 5-3"),
            ("5-May", "every 5-5"),
            ("3 jan", "every 1-3"),
            ("Sept 12", "every 9-12"),
            ("29 February", "every 2-29"),
            ("february 30", "every 2"),
            ("7 May 2023", "2023-05-07..2023-05-08"),
            ("on 7th May, 2023", "2023-05-07..2023-05-08"),
            ("May 7, 2023", "2023-05-07..2023-05-08"),
            ("the 7th of may 2023", "2023-05-07..2023-05-08"),
            ("2023-05-07", "2023-05-07..2023-05-08"),
            ("before 2023/05/07?", "2023-05-07..2023-05-08"),
            ("2024-02-29", "2024-02-29..2024-03-01"),
            ("may 2023", "2023-05-01..2023-05-31"),
            ("the end of May of 2023", "2023-05-01..2023-05-31"),
            ("In 2023, what did we do in May?", "2023-05-01..2023-05-31"),
            ("2023-05", "2023-05-01..2023-05-31"),
            ("Feb 2024", "2024-02-01..2024-02-29"),
            ("june and july 2023", "2023-06-01..2023-06-30, 2023-07-01..2023-07-31"),
            ("between May 2022 and June 2023", "2022-05-01..2022-05-31, 2023-06-01..2023-06-30"),
            ("in the summer of 2023", "2023-01-01..2023-12-31"),
            ("2021-2022", "2021-01-01..2021-12-31, 2022-01-01..2022-12-31"),
            ("what did I write today", "2026-11-17"),
            ("yesterday's call", "2026-11-16"),
            ("3 days ago", "2026-11-14"),
            ("this week", "2026-11-16..2026-11-22"),
            ("Last week?", "2026-11-09..2026-11-15"),
            ("two weeks ago", "2026-11-02..2026-11-08"),
            ("this month", "2026-11-01..2026-11-30"),
            ("decisions of last month", "2026-10-01..2026-10-31"),
            ("a month ago", "2026-10-01..2026-10-31"),
            ("this year", "2026-01-01..2026-12-31"),
            ("last year", "2025-01-01..2025-12-31"),
            ("ten years ago", "2016-01-01..2016-12-31"),
            ("in the last 7 days", "2026-11-10..2026-11-17"),
            ("the past two weeks", "2026-11-03..2026-11-17"),
            ("the past month", "2026-10-17..2026-11-17"),
            ("yesterday or in May 2023", "2023-05-01..2023-05-31, 2026-11-16"),
        ] {
            assert_eq!(periods(query).join(", "), expected, "{query}");
        }
    }

    #[test]
    fn other_words_name_no_time() {
        for query in [
            "",
            "… !",
            "Which partner may send more requests than everyone else?",
            "How big may a pull request be?",
            "From which day on may we no longer ship code?",
            "what may or may not happen",
            "May I deploy?",
            "\"in May 2023\"",
            "the \"last\" week of work",
            "jan called about the mar",
            "the mayor of marchfield",
            "CVE-2023-1234",
            "v2023.1, 7.8.4 and 1,950",
            "port 8080, 2100 users, 1969",
            "2000 days of data",
            "the last day of the sprint",
            "every 3 months, some time ago",
            "99999999999 days ago",
            "2023-13-01x",
            "五月",
        ] {
            assert_eq!(periods(query), [] as [&str; 0], "{query}");
        }
    }

    #[test]
    fn long_queries_have_a_bounded_number_of_periods() {
        assert_eq!(periods(&"may 2023 ".repeat(1_000)).len(), MAX_PERIODS);
        assert_eq!(periods("4000 years ago, 9999 weeks ago").len(), 2);
    }

    #[test]
    fn time_words_are_told_from_others() {
        for word in ["March", "may", "today", "Yesterday", "week", "months"] {
            assert!(is_time_word(word), "{word}");
        }
        for word in ["marsh", "jan", "ago", "7", "ladder"] {
            assert!(!is_time_word(word), "{word}");
        }
    }

    #[test]
    fn a_memory_is_of_the_times_of_its_fields() {
        let memory = |created: &str, fields: [Option<&str>; 3]| {
            let id = MemoryId::from_u128(1);
            let created = created.parse().unwrap();
            let mut memory = Memory::new(id, MemoryType::Semantic, "text", created).unwrap();
            let [valid_from, valid_until, recorded_at] =
                fields.map(|field| field.map(|time| time.parse().unwrap()));
            let mut temporal = Temporal::default();
            temporal.valid_from = valid_from;
            temporal.valid_until = valid_until;
            temporal.recorded_at = recorded_at;
            memory.temporal = Some(temporal);
            memory
        };
        let is_of = |query: &str, memory: &Memory| {
            let now = "2026-11-17T20:00:00Z".parse().unwrap();
            TimeExpression::parse(query, now).unwrap().matches(memory)
        };
        let created = memory("2023-05-31T23:30:00-02:00", [None; 3]);
        for (query, expected) in
            [("june", true), ("june 2023", true), ("june 2022", false), ("in may", false)]
        {
            assert_eq!(is_of(query, &created), expected, "{query}: the day is that of UTC");
        }
        let new_year = memory("2026-01-01T08:00:00Z", [None; 3]);
        for (query, expected) in
            [("31 december", true), ("31 december 2025", true), ("30 december", false)]
        {
            assert_eq!(is_of(query, &new_year), expected, "{query}: a day and the next one");
        }
        let (early, late) = ("2024-11-10T00:00:00Z", "2026-02-03T00:00:00Z");
        let fields = memory("2020-01-01T00:00:00Z", [Some(early), Some(late), None]);
        for (query, expected) in [
            ("november 2024", true),
            ("july", true),
            ("2025", true),
            ("29 february", false),
            ("2026-02-03", true),
            ("2026-02-04", false),
            ("january 2020", true),
        ] {
            assert_eq!(is_of(query, &fields), expected, "{query}: valid for a time");
        }
        for fields in
            [[Some(early), None, None], [None, Some(early), None], [None, None, Some(early)]]
        {
            let memory = memory("2020-01-01T00:00:00Z", fields);
            assert!(is_of("november 2024", &memory) && is_of("10 november", &memory));
            assert!(!is_of("december", &memory) && !is_of("2025", &memory));
        }
    }
}
