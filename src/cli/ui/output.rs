//! The output formats of `-o`.
//!
//! JSON is the server's own document with its key order. YAML, `name` and `jsonpath` are derived from
//! that document, not from the values that this program parses. A name and a text that an expression finds are one
//! line each, with symbols for line ends, so that no part of one is read as another. No line of YAML begins with `::`.

use serde::Serialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use nomad_csi_client::ports::Document;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{escape_json, escape_json_for_yaml, is_invisible, one_line};

/// The longest expression in bytes.
const LONGEST_EXPRESSION: usize = 4096;
/// How deep parentheses may be nested: the parser calls itself for each.
const DEEPEST_PARENTHESES: usize = 64;
/// How deep brackets may be nested: the parser reads the inside of a filter twice, so each level doubles its time.
const DEEPEST_BRACKETS: usize = 8;

/// An output format.
#[derive(Clone, Debug)]
pub(crate) enum OutputFormat {
    /// A table for people.
    Table,
    /// A table with more columns.
    Wide,
    /// The server's own JSON.
    Json,
    /// The server's document as YAML.
    Yaml,
    /// One ID per line.
    Name,
    /// The matches of an RFC 9535 expression, one per line.
    JsonPath(JsonPath),
}

impl OutputFormat {
    /// The values of `-o`; `jsonpath=` precedes an expression.
    pub(crate) const NAMES: [&'static str; 6] =
        ["table", "wide", "json", "yaml", "name", "jsonpath="];

    /// Parses the value of `-o`.
    ///
    /// # Errors
    /// Returns a message if the text is not a format.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "table" => return Ok(Self::Table),
            "wide" => return Ok(Self::Wide),
            "json" => return Ok(Self::Json),
            "yaml" => return Ok(Self::Yaml),
            "name" => return Ok(Self::Name),
            _ => {}
        }
        let Some(expression) = text.strip_prefix("jsonpath=") else {
            let words = Self::NAMES.join(", ");
            return Err(format!("expected one of {words}EXPRESSION"));
        };
        check_size(expression)?;
        JsonPath::parse(expression).map(Self::JsonPath).map_err(|error| {
            let hint = if expression.starts_with('$') {
                String::new()
            } else {
                "; an expression starts with `$`, such as `$.ID` or `$[*].ID`".to_owned()
            };
            format!(
                "not an RFC 9535 expression: {} at character {}{hint}",
                error.message(),
                error.position() + 1
            )
        })
    }

    /// Returns the document in this format, or `None` for a table.
    ///
    /// # Errors
    /// If a path leads to nothing. One with a filter is a search, and may.
    pub(crate) fn render_one(&self, document: &Document) -> Result<Option<String>, Diagnostics> {
        self.render_machine(document, std::slice::from_ref(document))
    }

    /// Returns the list of documents in this format, or `None` for a table.
    ///
    /// # Errors
    /// If a path leads to nothing. In an empty list every path does, and one with a filter is a search.
    pub(crate) fn render_list(
        &self,
        documents: &[Document],
    ) -> Result<Option<String>, Diagnostics> {
        self.render_machine(documents, documents)
    }

    /// Returns `whole` in this format. `parts` are its documents.
    fn render_machine(
        &self,
        whole: &(impl Serialize + ?Sized),
        parts: &[Document],
    ) -> Result<Option<String>, Diagnostics> {
        Ok(match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(json_text(whole)),
            Self::Yaml => Some(yaml_text(whole)),
            Self::Name => Some(parts.iter().map(name).collect()),
            Self::JsonPath(path) => {
                let whole = serde_json::to_value(whole).unwrap_or_default();
                let matches = path.query(&whole).all();
                if matches.is_empty() && !parts.is_empty() && !is_search(path) {
                    return Err(no_match(path, whole.is_array()).into());
                }
                Some(matches.into_iter().map(line).collect())
            }
        })
    }

    /// Returns true for the formats for people.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Returns true for the formats that show more of a document than its ID.
    pub(crate) fn shows_content(&self) -> bool {
        !matches!(self, Self::Name)
    }

    /// Returns true for the wide table.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Self::Wide)
    }
}

/// Returns whether a path has a filter, so that no match is an answer.
fn is_search(path: &JsonPath) -> bool {
    let shown = path.to_string();
    shown.contains('?')
}

fn no_match(path: &JsonPath, is_list: bool) -> Diagnostic {
    let path = one_line(&path.to_string());
    let message = format!("`{path}` matches nothing in the result");
    let problem = Diagnostic::error(Code::CliNoMatch, message);
    match (is_list, path.starts_with("$[")) {
        (true, false) => problem.help("the result is a list: a path starts with `$[*]`"),
        (false, true) => problem.help("the result is one object: a path starts with `$.`"),
        (true, true) | (false, false) => problem.help(Code::CliNoMatch.advice()),
    }
}

/// Refuses an expression that the parser has no stack or no time for.
fn check_size(expression: &str) -> Result<(), String> {
    if expression.len() > LONGEST_EXPRESSION {
        return Err(format!("the expression is longer than {LONGEST_EXPRESSION} bytes"));
    }
    for (open, close, deepest) in [('(', ')', DEEPEST_PARENTHESES), ('[', ']', DEEPEST_BRACKETS)] {
        let mut depth = 0_usize;
        for character in expression.chars() {
            if character == open {
                depth += 1;
            } else if character == close {
                depth = depth.saturating_sub(1);
            }
            if depth > deepest {
                return Err(format!(
                    "`{open}` is nested more than {deepest} deep in the expression"
                ));
            }
        }
    }
    Ok(())
}

