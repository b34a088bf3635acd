//! Compares requested topologies with the plugin's own. Pure.
//!
//! All volumes are where the plugin is, so a requirement is either met or not.

use std::collections::BTreeMap;

use nomad_csi_proto as proto;

/// The plugin's topology: segments as key and value.
pub(super) type Segments = BTreeMap<String, String>;

/// Returns the CSI message, or `None` without segments.
pub(super) fn to_proto(segments: &Segments) -> Option<proto::Topology> {
    (!segments.is_empty()).then(|| proto::Topology { segments: segments.clone() })
}

/// Returns whether `here` matches every segment of `place`. Keys are compared without case.
pub(super) fn contains(topology: &proto::Topology, here: &Segments) -> bool {
    topology.segments.iter().all(|(key, value)| {
        here.iter().any(|(own, is)| own.eq_ignore_ascii_case(key) && is == value)
    })
}

/// Returns whether a volume can be created here: one of the requisite topologies matches, or there is none.
/// Preferred topologies never refuse a volume.
pub(super) fn satisfies(requirement: &proto::TopologyRequirement, here: &Segments) -> bool {
    requirement.requisite.is_empty()
        || requirement.requisite.iter().any(|topology| contains(topology, here))
}

/// Parses one `KEY=VALUE` by CSI's rules for keys and values.
pub(super) fn parse(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("{text:?} is not KEY=VALUE, as in topology.example/zone=a"));
    };
    let (prefix, name) = key.split_once('/').unwrap_or(("", key));
    let is_word = |text: &str, others: &str| {
        let ends = |at: Option<char>| at.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= 63
            && ends(text.chars().next())
            && ends(text.chars().last())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let is_prefix = |text: &str| is_word(text, "-.") && !text.contains(|c: char| c.is_uppercase());
    let is_key = (is_prefix(prefix) || !key.contains('/')) && is_word(name, "-_.");
    if is_key && is_word(value, "-_.") {
        return Ok((key.to_owned(), value.to_owned()));
    }
    Err(format!(
        "{text:?} is not a valid topology: key and value have 1 to 63 letters, digits, `-`, `_` and `.`, and start and end with a letter or digit; the key may have a lower-case domain and a slash in front"
    ))
}

/// Parses several segments. No key occurs twice, and all keys have the same prefix.
pub(super) fn parse_all(texts: &[String]) -> Result<Segments, String> {
    let mut segments = Segments::new();
    for text in texts {
        let (key, value) = parse(text)?;
        let is_there = segments.keys().any(|own| own.eq_ignore_ascii_case(&key));
        if is_there {
            return Err(format!("topology key {key:?} is given twice"));
        }
        segments.insert(key, value);
    }
    let prefix = |key: &String| key.split_once('/').map(|(prefix, _)| prefix.to_owned());
    let mut prefixes = segments.keys().map(prefix);
    let first = prefixes.next();
    if prefixes.any(|other| Some(other) != first) {
        return Err("all topology keys of a plugin must have the same prefix".to_owned());
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(texts: &[&str]) -> Segments {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        parse_all(&texts).unwrap()
    }

    fn topology(texts: &[&str]) -> proto::Topology {
        proto::Topology { segments: segments(texts) }
    }

    #[test]
    fn a_requirement_is_met_if_one_of_its_topologies_matches() {
        let here = segments(&["t.x/zone=a", "t.x/rack=r1"]);
        for (requisite, expected) in [
            (vec![], true),
            (vec![topology(&["t.x/zone=a"])], true),
            (vec![topology(&["T.x/Zone=a"].map(|_| "t.x/Zone=a"))], true),
            (vec![topology(&["t.x/zone=b"])], false),
            (vec![topology(&["t.x/zone=b"]), topology(&["t.x/rack=r1"])], true),
            (vec![topology(&["t.x/zone=a", "t.x/rack=r2"])], false),
            (vec![topology(&["t.x/host=h"])], false),
            (vec![topology(&[])], true),
        ] {
            let requirement = proto::TopologyRequirement {
                requisite,
                preferred: vec![topology(&["t.x/zone=b"])],
            };
            assert_eq!(satisfies(&requirement, &here), expected, "{requirement:?}");
        }
    }

    #[test]
    fn keys_and_values_follow_the_rules_of_csi() {
        for good in ["zone=a", "topology.example/zone=eu-1_a.b", "a.b-c/Z=9"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        let long = format!("zone={}", "a".repeat(64));
        for bad in [
            "zone",
            "=a",
            "zone=",
            "zone=-a",
            "a/b/c=d",
            "/zone=a",
            "Up.case/zone=a",
            "z z=a",
            &long,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let all = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
            parse_all(&texts)
        };
        assert!(all(&["a.b/x=1", "a.b/y=2"]).is_ok());
        assert!(all(&["a.b/x=1", "a.b/X=2"]).unwrap_err().contains("twice"));
        assert!(all(&["a.b/x=1", "c.d/y=2"]).unwrap_err().contains("prefix"));
    }
}
