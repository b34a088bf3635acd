//! Escaping of external text in XML and Markdown.

/// Escapes XML text or the value of an attribute. Removes control characters that XML cannot express.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // A line end of a text is none of the document: nothing in it begins a line.
            '\n' => escaped += "&#10;",
            '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a Markdown code span on one line, fenced by more backticks than the text contains.
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

/// Returns a Markdown block of code, fenced by more backticks than its lines contain.
pub(super) fn block(language: &str, lines: &[String]) -> String {
    let visible = |line: &String| -> String { line.chars().filter(|c| !c.is_control()).collect() };
    let lines: Vec<String> = lines.iter().map(visible).collect();
    let runs = lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("{fence}{language}\n{lines}{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_markup_is_escaped() {
        assert_eq!(xml("<a b=\"c\">&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&amp;");
        assert_eq!(xml("a\n::error::b"), "a&#10;::error::b");
    }

    #[test]
    fn text_cannot_end_its_block() {
        let lines = |text: &str| vec![format!("+ {text}")];
        assert_eq!(block("diff", &lines("a")), "```diff\n+ a\n```\n");
        assert_eq!(block("diff", &lines("a\n```\n# b")), "````diff\n+ a```# b\n````\n");
        assert_eq!(block("diff", &lines("````")), "`````diff\n+ ````\n`````\n");
    }

    #[test]
    fn text_cannot_end_its_code_span() {
        for (text, expected) in
            [("<img>", "`<img>`"), ("a`b\n", "`` a`b ``"), ("a``b`", "``` a``b` ```")]
        {
            assert_eq!(code(text), expected);
        }
    }
}
