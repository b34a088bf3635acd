//! When a periodic job starts.
//!
//! A cron expression describes times of the clock on the wall. A time that the change to summer time skips has no
//! launch, and one that comes twice in autumn has two, as in Nomad. Expressions have five fields, six with a year, or
//! seven with seconds before and a year after them. Time zones are those of the program, not of the machine.
//!
//! Nomad accepts ranges that end before they start, and dates that do not exist, and never launches such a job. They are
//! errors here.

use std::ops::RangeInclusive;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use nomad_csi_model::Periodic;

/// The names with which an expression can be written, and what they stand for.
const NAMED: [(&str, &str); 6] = [
    ("@annually", "0 0 1 1 *"),
    ("@yearly", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Names of months and days whose first three letters mean the same.
const LONG_NAMES: [&str; 18] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// The years that an expression can name.
const YEARS: RangeInclusive<u32> = 1970..=2099;

/// The largest step of each field, from seconds to years.
const LARGEST_STEPS: [u32; 7] = [59, 59, 23, 31, 12, 6, 2099];

/// How many changes of the clock are looked at for one launch: those of a century.
const MAX_CLOCK_CHANGES: usize = 400;

/// How many expressions a job may have: each is searched for its next time whenever one of its launches is decided.
pub(super) const MOST_EXPRESSIONS: usize = 100;

/// Why a periodic job has no launch times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchTimesProblem {
    /// An expression cannot be read.
    #[error("Invalid cron spec {expression:?}: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// The problem.
        reason: String,
    },
    /// There is no time zone of this name.
    #[error("Invalid time zone {0:?}: unknown time zone")]
    TimeZone(String),
}

/// The launch times of a periodic job.
#[derive(Debug)]
pub struct LaunchTimes {
    expressions: Vec<Cron>,
    zone: TimeZone,
}

impl LaunchTimes {
    /// Reads the expressions and the time zone of a periodic job.
    ///
    /// # Errors
    /// Every expression that cannot be read, and an unknown time zone.
    pub fn of(periodic: &Periodic) -> Result<Self, Vec<LaunchTimesProblem>> {
        let mut problems = vec![];
        let mut expressions = vec![];
        for text in periodic.expressions() {
            match parse(text) {
                Ok(expression) => expressions.push(expression),
                Err(reason) => problems
                    .push(LaunchTimesProblem::Expression { expression: text.to_owned(), reason }),
            }
        }
        let zone = time_zone(&periodic.time_zone);
        if zone.is_none() {
            problems.push(LaunchTimesProblem::TimeZone(periodic.time_zone.clone()));
        }
        match zone {
            Some(zone) if problems.is_empty() => Ok(Self { expressions, zone }),
            _ => Err(problems),
        }
    }

    /// Returns the first launch after this time, both in nanoseconds since the epoch; `None` if there is none.
    pub fn next_after(&self, time: i64) -> Option<i64> {
        let after = Timestamp::from_nanosecond(i128::from(time)).ok()?;
        let expressions = self.expressions.iter();
        let next = expressions.filter_map(|expression| self.next_of(expression, after));
        i64::try_from(next.min()?.as_nanosecond()).ok()
    }

    /// Returns a time as people write it, with the offset of the time zone.
    pub fn text(&self, time: i64) -> String {
        let Ok(time) = Timestamp::from_nanosecond(i128::from(time)) else {
            return String::new();
        };
        let offset = self.zone.to_offset(time);
        match offset.is_zero() {
            true => time.to_string(),
            false => time.display_with_offset(offset).to_string(),
        }
    }

    /// Between two changes of the clock, a time on the wall and a moment are the same but for an offset.
    fn next_of(&self, expression: &Cron, mut after: Timestamp) -> Option<Timestamp> {
        for _ in 0..MAX_CLOCK_CHANGES {
            let offset = self.zone.to_offset(after);
            let on_the_wall = offset.to_datetime(after);
            let found = expression.find_next_occurrence(&on_the_wall, false).ok()?;
            let found = offset.to_timestamp(found).ok()?;
            let change = self.zone.following(after).next();
            let Some(change) = change.map(|change| change.timestamp()) else {
                return Some(found);
            };
            if found < change {
                return Some(found);
            }
            // The moment of the change is the first one with the new offset, and may be a launch.
            let new_offset = self.zone.to_offset(change);
            let at_change = new_offset.to_datetime(change);
            if expression.is_time_matching(&at_change).ok()? {
                return Some(change);
            }
            after = change;
        }
        None
    }
}

