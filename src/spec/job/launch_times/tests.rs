//! Launch times beside those that Nomad 2.0.6 computes.

use jiff::Timestamp;

use super::*;

/// Lines of `ZONE|TIME|EXPRESSION => LAUNCH…`, or `=> error: …`, as Nomad's library answers.
const RECORDED: &str = include_str!("../../../../tests/data/jobs/launch_times.txt");

/// Expressions that mean something else here, with the reason.
const DIFFERENT: [(&str, &str); 7] = [
    ("0 0 * * 5-7", "day 7 is Sunday; Nomad drops it from a range"),
    ("0 0 1 * 1-7", "day 7 is Sunday; Nomad drops it from a range"),
    ("50-10 * * * *", "Nomad never launches it"),
    ("0 22-2 * * *", "Nomad never launches it"),
    ("0 0 30 2 *", "Nomad never launches it"),
    ("* * * * * * * *", "Nomad ignores fields after the seventh"),
    ("1,2,,3 * * * *", "Nomad ignores empty items"),
];

/// Starts of lines whose time zone has other rules in the tz database of the program, 2026f, than in that of the recording,
/// 2025b: Morocco has another time in winter.
const OTHER_RULES: [&str; 2] = ["Africa/Casablanca|2026-10-", "Africa/Casablanca|2026-11-"];

fn periodic(zone: &str, expression: &str) -> Periodic {
    Periodic {
        crons: vec![expression.to_owned()],
        time_zone: zone.to_owned(),
        ..Periodic::default()
    }
}

fn nanoseconds(text: &str) -> i64 {
    let time: Timestamp = text.parse().unwrap();
    i64::try_from(time.as_nanosecond()).unwrap()
}

/// The next launches, as the recording writes them.
fn launches(zone: &str, from: &str, expression: &str) -> String {
    let Ok(times) = LaunchTimes::of(&periodic(zone, expression)) else {
        return "error".to_owned();
    };
    let mut after = nanoseconds(from);
    let mut found = vec![];
    for _ in 0..5 {
        let Some(next) = times.next_after(after) else {
            break;
        };
        let time = Timestamp::from_nanosecond(i128::from(next)).unwrap();
        found.push(time.to_string());
        after = next;
    }
    found.join(" ")
}

#[test]
fn a_job_starts_when_nomad_would_start_it() {
    let mut compared = 0;
    for line in RECORDED.lines() {
        let (case, expected) = line.split_once(" => ").unwrap();
        let [zone, from, expression] = case.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let has_other_rules = OTHER_RULES.iter().any(|start| line.starts_with(start));
        if has_other_rules || DIFFERENT.iter().any(|(other, _)| *other == expression) {
            continue;
        }
        let expected = match expected.split_once(':') {
            Some(("error", _)) => "error",
            _ => expected.trim(),
        };
        // Nomad ignores what follows such a name.
        let expected = if expression == "@daily 5" { "error" } else { expected };
        assert_eq!(launches(zone, from, expression), expected, "{case}");
        compared += 1;
    }
    assert!(compared >= 200, "{compared}");
}

#[test]
fn expressions_that_differ_from_nomads_are_refused_or_mean_what_they_say() {
    const FROM: &str = "2026-11-25T21:00:00Z";
    for (expression, reason) in DIFFERENT {
        let found = launches("UTC", FROM, expression);
        match reason.starts_with("day 7") {
            true => assert!(found.contains("2026-11-29T00:00:00Z"), "{found}"),
            false => assert_eq!(found, "error", "{expression}"),
        }
    }
}

/// An expression for the last year that it can name, in a time zone whose clock changes every year on the way there.
#[test]
fn a_rare_launch_is_found_and_an_impossible_one_refused() {
    const FROM: &str = "2026-11-25T21:00:00Z";
    for (expression, expected) in [
        ("0 0 31 12 * 2099", "2099-12-30T23:00:00Z"),
        ("0 0 29 2 MON 2096", "2096-02-05T23:00:00Z"),
        ("0 0 1 1 * */25", "2044-12-31T23:00:00Z"),
        ("0 0 30 2 *", "error"),
        ("0 0 31 2,4,6,9,11 *", "error"),
        ("0 0 29 2 * 2099", "error"),
        ("0 0 * * * 2020", ""),
    ] {
        let found = launches("Europe/Berlin", FROM, expression);
        let first = found.split(' ').next();
        assert_eq!(first, Some(expected), "{expression}");
    }
}

#[test]
fn only_exact_names_of_time_zones_are_known() {
    for (zone, is_known) in [
        ("", true),
        ("UTC", true),
        ("Europe/Berlin", true),
        ("America/Argentina/Buenos_Aires", true),
        ("europe/berlin", false),
        ("Local", false),
        ("CET+1", false),
        ("../etc/passwd", false),
        ("Mars/Olympus", false),
    ] {
        let times = LaunchTimes::of(&periodic(zone, "@daily"));
        assert_eq!(times.is_ok(), is_known, "{zone}");
    }
    let problems = LaunchTimes::of(&periodic("Mars/Olympus", "x")).unwrap_err();
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(problems[1], "Invalid time zone \"Mars/Olympus\": unknown time zone");
}

#[test]
fn a_launch_is_shown_in_its_time_zone() {
    let berlin = LaunchTimes::of(&periodic("Europe/Berlin", "@daily")).unwrap();
    let next = berlin.next_after(nanoseconds("2026-11-25T21:00:00Z")).unwrap();
    assert_eq!(berlin.text(next), "2026-11-26T00:00:00+01:00");
    let utc = LaunchTimes::of(&periodic("", "@daily")).unwrap();
    assert_eq!(utc.text(next), "2026-11-25T23:00:00Z");
}
