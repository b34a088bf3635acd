//! `/v1/metrics` as Nomad's JSON, made from the OpenMetrics text of the same metrics.
//!
//! Nomad's summary is about the last ten seconds; this one is about the time since the start of the agent, so
//! that no reader misses anything. A histogram is a sample with its number, sum and mean; Nomad's other numbers of
//! a sample are not known and are not there.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetricsDocument {
    /// Counters since the start.
    pub counters: Vec<SampleDocument>,
    /// Values of now.
    pub gauges: Vec<GaugeDocument>,
    /// Always empty: the agent has none.
    pub points: Vec<GaugeDocument>,
    /// Histograms since the start.
    pub samples: Vec<SampleDocument>,
    /// When it was made, in UTC.
    pub timestamp: String,
}

/// One value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GaugeDocument {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The name.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// A counter, or the times of a histogram in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SampleDocument {
    /// How many. Go's clients read no fraction, also of 0.
    #[serde(serialize_with = "whole")]
    pub count: f64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The sum by the number; 0 without any.
    pub mean: f64,
    /// The name.
    pub name: String,
    /// The sum.
    pub sum: f64,
}

/// A line of the text: `name{label="value"} 1`.
struct Line<'a> {
    name: &'a str,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Makes the summary of a text at a time in nanoseconds since the epoch.
pub fn metrics_summary(text: &str, now: i64) -> MetricsDocument {
    let mut document = MetricsDocument { timestamp: timestamp(now), ..MetricsDocument::default() };
    let mut family = ("", "");
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            family = declared.split_once(' ').unwrap_or_default();
        } else if let Some(line) = parse(line) {
            document.add(family, line);
        }
    }
    document
}

impl MetricsDocument {
    fn add(&mut self, (name, kind): (&str, &str), line: Line<'_>) {
        let suffix = line.name.strip_prefix(name).unwrap_or_default();
        match (kind, suffix) {
            ("gauge", "") => self.gauges.push(GaugeDocument {
                labels: line.labels,
                name: name.to_owned(),
                value: line.value,
            }),
            ("counter", "_total") => self.counters.push(SampleDocument {
                count: line.value,
                labels: line.labels,
                mean: if line.value > 0.0 { 1.0 } else { 0.0 },
                name: name.to_owned(),
                sum: line.value,
            }),
            // The text has the sum first, and then the number.
            ("histogram", "_sum") => self.samples.push(SampleDocument {
                labels: line.labels,
                name: name.to_owned(),
                sum: line.value,
                ..SampleDocument::default()
            }),
            ("histogram", "_count") => {
                if let Some(sample) = self.samples.last_mut() {
                    sample.count = line.value;
                    sample.mean = if line.value > 0.0 { sample.sum / line.value } else { 0.0 };
                }
            }
            _ => {}
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn whole<S: Serializer>(count: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let count = format!("{count:.0}").parse().unwrap_or_default();
    serializer.serialize_u64(count)
}

/// `2026-01-02 03:04:05 +0000 UTC`, as Go writes a time.
fn timestamp(now: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(now)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

fn parse(line: &str) -> Option<Line<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}')?)?),
        None => (head, BTreeMap::new()),
    };
    Some(Line { name, labels, value: value.parse().ok()? })
}

/// Parses `a="b",c="d"`, where `\` escapes quotes, itself and the end of a line.
fn parse_labels(text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let name: String = rest.by_ref().take_while(|c| *c != '=').collect();
        if rest.next() != Some('"') {
            return None;
        }
        let mut value = String::new();
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => value.push(match rest.next()? {
                    'n' => '\n',
                    escaped => escaped,
                }),
                other => value.push(other),
            }
        }
        labels.insert(name, value);
        if rest.peek() == Some(&',') {
            rest.next();
        }
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP running Number of calls.
# TYPE running gauge
running{plugin="a\"b\\c, d",class="x}y"} 2
# TYPE refused counter
refused_total{plugin="a"} 3
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_sum{plugin="a"} 1.5
wait_seconds_count{plugin="a"} 2
wait_seconds_bucket{le="0.1",plugin="a"} 1
wait_seconds_bucket{le="+Inf",plugin="a"} 2
wait_seconds_sum 0.0
wait_seconds_count 0
# EOF
"#;

    #[test]
    fn every_kind_of_metric_has_its_place() {
        let summary = metrics_summary(TEXT, 1_767_323_045_000_000_000);
        let expected = serde_json::json!({
            "Timestamp": "2026-01-02 03:04:05 +0000 UTC",
            "Gauges": [{
                "Name": "running", "Value": 2.0,
                "Labels": {"plugin": "a\"b\\c, d", "class": "x}y"},
            }],
            "Points": [],
            "Counters": [{
                "Name": "refused", "Count": 3, "Sum": 3.0, "Mean": 1.0, "Labels": {"plugin": "a"},
            }],
            "Samples": [
                {"Name": "wait_seconds", "Count": 2, "Sum": 1.5, "Mean": 0.75,
                 "Labels": {"plugin": "a"}},
                {"Name": "wait_seconds", "Count": 0, "Sum": 0.0, "Mean": 0.0, "Labels": {}},
            ],
        });
        assert_eq!(serde_json::to_value(&summary).unwrap(), expected);
    }
}