/// Returns indented JSON with a final line end.
pub(crate) fn json_text(document: &(impl Serialize + ?Sized)) -> String {
    let mut text = escape_json(&serde_json::to_string_pretty(document).unwrap_or_default());
    text.push('\n');
    text
}

/// Returns YAML. JSON is YAML, and can escape every character, so it is used for invisible ones.
fn yaml_text(document: &(impl Serialize + ?Sized)) -> String {
    let text = serde_yaml::to_string(&document).unwrap_or_default();
    let has_command = |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
    let is_shown = text.chars().all(|c| c == '\n' || !is_invisible(c));
    if is_shown && !text.lines().any(has_command) {
        return text;
    }
    let json = serde_json::to_string_pretty(document).unwrap_or_default();
    escape_json_for_yaml(&json) + "\n"
}

/// Returns the ID, or the allocation of a claim, which has no ID of its own.
fn name(document: &Document) -> String {
    let value = document.value();
    let id = value.get("ID").or_else(|| value.get("AllocID"));
    id.map(line).unwrap_or_default()
}

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text) + "\n",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            escape_json(&value.to_string()) + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(format: &str) -> OutputFormat {
        OutputFormat::parse(format).expect("a known format")
    }

    /// The parser would end the program.
    #[test]
    fn an_expression_without_end_is_refused() {
        let nested = |open: &str, close: &str, depth: usize| {
            format!("jsonpath=$[?{}@.a{}]", open.repeat(depth), close.repeat(depth))
        };
        for expression in [
            nested("(", ")", 1000),
            nested("!(", ")", 1000),
            nested("@[?", "]", 1000),
            nested("@[?", "]", 20),
            nested("(", ")", 100_000),
            format!("jsonpath=${}", ".a".repeat(100_000)),
        ] {
            let refused = OutputFormat::parse(&expression).unwrap_err();
            assert!(refused.contains("the expression"), "{refused}");
        }
        for expression in [nested("(", ")", 60), nested("!(", ")", 60), nested("@[?", "]", 7)] {
            OutputFormat::parse(&expression).unwrap();
        }
        output("jsonpath=$[?@.a == '((((']");
    }

    #[test]
    fn documents_are_rendered_in_every_format() {
        let documents = [
            json!({"ID": "db0", "Capacity": 9_223_372_036_854_775_807_u64, "Name": "yes"}),
            json!({"ID": "b"}),
        ];
        let documents = documents.each_ref().map(Document::of);
        let list = |form| {
            output(form).render_list(&documents).expect("a match").expect("a machine format")
        };
        for (form, expected) in [
            ("name", "db0\nb\n"),
            ("jsonpath=$[*].ID", "db0\nb\n"),
            ("jsonpath=$[0].Capacity", "9223372036854775807\n"),
            ("jsonpath=$[?@.ID == 'b']", "{\"ID\":\"b\"}\n"),
            ("jsonpath=$[?@.ID == 'c']", ""),
            ("yaml", "- ID: db0\n  Capacity: 9223372036854775807\n  Name: \"yes\"\n- ID: b\n"),
        ] {
            assert_eq!(list(form), expected, "{form}");
        }
        assert!(list("json").starts_with("[\n  {\n    \"ID\": \"db0\",\n"));
        for (form, expected) in [
            ("name", Some("b\n")),
            ("jsonpath=$.ID", Some("b\n")),
            ("json", Some("{\n  \"ID\": \"b\"\n}\n")),
            ("wide", None),
        ] {
            assert_eq!(
                output(form).render_one(&documents[1]).expect("a match").as_deref(),
                expected,
                "{form}"
            );
        }
    }

    #[test]
    fn a_path_that_leads_to_nothing_is_an_error_unless_it_is_a_search() {
        let document = Document::of(&json!({"ID": "b"}));
        let (path, documents) = (output("jsonpath=$.ExternalID"), [document]);
        let problems = path.render_one(&documents[0]).expect_err("no match");
        let problem = problems.iter().next().expect("a problem");
        assert_eq!(problem.message, "`$.ExternalID` matches nothing in the result");
        assert!(path.render_list(&documents).is_err());
        assert_eq!(path.render_list(&[]).unwrap().as_deref(), Some(""));
        let search = output("jsonpath=$[?@.ID == 'c']");
        assert_eq!(search.render_list(&documents).unwrap().as_deref(), Some(""));
    }

    #[test]
    fn invisible_characters_are_escaped_in_documents() {
        let id = "a\u{202e}b\u{9b}\u{e0041}";
        let document = Document::of(&json!({"ID": id}));
        for form in ["json", "yaml", "jsonpath=$"] {
            let text =
                output(form).render_one(&document).expect("a match").expect("a machine format");
            assert!(text.contains(r"a\"), "{text}");
            assert!(text.trim_end().chars().all(|c| c == '\n' || !is_invisible(c)), "{text:?}");
            let read: Value =
                serde_yaml::from_str(&text.replace(r"\udb40\udc41", r"\U000e0041")).unwrap();
            assert_eq!(read["ID"], id, "{form}: {text}");
        }
    }

    #[test]
    fn an_unknown_format_is_rejected_with_a_message() {
        for (form, expected) in [
            ("xml", "expected one of table, wide, json, yaml, name, jsonpath=EXPRESSION"),
            ("jsonpath={.ID}", "an expression starts with `$`"),
            ("jsonpath=$[", "not an RFC 9535 expression"),
        ] {
            let error = OutputFormat::parse(form).expect_err("an unknown format");
            assert!(error.contains(expected), "{error}");
        }
    }
}