/// Returns a time zone by its exact name; `None` if there is none.
fn time_zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
}

fn parse(text: &str) -> Result<Cron, String> {
    let plain = text.trim();
    let named = NAMED.iter().find(|(name, _)| *name == plain);
    let plain = named.map_or(plain, |(_, expression)| expression);
    if plain.contains('@') {
        let names = NAMED.map(|(name, _)| name).join(", ");
        return Err(format!("known names are {names}"));
    }
    let mut fields: Vec<String> = plain.split_whitespace().map(without_long_names).collect();
    match fields.len() {
        0..=4 => return Err("missing field(s)".to_owned()),
        5 => {
            fields.insert(0, "0".to_owned());
            fields.push("*".to_owned());
        }
        6 => fields.insert(0, "0".to_owned()),
        7 => {}
        count => return Err(format!("it has {count} fields, and at most 7 are allowed")),
    }
    let mut items = fields.iter().flat_map(|field| field.split(','));
    if let Some(item) = items.find(|item| is_unknown_form(item)) {
        return Err(format!("`{item}` is not a value, a range or a step"));
    }
    let steps = fields.iter().zip(LARGEST_STEPS);
    let mut items =
        steps.flat_map(|(field, max_step)| field.split(',').map(move |item| (item, max_step)));
    if let Some((item, max_step)) = items.find(|(item, max_step)| has_larger_step(item, *max_step))
    {
        return Err(format!("the step of `{item}` is larger than {max_step}"));
    }
    // The parser reads more there than Nomad does.
    let mut weekdays = fields[5].split(',');
    if let Some(item) = weekdays.find(|item| *item == "l" || item.ends_with("#l")) {
        return Err(format!("`{item}` is not a day of the week"));
    }
    let mut years = fields[6].split(',');
    if let Some(item) = years.find(|item| has_unknown_year(item)) {
        return Err(format!("`{item}` is not from {} to {}", YEARS.start(), YEARS.end()));
    }
    fields[6] = years_of(&fields[6]);
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Required)
        .sloppy_ranges(true)
        .build();
    let expression = parser.parse(&fields.join(" ")).map_err(|error| error.to_string())?;
    let before_all = Date::constant(1969, 12, 31).at(23, 59, 59, 0);
    match expression.find_next_occurrence(&before_all, false) {
        Ok(_) => Ok(expression),
        Err(_) => Err("it names no date that exists".to_owned()),
    }
}

/// The years of an expression, without those that it cannot name: a search for a date that does not exist ends after the
/// last one.
fn years_of(field: &str) -> String {
    let items = field.split(',').map(|item| match item.strip_prefix('*') {
        Some(step) => format!("{}-{}{step}", YEARS.start(), YEARS.end()),
        None => item.to_owned(),
    });
    items.collect::<Vec<_>>().join(",")
}

/// Returns whether the parser reads an item of a field that Nomad refuses.
fn is_unknown_form(item: &str) -> bool {
    item.is_empty() || item.starts_with('/') || item.contains('+')
}

/// Returns whether an item has a larger step than the field has values, which Nomad refuses.
fn has_larger_step(item: &str, max_step: u32) -> bool {
    let step = item.split_once('/').map(|(_, step)| step);
    step.and_then(|step| step.parse::<u32>().ok()).is_some_and(|step| step > max_step)
}

/// Returns whether an item of the years names one that Nomad refuses.
fn has_unknown_year(item: &str) -> bool {
    let (range, _step) = item.split_once('/').unwrap_or((item, ""));
    let mut years = range.split('-').filter_map(|year| year.parse::<u32>().ok());
    years.any(|year| !YEARS.contains(&year))
}

fn without_long_names(field: &str) -> String {
    let mut field = field.to_ascii_lowercase();
    for name in LONG_NAMES {
        field = field.replace(name, &name[..3]);
    }
    field
}

#[cfg(test)]
mod tests;
