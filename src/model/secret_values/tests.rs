use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;

use super::*;

fn values(of: &[&str]) -> SecretValues {
    let mut values = SecretValues::default();
    of.iter().for_each(|value| values.add(value));
    values
}

fn hidden(secret: &str, text: &str) -> String {
    values(&[secret]).hidden_in(text).unwrap_or_else(|| text.to_owned())
}

#[test]
fn a_value_is_hidden_in_every_form() {
    let secret = "p\"ä/s\\w rd+1%é";
    let json = serde_json::to_string(secret).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    let percent = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    let form = percent.replace("%20", "+");
    let url_of_json = utf8_percent_encode(&json, NON_ALPHANUMERIC).to_string();
    let basic = |user: &str| STANDARD.encode(format!("{user}:{secret}"));
    let forms = [
        secret.to_owned(),
        json,
        twice,
        percent.to_lowercase(),
        percent,
        form,
        url_of_json,
        format!("{secret:?}"),
        STANDARD.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE.encode(secret),
        utf8_percent_encode(&STANDARD.encode(secret), NON_ALPHANUMERIC).to_string(),
        basic("u"),
        basic("us"),
        basic("use"),
    ];
    for form in forms {
        let shown = hidden(secret, &format!("login with <{form}> failed"));
        assert_eq!(
            shown.replace("%22", "").replace(['"', '\\'], ""),
            "login with <[REDACTED]> failed",
            "{form}"
        );
    }
}

#[test]
fn a_value_that_is_cut_off_is_hidden() {
    let secret = "correct-horse-battery-staple";
    for (text, shown) in [
        ("token correct-h of a", "token [REDACTED] of a"),
        ("token corr", "token [REDACTED]"),
        ("token \"corr\"}", "token \"[REDACTED]\"}"),
        ("token corr... of a", "token [REDACTED]... of a"),
        ("token corr… of a", "token [REDACTED]… of a"),
        ("token …battery-staple", "token …[REDACTED]"),
        ("a corridor of a", "a corridor of a"),
        ("a battery of a", "a battery of a"),
    ] {
        assert_eq!(hidden(secret, text), shown, "{text}");
    }
    let encoded = STANDARD.encode(secret);
    assert_eq!(hidden(secret, &format!("sent {}", &encoded[..13])), "sent [REDACTED]");
}

#[test]
fn the_parts_of_a_value_are_hidden() {
    for (secret, text) in [
        (
            "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n",
            "line kqhkiG9w0BAQEF is bad",
        ),
        ("[global]\n  key = \"hunter2\"\n", "key hunter2 is bad"),
        ("{\"users\":[{\"password\":\"hunter2\"}]}", "user hunter2 is bad"),
        ("password=hunter2", "option hunter2 is bad"),
    ] {
        let shown = hidden(secret, text);
        let words: Vec<_> = shown.split(' ').collect();
        assert_eq!(words[1], "[REDACTED]", "{shown}");
        assert_eq!(words[2..], ["is", "bad"]);
    }
}

#[test]
fn short_values_and_other_texts_stay() {
    assert_eq!(hidden("ro", "mount ro failed"), "mount ro failed");
    assert_eq!(hidden("", "mount failed"), "mount failed");
    assert_eq!(hidden("hunter2", "no such device: /dev/sdb"), "no such device: /dev/sdb");
    assert_eq!(values(&["hunter2"]).hidden_in("nothing"), None);
}

#[test]
fn neighbours_are_hidden_apart_and_overlapping_ones_together() {
    let values = values(&["hunter2", "2-more"]);
    assert_eq!(values.hidden_in("hunter2 hunter2").unwrap(), "[REDACTED] [REDACTED]");
    assert_eq!(values.hidden_in("hunter2-more").unwrap().matches("[REDACTED]").count(), 1);
}

#[test]
fn an_address_contains_only_whole_long_values() {
    let values = values(&["admin", "correct-horse"]);
    assert!(values.is_in_address("nfs://correct-horse@host/a"));
    assert!(values.is_in_address("nfs://correct%2Dhorse@host/a"));
    assert!(!values.is_in_address("vol-admin"));
    assert!(!values.is_in_address("correct-hors"));
}

#[test]
fn the_oldest_values_are_forgotten_when_there_are_many() {
    let mut values = SecretValues::default();
    for number in 0..3 * MOST_VALUES {
        values.add(&format!("value-number-{number}-end"));
    }
    assert!(values.values.len() <= MOST_VALUES);
    let newest = format!("a value-number-{}-end b", 3 * MOST_VALUES - 1);
    assert_eq!(values.hidden_in(&newest).unwrap(), "a [REDACTED] b");
    values.add(&"x".repeat(MOST_BYTES));
    values.add("newest-value");
    assert_eq!(values.hidden_in("newest-value").unwrap(), "[REDACTED]");
    assert!(!format!("{values:?}").contains("newest"));
}

proptest! {
    /// Whatever surrounds it: no byte of the value that was found is left, and the rest stays.
    #[test]
    fn a_value_is_hidden_wherever_it_is(before in "\\PC{0,20}", secret in "[a-z]{3}[A-Z0-9]{6,20}", after in "\\PC{0,20}") {
        let shown = hidden(&secret, &format!("{before}{secret}{after}"));
        prop_assert!(!shown.contains(&secret), "{shown}");
        prop_assert!(shown.contains("[REDACTED]"));
    }
}
