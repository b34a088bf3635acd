//! Texts of others inside XML and Markdown: nothing in them has a meaning there.

/// As XML text or the value of an attribute. XML has no way to write most control characters, so they
/// are left out.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// As Markdown's code: on one line, between more backticks than stand together in it.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let runs = text.split(|c| c != '`').map(str::len);
    match runs.max().unwrap_or_default() {
        0 => format!("`{text}`"),
        longest => {
            let fence = "`".repeat(longest + 1);
            format!("{fence} {text} {fence}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_xml_is_escaped() {
        assert_eq!(xml("<a b=\"c\">&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }

    #[test]
    fn nothing_ends_the_code_that_it_stands_in() {
        for (text, expected) in [
            ("<img>", "`<img>`"),
            ("a`b\n", "`` a`b ``"),
            ("a``b`", "``` a``b` ```"),
        ] {
            assert_eq!(code(text), expected);
        }
    }
}
