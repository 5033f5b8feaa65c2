//! Periods of the calendar: days, weeks, months and years, and whether they overlap.

use chrono::{Datelike, Days, Months, NaiveDate};
use mif::{Temporal, Timestamp};

/// A time that a query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    Once(DateSpan),
    /// A month, or a day of a month, of every year.
    Yearly {
        month: u32,
        day: Option<u32>,
    },
}

impl Period {
    pub(super) fn overlaps(self, span: DateSpan) -> bool {
        match self {
            Self::Once(own) => own.overlaps(span),
            // The day after 31 December belongs to the year before.
            Self::Yearly { month, day } => (span.first.year() - 1..=span.last.year())
                .filter_map(|year| DateSpan::month_or_day(year, month, day))
                .any(|own| own.overlaps(span)),
        }
    }
}

/// Consecutive days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DateSpan {
    pub(super) first: NaiveDate,
    pub(super) last: NaiveDate,
}

impl DateSpan {
    pub(super) fn day(date: NaiveDate) -> Self {
        Self { first: date, last: date }
    }

    /// The week that contains a day, from Monday to Sunday.
    pub(super) fn week(date: NaiveDate) -> Option<Self> {
        let first =
            date.checked_sub_days(Days::new(date.weekday().num_days_from_monday().into()))?;
        Some(Self { first, last: first.checked_add_days(Days::new(6))? })
    }

    pub(super) fn month(year: i32, month: u32) -> Option<Self> {
        let first = NaiveDate::from_ymd_opt(year, month, 1)?;
        Some(Self { first, last: first.checked_add_months(Months::new(1))?.pred_opt()? })
    }

    /// A month, or a day with the next one: many things are written down a day later, and it may be
    /// the next day in UTC.
    pub(super) fn month_or_day(year: i32, month: u32, day: Option<u32>) -> Option<Self> {
        let Some(day) = day else { return Self::month(year, month) };
        let first = NaiveDate::from_ymd_opt(year, month, day)?;
        Some(Self { first, last: first.succ_opt()? })
    }

    pub(super) fn year(year: i32) -> Option<Self> {
        let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
        Some(Self { first, last: NaiveDate::from_ymd_opt(year, 12, 31)? })
    }

    /// The validity of a memory. A validity without a beginning or without an end counts as the day
    /// that is stated: an open one would be of nearly every time.
    pub(super) fn from_validity(temporal: &Temporal) -> Option<Self> {
        let (from, until) = (temporal.valid_from.as_ref(), temporal.valid_until.as_ref());
        Some(Self { first: date(from.or(until)?), last: date(until.or(from)?) })
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Returns the day of a time.
pub(super) fn date(time: &Timestamp) -> NaiveDate {
    time.instant().naive_utc().date()
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "day" | "days" => Self::Day,
            "week" | "weeks" => Self::Week,
            "month" | "months" => Self::Month,
            "year" | "years" => Self::Year,
            _ => return None,
        })
    }

    /// Returns the day that is `count` units before `date`.
    pub(super) fn before(self, date: NaiveDate, count: u32) -> Option<NaiveDate> {
        let days = |days: u32| date.checked_sub_days(Days::new(days.into()));
        let months = |months: u32| date.checked_sub_months(Months::new(months));
        match self {
            Self::Day => days(count),
            Self::Week => days(count.checked_mul(7)?),
            Self::Month => months(count),
            Self::Year => months(count.checked_mul(12)?),
        }
    }

    /// Returns the unit of the calendar that contains `date`.
    pub(super) fn containing(self, date: NaiveDate) -> Option<DateSpan> {
        match self {
            Self::Day => Some(DateSpan::day(date)),
            Self::Week => DateSpan::week(date),
            Self::Month => DateSpan::month(date.year(), date.month()),
            Self::Year => DateSpan::year(date.year()),
        }
    }
}
