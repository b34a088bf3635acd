//! `-o`: the forms in which objects are printed.
//!
//! The JSON is the server's own document, untouched and in its own key order; YAML, `name` and
//! `jsonpath` are made from it, so that what a script reads does not depend on what this program
//! understands of it.

use serde::Serialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::ports::Document;

/// A form.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// The server's own JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// IDs, one a line.
    Name,
    /// What an RFC 9535 expression selects, one match a line.
    JsonPath(JsonPath),
}

impl Output {
    /// The words for `-o`, `jsonpath=` with its sign.
    pub(crate) const WORDS: [&'static str; 6] =
        ["table", "wide", "json", "yaml", "name", "jsonpath="];

    /// Reads the value of `-o`.
    ///
    /// # Errors
    /// A sentence for people.
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
            let words = Self::WORDS.join(", ");
            return Err(format!("the forms are {words}EXPRESSION"));
        };
        JsonPath::parse(expression)
            .map(Self::JsonPath)
            .map_err(|error| {
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

    /// The document in this form; `None` for the forms that are laid out for people.
    pub(crate) fn one(&self, document: &Document) -> Option<String> {
        self.machine(document, std::slice::from_ref(document))
    }

    /// The list of them in this form; `None` for the forms that are laid out for people.
    pub(crate) fn list(&self, documents: &[Document]) -> Option<String> {
        self.machine(documents, documents)
    }

    /// `whole` in this form, which consists of these documents.
    fn machine(&self, whole: &(impl Serialize + ?Sized), parts: &[Document]) -> Option<String> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(json_text(whole)),
            Self::Yaml => Some(serde_yaml::to_string(&whole).unwrap_or_default()),
            Self::Name => Some(parts.iter().map(name).collect()),
            Self::JsonPath(path) => {
                let whole = serde_json::to_value(whole).unwrap_or_default();
                Some(path.query(&whole).all().into_iter().map(line).collect())
            }
        }
    }

    /// Whether it shows more than the table.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Self::Wide)
    }
}

/// JSON for people and machines, ending in a line end.
pub(crate) fn json_text(document: &(impl Serialize + ?Sized)) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

fn name(document: &Document) -> String {
    document.value().get("ID").map(line).unwrap_or_default()
}

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{value}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(form: &str) -> Output {
        Output::parse(form).expect("the form is known")
    }

    #[test]
    fn documents_are_printed_in_every_form() {
        let documents = [
            json!({"ID": "db0", "Capacity": 9_223_372_036_854_775_807_u64, "Name": "yes"}),
            json!({"ID": "b"}),
        ];
        let documents = documents.each_ref().map(Document::of);
        let list = |form| output(form).list(&documents).expect("it is for machines");
        for (form, expected) in [
            ("name", "db0\nb\n"),
            ("jsonpath=$[*].ID", "db0\nb\n"),
            ("jsonpath=$[0].Capacity", "9223372036854775807\n"),
            ("jsonpath=$[?@.ID == 'b']", "{\"ID\":\"b\"}\n"),
            ("jsonpath=$.nothing", ""),
            (
                "yaml",
                "- ID: db0\n  Capacity: 9223372036854775807\n  Name: \"yes\"\n- ID: b\n",
            ),
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
                output(form).one(&documents[1]).as_deref(),
                expected,
                "{form}"
            );
        }
    }

    #[test]
    fn what_is_no_form_is_refused_in_words() {
        for (form, expected) in [
            (
                "xml",
                "the forms are table, wide, json, yaml, name, jsonpath=EXPRESSION",
            ),
            ("jsonpath={.ID}", "an expression starts with `$`"),
            ("jsonpath=$[", "not an RFC 9535 expression"),
        ] {
            let error = Output::parse(form).expect_err("it is no form");
            assert!(error.contains(expected), "{error}");
        }
    }
}
